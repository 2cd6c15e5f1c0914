"""Which columns an SQL expression only passes on or joins, and which it compares or computes with."""

from __future__ import annotations

import json
from typing import Any

_PASSING = {
    "CASE_EXPR", "OPERATOR_CAST", "OPERATOR_COALESCE", "ARRAY_EXTRACT", "STRUCT_EXTRACT",
    "concat", "concat_ws", "||", "trim", "upper", "lower", "replace", "split_part",
}  # fmt: skip
"""Kinds of nodes and functions whose text result is made of their arguments' texts, whatever numbers these spell."""


def passed_columns(sql: str) -> set[str]:
    """The columns of an expression that it only passes on or joins; none where DuckDB can't parse it."""
    import duckdb

    with duckdb.connect() as connection:
        (parsed,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {sql}"]).fetchall()
    tree = json.loads(parsed[0])
    found: dict[bool, set[str]] = {True: set(), False: set()}
    if not tree["error"]:
        _sort(tree["statements"][0]["node"]["select_list"], True, found)
    return found[True] - found[False]


def _sort(node: Any, passed: bool, found: dict[bool, set[str]]) -> None:
    """Add the columns below a node of the parsed SQL to those that are passed on (True) or computed with (False)."""
    if isinstance(node, list):
        for item in node:
            _sort(item, passed, found)
    elif isinstance(node, dict):
        if "column_names" in node:
            found[passed].add(node["column_names"][0])
        passing = "class" not in node or not _PASSING.isdisjoint((node["type"], node.get("function_name")))
        for key, part in node.items():
            _sort(part, passed and passing and key != "when_expr", found)
