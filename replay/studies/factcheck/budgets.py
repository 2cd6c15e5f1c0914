"""Runs beside the main comparison: every fixed verifier budget, sweeps of settings, further policies.

Works choose settings on validation examples, which may have a larger pool of traces than those reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import polars as pl

from replay.analyses.budgets.budgets import BEST, Budgets, budgets
from replay.analyses.budgets.pool_depth import Depth, gold_within, pool_depth, unresolved
from replay.analyses.budgets.surrogate_keys import UNSEEN, AtUnseen, fixed_by_keys
from replay.analyses.tune.fitted import ClassCoverage, SettingSweep, class_coverage, run_fitted, sweep
from replay.data.conditions import of_dataset
from replay.data.contents import read_contents
from replay.kinds.sample import Sample, every_example
from replay.runs.result.result import Result
from replay.sampling.learned import CALIBRATIONS, PRIORS, Calibration, Conformal, Prior
from replay.sampling.stops import Margin, Never
from replay.sampling.surrogate import LABEL_SCORES
from replay.studies.factcheck.runs import ADAPTIVE, SURROGATE, FactcheckSetting, pools_of
from toolkit.errors import ThinkbackError, listed
from toolkit.log import Log, collect

BONUS = 0.5
ALPHAS = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Variants:
    """Further policies; `missing`: why there are none, or some are left out; `coverage`: of sets, class by class."""

    result: Result | None
    missing: tuple[str, ...] = ()
    coverage: tuple[ClassCoverage, ...] = ()


def variants(log: Log, setting: FactcheckSetting) -> Variants:
    """Replay them; those that are fitted need the development split."""
    policies = [*_variant_policies(setting), every_example(setting.pool)]
    hint = "name the claims to learn from (`--dev`, in Python `dev`) to see those that are fitted"
    result, missing = run_fitted(log, policies, **setting.asked)
    found = () if result is None else tuple(class_coverage(log, result))
    return Variants(result, (*missing, *([] if setting.dev is not None else [hint])), found)


def _variant_policies(setting: FactcheckSetting) -> Iterator[Sample]:
    """Adaptive stopping and the surrogate; an upper-confidence order; with examples to learn from, surrogates fitted
    before, calibrated margins, and prediction sets of the whole pool.
    """
    common: dict[str, Any] = {
        "pool": setting.pool, "verifier": setting.verifier, "max_traces": setting.cap, "stop": setting.margin
    }  # fmt: skip
    surrogate = common | {"order": "surrogate", "features": setting.features}
    yield Sample(name=ADAPTIVE, **common)
    yield Sample(name=SURROGATE, **surrogate)
    yield Sample(name="upper confidence", **surrogate, bonus=BONUS)
    dev = setting.dev
    if dev is None:
        return
    if setting.features:
        for model in PRIORS:
            yield Sample(name=f"prior: {model}", **surrogate, prior=Prior(model, dev))
    for method in CALIBRATIONS:
        calibration = Calibration(method, dev)
        yield Sample(name=f"margin of {method} scores", **common, calibration=calibration)
    # Where a margin stops early, labels that later traces would give have no score, and their thresholds are -inf.
    whole = common | {"stop": Never()}
    for alpha in ALPHAS:
        yield Sample(name=f"conformal, alpha {alpha}", **whole, conformal=Conformal(alpha, dev, abstain=True))


VALIDATION = "validation"
"""The split of the examples that works choose settings on."""


@dataclass(frozen=True)
class _BudgetGap:
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
        return f"{f'{self.split}, ' if self.split else ''}{self.made.max_traces} traces"


@dataclass(frozen=True)
class _Validation:
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
    gaps: tuple[_BudgetGap, ...]
    validation: _Validation
    gold: pl.DataFrame
    unresolved: pl.DataFrame

    def lacking(self, shares: pl.DataFrame) -> int:
        """Claims with a pool of the size that `gold` or `unresolved` are of, but not among them."""
        return self.depth.claims - self.depth.shorter - max(shares["n"].to_list())

    @property
    def pools(self) -> list[FixedBudgets]:
        """Budgets of the examples reported, and of the validation split."""
        return [*self.reported, *([] if self.validation.fixed is None else [self.validation.fixed])]

    @property
    def missing(self) -> list[str]:
        return [*map(str, self.gaps), *self.validation.missing]

    @property
    def excluded(self) -> Mapping[str, Mapping[str, str]]:
        """Examples that each pool's budgets leave out, with the reason."""
        return {f"budgets, {fixed.name}": fixed.made.result.excluded for fixed in self.pools}


def verifier_budgets(log: Log, setting: FactcheckSetting, dataset: str, depth: Depth) -> VerifierBudgets:
    """Every budget that a data set's tables and figures show."""
    tried = [_tried(log, setting, size) for size in sorted({setting.cap, depth.size})]
    pool, where, settings = setting.pool, setting.where, setting.settings
    return VerifierBudgets(
        depth, tuple(fixed for fixed, _ in tried if fixed is not None), tuple(gap for _, gaps in tried for gap in gaps),
        _validation_budgets(log, setting, dataset),
        gold=gold_within(log, pool, depth.size, where=where, settings=settings),
        unresolved=unresolved(
            log, pool, setting.verifier, depth.size, margin=setting.margin, where=where, settings=settings
        ),
    )  # fmt: skip


