"""Rows that the reader of a format prepares for its mapping, the pools of the files, and notes about them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import counted
from toolkit.imports.files.listing import ListedFile
from toolkit.notes import remark

Row = dict[str, Any]
_NAMED = 2
"""The most names that a line lists in full."""


@dataclass(frozen=True)
class FileNote:
    """A note about `of`: a task or a file, or the whole import where it is empty. Its subject is `count` times `what`;
    equal notes are merged and their counts added. `code`: by which programs find its line.
    """

    of: str
    text: str
    count: int = 0
    what: str = ""
    code: str = ""


def merged_notes(notes: Iterable[FileNote]) -> Iterator[str]:
    """Yields one line for each distinct note, in the order in which they first come."""
    alike: dict[tuple[str, str], list[FileNote]] = {}
    for note in notes:
        alike.setdefault((note.text, note.what), []).append(note)
    for (text, what), same in alike.items():
        subject = f"{counted(sum(note.count for note in same), what)} " if what else ""
        names = list(dict.fromkeys(note.of for note in same if note.of))
        yield remark(same[0].code, f"{name_list(names)}: {subject}{text}" if names else f"{subject}{text}")


def name_list(names: Sequence[str]) -> str:
    """The names as one text: of many, only the first and the number of the others."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"


@dataclass(frozen=True)
class PreparedRows:
    """A file's converted rows for a mapping. `notes` grow while the rows are read; `pools` go into the manifest."""

    file: ListedFile
    rows: Iterable[Row]
    notes: list[FileNote] = field(default_factory=list)
    pools: Mapping[str, Any] = field(default_factory=dict)


def distinct_pools(named: Sequence[tuple[str, str, str]]) -> list[str]:
    """The pool of each file, given (pool, content, path). Files of one pool with equal content are separate runs: the
    part in which their paths differ is added to the pool's name.
    """
    paths: dict[tuple[str, str], list[str]] = {}
    for pool, holds, path in named:
        paths.setdefault((pool, holds), []).append(path)
    names = []
    for pool, holds, path in named:
        alike = paths[pool, holds]
        names.append(pool if len(alike) == 1 else f"{pool} ({_path_part(path, alike)})")
    return names


def pools_of_parts(named: Sequence[tuple[str, Set[Hashable], str]]) -> list[str]:
    """The pool of each file, given (pool, content, path). Files of a pool without common content are its parts. If two
    have common content, all of its files become separate pools.
    """
    seen: dict[str, set[Hashable]] = {}
    shared = set()
    for pool, holds, _ in named:
        if not seen.setdefault(pool, set()).isdisjoint(holds):
            shared.add(pool)
        seen[pool] |= holds
    return distinct_pools([(pool, "" if pool in shared else path, path) for pool, _, path in named])


def _path_part(path: str, paths: Sequence[str]) -> str:
    """The path without the folders that all paths share at the beginning and at the end."""
    split = [one.split("/") for one in paths]
    steps, least = path.split("/"), min(map(len, split)) - 1
    begin = next((i for i in range(least) if len({parts[i] for parts in split}) > 1), least)
    end = next((i for i in range(least - begin) if len({parts[-1 - i] for parts in split}) > 1), least - begin)
    return "/".join(steps[begin : len(steps) - end]) or path
