"""Curves and areas: bands over thresholds, ROC, calibration, and intervals of plain arrays."""
