"""What a log lacks of what a recipe adds: for each step the traces that have no row yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from generate.annotating.records import check_settings, recorded, section_of, settled
from generate.annotating.texts import reads_texts
from generate.engines.weights import find_model, installed
from generate.sampling.examples import shard_of
from generate.signals.additions import Addition, Additions, Asked, Features, States
from generate.signals.asked import SINGLE
from generate.signals.columns import columns_of
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log, collect, open_sealed


@dataclass(frozen=True)
class Todo:
    """A step and the traces that it is yet to be done for: a frame (example_id, trace_id), sorted. `pools`: theirs, and
    those of the traces that these revise; `settled`: traces that were tried before and can have no row;
    `standing`: how many have one; `late`: traces of groups in which a choice was made without them; `groups`: of an
    example's traces in a pool, that go on from one attempt.
    """

    step: Addition
    traces: pl.DataFrame
    pools: tuple[str, ...]
    asked_for: int
    settled: frozenset[str] = frozenset()
    standing: int = 0
    late: frozenset[str] = frozenset()
    groups: int = 0


@dataclass(frozen=True)
class AddPlan:
    """What is to be added to a log. `shard`: as i-of-n; `idle`: steps for data sets of which the log has nothing."""

    additions: Additions
    log: Log
    path: Path
    shard: str
    todo: tuple[Todo, ...]
    idle: tuple[Addition, ...] = ()

    @property
    def traces(self) -> int:
        """Traces to be done, summed over the steps."""
        return sum(one.traces.height for one in self.todo)


def make_add_plan(
    additions: Additions, path: str | Path, shard: tuple[int, int] = (1, 1), limit: int | None = None
) -> AddPlan:
    """See what a log lacks, of the first `limit` examples, and of these of the shard (i, n), counted from 1.

    ThinkbackError where the log is not sealed, can't be written, lacks a pool or a column that a step needs, or holds
    something of a step's name that this recipe did not make.
    """
    number, count = shard
    if not 1 <= number <= count:
        raise ThinkbackError(f"`--shard {number}/{count}`: the first number must be between 1 and {count}")
    if limit is not None and limit < 1:
        raise ThinkbackError(f"`--limit` must be at least 1, not {limit}")
    log = open_sealed(path)
    for table in ("examples", "traces"):
        if not log.has(table):
            raise ThinkbackError(f"`{path}` has no `{table}`: nothing can be added to it")
    every = collect(log.scan("examples", ["example_id", "split", "dataset"]), log).sort("example_id")
    examples = shard_of(every if limit is None else every.head(limit), shard)
    if not examples.height:
        raise ThinkbackError(f"`--shard {number}/{count}` has no examples")
    columns = ["trace_id", "example_id", "pool", "parent_id", "sample_index", "answer"]
    own = log.scan("traces", columns).join(examples.lazy(), on="example_id", how="inner")
    traces = collect(own, log).sort("example_id", "trace_id")
    there = {
        "pools": collect(log.scan("traces", ["pool"]).unique(), log)["pool"].to_list(),
        "split": every["split"].unique().to_list(),
        "dataset": every["dataset"].unique().to_list(),
    }
    apart = [bool(step.dataset) and not set(step.dataset) & set(there["dataset"]) for step in additions.steps]
    idle = () if all(apart) else tuple(step for step, other in zip(additions.steps, apart, strict=True) if other)
    steps = [step for step in additions.steps if step not in idle]
    for step in steps:
        _check_filters(step, there)
    todo = tuple(_todo(step, additions, log, traces) for step in steps)
    return AddPlan(additions, log, Path(path), f"{number}-of-{count}", todo, idle)


def _todo(step: Addition, additions: Additions, log: Log, traces: pl.DataFrame) -> Todo:
    place = f"{section_of(step)} `{step.name}`"
    wanted = traces
    for name, column in (("pools", "pool"), ("split", "split"), ("dataset", "dataset")):
        asked: Sequence[str] = getattr(step, name)
        wanted = wanted.filter(pl.col(column).is_in(list(asked))) if asked else wanted
    if isinstance(step, Asked) and step.first is not None:
        wanted = wanted.filter(pl.col("sample_index") < step.first)
    wanted = wanted.filter(pl.col("answer").is_not_null()) if step.answered else wanted
    if reads_texts(step) and "text" not in log.columns("traces"):
        raise ThinkbackError(f"{place}: the log has no texts of its traces: `traces` has no column `text`")
    if isinstance(step, Features):
        columns_of(step, log)  # refuses a log without a column that the features need
    if isinstance(step, States):
        _check_dimension(step, additions, log)
    source = log.manifest.source if log.manifest is not None else None
    records = recorded(source, step, additions)
    standing = standing_rows(step, log)
    if records:
        check_settings(records, step, additions)
    elif standing is not None:
        what, hint = ("columns", "prefix") if isinstance(step, Features) else ("rows", "name")
        raise ThinkbackError(
            f"{place}: the log holds {what} of that name that no recipe made; give these another `{hint}`"
        )
    lacking = wanted if standing is None else wanted.join(standing, on="trace_id", how="anti")
    done = settled(records) - _joined_since(step, records, wanted)
    lacking = lacking.filter(~pl.col("trace_id").is_in(list(done))) if done else lacking
    late = frozenset[str]()
    if isinstance(step, Asked) and step.kind == "listwise":
        late = frozenset(lacking["trace_id"]) - frozenset(_whole_groups(wanted, lacking)["trace_id"])
    parents = traces.filter(pl.col("trace_id").is_in(lacking["parent_id"].drop_nulls().unique().implode()))
    pools = sorted({*lacking["pool"].unique(), *parents["pool"].unique()})
    pools = _with_ancestors(pools, traces) if parents.height else pools
    return Todo(
        step,
        lacking.select("example_id", "trace_id"),
        tuple(pools),
        wanted.height,
        done,
        0 if standing is None else standing.height,
        late,
        lacking.select("example_id", "pool", "parent_id").n_unique(),
    )


def _check_filters(step: Addition, there: Mapping[str, Sequence[str]]) -> None:
    """ThinkbackError where a step is for a pool, split or data set of which the whole log has nothing."""
    for name, known in there.items():
        for value in getattr(step, name):
            if value not in known:
                raise ThinkbackError(
                    f"{section_of(step)} `{step.name}`: `{name}`: `{value}` is not in the log; {suggest(value, known)}"
                )


def _check_dimension(step: States, additions: Additions, log: Log) -> None:
    """ThinkbackError where the log holds states of that name of another dimension. No weights are loaded."""
    if not log.has(step.table):
        return
    there = log.columns(step.table)["state"]
    width = there.size if isinstance(there, pl.Array) else None
    installed("generate", "huggingface_hub", "transformers")
    own = find_model(additions.model(step.model), None, download=False).hidden_size()
    if width != own:
        raise ThinkbackError(
            f"`states.{step.name}`: the model's states have {own} numbers, those of `{step.table}` in the log {width}:"
            " give them another `name`"
        )


def standing_rows(step: Addition, log: Log) -> pl.DataFrame | None:
    """The ids of traces that have this step's rows; None where the log has none at all of that name."""
    if isinstance(step, Features):
        names = [name for name in columns_of(step, log) if log.has("features") and name in log.columns("features")]
        if not names:
            return None
        held = pl.any_horizontal(pl.col(name).is_not_null() for name in names)
        return collect(log.scan("features", ["trace_id", *names]).filter(held).select("trace_id"), log)
    if not log.has(step.table):
        return None
    scan = log.scan(step.table, ["trace_id"] if step.table != "verifications" else ["trace_id", "verifier"])
    if step.table == "verifications":
        scan = scan.filter(pl.col("verifier") == step.name)
    found = collect(scan.select("trace_id").unique(), log)
    return found if found.height else None


