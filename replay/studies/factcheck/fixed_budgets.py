"""Fixed budgets of the claims reported and of a data set's validation split, as figure 5.2 and table B.4 show them.

The thesis takes 500 validation claims with a larger pool of traces than the test claims have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from replay.analyses.budgets import BEST, Budgets, budgets
from replay.analyses.pool_depth import pool_depth
from replay.analyses.surrogate_keys import AtUnseen, fixed_by_keys
from replay.data.conditions import of_dataset
from replay.data.contents import read_contents
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.kit.choices import pools_of
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError, listed
from toolkit.log import Log, collect

VALIDATION = "validation"
"""The split of the claims that published works choose settings on."""
PUBLISHED_POOLS = {
    ("QuanTemp", "", 15): "QuanTemp test",
    ("QuanTemp", VALIDATION, 50): "QuanTemp validation",
    ("ClaimDecomp", "", 50): "ClaimDecomp test",
}
"""Pools of table B.4 by data set, split (none: the claims reported) and size."""
BUDGETS = {15: (3, 5, 7, 10, 13), 50: (5, 10, 15, 20, 25, 30, 40, 45)}
USUAL = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 45)
"""Budgets of table B.4: the thesis's for its sizes of pool, and those below any other."""


def shown_budgets(size: int) -> tuple[int, ...]:
    """The budgets of a pool of so many traces that table B.4 shows."""
    return BUDGETS.get(size) or (*(k for k in USUAL if k < size), size)


@dataclass(frozen=True)
class BudgetGap:
    """An order of a pool of so many traces, or best-of-N there, whose budgets are not known, and why; None: of all."""

    traces: int
    order: str | None
    why: str

    def __str__(self) -> str:
        """The line beneath the tables of budgets."""
        named = {None: "", BEST: f", {BEST}"}.get(self.order, f", order {self.order}")
        return f"{self.traces} traces{named}: {self.why}"


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
    """Every budget of the whole pool of the validation claims.

    `missing`: why there are none, or some orders are left out; empty, too, where the log has no validation claims.
    """

    fixed: FixedBudgets | None = None
    missing: tuple[str, ...] = field(default=())


def _budgets(log: Log, setting: FactcheckSetting, traces: int) -> Budgets:
    return budgets(
        log, verifier=setting.verifier, max_traces=traces, pool=setting.pool, features=setting.features,
        random_seed=setting.random_seed, **setting.asked,
    )  # fmt: skip


def at_keys(log: Log, setting: FactcheckSetting, size: int) -> tuple[AtUnseen, ...]:
    """The surrogate at the budgets that table B.4 shows of a pool of so many traces, by its own keys."""
    asked = {**setting.asked, "features": setting.features}
    return tuple(fixed_by_keys(log, setting.pool, setting.verifier, size, shown_budgets(size), **asked))


def reported_budgets(
    log: Log, setting: FactcheckSetting, sizes: Sequence[int]
) -> tuple[tuple[FixedBudgets, ...], tuple[BudgetGap, ...]]:
    """Every budget of pools of these sizes, and why sizes or orders of them are left out."""
    found, gaps = [], []
    for traces in sizes:
        try:
            made = _budgets(log, setting, traces)
        except ThinkbackError as error:
            gaps.append(BudgetGap(traces, None, str(error)))
        else:
            found.append(FixedBudgets(made, at_keys(log, setting, traces)))
            gaps += [BudgetGap(traces, order, why) for order, why in made.missing.items()]
    return tuple(found), tuple(gaps)


def validation_budgets(log: Log, setting: FactcheckSetting, dataset: str) -> Validation:
    """The validation claims of a data set, where the log has any and none of them is reported or learnt from."""
    claims = log.scan("examples", ["example_id", "dataset", "split"])
    own = collect(claims.filter(pl.col("dataset") == dataset, pl.col("split") == VALIDATION).select("example_id"), log)
    if own.is_empty():
        return Validation()
    if own["example_id"].is_in(setting.claims(log)["example_id"].implode()).any():
        return Validation(missing=("validation claims are among those reported",))
    where = of_dataset(f"split = '{VALIDATION}'", dataset)
    pools = pools_of(log, where, read_contents(log).pools)
    if setting.pool not in pools and len(pools) != 1:
        why = f"validation claims have {len(pools)} pools ({listed(pools)}), and `{setting.pool}` is none of them"
        return Validation(missing=(why,))
    pool = setting.pool if setting.pool in pools else pools[0]
    asked = replace(setting, pool=pool, asked={**setting.asked, "where": where})
    size = pool_depth(log, pool, where).size
    try:
        made = _budgets(log, asked, size)
    except ThinkbackError as error:
        return Validation(missing=(f"validation claims, {size} traces: {error}",))
    missing = tuple(f"validation claims, {size} traces, order {order}: {why}" for order, why in made.missing.items())
    return Validation(FixedBudgets(made, at_keys(log, asked, size), VALIDATION), missing)
