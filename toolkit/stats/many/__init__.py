"""Claims about many policies at once, and the result tables that carry them."""
