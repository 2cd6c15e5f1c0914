"""Names of the features that `generate` writes and `replay` reads."""

from __future__ import annotations

CLAIM_FEATURES = (
    "claim_similarity", "evidence_similarity", "claim_numeric_coverage", "evidence_numeric_grounding", "length",
)  # fmt: skip
"""The static features of fact checking (thesis on fact checking, section 3.5): columns of `features`."""
