"""The user's cache of shards that were found to be as they were sealed, so that the next command need not hash them.

It is a file of the user's, never one of the log's. Whatever goes wrong with it costs time and nothing else: then the
shards are hashed again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

FILE = "checked-shards.sqlite"
REMEMBERED_S = 30 * 24 * 3600
"""Seconds after which a shard is hashed anew: a disk may lose bits without changing a time."""
_WAIT_S = 2.0  # for another process that writes at this moment
_TABLE = "CREATE TABLE IF NOT EXISTS checked (path PRIMARY KEY, state, at) WITHOUT ROWID"


def _cache_folder() -> Path | None:
    """The folder `thinkback` under XDG_CACHE_HOME, by default under ~/.cache; None for a user without a home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "thinkback"
    try:
        return Path.home() / ".cache" / "thinkback"
    except RuntimeError:
        return None


def known_shards(states: Mapping[str, str]) -> set[str]:
    """The paths whose state (path: state) is in the cache, recent and unchanged."""
    since, paths = time.time() - REMEMBERED_S, set()
    with contextlib.suppress(sqlite3.Error), _open_cache(make=False) as database:
        ask = "SELECT 1 FROM checked WHERE path = ? AND state = ? AND at > ?"
        for path, state in states.items():
            if database.execute(ask, (path, state, since)).fetchone():
                paths.add(path)
    return paths


def remember_shards(states: Mapping[str, str]) -> None:
    """Stores the states (path: state) of shards that were just hashed, and deletes old states."""
    if not states:
        return
    now = time.time()
    with contextlib.suppress(sqlite3.Error), _open_cache(make=True) as database, database:
        database.execute(_TABLE)
        database.execute("DELETE FROM checked WHERE at <= ?", (now - REMEMBERED_S,))
        rows = ((path, state, now) for path, state in states.items())
        database.executemany("INSERT OR REPLACE INTO checked VALUES (?, ?, ?)", rows)


@contextlib.contextmanager
def _open_cache(make: bool) -> Iterator[sqlite3.Connection]:
    """The cache's database. sqlite3.Error where there is none or it can't be used; a damaged one is removed."""
    folder = _cache_folder()
    if folder is None:
        raise sqlite3.OperationalError("no home")
    path = folder / FILE
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() != path.is_file() or not (make or path.is_file()):
            raise sqlite3.OperationalError("no such file")
    except OSError as error:
        raise sqlite3.OperationalError(str(error)) from None
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)) as database:
            database.execute("PRAGMA synchronous = OFF")
            yield database
    except sqlite3.OperationalError:  # locked, read-only, without its table
        raise
    except sqlite3.DatabaseError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
