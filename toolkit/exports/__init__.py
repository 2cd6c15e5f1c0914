"""Exports of logs: one flat table, and the formats of other tools."""

from toolkit.exports.recovery import export_recovery, export_replay
from toolkit.exports.table import export_table

__all__ = ["export_recovery", "export_replay", "export_table"]
