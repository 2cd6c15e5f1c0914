"""One policy on one example, step by step."""
