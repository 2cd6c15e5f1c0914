"""Merging logs: of rows with one key the first wins, so that a retry can't improve a policy. Features of one trace that
come from several logs are put together, value by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from toolkit.files import replacing
from toolkit.log.contract.manifest import Manifest, join_manifests
from toolkit.log.contract.problems import LogError, Problem, backticked, raise_first
from toolkit.log.contract.schema import keys_of, kind_of
from toolkit.log.read.example_blocks import block_id_ranges
from toolkit.log.read.footers import Footer
from toolkit.log.read.integrity import ByteChecks
from toolkit.log.read.locating import Shard
from toolkit.log.read.log import ROW, Log, collect, open_log
from toolkit.log.read.places import Place, local_path
from toolkit.log.write.extending import FEATURES
from toolkit.log.write.sealing import seal_folder
from toolkit.log.write.shard_files import LEVEL, LEVELS, write_shard
from toolkit.log.write.typed_rows import contract_rows
from toolkit.log.write.writer import ROWS_PER_SHARD

PLACE = ("example_id", "pool", "action", "parent_id", "sample_index")
"""The columns that identify a trace apart from its id."""
_CONTENT = (*PLACE, "model", "answer", "text", "correct", "prompt_tokens", "completion_tokens")
"""What is equal in two rows of one trace; null says nothing."""


@dataclass(frozen=True)
class _DroppedRows:
    """What a merge leaves out. `rows`: places (`__row`) of trace rows; `trace_ids`: ids of traces that have no row
    left; `strangers`: by log number, ids whose surviving trace is another log's.
    """

    rows: pl.Series
    trace_ids: pl.Series
    strangers: Mapping[int, pl.Series]

    def trace_ids_of(self, number: int) -> pl.Series:
        """The ids of traces whose scores, features and states in log `number` are dropped."""
        return pl.concat([self.trace_ids, self.strangers.get(number, self.trace_ids.clear())]).unique()


@dataclass(frozen=True)
class _TraceKeys:
    """Trace rows that may have to be dropped, in order, (R,) each: numbers for id, place and parent (−1: none of
    these), and (R, C) hashes of their content, 0 for null.
    """

    key: np.ndarray
    place: np.ndarray
    parent: np.ndarray
    content: np.ndarray


def _dropped_traces(log: Log, ends: Sequence[int]) -> _DroppedRows:
    """The trace rows to drop from `log`, which is several logs in a row. `ends`: each one's last trace row plus one,
    ascending.

    In the order of the rows: a row whose id came before is dropped; so is one whose place (example, pool,
    action, parent, sample index) an earlier row holds, a retry. Where a log's row of a trace differs from the
    earlier log's that is kept, the log's scores are of another trace: they go, with its revisions. A revision
    of what is dropped is dropped too, before it takes an id or a place from others.
    """
    frame = _competing_rows(log)
    rows = _number_keys(frame)
    ids = int(rows.key.max(initial=-1)) + 1
    stays = np.zeros(len(rows.key), bool)
    contents, places = np.zeros((ids, rows.content.shape[1]), rows.content.dtype), np.zeros(len(stays), bool)
    state = _SeenRows(np.zeros(ids, bool), np.zeros(ids, bool), contents, places)
    strangers = {}
    bounds = np.searchsorted(frame[ROW].to_numpy().astype(np.int64), [0, *ends])
    for number, here in enumerate(map(slice, bounds[:-1], bounds[1:])):
        stays[here], strange = state.add_log(rows, here)
        if strange.any():
            strangers[number] = frame["trace_id"].gather(np.flatnonzero(strange))
    while (orphans := stays & (rows.parent >= 0) & ~state.stays[rows.parent]).any():
        stays &= ~orphans  # a parent that a later log holds
        state.stays[rows.key[orphans]] = False
    dropped_ids = np.setdiff1d(np.unique(rows.key), np.flatnonzero(state.stays))
    return _DroppedRows(frame[ROW].filter(pl.Series(~stays)), frame["trace_id"].gather(dropped_ids), strangers)


@dataclass(frozen=True)
class _SeenRows:
    """What the logs read so far hold, by number: ids, ids with a surviving row, first rows' hashes, occupied places."""

    known: np.ndarray
    stays: np.ndarray
    content: np.ndarray
    places: np.ndarray

    def add_log(self, rows: _TraceKeys, here: slice) -> tuple[np.ndarray, np.ndarray]:
        """Adds one log; returns whether each of its rows is kept (n,), and whether each id's trace differs from the
        kept one (ids,).
        """
        key, place, parent = rows.key[here], rows.place[here], rows.parent[here]
        strange = np.zeros(len(self.known), bool)
        falls = np.zeros(len(key), bool)
        away = self.known & ~self.stays
        while True:
            competes = ~falls
            known, mine = self.content[key], rows.content[here]
            differs = competes & self.known[key] & ((known != mine) & (known != 0) & (mine != 0)).any(axis=1)
            first = _is_first_with_number(key, competes & ~self.known[key])
            stays = _is_first_with_number(place, first & ~self.places[place])
            strange[key[differs | (first & ~stays) | falls]] = True
            more = competes & (parent >= 0) & (strange | away)[parent]
            if not more.any():
                break
            falls |= more
        self.known[key[first]] = True
        self.stays[key[stays]] = True
        self.content[key[first]] = rows.content[here][first]
        self.places[place[stays]] = True
        return stays, strange


