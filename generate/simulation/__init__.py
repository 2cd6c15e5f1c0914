"""Simulated logs, for scale, demonstrations and tests: a grid of any size, recovery, fact-checking claims."""