def _whole_groups(wanted: pl.DataFrame, lacking: pl.DataFrame) -> pl.DataFrame:
    """A choice is among all of an example's traces in a pool: a group is done whole or not at all."""
    keys = ["example_id", "pool", "parent_id"]
    whole = wanted.group_by(keys).len("of").join(lacking.group_by(keys).len("n"), on=keys, nulls_equal=True)
    return lacking.join(whole.filter(pl.col("of") == pl.col("n")), on=keys, how="semi", nulls_equal=True).sort(
        "example_id", "trace_id"
    )


def _joined_since(step: Addition, records: Sequence[Mapping[str, Any]], wanted: pl.DataFrame) -> frozenset[str]:
    """Traces that were alone when there was to be a choice, and have company now."""
    if not isinstance(step, Asked) or step.kind != "listwise":
        return frozenset()
    skipped = (one for record in records for one in record.get("skipped", ()))
    alone = frozenset(one["trace_id"] for one in skipped if one.get("reason") == SINGLE)
    several = wanted.filter(pl.len().over("example_id", "pool", "parent_id") > 1)
    return alone & frozenset(several["trace_id"])


def _with_ancestors(pools: Sequence[str], traces: pl.DataFrame) -> list[str]:
    """The pools, and those of the traces that theirs revise, and so on."""
    pairs = (
        traces.select("parent_id", "pool")
        .drop_nulls()
        .join(traces.select(parent_id="trace_id", parent_pool="pool"), on="parent_id")
    )
    of = pairs.select("pool", "parent_pool").unique().rows()
    known = set(pools)
    while more := {parent for pool, parent in of if pool in known} - known:
        known |= more
    return sorted(known)
