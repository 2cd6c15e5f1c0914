"""The source rows of a mapping, read at once or a range of examples at a time.

A small source is read as it is. A large one is sorted by example on disk, and its blocks are read from there, so memory
does not grow with it. Where an expression looks at other rows, all of them are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.errors import EmptyError
from toolkit.imports.build.examples import example_keys, ids_of_several
from toolkit.imports.build.traces import content_hashes
from toolkit.imports.files.listing import likely_bytes
from toolkit.imports.map import opening
from toolkit.imports.map.expressions import SourceRows
from toolkit.imports.map.mapping import ImportMapping
from toolkit.imports.rows.sorted_rows import Prepared, sort_rows
from toolkit.imports.rows.source_table import SourceTable
from toolkit.imports.rows.sources import SourceList, SourceRules, find_sources, read_beside, read_files, source_blocks
from toolkit.work_places import remove_path

WHOLE_BYTES = 96 * 2**20
"""A source up to this size is read at once."""


@dataclass(frozen=True)
class PreparedSources:
    """Files that were unpacked or rewritten for a mapping, and the facts about the originals for the manifest."""

    runs: Mapping[str, str]
    """The column `source_run` by address: the part of a file's path that distinguishes its run."""
    files: tuple[tuple[str, str], ...]
    """The original files: (path, sha256)."""
    folder: str
    """Where a mapping's `join` looks."""
    pools: Mapping[str, Any]
    """The manifest's entries of pools that the mapping does not set."""


@dataclass(frozen=True)
class SourceBlocks:
    """An import's source rows in `count` blocks. `files`: (path, sha256) of each; `read` rows became `used` ones."""

    files: tuple[tuple[str, str], ...]
    read: int
    used: int
    count: int
    block: Callable[[int], SourceRows]
    several: pl.Series | None = None
    """The example_ids that have several questions, which may lie in different blocks."""
    left_out: int = 0
    """Files of folders whose paths do not fit the mapping's `path`."""


def open_source(
    plan: ImportMapping, sources: Sequence[str], folder: Path, prepared: PreparedSources | None = None
) -> SourceBlocks:
    """Reads the source of a mapping. A large one is sorted in `folder` on disk, which stays while blocks are read."""
    rules = opening.source_rules(plan) if prepared is None else replace(opening.source_rules(plan), runs=prepared.runs)
    files = find_sources(sources, rules)
    other = None
    if plan.join is not None:
        place = files.folder if prepared is None else prepared.folder
        other = opening.read_joined_rows(plan, plan.join, read_beside(plan.join.file, place, rules))
    large = likely_bytes([file.address for file in files.files]) > WHOLE_BYTES
    blocks = _sorted_blocks(plan, files, rules, other, folder) if large else None
    whole = replace(blocks or _read_whole(plan, files, rules, other), left_out=files.left_out)
    return whole if prepared is None else replace(whole, files=prepared.files)


def _read_whole(
    plan: ImportMapping, files: SourceList, rules: SourceRules, other: opening.KeyedRows | None
) -> SourceBlocks:
    source = read_files(files, rules)
    _check_rows(plan, files, source.table.frame.height, 0, 0)
    every = opening.opened_rows(plan, source.table, other)
    rows = every.filter_rows("where", plan.where)
    _check_rows(plan, files, source.table.frame.height, every.frame.height, rows.frame.height)
    return SourceBlocks(source.files, source.table.frame.height, rows.frame.height, 1, lambda _: rows)


def _check_rows(plan: ImportMapping, files: SourceList, read: int, opened: int, used: int) -> None:
    """Raises ThinkbackError where no row is left. `opened`: the rows after lists were opened, 0 before that."""
    if not read:
        raise EmptyError(f"the source holds no rows: {files.names_text}")
    if opened and not used:
        raise EmptyError(f"mapping `{plan.file}`: `where` is true of none of the {opened} rows: change it")


class _LooksAtOtherRows(Exception):
    """An expression of the mapping needs all rows at once, so that the source cannot be read in blocks."""


def _sorted_blocks(
    plan: ImportMapping, files: SourceList, rules: SourceRules, other: opening.KeyedRows | None, folder: Path
) -> SourceBlocks | None:
    """The blocks of a source that is sorted on disk; None where all rows must be read at once."""
    opened = 0
    others: tuple[str, ...] = ()

    def prepare(table: SourceTable) -> Prepared:
        nonlocal opened, others
        every = opening.opened_rows(plan, table, other)
        if not all(map(every.depends_on_row_alone, opening.every_value(plan))):
            raise _LooksAtOtherRows
        opened += every.frame.height
        rows = every.filter_rows("where", plan.where)
        keys = example_keys(rows, plan)
        names = opening.needed_columns(plan, rows.frame.columns)
        others = (*rows.others, *(name for name in rows.frame.columns if name not in names))
        hashes = [content_hashes(rows.frame)] if opening.tables_in_row_order(plan) else []
        frame = rows.frame.select(names).with_columns(hashes)
        return SourceTable(frame, {name: kind for name, kind in rows.numbers.items() if name in names}), keys

    digests: dict[str, str] = {}
    folder.mkdir()
    try:
        order = sort_rows(lambda: source_blocks(files, rules, folder, digests), prepare, rules.texts, folder)
    except _LooksAtOtherRows:
        order = None
    if order is None:
        remove_path(folder)
        return None
    rows, read = order
    _check_rows(plan, files, read, opened, rows.rows)

    def block(number: int) -> SourceRows:
        table = rows.block(number)
        return SourceRows(table.frame, table.numbers, plan.file, others=others, partial=len(rows.ranges) > 1)

    several = ids_of_several(rows.keys(), plan)
    return SourceBlocks(tuple(digests.items()), read, rows.rows, len(rows.ranges), block, several)
