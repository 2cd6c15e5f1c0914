"""Five methods of choosing an answer under a verifier, replayed on the same examples, as cells of tables.

What they are run on is checked first: the settings, of each data set of a log, and the pools and verifiers that these
name. Sums, ratios, changes and paired differences of a run's policies are resampled together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl

from replay.analyses.budgets.wall_clock import device_seconds
from replay.analyses.report.trace_buckets import Bucket, trace_buckets
from replay.data.conditions import examples_where, ids_where, in_dataset, read_examples
from replay.data.contents import read_contents
from replay.kinds.sample import Sample, coverage_policy
from replay.runs.passes.coverage import FREE
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.factcheck.published import BUDGETS
from replay.studies.kit.cells import cell, left_out_note, notes_without_metrics, unlogged_note, warnings_of
from replay.studies.kit.published import PublishedDataset, published_beside
from toolkit.errors import (
    AmbiguousError,
    EmptyError,
    ThinkbackError,
    UnsuitableError,
    argument,
    listed,
    require_known,
    suggest,
)
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log, collect
from toolkit.notes import Note, note
from toolkit.show import IntervalCell, remark
from toolkit.stats import Settings
from toolkit.stats.limits.intervals import ResampledValues
from toolkit.stopping.stops import Margin

USUAL_BUDGETS = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 45)


@dataclass(frozen=True)
class FactcheckSetting:
    """The settings of the study. `options` go to `replay.run`: where, resamples, level, seed, kw, eur_per_kwh.

    `orders` random orders are averaged over where means over them are shown; `dev` is an SQL condition that names the
    examples to learn from, which must not be reported. `tolerated` is the loss of macro-F1 that verdicts tolerate.
    `other_verifier` is by default the only other one. `alone`: the
    examples that are asked about are all of one data set.
    """

    pool: str
    verifier: str
    features: tuple[str, ...] = ()
    cap: int = 15
    random_seed: int = 20  # of the random order
    margin: Margin = field(default_factory=Margin)
    options: Mapping[str, Any] = field(default_factory=dict)
    other_verifier: str | None = None
    caps: tuple[int, ...] = (15, 20, 30, 40)
    orders: int = 20
    tolerated: float = 0.01
    dev: str | None = None
    published: PublishedDataset | None = None
    alone: bool = True

    @property
    def where(self) -> str | None:
        return self.options.get("where")

    @property
    def settings(self) -> Settings:
        return Settings(**{key: self.options[key] for key in ("resamples", "level", "seed") if key in self.options})

    @property
    def kw(self) -> float:
        return self.options.get("kw", 0.25)

    @property
    def eur_per_kwh(self) -> float:
        return self.options.get("eur_per_kwh", 0.25)

    @property
    def eur_per_h(self) -> float:
        """The price of one hour of the device."""
        return self.kw * self.eur_per_kwh

    def reported_claims(self, log: Log, *columns: str) -> pl.DataFrame:
        """Returns these columns of the examples to report, sorted by example_id."""
        return examples_where(log, self.where, *columns)

    def table_budgets(self, size: int) -> tuple[int, ...]:
        """Returns the budgets of a pool of `size` traces that tables show: those of table B.4, else usual ones."""
        return BUDGETS.get(size) or (*(k for k in USUAL_BUDGETS if k < size), size)

    def for_dataset(
        self, log: Log, dataset: str, every: Collection[str], published: Sequence[PublishedDataset] = ()
    ) -> Self:
        """Returns the settings of one data set among `every`: its examples to report and its examples to learn from.

        Of the published numbers it has those of its own name, and where it is alone a single one by any name.
        """
        numbers = published_beside(published, dataset, len(every) == 1)
        if len(every) == 1:
            return replace(self, published=numbers)
        options, dev = {**self.options, "where": in_dataset(self.where, dataset)}, None
        if self.dev is not None:
            learnt = read_examples(log, ids_where(log, self.dev, "dev"), ["dataset"])["dataset"]
            dev = in_dataset(self.dev, dataset) if (learnt == dataset).any() else None
        return replace(self, options=options, dev=dev, published=numbers, alone=False)


def features_note(used: Sequence[str], known: Collection[str]) -> str:
    """Says which features the surrogate reads and which of the thesis's five it lacks; "" where it lacks none.

    `known` are those of the log.
    """
    without = [name for name in CLAIM_FEATURES if name not in used]
    if not without:
        return ""
    reads = listed(used) or "no feature, only the answers and scores so far"
    lacking, unnamed = ([name for name in without if (name in known) == has] for has in (False, True))
    why = [f"the log lacks {listed(lacking)}"] if lacking else []
    why += [f"`features` does not name {listed(unnamed)}"] if unnamed else []
    return remark("features", f"the surrogate reads {reads}; of the thesis's five features, {'; '.join(why)}")


NONE_KNOWN = {
    "pool": "the log has no pool of first attempts",
    "verifier": "the log has no verifications, which the study needs: add a verifier's scores with a "
    "recipe of `[[verify]]`",
}


def pools_of(log: Log, where: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Lists the pools in `known` in which the examples of the condition `where` have traces."""
    traces = log.scan("traces", ["example_id", "pool"]).filter(pl.col("pool").is_in(list(known)))
    if where is not None:
        traces = traces.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    return tuple(collect(traces.select(pl.col("pool").unique().sort()), log)["pool"])


