"""The log of log.md: what generation writes once and replay reads for ever."""

from toolkit.log.describing import Description, describe_log
from toolkit.log.extending import ADDING, extend_log, open_sealed
from toolkit.log.manifest import Entry, Manifest
from toolkit.log.merging import MergeReport, merge_logs
from toolkit.log.problems import LogError, Problem, Report
from toolkit.log.query import query_log
from toolkit.log.reading import Log, Shard, collect, open_log
from toolkit.log.schema import SCHEMAS, TABLES, Column, keys_of, schema_of
from toolkit.log.validating import check_log, validate_log
from toolkit.log.writing import LogWriter, seal_log, write_log

__all__ = [
    "ADDING",
    "SCHEMAS",
    "TABLES",
    "Column",
    "Description",
    "Entry",
    "Log",
    "LogError",
    "LogWriter",
    "Manifest",
    "MergeReport",
    "Problem",
    "Report",
    "Shard",
    "check_log",
    "collect",
    "describe_log",
    "extend_log",
    "keys_of",
    "merge_logs",
    "open_log",
    "open_sealed",
    "query_log",
    "schema_of",
    "seal_log",
    "validate_log",
    "write_log",
]
