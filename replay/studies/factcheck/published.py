"""Which published numbers of the thesis on efficient fact checking stand beside which rows."""

from __future__ import annotations

from replay.studies.kit.published import PublishedDataset, PublishedWork
from toolkit.errors import ThinkbackError, suggest

CAP = 15
"""Traces per claim of the published tables that have no cap of their own."""
TOTALS = frozenset({
    "trace_attempts", "missing_label_traces", "verifier_calls", "operations", "prompt_tokens", "completion_tokens",
    "generation_tokens", "runtime_h", "cost_eur", "generation_h", "verification_h", "other_h", "total_h", "claims",
    "verifier_cost_eur", "total_cost_eur", "generation_cost_eur", "verification_cost_eur", "other_cost_eur",
    "run_cost_eur", "upper_bound_h", "upper_bound_cost_eur",
})  # fmt: skip
"""Columns that grow with the number of claims."""
ABLATIONS = ("5.8", "5.9", "5.10", "5.11", "5.12", "5.13")
"""Tables of another verifier and of larger caps, which are of QuanTemp alone."""
WORK = PublishedWork(
    "adaptive_stopping",
    {"quantemp": "QuanTemp", "claimdecomp": "ClaimDecomp"},
    only=dict.fromkeys(ABLATIONS, "QuanTemp"),
)


def published(name: str) -> PublishedDataset:
    """The published numbers of `quantemp` or `claimdecomp`. Raises ThinkbackError for any other name."""
    if name not in WORK.datasets:
        raise ThinkbackError(f"nothing is published on `{name}`; {suggest(name, WORK.datasets)}")
    return PublishedDataset(WORK, WORK.datasets[name])


def published_claims(numbers: PublishedDataset | None) -> int | None:
    """Claims of the test split, which all totals are of (table A.1)."""
    found = None if numbers is None else numbers.value("A.1", "claims", split="test")
    return None if found is None else int(found)
