"""Intervals of one number: from resampled values, score intervals, Student's, Fieller's."""
