"""Opening, querying and describing a log, given as an address, as frames by table, or as an open log."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from toolkit.arguments import WORDS, checks_arguments
from toolkit.errors import argument, listed, quote
from toolkit.log.check.validating import check_log, validate
from toolkit.log.contract.problems import LogError, Problem, Report
from toolkit.log.contract.schema import SCHEMAS, check_table
from toolkit.log.describe.description import Description
from toolkit.log.describe.measuring import describe
from toolkit.log.read.footers import FAILURES, first_sentence
from toolkit.log.read.log import Log
from toolkit.log.read.log import open_log as open_address
from toolkit.log.read.query import run_query
from toolkit.log.write.typed_rows import contract_rows
from toolkit.log.write.writer import Frame, write_log
from toolkit.work_places import remove_path, scratch_folder

AnyLog = Log | str | Path | Mapping[str, Any]
"""A log as an argument: an open one, its address, or its tables as frames of polars, pandas or Arrow."""
IN_MEMORY = "frames in memory"
"""The name and the address of a log of frames."""
GIVEN_ROW = "__given_row"


class _FolderOwner:
    """Owns a temporary folder, which is removed once no log and no shard refers to the owner."""


@checks_arguments(name="a name")
def open_log(log: AnyLog, *, name: str | None = None, simulated: bool = False) -> Log:
    """Opens a log: a folder, a glob of logs, table folders or shards, any address that fsspec knows, or frames.

    Frames are given by table and checked as a log is. They are kept in a temporary folder, which goes when nothing
    refers to the log or a scan of it. `name` and `simulated` are what their manifest says; a log at an
    address says so itself. LogError where there is no log, its manifest is damaged or newer, a shard that it lists is
    missing, or frames break the contract.
    """
    if isinstance(log, Mapping):
        return _log_of_frames(log, name or IN_MEMORY, simulated)
    for key in (key for key, given in (("name", name), ("simulated", simulated or None)) if given is not None):
        raise LogError(
            f"{argument(key)} goes with frames in memory; a log at an address says it in its manifest", code="conflict"
        )
    return log if isinstance(log, Log) else open_address(log)


def _polars_frames(tables: Mapping[str, Any]) -> dict[str, Frame]:
    if not tables:
        raise LogError(f"`log` holds no tables; the tables of a log are {listed(list(SCHEMAS))}", code="empty")
    return {table: _polars_frame(table, given) for table, given in tables.items()}


def _log_of_frames(tables: Mapping[str, Any], name: str, simulated: bool) -> Log:
    frames, folder = _polars_frames(tables), Path(scratch_folder())
    try:
        log = write_log(folder / "log", name=name, tables=frames, simulated=simulated, validate=False)
        try:
            check_log(log, tuple(log.shards))
        except LogError as error:
            raise error if error.problem is None else _problem_in_frames(error.problem, log, frames).error() from None
    except BaseException:
        remove_path(folder)
        raise
    owner = _FolderOwner()
    weakref.finalize(owner, _clean_up, folder, os.getpid())
    shards = {
        table: tuple(replace(shard, place=replace(shard.place, owner=owner)) for shard in parts)
        for table, parts in log.shards.items()
    }
    return Log(IN_MEMORY, log.manifest, shards, log.warnings)


def _polars_frame(table: str, data: Any) -> Frame:
    """A table as a polars frame. The order of its columns depends only on their names."""
    check_table(str(table))
    if isinstance(data, pl.LazyFrame):
        try:
            return data.select(sorted(data.collect_schema().names()))
        except FAILURES as error:
            raise LogError(f"`{table}`: the lazy frame can't be read: {first_sentence(error)}", code="read") from None
    if not isinstance(data, pl.DataFrame):
        try:
            if not hasattr(data, "__arrow_c_stream__") or isinstance(data, pl.Series):
                raise TypeError
            data = pl.DataFrame(data, nan_to_null=True)  # pandas has no other missing number
        except (TypeError, ValueError, pl.exceptions.PolarsError):
            raise LogError(
                f"`{table}` is {quote(data)}; it takes a frame of polars, pandas or Arrow", code="invalid"
            ) from None
        empty = [column.name for column in data if column.null_count() == len(column)]
        data = data.with_columns(pl.lit(None, pl.Null).alias(name) for name in empty)  # nor a type of nothing
    return data.select(sorted(data.columns))


def _problem_in_frames(problem: Problem, log: Log, frames: Mapping[str, Frame]) -> Problem:
    """A problem of a shard, told in terms of the user's frame: its table and row."""
    table, start = problem.file, 0
    for shards in log.shards.values():
        files = [shard.file for shard in shards]
        if problem.file in files:
            table = shards[0].table
            start = sum(log.footer(shard).rows for shard in shards[: files.index(problem.file)])
    if problem.row is None or table not in frames:
        return replace(problem, file=table)
    rows = contract_rows(frames[table].lazy().with_row_index(GIVEN_ROW).collect(), table)
    return replace(problem, file=table, row=int(rows[GIVEN_ROW][start + problem.row]))


def _clean_up(folder: Path, process: int) -> None:
    """Removes a folder that this process made; a forked process must not."""
    if os.getpid() == process:
        remove_path(folder)


@checks_arguments(log=f"{WORDS['log']}, or None", files="Parquet files by name")
def query_log(log: AnyLog | None, sql: str, files: Mapping[str, Path] = MappingProxyType({})) -> pl.DataFrame:
    """Answers one SELECT over the views `examples`, `traces`, …; hidden states are `hidden_states_MODEL`.

    `files`: Parquet files that are views too, by name; without a log they are all that there is. A missing table is an
    empty view. Other statements are refused: a query changes nothing. LogError with one line for any error of the SQL,
    for a shard that is damaged, and for values that no frame holds.
    """
    return run_query(None if log is None else open_log(log), sql, files)


@checks_arguments()
def describe_log(log: AnyLog) -> Description:
    """Describes a log in numbers. LogError where it holds no tables, or its rows can't be read as the contract says."""
    return describe(open_log(log))


@checks_arguments()
def validate_log(log: AnyLog) -> Report:
    """Checks everything that the contract promises, the shards' hashes too; of frames in memory, their rows.

    One problem per table and kind of fault, with the first offending row; notes say what is worth knowing but
    no fault: that the log is unsealed, gaps in sample indices, ignored files. Of frames whose values or columns do not
    fit the contract's types, the first such fault alone.
    """
    if not isinstance(log, Mapping):
        return validate(open_log(log))
    frames, folder = _polars_frames(log), Path(scratch_folder())
    try:
        opened = write_log(folder / "log", name=IN_MEMORY, tables=frames, validate=False)
        report = validate(opened)
        return replace(
            report, problems=tuple(_problem_in_frames(problem, opened, frames) for problem in report.problems)
        )
    except LogError as error:
        if error.problem is None:
            raise
        return Report((error.problem,), ())
    finally:
        remove_path(folder)
