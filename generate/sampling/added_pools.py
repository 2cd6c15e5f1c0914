"""Adding pools to a sealed log: a recipe without `[data]` samples on the log's own examples, revises its traces, and
its loops may read its traces and rounds.

What is made lies in `LOG/.adding/SHARD/pools-…` as an unfinished log with its journal, as `sampling_run` writes it, so
that a run that is killed goes on. Then its rows are put beside the log's own, the new manifest takes the place of the
old one, and the folder goes. The manifest has under each pool the settings of its recipe, and which shards are in.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines.base import Engine
from generate.journal.database import differing_key_text
from generate.journal.queue import BESIDE
from generate.recipes.recipe import LoopStep, Recipe, rows_of_shard
from generate.sampling.example_loops import READ, ROWS
from generate.sampling.samples import FINALIZER, TOKEN_LISTS
from generate.sampling.sampling_plan import LoggedRows, SamplingPlan
from generate.sampling.sampling_run import Generated, SamplingRun, run_plan
from toolkit.errors import ConflictError, ExistsError, UnknownError, UnsuitableError, error_prefix, listed, suggest
from toolkit.log import ADDING, LEFT_OUT, Log, collect, extend_log, open_sealed
from toolkit.progress import Advance

JUDGED = ("correct", "credit")
"""Columns that loops do not read, since they see gold."""
ORDER = {"traces": ("example_id", "pool", "sample_index", "trace_id"), "rounds": ("example_id", "pool", "hop", "round")}
"""By what the rows that a loop reads are sorted."""


@dataclass(frozen=True)
class AddedPools:
    """Pools to add to a log. plan: what is asked, of the examples that lack them; part: the shard and the limit, as the
    manifest lists them; complete: whether no example of the shard lacks them.
    """

    plan: SamplingPlan
    log: Log
    path: Path
    part: Mapping[str, Any]

    @property
    def recipe(self) -> Recipe:
        """The recipe that samples them."""
        return self.plan.recipe

    @property
    def names(self) -> tuple[str, ...]:
        """The pools' names."""
        return recipe_pools(self.plan.recipe)

    @property
    def has_nothing_to_add(self) -> bool:
        """Whether no example of the shard lacks the pools."""
        return not self.plan.examples.height

    @property
    def folder(self) -> Path:
        """The folder of the rows until they are in the log."""
        text = json.dumps(self.plan.identity, sort_keys=True, ensure_ascii=False)
        shard = str(self.part["shard"]).replace("/", "-of-")
        return self.path / ADDING / shard / f"pools-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def recipe_pools(recipe: Recipe) -> tuple[str, ...]:
    """The pools that a recipe makes."""
    return tuple(step.pool for step in (*recipe.steps, *recipe.loop))


def plan_added_pools(
    recipe: Recipe, path: str | Path, shard: tuple[int, int] = (1, 1), limit: int | None = None
) -> AddedPools:
    """The pools that a recipe adds to a log, on its first `limit` examples, and of these on shard (i, n), counted from
    1. ThinkbackError where the log is not sealed, can't be written, lacks a pool that a loop reads, or has one of the
    recipe's pools by other settings.
    """
    log = open_sealed(path)
    if not log.has("examples"):
        raise UnsuitableError(f"`{path}` has no `examples`: nothing can be added to it")
    _check_pools_read(recipe, log)
    recipe = replace(recipe, loop=tuple(_on_log(step, log) for step in recipe.loop))
    every = collect(log.scan("examples", list(log.columns("examples"))), log).sort("example_id")
    identity = {key: value for key, value in recipe.identity().items() if not key.startswith("data.")}
    done = _done_parts(recipe, log, identity, path)
    mine = rows_of_shard(every, shard, limit)
    for part in done:
        number, count = map(int, part["shard"].split("/"))
        with_pools = rows_of_shard(every, (number, count), part["limit"])["example_id"]
        mine = mine.filter(~pl.col("example_id").is_in(with_pools.implode()))
    named = {"shard": f"{shard[0]}/{shard[1]}", "limit": limit}
    origin = {"recipe": str(recipe.folder / recipe.file), "settings": list(recipe.overruled), "shard": list(shard)}
    plan = SamplingPlan(
        recipe, mine, None, {**identity, **named}, (), {**origin, "limit": limit}, _logged_rows_reader(recipe, log)
    )
    return AddedPools(plan, log, Path(path), named)


