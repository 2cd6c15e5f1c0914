"""Stage one: generation of traces, scores and features into a log."""
