"""Corpora: passages, their index, what is near them, and rankings of other tools."""
