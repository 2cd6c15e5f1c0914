"""Everything that the study of fact checking under a verifier budget computes on one log, before it is laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from types import MappingProxyType
from typing import Any

import polars as pl

from replay.analyses.budgets.budgets import BEST as BEST_OF_N
from replay.analyses.budgets.budgets import Budgets, budgets
from replay.analyses.budgets.pool_depth import PoolDepth, pool_depth, shares_with_gold_trace, unresolved_claim_shares
from replay.analyses.budgets.surrogate_keys import UNSEEN, SurrogateGapsAtSetting, surrogate_gaps_by_setting
from replay.analyses.budgets.wall_clock import WallClock, wall_clock
from replay.analyses.tune.fitted import ClassCoverage, SettingSweep, class_coverage, run_fitted, sweep
from replay.data.conditions import examples_where, ids_where, in_dataset, refuse_overlap
from replay.data.contents import read_contents
from replay.kinds.sample import Sample, coverage_policy
from replay.runs.passes.coverage import WARN_EXCLUDED
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from replay.sampling.learned import CALIBRATIONS, PRIORS, Calibration, Conformal, Prior
from replay.sampling.surrogate import LABEL_SCORES
from replay.studies.factcheck import runs
from replay.studies.factcheck.cases import IllustrativeCases, example_cases
from replay.studies.factcheck.published import ORDER_COLUMNS, TOTALS, pool_of, published_claims
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, FactcheckSetting, Methods
from replay.studies.kit.cells import group_by_reason, note_line, warnings_of
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import InvalidError, ThinkbackError, argument, listed
from toolkit.log import Log, collect
from toolkit.notes import Note, warning
from toolkit.show import code_of, remark
from toolkit.stats import Settings
from toolkit.stats.curves.calibration import ClusteredCalibration, clustered_calibration
from toolkit.stopping.stops import Margin, Never


@dataclass(frozen=True)
class VerifierCalibration:
    """The calibration of a verifier on the first `cap` traces of one pool, or the reason why there is none."""

    verifier: str
    cap: int
    calibration: ClusteredCalibration | None

    @property
    def missing(self) -> str:
        """The reason why numbers are unknown; empty where all are known."""
        if self.calibration is None:
            return f"`{self.verifier}` scored no trace that is judged"
        if self.calibration.ece is None:
            return f"scores of `{self.verifier}` lie outside 0 to 1, so they are no probabilities to calibrate"
        return ""


def calibrations(
    log: Log, pool: str, verifiers: Iterable[str], *, cap: int, where: str | None = None, settings: Settings
) -> Iterator[VerifierCalibration]:
    """Measures each verifier's calibration on the first `cap` traces of the examples of `where`; traces of an example
    are resampled together.
    """
    for verifier in verifiers:
        rows = _scored_traces(log, pool, verifier, cap, where)
        calibration = None
        if not rows.is_empty():
            calibration = clustered_calibration(rows["score"], rows["correct"], rows["unit"], settings=settings)
        yield VerifierCalibration(verifier, cap, calibration)


def _scored_traces(log: Log, pool: str, verifier: str, cap: int, where: str | None = None) -> pl.DataFrame:
    """Reads score, correctness and resampling unit of every valid trace within the cap that has a score and a verdict.

    Of examples with labels only traces whose answer is one of them are valid, as only these are ever verified.
    """
    examples = examples_where(log, where, "cluster", "labels")
    units = examples.select("example_id", "labels", unit=resampling_units(examples))
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct"]
    traces = log.scan("traces", columns).filter(
        (pl.col("pool") == pool) & (pl.col("action") == "solve") & (pl.col("sample_index") < cap)
    )
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(pl.col("verifier") == verifier)
    scored = traces.join(scores.select("trace_id", "score"), on="trace_id").join(units.lazy(), on="example_id")
    labelled = pl.col("labels").list.len() > 0
    valid = pl.col("answer").is_not_null() & (
        ~labelled.fill_null(False) | pl.col("labels").list.contains(pl.col("answer"))
    )
    rows = collect(scored.filter(valid).drop_nulls(["score", "correct"]), log).sort("example_id", "sample_index")
    return rows.select("score", pl.col("correct").cast(pl.Float64), "unit")


BONUS = 0.5
ALPHAS = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class FurtherPolicies:
    """The replay of further policies. `missing` says which are left out and why; `coverage` is that of prediction sets
    by class.
    """

    result: Result | None
    missing: tuple[str, ...] = ()
    coverage: tuple[ClassCoverage, ...] = ()


def replay_further_policies(log: Log, setting: FactcheckSetting) -> FurtherPolicies:
    """Replays the further policies; fitted ones need the development split."""
    policies = [*_further_policies(setting), coverage_policy(setting.pool)]
    hint = "name the claims to learn from (`--dev`, in Python `dev`) to have the fitted policies"
    result, missing = run_fitted(log, policies, **setting.options)
    coverage = () if result is None else tuple(class_coverage(log, result))
    return FurtherPolicies(result, (*missing, *([] if setting.dev is not None else [hint])), coverage)


def _further_policies(setting: FactcheckSetting) -> Iterator[Sample]:
    """Returns adaptive stopping, the surrogate and an upper-confidence order; with examples to learn from, also
    surrogates fitted before, calibrated margins, and prediction sets of the whole pool.
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
class _UnknownBudgets:
    """Why the budgets of a pool of so many traces are unknown: for one order, for best-of-N, or (None) for all."""

    traces: int
    order: str | None
    why: str
    split: str = ""

    def __str__(self) -> str:
        """The line beneath the tables of budgets."""
        suffix = {None: "", BEST_OF_N: f", {BEST_OF_N}"}.get(self.order, f", order {self.order}")
        return f"{f'{self.split} claims, ' if self.split else ''}{self.traces} traces{suffix}: {self.why}"


