"""The findings of a run as data, the same for a new result and a loaded one; and SQL over them."""

from __future__ import annotations

import re
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from replay.policies.base import Policy
from replay.runs.passes.example_set import ExampleSet
from replay.runs.passes.passes import ReplayPlan
from replay.runs.passes.user_metrics import with_missing_metrics
from replay.runs.saved.paid_traces import ORDERS, SCORES, STOPS, TRACES
from replay.runs.saved.provenance import PolicyRecord
from replay.runs.saved.saved_folder import SavedFolder
from toolkit.columns import OutcomeColumn
from toolkit.documents import expand_home
from toolkit.errors import ThinkbackError, UnsuitableError
from toolkit.log import IN_MEMORY, SCHEMAS, Log, open_log, query_log
from toolkit.notes import Note
from toolkit.stats import Settings, Summary, differences, resampled_metric, summarise
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.limits.intervals import quantile_limits
from toolkit.stats.many.pair_differences import pair_differences
from toolkit.stats.metrics.outcomes import Store
from toolkit.work_places import scratch_folder

OUTCOMES = "outcomes.parquet"
_LIMITS = ("difference", "low", "high", "p_value")
SECONDS = (50, 95, 99)
"""The percentiles of a policy's seconds that results show."""


class ScratchFolder:
    """A temporary folder for data that may not fit in memory; it is removed once nothing refers to it."""

    def __init__(self) -> None:
        self.path = Path(scratch_folder())
        weakref.finalize(self, shutil.rmtree, self.path, True)


class Outcomes(Protocol):
    """The outcomes of a result's policies on the examples that it compares."""

    @property
    def examples(self) -> ExampleSet:
        """The examples with their strata, of which the compared ones are a part."""
        ...

    @property
    def labels(self) -> tuple[str, ...] | None: ...

    def statistics(self, ids: pl.Series | None = None) -> Store:
        """The outcomes of the examples with these ids, or of all, in the form that the statistics read."""
        ...

    @property
    def schema(self) -> pl.Schema:
        """Columns of the table with one row per (policy, example)."""
        ...

    def frames(self, columns: list[str] | None = None, policy: str | None = None) -> Iterator[pl.DataFrame]:
        """The table of outcomes, chunk by chunk: some columns, for one policy or all."""
        ...

    def write(self, path: Path) -> None:
        """Write the table of outcomes as a Parquet file."""
        ...


def _lazy_table(outcomes: Outcomes, policy: str | None = None) -> pl.LazyFrame:
    """The table of outcomes, or of one policy's, whose chunks are computed when it is collected."""

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows
        needed = columns
        if columns is not None and predicate is not None:
            needed = list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        for frame in outcomes.frames(needed, policy):
            batch = frame if predicate is None else frame.filter(predicate)
            batch = batch if columns is None else batch.select(columns)
            yield batch if left is None else batch.head(left)
            left = None if left is None else left - len(batch)
            if left is not None and left <= 0:
                return

    return register_io_source(batches, schema=outcomes.schema, is_pure=True)


@dataclass(frozen=True)
class RunSource:
    """What further passes over a run's log need. A loaded result has none."""

    plan: ReplayPlan
    policies: tuple[Policy, ...]
    acting: Mapping[str, np.ndarray]
    """Masks (N,) of the plan's examples on which ranking policies act, by policy."""


