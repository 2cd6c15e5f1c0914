"""Reading the number that a judgement says, in JSON or in words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_DECODER = json.JSONDecoder()


def read_number(text: str, how: str, field: str) -> float | None:
    """The number that a judgement says, None where none can be read.

    how: `json` takes the last JSON object of the text that has the `field`; `number` the first number there is.
    """
    value = _from_json(text, field) if how == "json" else _first_number(text)
    return value if value is not None and math.isfinite(value) else None


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
    except OverflowError:  # an integer of hundreds of digits
        return None
