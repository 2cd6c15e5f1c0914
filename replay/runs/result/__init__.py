"""A run, and the result that it gives back."""
