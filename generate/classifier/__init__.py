"""Sequence classifiers as verifiers: their training data out of a log, and their training."""
