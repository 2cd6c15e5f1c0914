"""Which layers and tokens of a text are wanted: a list of whole numbers, or for tokens a span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.errors import ThinkbackError, suggest


def read_layers(given: Any, place: str) -> tuple[int, ...]:
    """A list of layers, each once."""
    return _numbers(given, place)


def read_tokens(given: Any, place: str) -> tuple[int, ...]:
    """A list of places, or `{ first = -16, last = -1 }`, both ends within; a span lies on one side of the text."""
    if not isinstance(given, Mapping):
        return _numbers(given, place)
    for key in given:
        if key not in ("first", "last"):
            raise ThinkbackError(f"unknown key `{key}` in `{place}`; {suggest(key, ('first', 'last'))}")
    if set(given) != {"first", "last"}:
        raise ThinkbackError(f"`{place}` needs both ends: `{{ first = -16, last = -1 }}`")
    first, last = _numbers([given["first"]], place)[0], _numbers([given["last"]], place)[0]
    if first > last or (first < 0) != (last < 0):
        raise ThinkbackError(f"`{place}`: a span runs up, on one side of 0: {first} to {last} does not")
    return tuple(range(first, last + 1))


def _numbers(given: Any, place: str) -> tuple[int, ...]:
    whole = isinstance(given, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in given)
    if not whole or not given:
        raise ThinkbackError(f"`{place}` must be a list of whole numbers, not {given!r}")
    if len(set(given)) < len(given):
        raise ThinkbackError(f"`{place}` names a number twice")
    return tuple(given)