def _pools_by_table(log: Log) -> dict[str, set[str]]:
    tables = [table for table in ("traces", *ROWS) if log.has(table)]
    return {table: set(collect(log.scan(table, ["pool"]).unique(), log)["pool"]) for table in tables}


def _check_pools_read(recipe: Recipe, log: Log) -> None:
    """UnknownError where a loop or a revision reads a pool, or a sample of one, that the log lacks."""
    known = _pools_by_table(log)
    for revision in recipe.logged_trace_revisions:
        place, names = f"`revise.{revision.pool}.of", sorted(known.get("traces", ()))
        if revision.of not in names:
            lacking = f"neither the recipe nor the log has a pool `{revision.of}`"
            raise UnknownError(f"{place}`: {lacking}; {suggest(revision.of, names)}")
        places = log.scan("traces", ["pool", "sample_index"])
        if not collect(places.filter(pool=revision.of, sample_index=revision.of_sample).head(1), log).height:
            raise UnknownError(
                f"{place}_sample`: no trace of `{revision.of}` in the log is sample {revision.of_sample}"
            )
    readable = sorted(set().union(*(known.get(table, ()) for table in READ)))
    for step in recipe.loop:
        for pool in step.of:
            if pool not in readable:
                raise UnknownError(f"`loop.{step.pool}.of`: the log has no pool `{pool}`; {suggest(pool, readable)}")


def _on_log(step: LoopStep, log: Log) -> LoopStep:
    if not hasattr(step.loop, "on_log"):
        return step
    with error_prefix(f"`loop.{step.pool}`: "):
        return replace(step, loop=step.loop.on_log(log, step.of))


def _done_parts(recipe: Recipe, log: Log, identity: Mapping[str, Any], path: str | Path) -> list[Mapping[str, Any]]:
    """The shards whose examples have the recipe's pools. ExistsError where others made a pool of a name of theirs."""
    source = log.manifest.source if log.manifest is not None else None
    records = source.get("pools") if isinstance(source, Mapping) else None
    known = set().union(*_pools_by_table(log).values()) | set(records if isinstance(records, Mapping) else ())
    done: list[Mapping[str, Any]] = []
    for pool in recipe_pools(recipe):
        if pool not in known:
            continue
        record = records.get(pool) if isinstance(records, Mapping) else None
        settings = record.get("settings") if isinstance(record, Mapping) else None
        if not isinstance(record, Mapping) or not isinstance(settings, Mapping):
            raise ExistsError(f"`{path}` has a pool `{pool}` already: give the new one another `pool`")
        differs = differing_key_text(settings, identity)
        if differs is not None:
            raise ExistsError(
                f"`{path}` has a pool `{pool}` of other settings: {differs}; give the new one another `pool`"
            )
        done = list(record["parts"])
    return done


def _logged_rows_reader(recipe: Recipe, log: Log) -> Callable[[Sequence[str]], LoggedRows]:
    revised = {step.of for step in recipe.logged_trace_revisions}
    pools = sorted(revised.union(*(step.of for step in recipe.loop)))
    return partial(read_logged, log, pools) if pools else lambda names: {}


def read_logged(log: Log, pools: Sequence[str], names: Sequence[str]) -> LoggedRows:
    """The rows of pools that loops read, of some examples: example -> table -> rows, in their order, without what is
    judged by gold, and without numbers of single tokens.
    """
    rows: dict[str, dict[str, tuple[Mapping[str, Any], ...]]] = {}
    if not names:
        return rows
    within = pl.col("example_id").is_between(pl.lit(min(names)), pl.lit(max(names)))  # lets shards be passed over
    matches = within & pl.col("example_id").is_in(list(names)) & pl.col("pool").is_in(list(pools))
    for table in READ:
        if log.has(table):
            columns = [column for column in log.columns(table) if column not in (*JUDGED, *TOKEN_LISTS)]
            frame = collect(log.scan(table, columns).filter(matches), log).sort(ORDER[table])
            for (name,), mine in frame.group_by("example_id", maintain_order=True):
                rows.setdefault(str(name), {})[table] = tuple(mine.to_dicts())
    return rows


