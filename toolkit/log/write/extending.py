"""Adding to a sealed log in place: new shards beside the existing ones, then a new manifest that replaces the old one.

Until the manifest is replaced, in one step, readers see the log as it was. Existing rows never change. All shards of a
table have the same columns, so that any reader of Parquet takes them together: where new rows have further ones, shards
that lack a column are replaced by such as have it, null. In `features` the contract has one row per trace, so new
columns for traces that have a row already need new shards, which hold the existing values too and replace all old ones.

What a killed writer left behind is cleared when the next one begins. One writer at a time holds the log's lock.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.documents import parse_json, read_text
from toolkit.log.check.validating import check_log
from toolkit.log.contract.manifest import MANIFEST, Manifest, parse_manifest
from toolkit.log.contract.problems import UNFINISHED, LogError
from toolkit.log.contract.schema import HIDDEN, check_table, kind_of, target_type
from toolkit.log.read.example_blocks import example_ranges
from toolkit.log.read.log import Log, Shard, collect, open_log
from toolkit.log.read.places import local_path
from toolkit.log.write.locking import lock_folder
from toolkit.log.write.sealing import shard_entry
from toolkit.log.write.shard_files import write_beside, write_shards
from toolkit.log.write.typed_rows import contract_rows
from toolkit.log.write.writer import ROWS_PER_SHARD, Rows, lazy_frames, sorted_blocks

ADDING = ".adding"
"""The folder, within the log, for rows that are being added; readers ignore it for the dot in its name."""
FEATURES = "features"
SHARD_BYTES = 64 * 2**20
_PLACING = "placing.json"


def open_sealed(path: str | Path) -> Log:
    """Opens a local, sealed log for writing. LogError where it is not one."""
    folder = local_path(path)
    log = open_log(folder)
    if not log.shards:
        raise LogError(f"`{path}` is not a log: it holds no tables; {UNFINISHED}", code="unsuitable")
    if log.manifest is None:
        raise LogError(
            f"`{path}` is not sealed, so nothing can be added to it: seal it first, `thinkback seal {path}`",
            code="unsuitable",
        )
    try:
        (folder / ADDING).mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder / ADDING):
            pass
        _remove_empty(folder / ADDING)
    except OSError as error:
        raise LogError(
            f"`{path}` can't be written: {error.strerror}; it is as it was: copy it to a place that can, and add there",
            code="write",
        ) from None
    return log


def extend_log(
    path: str | Path,
    tables: Mapping[str, Rows],
    source: Callable[[Any], Any] | None = None,
    *,
    pools: Mapping[str, Any] | None = None,
    currency: str | None = None,
    validate: bool = True,
) -> Log:
    """Adds rows to a local, sealed log, or columns to its `features`, and seals it again.

    `tables` maps tables (`hidden_states/MODEL` too) to their new rows; a LazyFrame, or several, are read in ranges of
    examples, so they may be larger than memory. `source` makes the manifest's new `source` from the existing one;
    `pools` are settings of new pools, and `currency` that of their costs. In `features`, existing values are kept.
    LogError, and the log as it was, where the rows break the contract or the
    disk is full.
    """
    folder = local_path(path)
    open_sealed(path)
    with lock_folder(folder):  # another that adds at this moment is waited for
        _clear_unlisted(folder)
        log = open_log(folder)
        if log.manifest is None:
            raise LogError(f"`{path}` lost its manifest while it was added to: restore it", code="not-found")
        (folder / ADDING).mkdir(exist_ok=True)
        _record_existing_files(folder, log, tables)
        try:
            text = _write_extension(
                folder, log, _with_pools(log.manifest, pools or {}, currency), tables, source, validate
            )
            with write_beside(folder / MANIFEST) as temporary:
                temporary.write_text(text, encoding="utf-8")
        finally:
            _clear_unlisted(folder)
    return open_log(path)


def _with_pools(manifest: Manifest, pools: Mapping[str, Any], currency: str | None) -> Manifest:
    """The manifest with settings of further pools. LogError where their costs are in another currency."""
    if None not in (currency, manifest.currency) and currency != manifest.currency:
        raise LogError(
            f"the log's costs are in {manifest.currency}, the new ones in {currency}: a log has one `currency`",
            code="conflict",
        )
    return replace(manifest, pools={**manifest.pools, **pools}, currency=manifest.currency or currency)


def _write_extension(
    folder: Path,
    log: Log,
    manifest: Manifest,
    tables: Mapping[str, Rows],
    source: Callable[[Any], Any] | None,
    validate: bool,
) -> str:
    """Writes the new shards and checks the log with them; returns the text of its new manifest."""
    listed = dict(manifest.tables)
    shards = dict(log.shards)
    for table, rows in tables.items():
        narrow, types = _files_without_columns(log, table, rows), _extended_types(log, table, rows)
        blocks = (
            list[pl.DataFrame]() if _adds_columns(log, table) else sorted_blocks(rows, table, _rows_per_shard(rows))
        )
        renewed = _joined_features(log, rows) if _adds_columns(log, table) else _widened_blocks(log, table, narrow)
        files = write_shards(
            folder, table, (_with_all_columns(block, table, types) for block in chain(renewed, blocks))
        )
        entries = tuple(shard_entry(file, file.relative_to(folder).as_posix()) for file in files)
        place = next(iter(next(iter(log.shards.values())))).place
        new = tuple(Shard(table, e.file, place.path(e.file), place, e.rows, e.sha256) for e in entries)
        listed[table] = (*(one for one in listed.get(table, ()) if one.file not in narrow), *entries)
        shards[table] = (*(one for one in shards.get(table, ()) if one.file not in narrow), *new)
    if validate:
        check_log(Log(log.address, None, shards, ()), tuple(tables))
    new_source = manifest.source if source is None else source(manifest.source)
    return replace(manifest, tables=listed, source=new_source).to_json()


def _adds_columns(log: Log, table: str) -> bool:
    """Whether the new rows are further columns of existing rows."""
    return kind_of(table) == FEATURES and log.has(table)


def _extended_types(log: Log, table: str, rows: Rows) -> dict[str, pl.DataType]:
    """The types of a table's columns once the new rows are in: those of its shards first."""
    types = dict(log.columns(table)) if log.has(table) else {}
    for part in lazy_frames(rows):
        for name, dtype in part.collect_schema().items():
            types.setdefault(name, target_type(table, name, dtype))
    return types


