"""Fitting gates on a development split, and reporting on them."""
