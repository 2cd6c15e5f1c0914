"""The figures of a result, and the numbers that they show."""
