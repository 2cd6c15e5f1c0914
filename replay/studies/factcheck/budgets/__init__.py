"""Tables and figures of verifier budgets and their settings."""
