"""Intervals of single estimates: from resampled values, score intervals, Student's, Fieller's."""
