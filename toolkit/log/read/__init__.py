"""Reading a log: places, shards, footers, lazy frames, and SQL over them."""
