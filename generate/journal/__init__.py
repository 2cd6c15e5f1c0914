"""The journal of a run: every answered call, on disk before the next one is counted as done."""
