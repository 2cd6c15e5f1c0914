"""Columns that are read from the paths of files by a pattern, such as `{model}/seed{seed}.jsonl`.

The pattern is compared with the end of a file's whole path, as many folders of it as the pattern has. `{name}` takes
what stands there within one folder's or file's name and becomes a column of that name; `*` takes it and drops it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import polars as pl

from toolkit.errors import ConflictError, InvalidError, MismatchError
from toolkit.imports.files.archives import UNPACKERS

_PLACE = re.compile(r"\{([^\W\d]\w*)\}|\*")


def check_pattern(pattern: str, place: str) -> str:
    """Checks a mapping's `path` pattern and returns it. ThinkbackError where it names no column, or one twice."""
    names = columns_of(pattern)
    if not names:
        raise InvalidError(f"`{place}` is {pattern!r} and names no column: write one, as in `{{model}}/*.jsonl`")
    for name in names:
        if names.count(name) > 1:
            raise ConflictError(f"`{place}` names `{name}` twice: give one of them another name")
    if len(pattern) > 1000 or not pattern.isprintable() or re.search(r"[{}]", _PLACE.sub("", pattern)):
        raise InvalidError(f"`{place}` is {pattern!r}: a column is written `{{name}}`, in letters, digits and `_`")
    return pattern


def columns_of(pattern: str) -> list[str]:
    """The names of the columns in a path pattern."""
    return [name for name in _PLACE.findall(pattern) if name]


def columns_of_paths(pattern: str, paths: Sequence[str]) -> list[dict[str, str]]:
    """The values of a pattern's columns for each path. ThinkbackError where a path does not fit."""
    columns = _path_columns(pattern, paths)
    for path, names in zip(paths, columns, strict=True):
        if names is None:
            raise MismatchError(f"source `{path}` does not fit the mapping's `path`, `{pattern}`")
    return [names for names in columns if names is not None]


def fitting_paths(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that match a pattern."""
    every = list(paths)
    return [path for path, columns in zip(every, _path_columns(pattern, every), strict=True) if columns is not None]


def _path_columns(pattern: str, paths: Sequence[str]) -> list[dict[str, str] | None]:
    """The columns that a pattern reads from each path, None where the path does not match. Endings of compression may
    be missing from the pattern.
    """
    parts, at = [], 0
    for place in _PLACE.finditer(pattern):
        parts += [re.escape(pattern[at : place.start()]), f"(?P<{place[1]}>[^/]+)" if place[1] else "[^/]*"]
        at = place.end()
    parts.append(re.escape(pattern[at:]))
    folders = pattern.count("/") + 1
    ends = ["/".join(PurePosixPath(path).parts[-folders:]) for path in paths]
    plain = [_without_packing(end) for end in ends]
    # In linear time, whatever the pattern: a mapping may be somebody else's.
    groups = pl.Series([*ends, *plain], dtype=pl.String).str.extract_groups(f"^{''.join(parts)}$").to_list()
    tries = zip(groups[: len(ends)], groups[len(ends) :], strict=True)
    return [next((columns for columns in both if None not in columns.values()), None) for both in tries]


def _without_packing(path: str) -> str:
    """The path without endings of compression such as `.gz`."""
    for ending in UNPACKERS:
        path = path.removesuffix(ending)
    return path


def relative_paths(paths: Sequence[str]) -> list[str]:
    """The paths relative to the deepest folder that all of them share."""
    folders = [PurePosixPath(path).parts[:-1] for path in paths]
    shared = 0
    while all(len(parts) > shared and parts[shared] == folders[0][shared] for parts in folders):
        shared += 1
    return ["/".join(PurePosixPath(path).parts[shared:]) for path in paths]
