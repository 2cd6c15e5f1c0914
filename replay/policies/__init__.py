"""The vocabulary of policies: what all kinds share, gates, policy files, sweeps."""
