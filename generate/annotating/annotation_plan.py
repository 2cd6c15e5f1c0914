"""The plan of an annotation: for each signal of a recipe the traces without a row, and an upper bound of their cost.

The estimate is a bound, not a forecast, and loads no model: a text has at most as many tokens as bytes in UTF-8, a
listwise prompt holds whole texts, and every judgement is counted as asked twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from generate.annotating.records import check_settings, signal_records, traces_without_row
from generate.recipes.recipe import rows_of_shard
from generate.signals.signal import Additions, CostBounds, TraceSignal, Workload
from generate.traces.block import GROUP
from toolkit.errors import ConflictError, UnknownError, UnsuitableError, suggest
from toolkit.log import Log, collect, open_sealed


@dataclass(frozen=True)
class SignalPlan:
    """A signal and the traces that lack it, sorted (example_id, trace_id). `pools`: those of these traces and of the
    traces they revise; `settled`: traces that were tried and can have no row; `existing`: the number with a row;
    `late`: traces that came after the choice in their group; `groups`: an example's traces in a pool that revise one
    attempt.
    """

    step: TraceSignal
    traces: pl.DataFrame
    pools: tuple[str, ...]
    requested: int
    settled: frozenset[str]
    existing: int
    late: frozenset[str]
    groups: int


@dataclass(frozen=True)
class AnnotationPlan:
    """The signals to add to a log. `shard`: as i-of-n; `idle`: signals for data sets that are not in the log."""

    additions: Additions
    log: Log
    path: Path
    shard: str
    todo: tuple[SignalPlan, ...]
    idle: tuple[TraceSignal, ...] = ()

    @property
    def missing_row_count(self) -> int:
        """The number of missing rows: for each signal the traces that lack it, added up."""
        return sum(one.traces.height for one in self.todo)


def make_add_plan(
    additions: Additions, path: str | Path, shard: tuple[int, int] = (1, 1), limit: int | None = None
) -> AnnotationPlan:
    """Finds what a log lacks, in its first `limit` examples, and of these in shard (i, n), counted from 1.

    ThinkbackError where the log is not sealed, can't be written, lacks a pool or a column that a signal needs, or holds
    something of a signal's name that this recipe did not make.
    """
    log = open_sealed(path)
    for table in ("examples", "traces"):
        if not log.has(table):
            raise UnsuitableError(f"`{path}` has no `{table}`: nothing can be added to it")
    every = collect(log.scan("examples", ["example_id", "split", "dataset"]), log).sort("example_id")
    examples = rows_of_shard(every, shard, limit)
    scan = log.scan("traces", ["trace_id", *GROUP, "sample_index", "answer"])
    traces = collect(scan.join(examples.lazy(), on="example_id", how="inner"), log).sort("example_id", "trace_id")
    there = {
        "pools": collect(log.scan("traces", ["pool"]).unique(), log)["pool"].to_list(),
        "split": every["split"].unique().to_list(),
        "dataset": every["dataset"].unique().to_list(),
    }
    apart = [step for step in additions.steps if step.dataset and not set(step.dataset) & set(there["dataset"])]
    idle = apart if len(apart) < len(additions.steps) else []
    steps = [step for step in additions.steps if step not in idle]
    for step in steps:
        _check_filters(step, there)
    todo = tuple(_signal_plan(step, additions, log, traces, every) for step in steps)
    return AnnotationPlan(additions, log, Path(path), f"{shard[0]}-of-{shard[1]}", todo, tuple(idle))


def _signal_plan(
    step: TraceSignal, additions: Additions, log: Log, traces: pl.DataFrame, examples: pl.DataFrame
) -> SignalPlan:
    wanted = _traces_for_signal(step, traces, examples)
    step.check_log(additions, log)
    records = signal_records(log.manifest.source if log.manifest is not None else None, step, additions)
    existing = step.traces_with_rows(log)
    if records:
        check_settings(records, step, additions)
    elif existing is not None:
        raise ConflictError(
            f"{step.section} `{step.name}`: the log holds {'columns' if step.one_row else 'rows'} of that name that no"
            f" recipe made; give these another `{step.renamed_by}`"
        )
    lacking = wanted if existing is None else wanted.join(existing, on="trace_id", how="anti")
    done, late = traces_without_row(records), frozenset[str]()
    if step.whole_groups:
        again, late = _retried_and_late_traces(wanted, lacking, done)
        done -= again
    lacking = lacking.filter(~pl.col("trace_id").is_in(list(done))) if done else lacking
    return SignalPlan(
        step=step,
        traces=lacking.select("example_id", "trace_id"),
        pools=_pools_with_parents(lacking, traces),
        requested=wanted.height,
        settled=done,
        existing=0 if existing is None else existing.height,
        late=late,
        groups=lacking.select(GROUP).n_unique(),
    )


def _traces_for_signal(step: TraceSignal, traces: pl.DataFrame, examples: pl.DataFrame) -> pl.DataFrame:
    """The traces that a signal is for. `examples`: all of the log, sorted, so that each shard counts them alike."""
    if step.examples:
        candidates = examples.filter(pl.col("dataset").is_in(list(step.dataset))) if step.dataset else examples
        parts = [candidates.filter(pl.col("split") == split).head(count) for split, count in step.examples.items()]
        traces = traces.join(pl.concat(parts), on="example_id", how="semi")
    traces = traces.filter(pl.col("sample_index") < step.samples) if step.samples is not None else traces
    for given, column in ((step.pools, "pool"), (step.split, "split"), (step.dataset, "dataset")):
        traces = traces.filter(pl.col(column).is_in(list(given))) if given else traces
    traces = traces.filter(pl.col("answer").is_not_null()) if step.answered else traces
    return step.eligible_traces(traces)


def _check_filters(step: TraceSignal, there: Mapping[str, Sequence[str]]) -> None:
    """Raises ThinkbackError where a signal names a pool, split or data set that is not in the log."""
    for name, known in there.items():
        for value in (*getattr(step, name), *(step.examples if name == "split" else ())):
            if value not in known:
                raise UnknownError(
                    f"{step.section} `{step.name}`: `{name}`: `{value}` is not in the log; {suggest(value, known)}"
                )


def _retried_and_late_traces(
    traces: pl.DataFrame, lacking: pl.DataFrame, done: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Two sets of traces, as a group is done as a whole or not at all: settled traces to try again, since one was alone
    in its group and has company now; and lacking traces that came too late, since the others of their group have rows
    or are settled.
    """
    lacks, settled = pl.col("trace_id").is_in(lacking["trace_id"].implode()), pl.col("trace_id").is_in(list(done))
    marked = traces.select("trace_id", *GROUP, lacks=lacks, settled=settled)
    of, lack, resolved = (one.over(GROUP) for one in (pl.len(), pl.col("lacks").sum(), pl.col("settled").sum()))
    marked = marked.with_columns(again=pl.col("settled") & (of > 1) & (lack == of) & (resolved == 1))
    marked = marked.with_columns(due=pl.col("lacks") & (~pl.col("settled") | pl.col("again")))
    late = marked.filter(pl.col("due") & (pl.col("due").sum().over(GROUP) < of))
    return frozenset(marked.filter("again")["trace_id"]), frozenset(late["trace_id"])