@dataclass(frozen=True)
class PoolBudgets:
    """Macro-F1 of one pool at every verifier budget and order, and of the surrogate's other keys; `split` names
    examples that are not reported.
    """

    budgets: Budgets
    keys: tuple[SurrogateGapsAtSetting, ...]
    split: str = ""

    @property
    def name(self) -> str:
        return f"{f'{self.split}, ' if self.split else ''}{self.budgets.max_traces} traces"


@dataclass(frozen=True)
class _ValidationBudgets:
    """Every budget of the whole pool of the validation examples.

    `missing`: why there are none, or some orders are left out; empty, too, where the log has no validation examples.
    """

    fixed: PoolBudgets | None = None
    missing: tuple[str, ...] = field(default=())
    pool: str = ""


@dataclass(frozen=True)
class VerifierBudgets:
    """The budgets of a data set: of its pool up to the cap, of the whole pool where it is larger, and of its
    validation split.

    `gaps`: why sizes or orders of the pool are left out. `gold` and `unresolved`: how early one of its traces is
    right, and how long a margin rule has not held.
    """

    depth: PoolDepth
    reported: tuple[PoolBudgets, ...]
    gaps: tuple[_UnknownBudgets, ...]
    validation: _ValidationBudgets
    gold: pl.DataFrame
    unresolved: pl.DataFrame

    def count_uncovered(self, shares: pl.DataFrame) -> int:
        """Counts the claims with a large enough pool that the table `shares` does not cover."""
        return self.depth.claims - self.depth.shorter - max(shares["n"].to_list())

    @property
    def pools(self) -> list[PoolBudgets]:
        return [*self.reported, *([] if self.validation.fixed is None else [self.validation.fixed])]

    @property
    def missing(self) -> list[str]:
        return [*map(str, self.gaps), *self.validation.missing]

    @property
    def excluded(self) -> Mapping[str, Mapping[str, str]]:
        """The examples that the budgets of each pool leave out, with the reason."""
        return {f"budgets, {fixed.name}": fixed.budgets.result.excluded for fixed in self.pools}


def _verifier_budgets(log: Log, setting: FactcheckSetting, dataset: str, depth: PoolDepth) -> VerifierBudgets:
    """Computes every budget that a data set's tables and figures show."""
    results = [_budgets_of_pool(log, setting, size) for size in sorted({setting.cap, depth.size})]
    pool, where, settings = setting.pool, setting.where, setting.settings
    return VerifierBudgets(
        depth,
        tuple(fixed for fixed, _ in results if fixed is not None),
        tuple(gap for _, gaps in results for gap in gaps),
        _validation_budgets(log, setting, dataset),
        gold=shares_with_gold_trace(log, pool, depth.size, where=where, settings=settings),
        unresolved=unresolved_claim_shares(
            log, pool, setting.verifier, depth.size, margin=setting.margin, where=where, settings=settings
        ),
    )  # fmt: skip


