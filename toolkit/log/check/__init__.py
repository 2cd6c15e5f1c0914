"""Checks of a log against the contract: files, columns, single rows, and relations between rows."""
