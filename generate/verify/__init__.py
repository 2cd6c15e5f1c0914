"""Verifiers: scores of traces that stand, by classifiers, by asking a model in words, or by log-probabilities."""
