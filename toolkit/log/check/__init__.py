"""Whether a log keeps the contract: its files, its columns, single rows, and rows that belong together."""
