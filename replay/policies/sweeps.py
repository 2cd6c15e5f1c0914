"""Sweeps: a list in place of a value makes one policy per value, several lists their product."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from toolkit.errors import ThinkbackError
from toolkit.literal_float import LiteralFloat

MOST_POLICIES = 20_000


def expand(
    table: Mapping[str, Any], lists: Callable[[Mapping[str, Any]], frozenset[str]], tables: frozenset[str]
) -> Iterator[tuple[dict[str, Any], tuple[tuple[str, Any], ...], int]]:
    """The policies that one table stands for, each as a table without lists, its keys and values, and how many.

    The name of each gets `[key=value, ...]` in the order written, inner keys with dots. `lists` tells of a table, this
    one or an inner one, the keys whose value is a list by nature: there, a list of lists is the sweep. `tables` are
    keys of lists of tables, in which a list in place of a value sweeps too; places count from 0. Raises when a sweep
    makes more than MOST_POLICIES policies, saying how large it is.
    """
    if isinstance(table.get("name"), list):
        raise ThinkbackError(f"`name` is a list: {spell(table['name'])}; a sweep makes the names itself")
    swept = list(_swept((), table, lists, tables))
    size = prod(len(values) for _, values in swept)
    name = table.get("name", "a policy without a name")
    if size > MOST_POLICIES:
        parts = " x ".join(f"{len(values)} of `{'.'.join(path)}`" for path, values in swept)
        raise ThinkbackError(
            f"policy `{name}`: its sweep makes {size:,} policies ({parts}); at most {MOST_POLICIES:,} are allowed"
        )
    if size == 0:
        empty = next(path for path, values in swept if not values)
        raise ThinkbackError(f"policy `{name}`: `{'.'.join(empty)}` is an empty list; give it at least one value")
    if not swept:
        yield dict(table), (), 1
        return
    plain = copied(table)
    for path, _ in swept:  # so that no copy carries the lists; keys keep their order
        _put(plain, path, None)
    for choice in itertools.product(*(values for _, values in swept)):
        made = copied(plain)
        own = []
        for (path, _), value in zip(swept, choice, strict=True):
            _put(made, path, value)
            own.append((".".join(path), value))
        made["name"] = f"{name}[{', '.join(f'{key}={spell(value)}' for key, value in own)}]"
        yield made, tuple(own), size


def spell(value: object) -> str:
    """A value as the file wrote it: numbers to the letter, true and false in lower case."""
    if isinstance(value, LiteralFloat):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(spell(v) for v in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}={spell(v)}' for k, v in value.items())}}}"
    return str(value)


def _swept(
    path: tuple[str, ...],
    table: Mapping[str, Any],
    lists: Callable[[Mapping[str, Any]], frozenset[str]],
    tables: frozenset[str],
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    whole = lists(table) | tables
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _swept((*path, key), value, lists, tables)
        elif key in tables and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
            for place, part in enumerate(value):
                yield from _swept((*path, key, str(place)), part, lists, tables)
        elif isinstance(value, list) and (key not in whole or any(isinstance(v, list) for v in value)):
            yield (*path, key), value


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    inner: Any = table
    for key in path[:-1]:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    inner[path[-1]] = value


def copied(value: Any, leaf: Callable[[Any], Any] = lambda inner: inner) -> Any:
    """A copy of a document's tables and lists, with `leaf` of what they hold."""
    if isinstance(value, Mapping):
        return {key: copied(inner, leaf) for key, inner in value.items()}
    return [copied(inner, leaf) for inner in value] if isinstance(value, list) else leaf(value)
