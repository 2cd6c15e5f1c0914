"""Logs go out again in the formats of other tools."""

from toolkit.exports.recovery import export_recovery, export_replay

__all__ = ["export_recovery", "export_replay"]
