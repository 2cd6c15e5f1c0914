"""The rows of foreign files, as frames or in blocks."""
