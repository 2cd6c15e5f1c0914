"""Methods of choosing an answer under a verifier, and their tables."""
