"""A saved result as one page for a browser."""
