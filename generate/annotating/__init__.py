"""Annotating an existing log: what it lacks, block by block, resumable at any moment, and sealed again."""
