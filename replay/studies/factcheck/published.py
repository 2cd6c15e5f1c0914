"""The published numbers of the thesis on efficient fact checking: tables by their number, rows by their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.studies.transcribed import published_row, published_rows
from toolkit.errors import ThinkbackError, suggest

WORK = "adaptive_stopping"
CAP = 15
"""Traces per claim of the published tables that have no cap of their own."""
TOTALS = frozenset({
    "trace_attempts", "missing_label_traces", "verifier_calls", "operations", "prompt_tokens", "completion_tokens",
    "generation_tokens", "runtime_h", "cost_eur", "generation_h", "verification_h", "other_h", "total_h", "claims",
    "verifier_cost_eur", "total_cost_eur", "generation_cost_eur", "verification_cost_eur", "other_cost_eur",
    "run_cost_eur", "upper_bound_h", "upper_bound_cost_eur",
})  # fmt: skip
"""Columns that grow with the number of claims."""
DATASETS = {"quantemp": "QuanTemp", "claimdecomp": "ClaimDecomp"}


@dataclass(frozen=True)
class Published:
    """One of the thesis's data sets: looks up single numbers."""

    dataset: str  # as the tables write it

    @property
    def claims(self) -> int | None:
        """Claims of the test split, which all totals are of (table A.1)."""
        found = self.value("A.1", "claims", split="test")
        return None if found is None else int(found)

    def value(self, table: str, column: str, **keys: Any) -> float | None:
        """The number in a row of a table; None where the thesis has no such row, or no number there."""
        rows = published_rows(WORK, table)
        columns = rows[0].keys() if rows else ()
        if "dataset" in columns:
            keys = {"dataset": self.dataset, **keys}
        elif "pool" not in columns and self.dataset != "QuanTemp":
            return None  # the ablations are of QuanTemp alone
        value = published_row(WORK, table, **keys).get(column)
        return None if value is None else float(value)


def published(name: str) -> Published:
    """The published numbers of `quantemp` or `claimdecomp`. Raises ThinkbackError for any other name."""
    if name not in DATASETS:
        raise ThinkbackError(f"nothing is published on `{name}`; {suggest(name, DATASETS)}")
    return Published(DATASETS[name])
