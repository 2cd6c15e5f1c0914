"""A stopping rule on a prefix: what the traces revealed so far give, and the rules that see it."""