def _budgets_of_pool(
    log: Log, setting: FactcheckSetting, traces: int, split: str = ""
) -> tuple[PoolBudgets | None, list[_UnknownBudgets]]:
    """Computes every budget of a pool of so many traces where the log can serve it; returns the gaps with their
    reasons.
    """
    try:
        pool_budgets = budgets(
            log, verifier=setting.verifier, max_traces=traces, pool=setting.pool, features=setting.features,
            random_seed=setting.random_seed, **setting.options,
        )  # fmt: skip
    except ThinkbackError as error:
        return None, [_UnknownBudgets(traces, None, str(error), split)]
    gaps = [_UnknownBudgets(traces, order, why, split) for order, why in pool_budgets.missing.items()]
    return PoolBudgets(pool_budgets, _replay_other_surrogate_keys(log, setting, traces), split), gaps


def _replay_other_surrogate_keys(log: Log, setting: FactcheckSetting, size: int) -> tuple[SurrogateGapsAtSetting, ...]:
    """Replays the surrogate with other keys, at the budgets that tables show of a pool of so many traces."""
    options = {**setting.options, "features": setting.features}
    return tuple(
        surrogate_gaps_by_setting(log, setting.pool, setting.verifier, size, setting.table_budgets(size), **options)
    )


def _validation_budgets(log: Log, setting: FactcheckSetting, dataset: str) -> _ValidationBudgets:
    """Computes the budgets of a data set's validation examples, where the log has some that are neither reported nor
    learnt from.
    """
    claims = log.scan("examples", ["example_id", "dataset", "split"])
    validation_ids = collect(
        claims.filter(pl.col("dataset") == dataset, pl.col("split") == VALIDATION).select("example_id"), log
    )
    if validation_ids.is_empty():
        return _ValidationBudgets()
    if validation_ids["example_id"].is_in(setting.reported_claims(log)["example_id"].implode()).any():
        return _ValidationBudgets(
            missing=(remark("validation_reported", "validation claims are among those reported"),)
        )
    where = in_dataset(f"split = '{VALIDATION}'", dataset)
    pools = runs.pools_of(log, where, read_contents(log).pools)
    if setting.pool not in pools and len(pools) != 1:
        why = f"validation claims have {len(pools)} pools ({listed(pools)}), and `{setting.pool}` is none of them"
        return _ValidationBudgets(missing=(remark("validation_pools", why),))
    pool = setting.pool if setting.pool in pools else pools[0]
    validation_setting = replace(setting, pool=pool, options={**setting.options, "where": where})
    fixed, gaps = _budgets_of_pool(log, validation_setting, pool_depth(log, pool, where).size, VALIDATION)
    return _ValidationBudgets(fixed, tuple(map(str, gaps)), pool if fixed is not None else "")


MARGINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MINIMA = (2, 3, 5)
BOOTSTRAPS = (2, 3, 5)
CAPS = (5, 10, 15, 20, 30, 40)
SWEPT = {"margin": pl.Float64, "cap": pl.Int64, "min_valid": pl.Int64, "bootstrap": pl.Int64}
"""Settings of both; no bootstrap pool: adaptive stopping."""
RIDGES, FORGETTINGS = (0.1, 1.0, 10.0), (0.9, 1.0)
KEYS = {"unseen": pl.Float64, "label_score": pl.String, "ridge": pl.Float64, "forgetting": pl.Float64}
MEASURED = ("macro_f1", "operations")


def sweep_stop_settings(
    log: Log,
    setting: FactcheckSetting,
    size: int,
    *,
    margins: Sequence[float] | None = None,
    caps: Sequence[int] | None = None,
    minima: Sequence[int] | None = None,
    bootstraps: Sequence[int] = BOOTSTRAPS,
) -> SettingSweep:
    """Sweeps margin, cap (at most `size`), minimum of valid traces and bootstrap pool; returns macro-F1 and
    operations.

    By default the study's own are among them.
    """
    margins = margins or sorted({*MARGINS, setting.margin.margin})
    minima = minima or sorted({*MINIMA, setting.margin.min_valid})
    caps = [cap for cap in (caps or sorted({*CAPS, setting.cap})) if cap <= size] or [size]

    def settings_and_policies() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for margin, cap, least, first in product(margins, caps, minima, (None, *bootstraps)):
            keys: dict[str, Any] = {"max_traces": cap, "stop": Margin(margin, least, setting.margin.single_label)}
            if first is not None:
                keys |= {"order": "surrogate", "features": setting.features, "bootstrap": first}
            how = "adaptive stopping" if first is None else f"surrogate from {first}"
            name = f"{how} with margin {margin:g}, cap {cap}, minimum {least}"
            yield (margin, cap, least, first), Sample(name=name, pool=setting.pool, verifier=setting.verifier, **keys)

    return sweep(log, SWEPT, settings_and_policies(), MEASURED, setting.pool, **setting.options)


