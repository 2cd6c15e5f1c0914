"""From an address to lazy frames: where a log lies, its shards, their footers, its tables, and SQL over them."""
