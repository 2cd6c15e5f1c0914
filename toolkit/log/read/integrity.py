"""Checks that a sealed log's bytes are those that were sealed; `Log.scan` makes them before every read.

A shard is hashed once. Where the state of its file would show a change, the user's cache remembers that it was sound. A
local file is known by its inode, its size and both of its times in nanoseconds: the time of its last change of state
can't be set by hand. A remote one is known by its etag; one without is hashed every time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from toolkit.log.contract.problems import LogError, Problem
from toolkit.log.read.checked_shards import known_shards, remember_shards
from toolkit.log.read.footers import Footer, hash_file, shard_damage
from toolkit.log.read.locating import Shard
from toolkit.log.read.threads import map_in_threads

SETTLED_NS = 2 * 10**9
"""Seconds after a file's last change in which it is not cached: with a coarse clock a later change could have the same
time.
"""


class ByteChecks:
    """Checks the bytes of an open log, and remembers which sealed shards and unsealed columns it has checked."""

    def __init__(self, joined: Iterable[ByteChecks] = ()):
        self._known: dict[tuple[str, str], Problem | None] = {}  # by path and column; `` is the shard as it was sealed
        for checks in joined:
            self._known |= checks._known

    def problems(
        self, footers: Sequence[Footer], columns: Sequence[str] | None = None, anew: bool = False
    ) -> Iterator[Problem]:
        """Yields at most one problem a shard: with its hash if it has one, else with the pages of `columns` (None:
        all).

        `anew` hashes shards that the cache of the user knows, too.
        """
        hashed = [footer for footer in footers if footer.shard.sha256 and (footer.shard.path, "") not in self._known]
        if hashed:
            self._known |= {(path, ""): problem for path, problem in _byte_problems(hashed, anew).items()}
        self._read_pages([footer for footer in footers if not footer.shard.sha256], columns)
        for footer in footers:
            names = [""] if footer.shard.sha256 else footer.columns if columns is None else columns
            known = (self._known.get((footer.shard.path, name)) for name in names)
            yield from itertools.islice(filter(None, known), 1)

    def read_all(self, footer: Footer) -> Problem | None:
        """Reads every page of a shard, even if it was checked before, and returns the problem, if any."""
        problem = shard_damage(footer.shard, footer)
        if problem is None:
            self._known |= {(footer.shard.path, name): None for name in footer.columns}
        return problem

    def _read_pages(self, footers: Iterable[Footer], columns: Sequence[str] | None) -> None:
        """Reads columns that were not read before. Fetched byte ranges are compared with checksums as they come."""
        due = []
        for footer in footers:
            wanted = footer.columns if columns is None else [name for name in columns if name in footer.columns]
            new = [name for name in wanted if (footer.shard.path, name) not in self._known]
            if new and not footer.fetches_byte_ranges:
                due.append((footer, new))
        results = map_in_threads(lambda one: shard_damage(one[0].shard, one[0], one[1]), due)
        for (footer, names), problem in zip(due, results, strict=True):
            self._known.update(((footer.shard.path, name), problem) for name in names)


def _byte_problems(sealed: Sequence[Footer], anew: bool) -> dict[str, Problem | None]:
    """The problem with each sealed shard's bytes, by path; None where they are as sealed. Shards in the cache are not
    read again unless `anew`.
    """
    before = _cache_states(sealed)
    known = set() if anew else known_shards({name: state for name, state, _ in before.values()})
    due = [footer for footer in sealed if before.get(footer.shard.path, ("",))[0] not in known]
    problems: dict[str, Problem | None] = {footer.shard.path: None for footer in sealed}
    problems.update(zip((footer.shard.path for footer in due), map_in_threads(_hash_problem, due), strict=True))
    after = _cache_states(
        [footer for footer in due if problems[footer.shard.path] is None and footer.shard.path in before]
    )
    unchanged = (before[path] for path in after if after[path][:2] == before[path][:2])
    remember_shards({name: state for name, state, settled in unchanged if settled})
    return problems


def _hash_problem(footer: Footer) -> Problem | None:
    shard = footer.shard
    if hash_file(footer.path) == shard.sha256:
        return None
    message = "its bytes are not those that were sealed (sha256 is not the manifest's): restore it, or seal again"
    return shard_damage(shard, footer) or Problem(shard.file, None, None, message, "altered")


def _cache_states(footers: Sequence[Footer]) -> Mapping[str, tuple[str, str, bool]]:
    """A shard's name by path, its state in the cache, and whether that may be stored. Shards without a known state are
    left out.
    """
    states = map_in_threads(_cache_state, [footer.shard for footer in footers])
    return {footer.shard.path: state for footer, state in zip(footers, states, strict=True) if state is not None}


def _cache_state(shard: Shard) -> tuple[str, str, bool] | None:
    if shard.place.system is not None:
        try:
            etag = shard.place.etag(shard.path)
        except (LogError, OSError):
            return None
        return None if etag is None else (shard.place.address(shard.path), f"{etag} {shard.sha256}", True)
    try:
        info = Path(shard.path).stat()
    except OSError:
        return None
    if not info.st_ino:
        return None
    numbers = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    settled = time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) > SETTLED_NS
    return str(Path(shard.path).absolute()), f"{numbers} {shard.sha256}", settled
