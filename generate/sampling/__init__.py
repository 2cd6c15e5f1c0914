"""Sampling: running a recipe into a log, resumable at any moment."""
