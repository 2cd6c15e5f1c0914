"""LiLaVe (Piotrowski et al. 2025): what a verifier on hidden states is worth, and what it saves."""
