"""Reading: from an address to lazy frames, by a log's place, shards, footers and tables, and SQL over them."""
