"""Loops over requests, and what a loop of a user's yields: importing this package loads no model."""

from __future__ import annotations

from generate.loops.requests import (
    Ask,
    Example,
    Hear,
    Neighbours,
    Passages,
    Read,
    RefusedError,
    Results,
    Row,
    Score,
    Scores,
    Search,
    Together,
    Trace,
    Verify,
)

__all__ = [
    "Ask", "Example", "Hear", "Neighbours", "Passages", "Read", "RefusedError", "Results", "Row", "Score", "Scores",
    "Search", "Together", "Trace", "Verify",
]  # fmt: skip