def refuse_no_reported_claims(log: Log, reported: str, dev: str) -> None:
    """Raises ThinkbackError where the examples of `dev` are all that would be reported by default."""
    try:
        ids_where(log, reported, "where")
    except ThinkbackError:  # both of its parts hold somewhere: together they do not
        raise EmptyError(
            f"{argument('dev')} ({dev}) leaves no claim to report: name fewer claims to learn from"
        ) from None


def only_pools(log: Log, where: str | None, known: Collection[str]) -> dict[str, str]:
    """Maps each data set of the examples to its only pool; empty where a data set has several or none."""
    pools_by_dataset = _pools_by_dataset(log, where, known)
    if any(len(pools) != 1 for pools in pools_by_dataset.values()):
        return {}
    return {dataset: pools[0] for dataset, pools in pools_by_dataset.items()}


def datasets_without(log: Log, where: str | None, pool: str) -> tuple[str, ...]:
    """Lists the data sets without traces in `pool`, where other data sets have some; empty where none has."""
    pools_by_dataset = _pools_by_dataset(log, where, (pool,))
    lacking = tuple(dataset for dataset, pools in pools_by_dataset.items() if not pools)
    return lacking if len(lacking) < len(pools_by_dataset) else ()


def _pools_by_dataset(log: Log, where: str | None, known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Maps each data set of the examples to its pools among those in `known`."""
    datasets = examples_where(log, where, "dataset")["dataset"].drop_nulls().unique().sort()
    return {dataset: pools_of(log, in_dataset(where, dataset), known) for dataset in datasets}


def verifiers_of(log: Log, where: str | None) -> frozenset[str]:
    """Lists the verifiers that scored a trace of the examples of the condition `where`."""
    if where is None:
        return read_contents(log).verifiers
    trace_ids = log.scan("traces", ["trace_id", "example_id"]).filter(
        pl.col("example_id").is_in(examples_where(log, where)["example_id"].implode())
    )
    scores = log.scan("verifications", ["trace_id", "verifier"]).join(trace_ids, on="trace_id", how="semi")
    return frozenset(collect(scores.select(pl.col("verifier").unique()), log)["verifier"])


def name_or_only(name: str | None, known: Sequence[str] | frozenset[str], what: str) -> str:
    """Returns the pool or verifier of a name, or the only one where no name is given. Raises
    ThinkbackError otherwise.
    """
    if not known:
        raise UnsuitableError(NONE_KNOWN[what])
    if name is None and len(known) > 1:
        raise AmbiguousError(
            f"the log has {len(known)} {what}s, so name one with {argument(what)}; {suggest('', known)}"
        )
    name = next(iter(known)) if name is None else name
    require_known(name, known, f"the log has no {what} `{name}`")
    return name


def listwise_verifiers(log: Log, pool: str) -> frozenset[str]:
    """Returns the verifiers that rank the traces of a pool in one call, which a policy cannot ask trace by trace."""
    traces = log.scan("traces", ["trace_id", "pool"]).filter(pl.col("pool") == pool)
    scores = log.scan("verifications", ["trace_id", "verifier", "candidates"])
    ranked = scores.filter(pl.col("candidates").is_not_null()).join(traces, on="trace_id", how="semi")
    return frozenset(collect(ranked.select("verifier").unique(), log)["verifier"])


def refuse_listwise(listwise: Collection[str], pool: str, *verifiers: str | None) -> None:
    """Raises ThinkbackError where one of the verifiers ranks traces against each other."""
    for name in verifiers:
        if name in listwise:
            raise UnsuitableError(
                f"verifier `{name}` ranks the traces of `{pool}` against each other in one call, and the study "
                "verifies one trace at a time: name a verifier that scores each trace alone"
            )


def label_spaces(claims: pl.DataFrame, study: str) -> dict[str, tuple[str, ...]]:
    """Returns the label space of each data set of claims (columns dataset and labels).

    Raises ThinkbackError, which says what `study` needs, where some data set has none, or several.
    """
    label_rows = claims.select("dataset", pl.col("labels").fill_null([])).unique().sort("dataset")
    spaces = {tuple(labels) for labels in label_rows["labels"]}
    if spaces == {()} or not spaces:
        raise UnsuitableError(f"{study} needs claims with a label space: give `labels` of examples")
    if () in spaces or label_rows["dataset"].n_unique() < len(label_rows):
        labelled = label_rows.filter(pl.col("labels").list.len() > 0)["dataset"].unique().sort().to_list()
        raise UnsuitableError(
            f"{study} needs claims that share one label space in each data set, and the log has "
            f'{len(spaces)} (no labels count as one): choose claims with {argument("where")}, such as "dataset = '
            f"'{labelled[0]}'\""
        )
    return {dataset: tuple(labels) for dataset, labels in label_rows.iter_rows()}


TOP, VOTE, BEST = "top-1", "self-consistency", "exhaustive best-of-n"
ADAPTIVE, SURROGATE = "adaptive stopping", "surrogate-guided"
METHODS = (TOP, VOTE, BEST, ADAPTIVE, SURROGATE)
VERIFYING = (BEST, ADAPTIVE, SURROGATE)
TITLES = {
    TOP: "Top-1 decoding",
    VOTE: "Self-consistency",
    BEST: "Exhaustive BoN (baseline)",
    ADAPTIVE: "Adaptive Stopping",
    SURROGATE: "Surrogate-Guided Selective Verification",
}
"""Titles of the methods in tables."""


FOLLOWS = {
    "verification_tokens": ("verification_tokens", "total_tokens"),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
}
"""Metrics that follow from a cost of verifications."""


@dataclass(frozen=True)
class Methods:
    """The methods of a run with one cap and one verifier. Where nothing could be replayed `result` is None and all
    cells are dashes.

    Costs that the log lacks of a call by the verifier which some policy may pay are free: replay counts them as
    nothing, and what a policy that verifies paid is unknown. `missing`: methods that the log cannot serve, and why.
    `device_s`: per example, of (method, generation or verification); empty without device seconds.
    """

    result: Result | None
    verifier: str
    cap: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    device_s: Mapping[tuple[str, str], IntervalCell | None] = field(default_factory=dict)
    _memo: dict[str, np.ndarray] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def n(self) -> int:
        return self.result.statistics.n if self.result is not None else 0

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> IntervalCell | None:
        """Returns estimate and interval of a metric, times `scale`; None where the cost of some call is unknown."""
        if self.result is None or self.lacks_cost(policy, metric):
            return None
        return cell(self.result.statistics, policy, metric, scale)

    @property
    def warnings(self) -> tuple[str, ...]:
        return warnings_of(self.result)

    def total(self, policy: str, metric: str) -> float | None:
        """Returns the sum of a metric over the examples; `metric` may be several joined by `+`."""
        return self._estimate(policy, metric, self.n)

    def ratio(self, policy: str, over: str, under: str, scale: float = 1.0) -> IntervalCell | None:
        """Returns one mean divided by another, such as seconds per trace, with the interval of the ratio from joint
        resamples.
        """
        return self._ratio_cell((policy, over), (policy, under), lambda a, b: scale * a / b)

    def change(self, policy: str, metric: str, against: str, level: float | None = None) -> IntervalCell | None:
        """Returns the change of a mean against another policy's, in percent; negative where it is lower.

        `metric` may be a sum, such as `prompt_tokens+completion_tokens`; the `level` is by default the run's.
        """
        return self._ratio_cell((policy, metric), (against, metric), lambda a, b: 100 * (a / b - 1), level)

    def difference(
        self, policy: str, metric: str, against: str, scale: float = 1.0
    ) -> tuple[IntervalCell | None, float | None]:
        """Returns the paired difference of a metric to another policy's, times `scale`, and its p-value.

        Of the run's own comparison where it made one, else of one more from the same resamples.
        """
        one, two = self._estimate(policy, metric), self._estimate(against, metric)
        if self.result is None or one is None or two is None:
            return None, None
        comparison = difference_limits_and_p(self.result.statistics.comparisons, policy, against, metric)
        if comparison is None:
            names = [policy, against]
            comparison = difference_limits_and_p(
                self.result.summariser.group_differences(metric, [names]), policy, against, metric
            )
        _, low, high, p_value = comparison or (None,) * 4
        return IntervalCell(one - two, low, high).scaled(scale), p_value

    def sum_of(self, policy: str, metric: str, scale: float = 1.0) -> IntervalCell | None:
        """Returns a mean, or a sum of means joined by `+`, times `scale`."""
        return self._ratio_cell((policy, metric), None, lambda a, _: scale * a)

    def lacks_cost(self, method: str, metric: str) -> bool:
        """Whether a call of this method has an unlogged cost that replay counted as 0, so that the metric
        is unknown.
        """
        if method in (TOP, VOTE):
            return False
        return any(metric in FOLLOWS[cost] for cost in self._free_costs) or (
            metric == "cost_eur" and self.euro_seconds in self._free_costs
        )

    @property
    def _free_costs(self) -> Sequence[str]:
        known = {} if self.result is None else self.result.provenance.get("verifications_free", {})
        return known.get(self.verifier, ())

    @property
    def euro_seconds(self) -> str | None:
        """The column of seconds that `cost_eur` is computed from."""
        return None if self.result is None else self.result.statistics.seconds

    def unlogged_reasons(self) -> dict[str, str]:
        """Says why seconds, tokens or device seconds (of which euros come) of traces or verifications are missing.

        By kind: `trace seconds`, `verification tokens`, `verification device seconds`, and so on.
        """
        names = [] if self.result is None else [policy.name for policy in self.result.policies]
        calls = {}
        kinds = [("seconds", "generation_s", "latency_s"), ("tokens", "prompt_tokens", "verification_tokens")]
        if self.euro_seconds == "device_s":
            kinds.append(("device seconds", "device_s", "device_s"))
        for what, generated, verified in kinds:
            if any(self.cell(name, generated) is None for name in names if not self.lacks_cost(name, generated)):
                calls[f"trace {what}"] = unlogged_note(what, "trace")
            if verified in self._free_costs:
                calls[f"verification {what}"] = unlogged_note(what, f"verification by `{self.verifier}`")
        return calls

    @property
    def eur_per_h(self) -> float:
        settings = None if self.result is None else self.result.summariser.settings
        return 0.0 if settings is None else settings.kw * settings.eur_per_kwh

    def used_trace_buckets(self) -> Iterator[Bucket]:
        """Yields the number of examples by the traces that adaptive stopping and the surrogate used, in
        steps of five.
        """
        if self.result is not None:
            yield from trace_buckets(self.result, (ADAPTIVE, SURROGATE), self.cap)

    def _ratio_cell(
        self, first: tuple[str, str], second: tuple[str, str] | None, value: Any, level: float | None = None
    ) -> IntervalCell | None:
        one = self._estimate(*first)
        two = 1.0 if second is None else self._estimate(*second)
        if self.result is None or one is None or two is None or two == 0:
            return None
        a = self._resampled(*first)
        b = np.ones_like(a) if second is None else self._resampled(*second)
        with np.errstate(invalid="ignore", divide="ignore"):
            interval = value(a, b)
        ordered = ResampledValues.of(np.where(np.isfinite(interval), interval, np.nan)[None])
        estimate = float(value(one, two))
        if not ordered.has_enough[0] or self.n < 2:
            return IntervalCell(estimate)
        low, high = ordered.percentile_limits(level or self.result.provenance["level"])
        return IntervalCell(estimate, float(low[0]), float(high[0]))

    def _estimate(self, policy: str, metric: str, scale: float = 1.0) -> float | None:
        cells = [self.cell(policy, name, scale) for name in metric.split("+")]
        return None if None in cells else sum(interval.estimate for interval in cells if interval is not None)

    def _resampled(self, policy: str, metric: str) -> np.ndarray:
        result = self.result
        if result is None:
            return np.zeros(0)
        row = [policy.name for policy in result.policies].index(policy)
        for name in metric.split("+"):
            if name not in self._memo:
                self._memo[name] = result.summariser.resampled_values(name)
        return np.sum([self._memo[name][row] for name in metric.split("+")], axis=0)


def difference_limits_and_p(
    comparisons: pl.DataFrame, policy: str, against: str, metric: str
) -> tuple[float | None, ...] | None:
    """Returns difference, lower and upper limit and p-value of two policies; None where they are not compared."""
    rows = comparisons.filter(policy=policy, baseline=against, metric=metric)
    return next(rows.select("difference", "low", "high", "p_value").iter_rows(), None)


@dataclass(frozen=True)
class MethodOfRun:
    """One method of one run, on examples of one label space: the object of a table's row."""

    cells: Methods
    name: str
    labels: tuple[str, ...] = ()

    def cell(self, metric: str, scale: float = 1.0) -> IntervalCell | None:
        return self.cells.cell(self.name, metric, scale)

    def change(self, metric: str, against: str) -> IntervalCell | None:
        """Returns the change of a mean against another method's, in percent; None against itself."""
        return None if self.name == against else self.cells.change(self.name, metric, against)


def claims_notes(log: Log, reported: int, total: int, dev: str | None) -> Iterator[Note]:
    """Yields notes on how many claims are reported, and how many are learnt from instead."""
    of = "" if reported == total else f" of the {total:,} that are named"
    yield note("claims", f"{reported:,} claims{of} are reported")
    if dev is not None:
        learnt = len(ids_where(log, dev, "dev"))
        yield note("learnt", f"{learnt:,} claims of `dev` ({dev}) are learnt from and not reported")


def table_notes(run: Methods, unshown: Collection[str]) -> Iterator[Note]:
    """Yields the notes of a run on the numbers that tables show; metrics in `unshown` are in no table.

    Costs that count as free there are dashes in tables, and said to be.
    """
    if run.result is not None:
        yield from (note("left_out_file", text) for text in left_out_note(run.result.excluded))
        yield from (one for one in notes_without_metrics(run.result, unshown) if one.code != FREE)
    yield from (note("unlogged", text) for text in run.unlogged_reasons().values())


def method_policies(
    setting: FactcheckSetting, methods: Sequence[str] = METHODS, orders: int | None = None
) -> list[Sample]:
    """Returns the methods as policies: in the logged order, or as means over `orders` orders (exact where nothing
    stops).
    """
    every, drawn = ({}, {}) if orders is None else ({"expected": True}, {"orders": orders})
    by_method: dict[str, dict[str, Any]] = {
        TOP: {"max_traces": 1, "select": "first", **every},
        VOTE: {"select": "majority", **every},
        BEST: every,
        ADAPTIVE: {"stop": setting.margin, **drawn},
        SURROGATE: {"order": "surrogate", "features": setting.features, "stop": setting.margin, **drawn},
    }
    common = {"pool": setting.pool, "verifier": setting.verifier, "max_traces": setting.cap}
    return [Sample(**{**common, "name": name, **by_method[name]}) for name in methods]


def replay_methods(
    log: Log, setting: FactcheckSetting, methods: Sequence[str] = METHODS, orders: int | None = None
) -> Methods:
    """Replays the methods. Those that the log cannot serve on nine tenths of the examples are `missing`, with the
    reason.

    Where the verifier scored too few traces for exhaustive best-of-N, the others stand without differences to it.
    Raises ThinkbackError where nothing can be replayed, or the log cannot serve even votes.
    """
    policies = [
        *method_policies(setting, methods, orders),
        *([] if TOP in methods else [coverage_policy(setting.pool)]),
    ]
    try:
        result = run(log, policies, baseline=BEST, **setting.options)
    except ThinkbackError:
        result = run(log, policies, **setting.options)
        if BEST not in result.dropped or VOTE in result.dropped:
            raise
    return Methods(result, setting.verifier, setting.cap, dict(result.dropped))


def replay_if_covered(
    log: Log, setting: FactcheckSetting, methods: Sequence[str] = METHODS, orders: int | None = None
) -> Methods:
    """Replays the methods; where none can be replayed, all are `missing` with the reason."""
    try:
        return replay_methods(log, setting, methods, orders)
    except ThinkbackError as error:
        return Methods(None, setting.verifier, setting.cap, dict.fromkeys(methods, str(error)))


def with_device_seconds(log: Log, setting: FactcheckSetting, methods: Methods) -> Methods:
    """Adds the device seconds of generation and verification to the methods, where euros come from device seconds."""
    if methods.result is None or methods.euro_seconds != "device_s":
        return methods
    return replace(methods, device_s=device_seconds(log, setting.pool, methods.result, setting.settings))
