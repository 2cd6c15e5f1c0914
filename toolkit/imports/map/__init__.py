"""Mapping files, and the columns that they compute."""
