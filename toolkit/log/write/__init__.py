"""Writing logs: whole, shard by shard, into a log that is sealed, and several into one."""
