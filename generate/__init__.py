"""Stage one: materialise traces, scores and features into a log, once."""
