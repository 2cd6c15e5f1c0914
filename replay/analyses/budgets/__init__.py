"""Fixed verifier budgets, and what generation and verification took."""
