"""Fixed verifier budgets of the examples reported and of a data set's validation split, and what is behind them.

Works choose settings on validation examples, which may have a larger pool of traces than those reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from replay.analyses.budgets.budgets import BEST, Budgets, budgets
from replay.analyses.budgets.pool_depth import Depth, gold_within, pool_depth, unresolved
from replay.analyses.budgets.surrogate_keys import AtUnseen, fixed_by_keys
from replay.data.conditions import of_dataset
from replay.data.contents import read_contents
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from replay.studies.kit.choices import pools_of
from toolkit.errors import ThinkbackError, listed
from toolkit.log import Log, collect

VALIDATION = "validation"
"""The split of the examples that works choose settings on."""


@dataclass(frozen=True)
class BudgetGap:
    """An order of a pool of so many traces, or best-of-N there, whose budgets are not known, and why; None: of all."""

    traces: int
    order: str | None
    why: str
    split: str = ""

    def __str__(self) -> str:
        """The line beneath the tables of budgets."""
        named = {None: "", BEST: f", {BEST}"}.get(self.order, f", order {self.order}")
        return f"{f'{self.split} claims, ' if self.split else ''}{self.traces} traces{named}: {self.why}"


@dataclass(frozen=True)
class FixedBudgets:
    """Every budget of a pool, and the surrogate there by its own keys; `split`: of examples that are not reported."""

    made: Budgets
    keys: tuple[AtUnseen, ...]
    split: str = ""

    @property
    def name(self) -> str:
        """What tables call the pool."""
        return f"{f'{self.split}, ' if self.split else ''}{self.made.max_traces} traces"


@dataclass(frozen=True)
class Validation:
    """Every budget of the whole pool of the validation examples.

    `missing`: why there are none, or some orders are left out; empty, too, where the log has no validation examples.
    """

    fixed: FixedBudgets | None = None
    missing: tuple[str, ...] = field(default=())
    pool: str = ""


@dataclass(frozen=True)
class VerifierBudgets:
    """Budgets of a data set: of its pool up to the cap, of the whole pool where it is larger, of its validation split.

    `gaps`: why sizes or orders of the pool are left out. `gold` and `unresolved`: how early one of its traces is
    right, and how long a margin rule has not held.
    """

    depth: Depth
    reported: tuple[FixedBudgets, ...]
    gaps: tuple[BudgetGap, ...]
    validation: Validation
    gold: pl.DataFrame
    unresolved: pl.DataFrame

    @property
    def pools(self) -> list[FixedBudgets]:
        """Budgets of the examples reported, and of the validation split."""
        return [*self.reported, *([] if self.validation.fixed is None else [self.validation.fixed])]

    @property
    def missing(self) -> list[str]:
        """Why budgets are left out."""
        return [*map(str, self.gaps), *self.validation.missing]

    @property
    def excluded(self) -> Mapping[str, Mapping[str, str]]:
        """Examples that each pool's budgets leave out, with the reason."""
        return {f"budgets, {fixed.name}": fixed.made.result.excluded for fixed in self.pools}


def verifier_budgets(log: Log, setting: VerifyingSetting, dataset: str, depth: Depth) -> VerifierBudgets:
    """Every budget that a data set's tables and figures show."""
    tried = [_tried(log, setting, size) for size in sorted({setting.cap, depth.size})]
    pool, where, settings = setting.pool, setting.where, setting.settings
    return VerifierBudgets(
        depth, tuple(fixed for fixed, _ in tried if fixed is not None), tuple(gap for _, gaps in tried for gap in gaps),
        validation_budgets(log, setting, dataset),
        gold=gold_within(log, pool, depth.size, where=where, settings=settings),
        unresolved=unresolved(
            log, pool, setting.verifier, depth.size, margin=setting.margin, where=where, settings=settings
        ),
    )  # fmt: skip


def _tried(
    log: Log, setting: VerifyingSetting, size: int, split: str = ""
) -> tuple[FixedBudgets | None, list[BudgetGap]]:
    """Every budget of a pool of so many traces, where the log can serve it, and why it or orders of it are left out."""
    try:
        made = budgets(
            log, verifier=setting.verifier, max_traces=size, pool=setting.pool, features=setting.features,
            random_seed=setting.random_seed, **setting.asked,
        )  # fmt: skip
    except ThinkbackError as error:
        return None, [BudgetGap(size, None, str(error), split)]
    gaps = [BudgetGap(size, order, why, split) for order, why in made.missing.items()]
    return FixedBudgets(made, at_keys(log, setting, size), split), gaps


def at_keys(log: Log, setting: VerifyingSetting, size: int) -> tuple[AtUnseen, ...]:
    """The surrogate at the budgets that tables show of a pool of so many traces, by its own keys."""
    asked = {**setting.asked, "features": setting.features}
    return tuple(fixed_by_keys(log, setting.pool, setting.verifier, size, setting.shown_budgets(size), **asked))


def validation_budgets(log: Log, setting: VerifyingSetting, dataset: str) -> Validation:
    """The validation examples of a data set, where the log has any and none of them is reported or learnt from."""
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
    fixed, gaps = _tried(log, asked, pool_depth(log, pool, where).size, VALIDATION)
    return Validation(fixed, tuple(map(str, gaps)), pool if fixed is not None else "")
