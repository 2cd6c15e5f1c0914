"""The published numbers as they were transcribed: tables by their number, rows by their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

PublishedRow = Mapping[str, Any]


@cache
def document(work: str) -> dict[str, Any]:
    """Everything that was transcribed of a work: tables, claims, the arithmetic that they should satisfy."""
    path = files("replay") / "studies" / "data" / f"{work}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def published_rows(work: str, table: str) -> tuple[PublishedRow, ...]:
    """The rows of a table; none where the work has no such table."""
    found = next((one for one in document(work)["tables"] if one["id"] == table), {"columns": (), "rows": ()})
    return tuple(dict(zip(found["columns"], row, strict=True)) for row in found["rows"])


def published_row(work: str, table: str, **keys: object) -> PublishedRow:
    """The first row in which these columns have these values; empty where there is none."""
    rows = published_rows(work, table)
    return next((row for row in rows if all(row.get(key) == value for key, value in keys.items())), {})


def stated_number(work: str, text: str) -> float:
    """The number that a work's text, outside its tables, states of something."""
    return next(float(one["value"]) for one in document(work)["claims"] if one["text"] == text)