def sweep_surrogate_keys(log: Log, setting: FactcheckSetting) -> SettingSweep:
    """Sweeps the surrogate's keys under the study's margin; returns macro-F1 and operations of every combination."""
    policy = Sample(
        name="surrogate", pool=setting.pool, verifier=setting.verifier, max_traces=setting.cap, order="surrogate",
        features=setting.features, stop=setting.margin,
    )  # fmt: skip

    def settings_and_policies() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for values in product(UNSEEN, LABEL_SCORES, RIDGES, FORGETTINGS):
            keys: dict[str, Any] = dict(zip(KEYS, values, strict=True))
            name = "surrogate with " + ", ".join(f"{key} {value}" for key, value in keys.items())
            yield values, replace(policy, name=name, **keys)

    return sweep(log, KEYS, settings_and_policies(), MEASURED, setting.pool, **setting.options)


def missing_settings_note(setting_sweep: SettingSweep) -> Sequence[str]:
    """Says how many settings of a sweep are dashes, and names the first."""
    if setting_sweep.result is None:
        return list(setting_sweep.missing.values())[:1]
    policies = len(setting_sweep.table) // len(MEASURED)
    count = f"{len(setting_sweep.missing)} of the {policies} settings cannot be replayed and are dashes"
    lines = (f"{count}, such as {name}: {why}" for name, why in setting_sweep.missing.items())
    return [remark("settings_missing", line) for line in lines][:1]


MAIN = ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "B.1", "B.2", "B.3")
OTHER, LARGER, FIXED = ("5.8", "5.9", "5.10"), ("5.11", "5.12", "5.13"), ("B.4", "budgets")
"""Tables of the main comparison, of another verifier, of larger caps, and of fixed budgets."""
SECONDS = ("trace seconds", "verification seconds", "trace device seconds", "verification device seconds")
TAKES = dict.fromkeys(("5.5", "5.7", "B.2", "5.10", "5.13"), SECONDS) | {"5.4": ("trace tokens",)}
"""Kinds of numbers, by table, that may not be logged."""
UNSHOWN = frozenset({"finalizers", "truncated", "queries", "action_tokens", "device_s", "verification_tokens"})
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""


