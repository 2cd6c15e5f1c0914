"""A format that others write, as data: which files are of it, how they are told, and what their rows are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.imports.formats.file_notes import FileNote
from toolkit.imports.formats.found_files import FoundFile
from toolkit.imports.formats.heads import FileHead

MAPS = Path(__file__).parent / "maps"
Row = dict[str, Any]


@dataclass(frozen=True)
class PreparedRows:
    """Rows of a file that a mapping takes. `notes` are filled while they are read; `pools` are the manifest's."""

    file: FoundFile
    rows: Iterable[Row]
    notes: list[FileNote] = field(default_factory=list)
    pools: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownFormat:
    """`maps/NAME.toml` is its mapping. `prepare` is for files whose rows no mapping can take."""

    name: str
    title: str
    files: str
    """A regular expression that the paths of its files match, in a folder or an archive."""
    recognises: Callable[[FileHead], bool]
    lacks: str
    prepare: Callable[..., Iterator[PreparedRows]] | None = None
    """Of the files, and of the settings `options` by their names."""
    options: tuple[str, ...] = ()
    """Settings that are its own, beside those of its mapping."""
    depth: int = 1
    """How many names at the end of a path say what a file holds; those before them, which run it is of."""
    of_requests: bool = False
    """Whether its ids are those of requests, of which several may ask the same."""
    nameless: bool = False
    """Whether its files have no names of their own: of a folder, those are of the format that it recognises."""
    companions: tuple[str, ...] = ()
    """Names of files that belong to one of the format and are read with it, though it alone was named."""

    @property
    def mapping(self) -> Path:
        """The mapping that is shipped for it."""
        return MAPS / f"{self.name}.toml"

    def takes(self, path: str) -> bool:
        """Whether a file of a folder or an archive is one of the format, as its path says."""
        return re.search(self.files, path, re.IGNORECASE) is not None


def told_apart(named: Sequence[tuple[str, str, str]]) -> list[str]:
    """Pools of files that are (pool, what they hold, path): those of one pool that hold the same get a mark.

    The mark is what their paths do not share, so that two runs of one model never become one pool.
    """
    paths: dict[tuple[str, str], list[str]] = {}
    for pool, holds, path in named:
        paths.setdefault((pool, holds), []).append(path)
    made = []
    for pool, holds, path in named:
        alike = paths[pool, holds]
        made.append(pool if len(alike) == 1 else f"{pool} ({_own_part(path, alike)})")
    return made


def by_parts(named: Sequence[tuple[str, Set[Hashable], str]]) -> list[str]:
    """Pools of files that are (pool, what each holds, path): files of one pool that share nothing are its parts.

    Where two of a pool share anything, all of its files are runs of their own and get marks.
    """
    seen: dict[str, set[Hashable]] = {}
    shared = set()
    for pool, holds, _ in named:
        if not seen.setdefault(pool, set()).isdisjoint(holds):
            shared.add(pool)
        seen[pool] |= holds
    return told_apart([(pool, "" if pool in shared else path, path) for pool, _, path in named])


def _own_part(path: str, paths: Sequence[str]) -> str:
    """A path without the folders at both ends that all the paths have."""
    split = [one.split("/") for one in paths]
    own, least = path.split("/"), min(map(len, split)) - 1
    begin = next((i for i in range(least) if len({parts[i] for parts in split}) > 1), least)
    end = next((i for i in range(least - begin) if len({parts[-1 - i] for parts in split}) > 1), least - begin)
    return "/".join(own[begin : len(own) - end]) or path
