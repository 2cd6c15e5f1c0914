"""Loops over requests: what is asked until it is known."""
