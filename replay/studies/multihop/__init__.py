"""The study of retrieval with an answer frontier, and of what is answered from it (TU Delft, 2026)."""
