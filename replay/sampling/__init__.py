"""The rules of sampling: orders, stops, selects, and what they see."""
