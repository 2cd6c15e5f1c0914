"""Passes over a log: which policies serve which examples, and their outcomes on disk."""
