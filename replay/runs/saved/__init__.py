"""A result as data, on disk and in bytes."""
