"""Strategies of generation and verification at every number of samples, and their frontier."""