def _is_first_with_number(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Whether each of the rows `among` is the first with its number, (n,) bool."""
    at = np.flatnonzero(among)
    first = np.zeros(len(numbers), bool)
    first[at[np.unique(numbers[at], return_index=True)[1]]] = True
    return first


def _competing_rows(log: Log) -> pl.DataFrame:
    """The rows that share their id or place with another row, and all revisions, in their order."""
    key, place = pl.col("trace_id").hash().alias("key"), pl.struct(PLACE).hash().alias("place")
    hashes = collect(log.scan("traces", ["trace_id", *PLACE]).select(key, place), log)
    twice = {name: hashes[name].filter(hashes[name].is_duplicated()).unique() for name in ("key", "place")}
    del hashes
    shares = key.is_in(twice["key"].implode()) | place.is_in(twice["place"].implode())
    scan = log.scan("traces", ["trace_id", *_CONTENT], rows=True).filter(shares | pl.col("parent_id").is_not_null())
    content = pl.concat_arr(pl.when(pl.col(name).is_null()).then(0).otherwise(pl.col(name).hash()) for name in _CONTENT)
    return collect(scan.select(ROW, "trace_id", *PLACE, content=content), log).sort(ROW)


def _number_keys(frame: pl.DataFrame) -> _TraceKeys:
    """The rows with ids and places as numbers, each that of the first row that has it."""
    row = pl.col("row").cast(pl.Int64).first()
    numbers = frame.with_row_index("row").select("trace_id", "content", key=row.over("trace_id"), place=row.over(PLACE))
    by_id = numbers.select(parent_id="trace_id", parent="key").unique()
    parents = frame.select("parent_id").join(by_id, on="parent_id", how="left", maintain_order="left")["parent"]
    return _TraceKeys(
        numbers["key"].to_numpy(), numbers["place"].to_numpy(), parents.fill_null(-1).to_numpy(),
        numbers["content"].to_numpy(),
    )  # fmt: skip


DECIDING = ("kind", "settings", "model", "weights_sha256")
"""Keys of a verifier in the manifest. Verifiers of one name that differ in them are different."""


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge: rows dropped per table, because an earlier row has their key or their trace is missing.
    `strays`: how many of these belong to traces that differ from the kept ones; `differing`: verifiers that the logs'
    manifests describe differently.
    """

    dropped: Mapping[str, int]
    log: Log
    differing: tuple[str, ...] = ()
    strays: Mapping[str, int] = field(default_factory=dict)


def merge_logs(
    addresses: Sequence[str | Path],
    out: str | Path,
    *,
    name: str | None = None,
    validate: bool = True,
    compression: int = LEVEL,
) -> MergeReport:
    """Merges logs into a new sealed log at `out`, a local path that does not exist yet.

    The first row of a key wins, in the order of the logs given, then file name, then row; the later ones are
    dropped and counted. Of `features` the first value of a trace and column wins, and a row is dropped that gives
    none. A later trace in a place that is taken (same example, pool, action, parent and sample
    index) is a retry: it is dropped under whatever id, with its revisions, scores and features. So are those
    that a log holds for a trace whose row in it differs from the earlier one that is kept. `compression` is zstd's
    level, from 1 to 22: a high one makes small files, and takes long.
    LogError when a log was altered after it was sealed, when shards of one recipe were made with different settings or
    models, when examples that share an id are different questions, when a value would be lost in the type that the
    logs' columns have in common, and when the merged rows break the contract; nothing is written then.
    """
    if not addresses:
        raise LogError("no logs to merge: name at least one", code="required")
    if compression not in LEVELS:
        raise LogError(
            f"`compression` is {compression}: write a number from {LEVELS.start} to {LEVELS.stop - 1}", code="invalid"
        )
    logs = [open_log(address) for address in addresses]
    _check_recipe_shards(logs)
    target = local_path(out)
    _check_bytes(logs)
    joined = _JoinedLogs(_concatenate_logs(logs), logs)
    _check_questions(joined.log)
    lost = _dropped_traces(joined.log, joined.row_ends("traces"))
    with replacing(target) as folder:
        counts = {table: _merge_table(folder, joined, table, lost, compression) for table in joined.log.shards}
        details = _manifest_details(logs, name or target.name)
        seal_folder(folder, validate=validate, **details)  # type: ignore[arg-type]
    dropped, strays = ({table: pair[place] for table, pair in counts.items()} for place in (0, 1))
    return MergeReport(dropped, open_log(out), _differing_verifiers(logs), strays)


@dataclass(frozen=True)
class _JoinedLogs:
    """All shards as one log, in the order in which the first row with a key wins, and the single logs."""

    log: Log
    parts: Sequence[Log]

    def row_ends(self, table: str) -> list[int]:
        """The end of each log's rows in a table, as `__row` counts."""
        return list(accumulate(part.rows(table) for part in self.parts))


def _differing_verifiers(logs: Sequence[Log]) -> tuple[str, ...]:
    """The verifiers of one name that have other settings, or another model, in one of the logs."""
    known: dict[str, list[object]] = {}
    differing = set()
    for log in logs:
        source = log.manifest.source if log.manifest is not None else None
        verifiers = source.get("verifiers") if isinstance(source, Mapping) else None
        for name, record in verifiers.items() if isinstance(verifiers, Mapping) else ():
            record_values = [record.get(key) for key in DECIDING] if isinstance(record, Mapping) else [record]
            if known.setdefault(name, record_values) != record_values:
                differing.add(name)
    return tuple(sorted(differing))


def _concatenate_logs(logs: Sequence[Log]) -> Log:
    """The logs' shards as one log, which is read without loss in types that fit all."""
    shards: dict[str, list[Shard]] = {}
    footers: dict[str, Footer] = {}
    for log in logs:
        for table, of_table in log.shards.items():
            for shard in of_table:
                renamed = replace(shard, file=f"{log.address.rstrip('/')}/{shard.file}")
                if shard.path in footers and shard.place.system is not None:
                    copy = Path(log.footer(shard).path)  # the same path may lie in two archives
                    renamed = replace(renamed, path=str(copy), place=Place(str(copy.parent)))
                else:
                    footers[shard.path] = log.footer(shard)
                shards.setdefault(table, []).append(renamed)
    of_tables = {table: tuple(of_table) for table, of_table in shards.items()}
    sound_bytes = ByteChecks(log.sound_bytes for log in logs)
    return Log(", ".join(log.address for log in logs), None, of_tables, (), _footers=footers, sound_bytes=sound_bytes)


def _check_bytes(logs: Sequence[Log]) -> None:
    """Raises LogError where a log is damaged or altered, since the merged log's new hashes would hide that."""
    for log in logs:
        problems = (problem for table in log.shards for problem in log.damages(table))
        raise_first(replace(problem, file=f"{log.address.rstrip('/')}/{problem.file}") for problem in problems)


def _check_recipe_shards(logs: Sequence[Log]) -> None:
    """Raises LogError where manifests of shards `i/n` of one recipe differ in a setting, a prompt or the model."""
    first: dict[tuple[object, ...], tuple[Log, Mapping[str, object]]] = {}
    for log in logs:
        source = (log.manifest.source if log.manifest else None) or {}
        recipe, count = source.get("recipe"), str(source.get("shard", "")).partition("/")[2]
        if source.get("generated_by") != "thinkback generate" or count in ("", "1"):
            continue
        deciding = _deciding_settings(source)
        before, known = first.setdefault((recipe, count), (log, deciding))
        for key, value in deciding.items():
            if known.get(key) != value:
                raise LogError(
                    f"`{before.address}` and `{log.address}` are shards of the recipe `{recipe}` but differ in "
                    f"`{key}`: {backticked(known.get(key))} and {backticked(value)}; generate one of them again",
                    code="mismatch",
                )


def _deciding_settings(source: Mapping[str, Any]) -> dict[str, object]:
    """The settings that determine a log's traces, from its manifest: options, prompts, and each pool's weights."""
    settings = {key: value for key, value in source.get("settings", {}).items() if key != "shard"}
    settings |= {f"prompts.{name}": text for name, text in source.get("prompts", {}).items()}
    for pool, details in source.get("pools", {}).items():
        engine = details.get("engine") or {}
        settings |= {f"pools.{pool}.engine.{key}": engine.get(key) for key in ("model", "revision", "weights_sha256")}
    return settings


def _check_questions(log: Log) -> None:
    """Raises LogError where examples with one id are different questions, or have different gold answers."""
    hashed = pl.col("example_id").hash()
    hashes = collect(log.scan("examples", ["example_id"]).select(hashed), log)["example_id"]
    twice = hashes.filter(hashes.is_duplicated()).unique()
    values = ("question", "gold")
    scan = log.scan("examples", ["example_id", *values], rows=True).filter(hashed.is_in(twice.implode()))
    compared = [pl.when(pl.col(name).is_not_null()).then(pl.col(name).hash()).alias(name) for name in values]
    rows = collect(scan.select("example_id", ROW, *compared), log).sort("example_id", ROW)
    for name in values:
        known = rows.drop_nulls(name).with_columns(
            first=pl.col(ROW).first().over("example_id"),
            agrees=pl.col(name).eq_missing(pl.col(name).first().over("example_id")),
        )
        for example, row, first in known.filter(~pl.col("agrees")).select("example_id", ROW, "first").head(1).rows():
            (file, place), (before, _) = log.locate("examples", row), log.locate("examples", first)
            message = (
                f"example {backticked(example)} has another {name} than in `{before}`: give different questions "
                "different ids, for instance by importing both sources together"
            )
            raise Problem(file, name, place, message, "differs").error()


def _manifest_details(logs: list[Log], name: str) -> dict[str, object]:
    """The keys of the merged manifest: where the logs came from, and their pools, licence and simulation."""
    manifests = [log.manifest or Manifest(name=log.name, created="", tables={}) for log in logs]
    joined = join_manifests(manifests, name)
    merged = [
        {"name": log.name, "digest": log.digest(), "created": m.created or None, "source": m.source}
        for log, m in zip(logs, manifests, strict=True)
    ]
    extra = {key: value for m in reversed(manifests) for key, value in m.extra.items()}
    shared = {name: getattr(joined, name) for name in ("license", "simulated", "pools", "currency")}
    return {**extra, **shared, "name": name, "source": {"merged": merged}}


def _merge_table(folder: Path, joined: _JoinedLogs, table: str, lost: _DroppedRows, level: int) -> tuple[int, int]:
    """Writes a table's kept rows by ranges of examples; counts the rows dropped, and those of other traces."""
    log, columns, features = joined.log, list(joined.log.columns(table)), kind_of(table) == FEATURES
    stray = _stray_rows(joined, table, lost) if "trace_id" in keys_of(table) else pl.Series(ROW, [], pl.UInt64)
    later = lost.rows if table == "traces" else stray if features else _dropped_rows(joined, table, stray)
    losers, idle = later.to_frame(), 0
    for low, high in block_id_ranges(log, [table], ROWS_PER_SHARD):
        here = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        rows = collect(log.scan(table, columns, rows=True).filter(here), log).sort(ROW)
        merged = rows.join(losers, on=ROW, how="anti", maintain_order="left").drop(ROW)
        if features:
            idle += int((~_rows_that_add_values(merged)).sum())
            merged = merged.group_by("trace_id", maintain_order=True).agg(pl.exclude("trace_id").drop_nulls().first())
        if merged.height:
            write_shard(folder, table, contract_rows(merged, table), level)
    return losers.height + idle, int(later.is_in(stray.implode()).sum())


def _rows_that_add_values(rows: pl.DataFrame) -> pl.Series:
    """Whether each row of features is its trace's first, or has a value that no earlier row has, (n,)."""
    there = (pl.col(name).is_not_null() for name in rows.columns if name not in ("trace_id", "example_id"))
    new = (present & (present.cast(pl.Int32).cum_sum().over("trace_id") == 1) for present in there)
    return rows.select(pl.any_horizontal(pl.col("trace_id").is_first_distinct(), *new).alias("gives"))["gives"]


def _dropped_rows(joined: _JoinedLogs, table: str, stray: pl.Series) -> pl.Series:
    """The rows (`__row`) that are `stray`, or whose key an earlier one of the other rows has.

    Keys are compared themselves where hashes agree.
    """
    log, keys = joined.log, keys_of(table)
    hashed = pl.struct(keys).hash().alias("hash")
    rows = log.scan(table, keys, rows=True).join(stray.to_frame().lazy(), on=ROW, how="anti")
    hashes = collect(rows.select(hashed), log)["hash"]
    twice = hashes.filter(hashes.is_duplicated()).unique()
    ordered = collect(rows.filter(hashed.is_in(twice.implode())), log).sort(ROW)
    return pl.concat([stray, ordered.filter(~pl.struct(keys).is_first_distinct())[ROW]])


def _stray_rows(joined: _JoinedLogs, table: str, lost: _DroppedRows) -> pl.Series:
    """The rows (`__row`) of traces that were dropped, or for which another log's trace survives."""
    ends = joined.row_ends(table)
    parts = [pl.Series(ROW, [], pl.UInt64)]
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        ids = lost.trace_ids_of(number)
        if len(ids) and end > start:
            scan = joined.parts[number].scan(table, ["trace_id"], rows=True)
            mine = scan.filter(pl.col("trace_id").is_in(ids.implode())).select(pl.col(ROW) + start)
            parts.append(collect(mine, joined.log)[ROW])
    return pl.concat(parts)