def _tried(
    log: Log, setting: FactcheckSetting, size: int, split: str = ""
) -> tuple[FixedBudgets | None, list[_BudgetGap]]:
    """Every budget of a pool of so many traces, where the log can serve it, and why it or orders of it are left out."""
    try:
        made = budgets(
            log, verifier=setting.verifier, max_traces=size, pool=setting.pool, features=setting.features,
            random_seed=setting.random_seed, **setting.asked,
        )  # fmt: skip
    except ThinkbackError as error:
        return None, [_BudgetGap(size, None, str(error), split)]
    gaps = [_BudgetGap(size, order, why, split) for order, why in made.missing.items()]
    return FixedBudgets(made, _at_keys(log, setting, size), split), gaps


def _at_keys(log: Log, setting: FactcheckSetting, size: int) -> tuple[AtUnseen, ...]:
    """The surrogate at the budgets that tables show of a pool of so many traces, by its own keys."""
    asked = {**setting.asked, "features": setting.features}
    return tuple(fixed_by_keys(log, setting.pool, setting.verifier, size, setting.shown_budgets(size), **asked))


def _validation_budgets(log: Log, setting: FactcheckSetting, dataset: str) -> _Validation:
    """The validation examples of a data set, where the log has any and none of them is reported or learnt from."""
    claims = log.scan("examples", ["example_id", "dataset", "split"])
    own = collect(claims.filter(pl.col("dataset") == dataset, pl.col("split") == VALIDATION).select("example_id"), log)
    if own.is_empty():
        return _Validation()
    if own["example_id"].is_in(setting.claims(log)["example_id"].implode()).any():
        return _Validation(missing=("validation claims are among those reported",))
    where = of_dataset(f"split = '{VALIDATION}'", dataset)
    pools = pools_of(log, where, read_contents(log).pools)
    if setting.pool not in pools and len(pools) != 1:
        why = f"validation claims have {len(pools)} pools ({listed(pools)}), and `{setting.pool}` is none of them"
        return _Validation(missing=(why,))
    pool = setting.pool if setting.pool in pools else pools[0]
    asked = replace(setting, pool=pool, asked={**setting.asked, "where": where})
    fixed, gaps = _tried(log, asked, pool_depth(log, pool, where).size, VALIDATION)
    return _Validation(fixed, tuple(map(str, gaps)), pool if fixed is not None else "")


MARGINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MINIMA = (2, 3, 5)
BOOTSTRAPS = (2, 3, 5)
CAPS = (5, 10, 15, 20, 30, 40)
SWEPT = {"margin": pl.Float64, "cap": pl.Int64, "min_valid": pl.Int64, "bootstrap": pl.Int64}
"""Settings of both; no bootstrap pool: adaptive stopping."""
RIDGES, FORGETTINGS = (0.1, 1.0, 10.0), (0.9, 1.0)
KEYS = {"unseen": pl.Float64, "label_score": pl.String, "ridge": pl.Float64, "forgetting": pl.Float64}
MEASURED = ("macro_f1", "operations")


def sensitivity(
    log: Log,
    setting: FactcheckSetting,
    size: int,
    *,
    margins: Sequence[float] | None = None,
    caps: Sequence[int] | None = None,
    minima: Sequence[int] | None = None,
    bootstraps: Sequence[int] = BOOTSTRAPS,
) -> SettingSweep:
    """Macro-F1 and operations over margin, cap (at most `size`), minimum and bootstrap pool.

    By default the study's own are among them.
    """
    margins = margins or sorted({*MARGINS, setting.margin.margin})
    minima = minima or sorted({*MINIMA, setting.margin.min_valid})
    caps = [cap for cap in (caps or sorted({*CAPS, setting.cap})) if cap <= size] or [size]

    def tried() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for margin, cap, least, first in product(margins, caps, minima, (None, *bootstraps)):
            own: dict[str, Any] = {"max_traces": cap, "stop": Margin(margin, least, setting.margin.single_label)}
            if first is not None:
                own |= {"order": "surrogate", "features": setting.features, "bootstrap": first}
            how = "adaptive stopping" if first is None else f"surrogate from {first}"
            name = f"{how} with margin {margin:g}, cap {cap}, minimum {least}"
            yield (margin, cap, least, first), Sample(name=name, pool=setting.pool, verifier=setting.verifier, **own)

    return sweep(log, SWEPT, tried(), MEASURED, setting.pool, **setting.asked)


def surrogate_keys(log: Log, setting: FactcheckSetting) -> SettingSweep:
    """The same of the surrogate under the study's margin for every combination of the surrogate's own keys."""
    policy = Sample(
        name="surrogate", pool=setting.pool, verifier=setting.verifier, max_traces=setting.cap, order="surrogate",
        features=setting.features, stop=setting.margin,
    )  # fmt: skip

    def tried() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for values in product(UNSEEN, LABEL_SCORES, RIDGES, FORGETTINGS):
            own: dict[str, Any] = dict(zip(KEYS, values, strict=True))
            name = "surrogate with " + ", ".join(f"{key} {value}" for key, value in own.items())
            yield values, replace(policy, name=name, **own)

    return sweep(log, KEYS, tried(), MEASURED, setting.pool, **setting.asked)


def told_missing(found: SettingSweep) -> list[str]:
    """Why settings are dashes: how many, and the first of them."""
    if found.result is None:
        return list(found.missing.values())[:1]
    policies = len(found.table) // len(MEASURED)
    count = f"{len(found.missing)} of the {policies} settings cannot be replayed and are dashes"
    return [f"{count}, such as {name}: {why}" for name, why in found.missing.items()][:1]
