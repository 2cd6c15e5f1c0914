"""Adding to a log that stands: what it lacks, block by block, resumably, and sealed again."""
