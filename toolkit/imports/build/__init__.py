"""Building a sealed log from mapped rows: examples, traces, verdicts, readings."""
