"""Efficient test-time scaling for fact checking (thesis, TU Delft, 2026)."""
