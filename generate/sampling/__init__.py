"""Sampling: a recipe run into a log, resumable at any moment."""
