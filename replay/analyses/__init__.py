"""What is asked of several runs at once: tuning, budgets, curves, recommendations."""
