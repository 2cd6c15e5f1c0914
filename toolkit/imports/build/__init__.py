"""The way from mapped rows to a sealed log: examples, traces, verdicts, readings."""
