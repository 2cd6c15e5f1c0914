"""Sealing: the manifest, written last, lists the shards with their rows and hashes."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.log.check.validating import check_log
from toolkit.log.contract.conversion import state_type
from toolkit.log.contract.manifest import MANIFEST, Manifest, ShardEntry, now
from toolkit.log.contract.problems import UNFINISHED, LogError, raise_first
from toolkit.log.contract.schema import HIDDEN, TABLES, kind_of, target_type
from toolkit.log.read.footers import hash_file, polars_types
from toolkit.log.read.log import Log, collect, first_damaged, open_log
from toolkit.log.read.places import local_path
from toolkit.log.write.locking import lock_folder
from toolkit.log.write.shard_files import ROW_GROUP_BYTES, remove_parts, replace_shard, write_beside
from toolkit.log.write.typed_rows import sort_rows

_DETAILS = {"license", "simulated", "source", "pools", "currency", "created"}


def seal_log(path: str | Path, *, name: str, validate: bool = True, **details: Any) -> Log:
    """Seals a local log without a manifest: writes one that lists its shards with rows and hashes.

    `details` are the manifest's further keys: `license`, `simulated`, `source`, `pools`, `currency` or any other. A
    shard that another tool wrote with other types, or not sorted by example_id, is rewritten under its name.
    Another process that seals or adds to it is waited for. LogError, and no manifest, when the rows break the contract.
    """
    folder = local_path(path)
    with lock_folder(folder) if folder.is_dir() else contextlib.nullcontext():  # a second that seals finds it sealed
        if (folder / MANIFEST).exists():
            raise LogError(f"`{path}` is sealed already: remove `{MANIFEST}` to seal it again", code="exists")
        if not open_log(folder).shards:
            raise LogError(f"`{path}` holds no tables: nothing is there to seal; {UNFINISHED}", code="empty")
        seal_folder(folder, validate=validate, name=name, **details)
    return open_log(path)


def seal_folder(folder: Path, *, validate: bool, name: str, trusted: bool = False, **details: Any) -> None:
    """Seals a folder under any name. `details` with keys that the contract does not know are kept as further ones.

    `trusted`: the caller has just written its shards, so these are not searched for damage.
    """
    known = {key: details[key] for key in _DETAILS & details.keys() if details[key] is not None}
    extra = {key: value for key, value in details.items() if key not in _DETAILS}
    manifest = Manifest(**{"created": now(), **known}, name=name, tables={}, extra=extra)
    manifest.to_json()  # refused before anything is changed
    log = open_log(folder)
    if trusted:
        log = _log_with_hashes(log)
    else:
        raise_first([first_damaged(log)])  # a hash would bless damage
    if validate:
        check_log(log, tuple(log.shards))
    for of_table in log.shards.values():
        for shard in of_table:
            if not _is_as_written_by_us(log, shard.table, log.footer(shard).readable):
                alone = Log(log.address, None, {shard.table: (shard,)}, (), sound_bytes=log.sound_bytes)
                rows = collect(alone.scan(shard.table, list(alone.columns(shard.table))), log)
                replace_shard(Path(shard.path), shard.table, sort_rows(rows, shard.table))
    tables: dict[str, tuple[ShardEntry, ...]] = {}
    for table in sorted(log.shards, key=lambda name: (TABLES.index(kind_of(name)), name)):
        tables[table] = tuple(shard_entry(Path(shard.path), shard.file) for shard in log.shards[table])
    text = replace(manifest, tables=tables).to_json()
    remove_parts(folder)
    with write_beside(folder / MANIFEST) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _log_with_hashes(log: Log) -> Log:
    """The log with the hashes of its shards as they are, so that these need no other check: that loads DuckDB."""
    shards = {
        table: tuple(replace(shard, sha256=hash_file(Path(shard.path))) for shard in of_table)
        for table, of_table in log.shards.items()
    }
    return replace(log, shards=shards)


def _is_as_written_by_us(log: Log, table: str, path: str) -> bool:
    """Whether a shard is as we write it: the contract's types, small row groups, sorted by example_id."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
        types = polars_types(file.schema_arrow)
    if any(dtype != _type_to_write(table, name, dtype) for name, dtype in types.items()):
        return False
    if max(groups, default=0) > 2 * ROW_GROUP_BYTES:
        return False
    ids = collect(pl.scan_parquet(path, glob=False).select("example_id"), log)["example_id"]
    return ids.is_sorted()


def _type_to_write(table: str, name: str, dtype: pl.DataType) -> pl.DataType:
    """The type in which a column would be written. A list of states must become a fixed-size one."""
    if name == "state" and kind_of(table) == HIDDEN:
        return state_type(dtype, lambda: None)
    return target_type(table, name, dtype)


def shard_entry(path: Path, file: str) -> ShardEntry:
    """The manifest's entry for a shard. `file` is its name under the log's folder."""
    import pyarrow.parquet as pq

    return ShardEntry(file, pq.read_metadata(path).num_rows, hash_file(path))
