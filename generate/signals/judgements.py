"""Reading what a judge says: a score, a number from 1 to 10, the number of the best of several."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_DECODER = json.JSONDecoder()

BOUNDS = {"judge": (0.0, 1.0), "reflection": (1.0, 10.0)}
"""The numbers that a judgement of each kind may be. A choice is a whole number from 1 to how many there are."""


def read_judgement(text: str, kind: str, how: str, field: str, candidates: int = 1) -> float | None:
    """The number that a judgement says, None where none can be read or it is out of bounds.

    how: `json` takes the last JSON object of the text that has the `field`; `number` the first number there is.
    candidates: how many a listwise judge chooses among.
    """
    value = _from_json(text, field) if how == "json" else _first_number(text)
    if value is None or not math.isfinite(value):
        return None
    if kind == "listwise":
        return value if value == int(value) and 1 <= value <= candidates else None
    low, high = BOUNDS[kind]
    return value if low <= value <= high else None


def _first_number(text: str) -> float | None:
    found = _NUMBER.search(text)
    return None if found is None else float(found.group())


def _from_json(text: str, field: str) -> float | None:
    """The field of the last object that has it; judges write before the object, and fence it."""
    found: Any = None
    place = text.find("{")
    while place >= 0:
        try:
            read, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(read, dict) and field in read:
            found = read[field]
        place = text.find("{", end)
    if isinstance(found, str):
        whole = _NUMBER.fullmatch(found.strip())
        found = None if whole is None else float(found)
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    try:
        return float(found)
    except OverflowError:  # a whole number of hundreds of digits
        return None