def _pools_with_parents(lacking: pl.DataFrame, traces: pl.DataFrame) -> tuple[str, ...]:
    known = set(lacking["pool"])
    if lacking["parent_id"].null_count() == lacking.height:
        return tuple(sorted(known))
    pairs = traces.select("parent_id", "pool").drop_nulls()
    of = pairs.join(traces.select(parent_id="trace_id", parent_pool="pool"), on="parent_id")
    above = of.select("pool", "parent_pool").unique().rows()
    while more := {parent for pool, parent in above if pool in known} - known:
        known |= more
    return tuple(sorted(known))


@dataclass(frozen=True)
class RemainingWork:
    """The work left for one signal, as upper bounds. `requested`: the traces that it is for, done ones included."""

    name: str
    kind: str
    traces: int
    requested: int
    cost: CostBounds


def estimate_remaining_work(plan: AnnotationPlan) -> list[RemainingWork]:
    """The work left for each signal, in the order in which they are computed."""
    estimates = []
    for todo in plan.todo:
        load = Workload(plan.additions, todo.traces.height, todo.groups, partial(_text_bytes, plan, todo))
        estimates.append(
            RemainingWork(todo.step.name, todo.step.kind, load.traces, todo.requested, todo.step.cost(load))
        )
    return estimates


def _text_bytes(plan: AnnotationPlan, todo: SignalPlan) -> int:
    """The bytes of the traces' texts and of all columns of their examples, counted for every trace."""
    columns = [name for name, kind in plan.log.columns("examples").items() if kind == pl.String]
    logged = collect(plan.log.scan("traces", ["trace_id", "text"]), plan.log).join(todo.traces, on="trace_id")
    texts = logged["text"].str.len_bytes().sum() or 0
    sizes = pl.sum_horizontal(pl.col(name).str.len_bytes().fill_null(0) for name in columns if name != "example_id")
    examples = collect(plan.log.scan("examples", columns).select("example_id", size=sizes), plan.log)
    return int(texts) + int(todo.traces.join(examples, on="example_id")["size"].sum())
