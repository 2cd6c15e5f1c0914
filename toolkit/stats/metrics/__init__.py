"""Outcomes as columns, metrics as sums of them, and the resamples that all share."""
