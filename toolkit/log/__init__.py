"""The log: the tables that generation writes once and replay reads (docs/log.md)."""

from toolkit.log.check.validating import check_log
from toolkit.log.contract.left_out import LEFT_OUT, calls_left_out, source_parts
from toolkit.log.contract.manifest import Manifest, ShardEntry
from toolkit.log.contract.problems import LogError, Problem, Report
from toolkit.log.contract.schema import SCHEMAS, TABLES, LogColumn, keys_of, schema_of
from toolkit.log.describe.description import Description
from toolkit.log.entry import IN_MEMORY, AnyLog, describe_log, open_log, query_log, validate_log
from toolkit.log.read.log import Log, Shard, collect
from toolkit.log.read.query import check_printable_size, limited_memory
from toolkit.log.write.extending import ADDING, extend_log, open_sealed
from toolkit.log.write.merging import MergeReport, merge_logs
from toolkit.log.write.sealing import seal_log
from toolkit.log.write.writer import LogWriter, write_log

__all__ = [
    "ADDING", "IN_MEMORY", "LEFT_OUT", "SCHEMAS", "TABLES", "AnyLog", "Description", "Log", "LogColumn",
    "LogError", "LogWriter", "Manifest", "MergeReport", "Problem", "Report", "Shard", "ShardEntry", "calls_left_out",
    "check_log", "check_printable_size", "collect", "describe_log", "extend_log", "keys_of", "limited_memory",
    "merge_logs", "open_log", "open_sealed", "query_log", "schema_of", "seal_log", "source_parts", "validate_log",
    "write_log",
]  # fmt: skip