@dataclass(frozen=True)
class Study:
    """The results on one data set of a log, with the thesis's numbers beside them.

    `name` is the log's, and the data set's where there are several.
    """

    name: str
    dataset: str
    simulated: bool
    labels: tuple[str, ...]
    setting: FactcheckSetting
    others: tuple[str, ...]  # verifiers that the other one may be
    main: Methods
    other: Methods
    caps: Mapping[int, Methods]
    averaged: Methods  # over orders of the pool
    budgets: VerifierBudgets
    sensitivity: SettingSweep
    surrogate_keys: SettingSweep
    variants: FurtherPolicies
    calibration: tuple[VerifierCalibration, ...]
    cases: IllustrativeCases
    wall: WallClock
    classes: pl.DataFrame  # split, label, claims: gold labels of all of the data set's claims
    features_note: str = ""  # where the surrogate does without some of the features that it might read
    notes: tuple[Note, ...] = ()

    @property
    def surrogate_s(self) -> float | None:
        """The seconds per example that replay itself spent on the surrogate."""
        seconds = {} if self.main.result is None else self.main.result.provenance["surrogate_s_per_example"]
        return seconds.get(SURROGATE)

    @property
    def left_out(self) -> dict[str, Mapping[str, str]]:
        """The examples that each run leaves out, with the reason."""
        runs = {"main": self.main, f"verifier {self.setting.other_verifier}": self.other}
        runs |= {f"cap {cap}": run for cap, run in self.caps.items()}
        excluded = {name: run.result.excluded for name, run in runs.items() if run.result is not None}
        return {**excluded, **self.budgets.excluded}

    def table_runs(self, number: str) -> Sequence[Methods]:
        """Returns the runs that a table shows."""
        return [self.other] if number in OTHER else list(self.caps.values()) if number in LARGER else [self.main]

    def published(self, number: str, **keys: object) -> dict[str, Any]:
        """Returns the published numbers of a row, and the columns whose published numbers are of another number of
        claims.
        """
        numbers = self.setting.published
        if numbers is None:
            return {}
        return {
            "published": numbers.row(number, **keys),
            "unlike": TOTALS if self.has_other_claims(number) else frozenset(),
        }

    def has_other_claims(self, number: str) -> bool:
        """Whether a table covers another number of claims than the published one."""
        return any(run.n not in (0, published_claims(self.setting.published)) for run in self.table_runs(number))

    def published_budget(self, fixed: PoolBudgets, k: int) -> dict[str, Any]:
        """Returns the published numbers of a pool at one budget (table B.4)."""
        numbers = self.setting.published
        if numbers is None:
            return {}
        pool = pool_of(numbers.dataset, fixed.split, fixed.budgets.max_traces)
        return self.published("B.4", pool=pool.name, pool_traces=pool.size, k=k)

    def published_curve(self, fixed: PoolBudgets, order: str, ks: Sequence[int]) -> dict[int, float]:
        """Returns the published points of an order, as fractions."""
        rows = {k: self.published_budget(fixed, k).get("published", {}) for k in ks if order in ORDER_COLUMNS}
        return {k: row[ORDER_COLUMNS[order]] / 100 for k, row in rows.items() if ORDER_COLUMNS[order] in row}

    @cached_property
    def missing(self) -> Mapping[str, Sequence[str]]:
        """The reasons for numbers that could not be computed, by the number or name of their table."""
        text = "the log has one verifier that scores each trace alone, so nothing is compared"
        nothing = remark("one_verifier", text)
        hint = "name one (`--other-verifier`, in Python `other_verifier`)"
        text = f"the log has {len(self.others)} other verifiers ({listed(self.others)}): {hint}"
        several = remark("several_verifiers", text)
        why: dict[str, Sequence[str]] = {number: group_by_reason(self.main.missing) for number in MAIN}
        why |= dict.fromkeys(OTHER, group_by_reason(self.other.missing)) | dict.fromkeys(
            LARGER, tuple(self._missing_caps_notes())
        )
        for number, kinds in TAKES.items():
            unlogged = (run.unlogged_reasons().get(kind) for kind in kinds for run in self.table_runs(number))
            why[number] = list(dict.fromkeys([*why[number], *filter(None, unlogged)]))
        if self.setting.other_verifier is None:
            why |= {number: [several if self.others else nothing] for number in OTHER}
        return why | dict.fromkeys(FIXED, self.budgets.missing) | {
            "sensitivity": missing_settings_note(self.sensitivity),
            "keys": list(dict.fromkeys(self.surrogate_keys.missing.values())),
            "orders": group_by_reason(self.averaged.missing),
        }  # fmt: skip

    def _missing_caps_notes(self) -> Iterator[str]:
        largest = self.budgets.depth.largest
        beyond = [cap for cap in self.caps if cap > largest]
        for cap, run in self.caps.items():
            yield from (
                remark(code_of(why), f"cap {cap}: {why}") for why in group_by_reason(run.missing) if cap not in beyond
            )
        if beyond:
            caps = (
                f"cap {beyond[0]} is a dash" if len(beyond) == 1 else f"caps {', '.join(map(str, beyond))} are dashes"
            )
            yield remark("caps_beyond", f"pool `{self.setting.pool}` has {largest} traces a claim, so {caps}")

    @cached_property
    def warnings(self) -> Mapping[str, Sequence[str]]:
        """The warnings above tables, by run; "" has those of the main run, for tables without their own."""
        main = self.main.warnings
        return {
            "": main,
            **dict.fromkeys(FIXED, _distinct_warnings(warnings_of(pool.budgets.result) for pool in self.budgets.pools)),
            "sensitivity": warnings_of(self.sensitivity.result),
            "keys": warnings_of(self.surrogate_keys.result),
            "orders": self.averaged.warnings,
            "variants": warnings_of(self.variants.result),
            "unresolved": (*main, *self._many_uncovered_warning()),
            **dict.fromkeys(OTHER, self.other.warnings),
            **dict.fromkeys(LARGER, _distinct_warnings(run.warnings for run in self.caps.values())),
        }

    def _many_uncovered_warning(self) -> Iterator[str]:
        claims, missing = self.budgets.depth.claims, self.budgets.count_uncovered(self.budgets.unresolved)
        if missing > WARN_EXCLUDED * claims:
            yield note_line(warning("many_left_out", f"{missing:,} of {claims:,} claims are left out"))


