"""The way from a log to findings: the suite, verifiers, buckets of traces."""