def add_pools(
    added: AddedPools,
    open_engine: Callable[[Recipe], Engine] | None = None,
    *,
    block: int | None = None,
    started: Callable[[int], Advance] | None = None,
    with_failures: bool = False,
    allow_keys: Collection[str] = (),
) -> Generated:
    """Sample the pools and put them into the log, or go on with it; the arguments are those of `generate`.

    ThinkbackError where the log has them already, and for all that ends a run early: the log is unchanged then, and the
    same command goes on.
    """
    if added.has_nothing_to_add:
        _remove_folders(added.folder)  # of a run that was interrupted once its rows were in the log
        raise ExistsError(
            f"`{added.path}` has {listed(added.names)} on all examples of shard {added.part['shard']} already: nothing"
            " is left to generate"
        )
    options = {"block": block, "started": started, "with_failures": with_failures, "allow_keys": allow_keys}
    return run_plan(added.plan, added.folder, partial(_add_rows_to_log, added), open_engine, **options)  # type: ignore[arg-type]


def _add_rows_to_log(added: AddedPools, run: SamplingRun) -> Generated:
    log, details, judging, notes = run.record_of_log()
    failures = run.failures
    lost: dict[str, list[tuple[str, str, str]]] = {}
    for (example, pool, sample), (reason, cause) in sorted(run.failed.items()):
        name = pool.partition(BESIDE)[0].removesuffix(FINALIZER)
        lost.setdefault(name, []).append((f"{example}/{pool}/{sample}", reason, cause))
    source = partial(_source_with_records, added=added, record_of_run=details["source"], lost=lost)
    tables = {table: log.scans_by_shard(table) for table in log.shards if table != "examples"}
    whole = extend_log(added.path, tables, source, pools=details.get("pools"), currency=details.get("currency"))
    run.journal.remove()
    _remove_folders(added.folder)
    return Generated(whole, failures, judging, notes)


COPIED = ("recipe", "seeds", "versions", "prompts", "services", "judging")
"""What the record of a pool has of the run that made it, where there is such."""


def _source_with_records(
    source: Any,
    *,
    added: AddedPools,
    record_of_run: Mapping[str, Any],
    lost: Mapping[str, Sequence[tuple[str, str, str]]],
) -> dict[str, Any]:
    """The manifest's `source` with the records of added pools. lost: calls that failed, with reason and cause, by pool.
    ConflictError where another run added a pool meanwhile.
    """
    whole = dict(source) if isinstance(source, Mapping) else {} if source is None else {"log": source}
    pools = dict(whole.get("pools") or {})
    settings = {key: value for key, value in record_of_run["settings"].items() if key not in added.part}
    for name in added.names:
        before = pools.get(name, {})
        if before and (before.get("settings") != settings or added.part in before["parts"]):
            raise ConflictError(f"`{added.path}` got a pool `{name}` by another run meanwhile: run the command again")
        record = {
            **before,
            **record_of_run["pools"][name],
            "added_by": "thinkback generate --on",
            **{key: record_of_run[key] for key in COPIED if record_of_run.get(key) is not None},
            "settings": settings,
            "parts": [*before.get("parts", ()), dict(added.part)],
        }
        record["wall_clock_s"] = round(record["wall_clock_s"] + before.get("wall_clock_s", 0.0), 3)
        if calls := lost.get(name):
            listed_calls = [{"call": call, "reason": reason} for call, reason, _ in calls]
            record["failures"] = [*before.get("failures", ()), *listed_calls]
            record[LEFT_OUT] = dict(Counter(before.get(LEFT_OUT, {})) + Counter(cause for *_, cause in calls))
        pools[name] = record
    return {**whole, "pools": pools}


def _remove_folders(folder: Path) -> None:
    """Remove a run's folder, and those above it where they are empty."""
    shutil.rmtree(folder, ignore_errors=True)
    for above in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # another run is at work there
            above.rmdir()
