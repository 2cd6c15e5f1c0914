"""Which published numbers of the thesis on efficient fact checking stand beside which rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.analyses.report.trace_buckets import Bucket
from replay.studies.kit.published import PublishedDataset, PublishedWork, published_datasets

CAP = 15
"""Traces per claim of the published tables that have no cap of their own."""
TOTALS = frozenset({
    "trace_attempts", "missing_label_traces", "verifier_calls", "operations", "prompt_tokens", "completion_tokens",
    "generation_tokens", "runtime_h", "cost_eur", "generation_h", "verification_h", "other_h", "total_h", "claims",
    "verifier_cost_eur", "total_cost_eur", "generation_cost_eur", "verification_cost_eur", "other_cost_eur",
    "run_cost_eur", "upper_bound_h", "upper_bound_cost_eur",
})  # fmt: skip
"""Columns that grow with the number of claims."""
BUDGETS = {15: (3, 5, 7, 10, 13), 50: (5, 10, 15, 20, 25, 30, 40, 45)}
"""Budgets of table B.4, by the size of the pool."""
ORDER_COLUMNS = {
    "generation": "generation_order_macro_f1_pct",
    "random": "random_macro_f1_pct",
    "surrogate": "surrogate_macro_f1_pct",
}
"""Published columns of table B.4, by order."""
ABLATIONS = ("5.8", "5.9", "5.10", "5.11", "5.12", "5.13")
"""Tables of another verifier and of larger caps, which are of QuanTemp alone."""
WORK = PublishedWork(
    "adaptive_stopping",
    {"quantemp": "QuanTemp", "claimdecomp": "ClaimDecomp"},
    only=dict.fromkeys(ABLATIONS, "QuanTemp"),
)


def published(name: str) -> PublishedDataset:
    """Reads the published numbers of `quantemp` or `claimdecomp`. Raises ThinkbackError for any other name."""
    return published_datasets(WORK, name)[0]


def published_claims(numbers: PublishedDataset | None) -> int | None:
    """The number of test claims, over which all published totals are (table A.1)."""
    claims = None if numbers is None else numbers.number_in_row("A.1", "claims", split="test")
    return None if claims is None else int(claims)


@dataclass(frozen=True)
class PublishedPool:
    """A pool of table B.4: its published name, which ends with the split of its claims, and its traces per claim."""

    name: str
    size: int

    @property
    def split(self) -> str:
        return self.name.split()[-1]

    @property
    def pool(self) -> str | None:
        """The pool's name in a simulated log; None for test claims, whose pool has as many traces as were asked for."""
        return None if self.split == "test" else f"n{self.size}"


def published_pools(dataset: str) -> list[PublishedPool]:
    """Lists the published pools of a data set, by the thesis's name of the data set."""
    pools = dict.fromkeys((row["pool"], row["pool_traces"]) for row in WORK.rows("B.4"))
    return [PublishedPool(name, size) for name, size in pools if name.startswith(dataset)]


def pool_of(dataset: str, split: str, size: int) -> PublishedPool:
    """Returns the thesis's pool of a split and size; an empty `split` is the test split."""
    return PublishedPool(f"{dataset} {split or 'test'}", size)


def bucket_keys(bucket: Bucket) -> dict[str, Any]:
    """Returns the keys by which the row of a bucket stands in the published table B.1."""
    return {"method": bucket.policy, "traces_from": bucket.first, "traces_to": bucket.last}