def _files_without_columns(log: Log, table: str, rows: Rows) -> set[str]:
    """The files that new shards replace: those that lack a column; if columns are joined, all."""
    shards, types = log.shards.get(table, ()), _extended_types(log, table, rows)
    return {
        shard.file for shard in shards if _adds_columns(log, table) or types.keys() - log.footer(shard).columns.keys()
    }


def _widened_blocks(log: Log, table: str, narrow: Collection[str]) -> Iterator[pl.DataFrame]:
    """Yields the rows of shards that lack a column, shard by shard, with the missing columns added as null."""
    scans = zip(log.shards.get(table, ()), log.scans_by_shard(table) if narrow else (), strict=False)
    return (collect(scan, log) for shard, scan in scans if shard.file in narrow)


def _with_all_columns(block: pl.DataFrame, table: str, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The block with all columns of its table in one order, null where it has none."""
    lacking = [pl.lit(None, dtype).alias(name) for name, dtype in types.items() if name not in block.columns]
    return contract_rows(block.with_columns(lacking).select(types.keys()), table) if lacking else block


def _joined_features(log: Log, rows: Rows) -> Iterator[pl.DataFrame]:
    """Yields existing and new features with one row a trace, in blocks. Existing values are kept."""
    old, new = log.scan(FEATURES, list(log.columns(FEATURES))), pl.concat(lazy_frames(rows))
    existing, coming = list(old.collect_schema()), list(new.collect_schema())
    both = [name for name in coming if name in existing and name not in ("trace_id", "example_id")]
    columns = [pl.coalesce(name, f"{name}:new").alias(name) for name in both]
    counts = [collect(frame.group_by("example_id").len(), log) for frame in (old, new)]
    for low, high in example_ranges(counts, ROWS_PER_SHARD):
        within = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        left, right = collect(old.filter(within), log), collect(new.filter(within), log)
        block = left.join(right, on=["trace_id", "example_id"], how="full", coalesce=True, suffix=":new")
        block = block.with_columns(columns).drop([f"{name}:new" for name in both])
        yield contract_rows(block, FEATURES)


def _rows_per_shard(rows: Rows) -> int:
    """The number of rows for one shard: a million, or fewer where a row holds a hidden state."""
    state = lazy_frames(rows)[0].collect_schema().get("state")
    if not isinstance(state, pl.Array):
        return ROWS_PER_SHARD
    return max(1, min(ROWS_PER_SHARD, SHARD_BYTES // (4 * state.size)))


def _record_existing_files(folder: Path, log: Log, tables: Mapping[str, Rows]) -> None:
    """Records which files exist before new ones are written, so that later files are known to be this writer's."""
    before = {}
    for table, rows in tables.items():
        narrow = {name.rpartition("/")[2] for name in _files_without_columns(log, table, rows)}
        before[table] = sorted({file.name for file in (folder / table).glob("*.parquet")} - narrow)
    with write_beside(folder / ADDING / _PLACING) as temporary:
        temporary.write_text(json.dumps(before), encoding="utf-8")


def _listed_shards(folder: Path) -> dict[str, set[str]]:
    """The names of each table's shards that the manifest lists."""
    tables = parse_manifest((folder / MANIFEST).read_bytes(), MANIFEST).tables
    return {table: {entry.file.rpartition("/")[2] for entry in entries} for table, entries in tables.items()}


def _clear_unlisted(folder: Path) -> None:
    """Removes shards that the manifest does not list and that were not there before: a killed writer's, and those that
    new ones replaced.
    """
    note = folder / ADDING / _PLACING
    if not note.exists():
        return
    label = f"`{ADDING}/{_PLACING}`"
    before = parse_json(read_text(note, label), label)
    if not isinstance(before, dict) or not all(isinstance(names, list) for names in before.values()):
        raise LogError(
            f"{label} does not list files before an addition: remove it, and shards of no manifest", code="format"
        )
    for table in before:  # a name could lead out of the log
        check_table(table)
    listed = _listed_shards(folder)
    for table, names in before.items():
        for file in (folder / table).glob("*.parquet"):
            if file.name not in listed.get(table, ()) and file.name not in names:
                file.unlink(missing_ok=True)
        for left in (folder / table).glob(".*.part"):
            left.unlink(missing_ok=True)
        _remove_empty(folder / table)
    _remove_empty(folder / HIDDEN)
    note.unlink()
    _remove_empty(folder / ADDING)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
