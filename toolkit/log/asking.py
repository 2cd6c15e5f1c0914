"""What a log is asked, whatever it is given as: its address, frames in memory by table, or a log that is open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import polars as pl

from toolkit.arguments import WORDS, checks_arguments
from toolkit.log.check.validating import validate
from toolkit.log.contract.problems import Report
from toolkit.log.describe.description import Description
from toolkit.log.describe.measuring import describe
from toolkit.log.opening import AnyLog, open_log, validate_frames
from toolkit.log.read.query import answer


@checks_arguments(log=f"{WORDS['log']}, or None", files="Parquet files by name")
def query_log(log: AnyLog | None, sql: str, files: Mapping[str, Path] = MappingProxyType({})) -> pl.DataFrame:
    """Answer one SELECT over the views `examples`, `traces`, …; hidden states are `hidden_states_MODEL`.

    `files`: Parquet files that are views too, by name; without a log they are all that there is. A missing table is an
    empty view. Other statements are refused: a query changes nothing. LogError with one line for any error of the SQL,
    for a shard that is damaged, and for values that no frame holds.
    """
    return answer(None if log is None else open_log(log), sql, files)


@checks_arguments()
def describe_log(log: AnyLog) -> Description:
    """Describe a log. LogError where it holds no tables, or its rows can't be read as the contract says."""
    return describe(open_log(log))


@checks_arguments()
def validate_log(log: AnyLog) -> Report:
    """Check everything that the contract promises, the shards' hashes too; of frames in memory their rows.

    One problem per table and kind of fault, with the first offending row; notes say what is worth knowing but
    no fault: that the log is unsealed, gaps in sample indices, ignored files.
    """
    return validate_frames(log) if isinstance(log, Mapping) else validate(open_log(log))
