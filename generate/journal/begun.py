"""Whether a run goes on with what was begun before: what differs, as errors say it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def difference(
    before: Mapping[str, Any], now: Mapping[str, Any], keys: Iterable[str] | None = None, most: int = 60
) -> str | None:
    """ "`seed` is 1 there and 2 here" of the first key that differs, by default of all, those of now first; None where
    none does. Values are cut after so many characters.
    """
    for key in dict.fromkeys([*now, *before]) if keys is None else keys:
        if now.get(key) != before.get(key):
            return f"`{key}` is {_shown(before.get(key), most)} there and {_shown(now.get(key), most)} here"
    return None


def _shown(value: Any, most: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= most:
        return text
    return f'{text[: most - 2]}…"' if isinstance(value, str) else f"{text[: most - 1]}…"
