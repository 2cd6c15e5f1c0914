"""Sequence classifiers as verifiers: their training data out of a log, their training, and their folder."""