def _distinct_warnings(warnings: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(warnings)))


def study_log(
    log: Log, setting: FactcheckSetting, published: Sequence[PublishedDataset] = (),
    pools: Mapping[str, str] = MappingProxyType({}), without: Collection[str] = (),
) -> tuple[Study, ...]:  # fmt: skip
    """Replays everything on each data set of a log; claims of several data sets are never pooled.

    `pools`: of data sets that have another one than the setting's; `without`: data sets to leave out. Of `published`
    each data set gets the numbers of its own name, and a single one those that are named alone.

    Raises ThinkbackError where some claims have no class labels, a verifier is listwise, or a main comparison cannot be
    replayed.
    """
    if setting.dev is not None:
        learnt = ids_where(log, setting.dev, "dev")
        refuse_overlap(log, learnt, setting.reported_claims(log)["example_id"], "dev", setting.dev)
    spaces = runs.label_spaces(setting.reported_claims(log, "dataset", "labels"), "the study of fact checking")
    settings = {
        dataset: replace(setting.for_dataset(log, dataset, spaces, published), pool=pools.get(dataset, setting.pool))
        for dataset in spaces
        if dataset not in without
    }
    listwise = {pool: runs.listwise_verifiers(log, pool) for pool in {one.pool for one in settings.values()}}
    for pool, names in listwise.items():
        runs.refuse_listwise(names, pool, setting.verifier, setting.other_verifier)
    return tuple(study_dataset(log, name, spaces[name], one, listwise[one.pool]) for name, one in settings.items())


def _class_counts(log: Log, dataset: str) -> pl.DataFrame:
    """Counts the claims of a data set by split and gold label."""
    claims = log.scan("examples", ["dataset", "split", "gold"]).filter(pl.col("dataset") == dataset)
    counts = claims.group_by("split", label=pl.col("gold").fill_null("")).agg(claims=pl.len())
    return collect(counts, log).sort("split", "label")


def study_dataset(
    log: Log, dataset: str, labels: tuple[str, ...], setting: FactcheckSetting, listwise: Collection[str] = ()
) -> Study:
    """Replays everything on one data set."""
    where, pool, verifier = setting.where, setting.pool, setting.verifier
    depth = pool_depth(log, pool, where)
    if setting.cap > depth.largest > 0:
        most = f"pool `{pool}` has {depth.largest} traces a claim"
        raise InvalidError(f"{argument('cap')} is {setting.cap}, and {most}: take at most as many")
    main = runs.with_device_seconds(log, setting, runs.replay_methods(log, setting))
    other = Methods(None, verifier, setting.cap)
    others = sorted(runs.verifiers_of(log, None if setting.alone else where) - {verifier, *listwise})
    if setting.other_verifier is None and len(others) == 1:
        setting = replace(setting, other_verifier=others[0])
    if setting.other_verifier is not None:
        other = runs.replay_if_covered(log, replace(setting, verifier=setting.other_verifier))
    scoring = [name for name in (verifier, setting.other_verifier) if name is not None]
    return Study(
        log.name if setting.alone else f"{log.name}, {dataset}", dataset, log.simulated, labels, setting,
        tuple(others), main, other,
        caps={
            cap: runs.replay_if_covered(log, replace(setting, cap=cap), (BEST, ADAPTIVE)) for cap in setting.caps
        },
        averaged=runs.replay_if_covered(log, setting, orders=setting.orders),
        budgets=_verifier_budgets(log, setting, dataset, depth),
        sensitivity=sweep_stop_settings(log, setting, depth.size),
        surrogate_keys=sweep_surrogate_keys(log, setting),
        variants=replay_further_policies(log, setting),
        calibration=tuple(calibrations(log, pool, scoring, cap=setting.cap, where=where, settings=setting.settings)),
        cases=example_cases(log, setting, main),
        wall=wall_clock(log, pool, verifier, traces=setting.cap, depth=depth, where=where),
        classes=_class_counts(log, dataset),
        features_note=runs.features_note(setting.features, read_contents(log).features),
        notes=(*runs.claims_notes(log, main.n, depth.claims, setting.dev), *runs.table_notes(main, UNSHOWN)),
    )  # fmt: skip
