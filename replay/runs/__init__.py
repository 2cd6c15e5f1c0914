"""A run: passes over a log, coverage, outcomes on disk, the result."""
