"""What a log holds in numbers, and how far each kind of policy can go on it."""
