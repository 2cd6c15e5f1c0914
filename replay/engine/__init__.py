"""Arrays in, arrays out: walks, outcomes, the calls that were paid, and what gates read."""
