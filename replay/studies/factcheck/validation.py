"""The validation split of a data set under fixed budgets: figure 5.2 and table B.4 show it beside the claims reported.

The thesis takes 500 validation claims with a larger pool of traces than the test claims have.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from replay.analyses.budgets import Budgets, budgets
from replay.data.contents import read_contents
from replay.studies.factcheck.analyses import pool_depth
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.factcheck.splits import VALIDATION, pools_of
from replay.studies.factcheck.surrogate_keys import AtUnseen, fixed_by_keys
from replay.studies.kit.cells import of_dataset
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError, listed
from toolkit.log import Log, collect

NAME = "validation"
PUBLISHED_POOLS = {
    ("QuanTemp", "", 15): "QuanTemp test",
    ("QuanTemp", NAME, 50): "QuanTemp validation",
    ("ClaimDecomp", "", 50): "ClaimDecomp test",
}
"""Pools of table B.4 by data set, split (none: the claims reported) and size."""


@dataclass(frozen=True)
class FixedBudgets:
    """Every budget of a pool, and the surrogate there by its own keys; `split`: of claims that are not reported."""

    made: Budgets
    keys: tuple[AtUnseen, ...]
    split: str = ""

    @property
    def name(self) -> str:
        """What tables call the pool."""
        return f"{f'{self.split}, ' if self.split else ''}{self.made.max_traces} traces"

    def published(self, numbers: PublishedDataset | None) -> str | None:
        """What the published table calls it."""
        return None if numbers is None else PUBLISHED_POOLS.get((numbers.dataset, self.split, self.made.max_traces))


@dataclass(frozen=True)
class Validation:
    """Every budget of the whole pool of the validation claims, and the surrogate there by its own keys.

    `missing`: why there are none, or some orders are left out; empty, too, where the log has no validation claims.
    """

    budgets: Budgets | None = None
    keys: tuple[AtUnseen, ...] = ()
    missing: tuple[str, ...] = field(default=())


def validation_budgets(log: Log, setting: FactcheckSetting, dataset: str) -> Validation:
    """The validation claims of a data set, where the log has any and none of them is reported or learnt from."""
    claims = log.scan("examples", ["example_id", "dataset", "split"])
    own = collect(claims.filter(pl.col("dataset") == dataset, pl.col("split") == NAME).select("example_id"), log)
    if own.is_empty():
        return Validation()
    if own["example_id"].is_in(setting.claims(log)["example_id"].implode()).any():
        return Validation(missing=("validation claims are among those reported",))
    where = of_dataset(VALIDATION, dataset)
    pools = pools_of(log, where, read_contents(log).pools)
    if setting.pool not in pools and len(pools) != 1:
        why = f"validation claims have {len(pools)} pools ({listed(pools)}), and `{setting.pool}` is none of them"
        return Validation(missing=(why,))
    pool = setting.pool if setting.pool in pools else pools[0]
    asked = replace(setting, pool=pool, asked={**setting.asked, "where": where})
    size = pool_depth(log, asked).size
    try:
        made = budgets(
            log, verifier=setting.verifier, max_traces=size, pool=pool, features=setting.features,
            random_seed=setting.random_seed, **asked.asked,
        )  # fmt: skip
    except ThinkbackError as error:
        return Validation(missing=(f"validation claims, {size} traces: {error}",))
    missing = tuple(f"validation claims, {size} traces, order {order}: {why}" for order, why in made.missing.items())
    return Validation(made, tuple(fixed_by_keys(log, asked, size)), missing)