@dataclass(frozen=True, eq=False)
class Summariser:
    """Computes summaries of the outcomes of some policies, on all examples or on some."""

    outcomes: Outcomes
    policies: tuple[PolicyRecord, ...]
    metric: str
    cost: str | None
    baseline: str | None
    columns: tuple[OutcomeColumn, ...]
    settings: Settings

    @property
    def names(self) -> list[str]:
        return [policy.name for policy in self.policies]

    def summary(self, ids: pl.Series | None = None) -> Summary:
        """The statistics of the examples in `ids`, or of all."""
        statistics = summarise(
            self.outcomes.statistics(ids), self.names, labels=self.outcomes.labels, baseline=self.baseline,
            leaders=[policy.name for policy in self.policies if not policy.diagnostic],
            also=[policy.base for policy in self.policies if policy.base and not policy.answers], metric=self.metric,
            cost=self.cost, sweeps=[policy.sweep or policy.name for policy in self.policies], columns=self.columns,
            settings=self.settings,
        )  # fmt: skip
        return with_missing_metrics(statistics, self.columns)

    def group_differences(self, metric: str, groups: Sequence[Sequence[str]]) -> pl.DataFrame:
        """Every policy of a group compared with every other of it, as rows like those of `comparisons`."""
        outcomes, labels = self.outcomes.statistics(), self.outcomes.labels
        return differences(
            outcomes, self.names, metric, groups, labels=labels, columns=self.columns, settings=self.settings
        )

    def joint_differences(self, metric: str, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
        """Differences of pairs of policies, with limits and p-values that hold for all pairs at once.

        Columns: policy, baseline, difference, low, high, p_value; without the pairs of which a policy has no value. F1s
        that few examples tell apart have the limits of a single pair at the level that all together take.
        """
        store, names = self.outcomes.statistics(), self.names
        sample = read_sample(store, names, self.outcomes.labels, self.settings, self.columns, metric)
        number = [one.name for one in sample.metrics].index(metric)
        place = {name: at for at, name in enumerate(names) if sample.has_value[number][at]}
        known = [pair for pair in pairs if place.keys() >= set(pair)]
        if not known:
            schema = dict.fromkeys(("policy", "baseline"), pl.String) | dict.fromkeys(_LIMITS, pl.Float64)
            return pl.DataFrame(schema=schema)
        policies, baselines = zip(*known, strict=True)
        first, second = (np.array([place[name] for name in side]) for side in (policies, baselines))
        tests = pair_differences(sample, store, number, (first, second), self.settings)
        limits = {name: pl.Series(getattr(tests, name), nan_to_null=True) for name in _LIMITS}
        frame = pl.DataFrame({"policy": policies, "baseline": baselines, **limits})
        withheld = frame.filter(pl.col("low").is_null()).select("policy", "baseline").rows()
        if not withheld:
            return frame
        settings = replace(self.settings, level=tests.level)
        single = differences(
            store, names, metric, withheld, labels=self.outcomes.labels, columns=self.columns, settings=settings
        )
        adjusted = (pl.col("p_value") * len(known)).clip(upper_bound=1.0)
        ends = single.select("policy", "baseline", "low", "high", p_value=adjusted)
        return frame.update(ends, on=["policy", "baseline"], how="left")

    def resampled_values(self, metric: str) -> np.ndarray:
        """A metric's values on resamples, (policies, resamples); every interval comes from the same resamples."""
        outcomes, labels = self.outcomes.statistics(), self.outcomes.labels
        return resampled_metric(
            outcomes, self.names, metric, labels=labels, columns=self.columns, settings=self.settings
        )


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of a run. Frames are polars; `notes` are what a table should carry."""

    summariser: Summariser
    statistics: Summary
    groups: Mapping[tuple[object, ...], Summary]
    by: tuple[str, ...]
    dropped: Mapping[str, str]
    excluded: Mapping[str, str]
    notes: tuple[Note, ...]
    simulated: bool
    provenance: Mapping[str, Any]
    positions: pl.DataFrame | None
    """Means at every threshold, for policies that answer while a text unfolds."""
    thresholds: pl.DataFrame | None
    """Every distinct threshold of each gate with the threshold `all`, one row each: exact means."""
    bands: pl.DataFrame | None
    """Intervals at up to 200 thresholds, pointwise and for the whole curve: one row per (policy, threshold, metric)."""
    examples: pl.DataFrame
    """The examples compared: example_id, labels, gold, cluster, and the columns of `by`."""
    source: RunSource | None = None
    folder: SavedFolder | None = None
    """The folder that the result was loaded from; None if it was not."""
    saved_seconds: pl.DataFrame | None = None
    scratch: ScratchFolder = field(default_factory=ScratchFolder)

    @property
    def policies(self) -> tuple[PolicyRecord, ...]:
        return self.summariser.policies

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        """The table of columns and metrics, with those of its policies and of the user."""
        return self.summariser.columns

    @property
    def replayed(self) -> tuple[Policy, ...]:
        """The policies as replayed: fitted, with one threshold each. ThinkbackError for a loaded result."""
        if self.source is None:
            raise UnsuitableError("a loaded result has its policies as data, not as they were replayed: run them again")
        return self.source.policies

    @property
    def baseline(self) -> str | None:
        """The name of the policy of the paired differences; None without one."""
        return self.summariser.baseline

    @property
    def log_name(self) -> str:
        return str(self.provenance["log"]["name"])

    @property
    def outcomes(self) -> pl.LazyFrame:
        """The table of outcomes, one row per (policy, example), computed when it is collected."""
        return _lazy_table(self.summariser.outcomes)

    def outcomes_of(self, policy: str) -> pl.LazyFrame:
        """The rows of the table of outcomes of one policy."""
        return _lazy_table(self.summariser.outcomes, policy)

    @cached_property
    def seconds(self) -> pl.DataFrame:
        """Seconds of the whole path by policy: examples, mean, p50, p95, p99 (linear); null where some are unlogged.

        `p50_low`, `p50_high` and so on: limits, of independent examples, by the order of the values.
        """
        if self.saved_seconds is not None:
            return self.saved_seconds
        store = self.summariser.outcomes.statistics()
        rows = []
        for number, name in enumerate(self.summariser.names):
            values = np.concatenate([chunk.values("latency_s", np.array([number]))[0] for chunk in store.chunks])
            statistics: list[float | None] = [None] * 10
            if not np.isnan(values).any():
                limits: list[tuple[float | None, float | None]] = [(None, None)] * 3
                if len(np.unique(store.unit)) == len(values):
                    level, ordered = self.summariser.settings.level, np.sort(values)
                    limits = [quantile_limits(ordered, share / 100, level) for share in SECONDS]
                ends = [end for both in limits for end in both]
                statistics = [float(values.mean()), *map(float, np.percentile(values, SECONDS)), *ends]
            rows.append((name, len(values), *statistics))
        ends_of = [f"p{share}_{end}" for share in SECONDS for end in ("low", "high")]
        names = dict.fromkeys([*(f"p{share}" for share in SECONDS), *ends_of], pl.Float64)
        schema = {"policy": pl.String, "examples": pl.get_index_type(), "mean": pl.Float64, **names}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def medians(self, column: str) -> pl.DataFrame:
        """The median of a column by policy, over the n examples that have a value: policy, estimate, low, high, n.

        `low`, `high`: limits, of independent examples, by the order of the values.
        """
        store, rows = self.summariser.outcomes.statistics(), []
        independent = len(np.unique(store.unit)) == len(store.unit)
        for number, name in enumerate(self.summariser.names):
            values = np.concatenate([chunk.values(column, np.array([number]))[0] for chunk in store.chunks])
            ordered = np.sort(values[~np.isnan(values)])
            if len(ordered):
                level, median = self.summariser.settings.level, float(np.median(ordered))
                limits = quantile_limits(ordered, 0.5, level) if independent else (None, None)
                rows.append((name, median, *limits, len(ordered)))
        kinds = {"policy": pl.String, **dict.fromkeys(["estimate", "low", "high"], pl.Float64), "n": pl.Int64}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    @property
    def summary(self) -> pl.DataFrame:
        """One row per (policy, metric)."""
        return self.statistics.summary

    @property
    def comparisons(self) -> pl.DataFrame:
        """One row per (policy, baseline, metric): paired differences to the baseline and to the leader."""
        return self.statistics.comparisons

    @property
    def ranks(self) -> pl.DataFrame:
        """One row per (policy, metric), for the ranking metric and the cost: what holds for all policies at once."""
        return self.statistics.ranks

    @property
    def leader(self) -> str | None:
        """The best policy by the ranking metric, diagnostics aside."""
        return self.statistics.leader

    @cached_property
    def by_summary(self) -> pl.DataFrame | None:
        """`summary` within each group of `by`, the group's columns first."""
        return self._frame_by_group("summary")

    @cached_property
    def by_comparisons(self) -> pl.DataFrame | None:
        """`comparisons` within each group of `by`, the group's columns first."""
        return self._frame_by_group("comparisons")

    @cached_property
    def by_ranks(self) -> pl.DataFrame | None:
        """`ranks` within each group of `by`, the group's columns first."""
        return self._frame_by_group("ranks")

    def _frame_by_group(self, name: str) -> pl.DataFrame | None:
        if not self.by:
            return None
        frames = []
        for group, statistics in self.groups.items():
            columns = [pl.lit(value).cast(pl.String).alias(c) for c, value in zip(self.by, group, strict=True)]
            frames.append(getattr(statistics, name).select(*columns, pl.all()))
        return pl.concat(frames)


VIEWS = {TRACES: "paid_traces", SCORES: "paid_scores", ORDERS: "orders", STOPS: "stops"}
"""Part of a saved result by trace -> its name in SQL, since the log has a table `traces`, too."""
WITHOUT = "this result was saved, or pickled, without {part}: replay again, and save it with `{part}=True`"


def answer_sql(result: Findings, sql: str) -> pl.DataFrame:
    """The rows that one SELECT gives. ThinkbackError for wrong SQL, and for a table that is not there."""
    files = {}
    for name, frame in (("summary", result.summary), ("comparisons", result.comparisons), ("ranks", result.ranks)):
        files[name] = result.scratch.path / f"{name}.parquet"
        frame.write_parquet(files[name])
    if re.search(r"\boutcomes\b", sql, re.IGNORECASE):  # who reads a view must name it
        files["outcomes"] = _outcomes_file(result)
    if result.folder is not None and result.folder.has_file(f"{TRACES}.parquet"):
        files |= {view: result.folder.verified_path(f"{name}.parquet") for name, view in VIEWS.items()}
    log = unchanged_log_of(result)
    if log is None:
        files["examples"] = result.scratch.path / "examples.parquet"
        result.examples.write_parquet(files["examples"])
    try:
        return query_log(log, sql, files)
    except ThinkbackError as error:
        match = re.search(r"[Tt]able with name (\w+)", str(error))
        name = "" if match is None else match[1].lower()
        if name in VIEWS.values() and name not in files:
            raise _no_traces_error(result, name) from None
        if log is not None or name not in SCHEMAS:
            raise
        raise _no_log_error(result, name) from None


def unchanged_log_of(result: Findings) -> Log | None:
    """The log of a result, if it is still there and unchanged; else None."""
    if result.source is not None and result.source.plan.log.address == IN_MEMORY:
        return result.source.plan.log  # nothing but what refers to them can change them
    for address in _candidate_addresses(result):
        with suppress(ThinkbackError):
            log = open_log(address)
            if log.digest() == result.provenance["log"]["sha256"]:
                return log
    return None


def _candidate_addresses(result: Findings) -> Iterator[str]:
    """Addresses at which the log may be: that of the run; for a loaded result the same from the working directory, and
    from the folders above the result.
    """
    address = str(result.provenance["log"]["address"])
    if result.source is not None:
        yield result.source.plan.log.located
    elif address != IN_MEMORY:
        yield address
        if result.folder is not None and _is_relative(address):
            yield from (str(folder / address) for folder in result.folder.path.parents)


def _is_relative(address: str) -> bool:
    """Whether an address is a relative path, whose working directory may be gone."""
    return address != IN_MEMORY and "://" not in address and not expand_home(address).is_absolute()


def _no_log_error(result: Findings, table: str) -> ThinkbackError:
    address = str(result.provenance["log"]["address"])
    where = " (looked for from the working directory and from the folders above the result)"
    looked = where if result.source is None and _is_relative(address) else ""
    return UnsuitableError(
        f"`{table}` is a table of the log `{address}`, which is missing or has changed{looked}: "
        "query the result's own tables, or replay again"
    )


def _no_traces_error(result: Findings, view: str) -> ThinkbackError:
    """The error that the result was saved without the part by trace."""
    if result.source is None:
        return UnsuitableError(f"`{view}`: {WITHOUT.format(part='traces')}")
    how = "save this one with `traces=True`, and load it"
    return UnsuitableError(f"`{view}` is a table of a result that was saved with its traces: {how}")


def _outcomes_file(result: Findings) -> Path:
    if result.folder is not None:
        return result.folder.verified_path(OUTCOMES)
    path = result.scratch.path / OUTCOMES
    if not path.exists():
        result.summariser.outcomes.write(path)
    return path
