"""Policies of a result against each other: pairs, curves, headroom."""
