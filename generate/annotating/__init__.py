"""Annotation of an existing log: missing signals are added block by block, resumable, and the log is sealed again."""
