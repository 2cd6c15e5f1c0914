"""The journal of a run, in SQLite: every answered call is on disk before it is counted as done.

A log is written in shards of whole blocks of examples, sealed at the end. Between two shards lie hundreds of calls,
and some of them are no rows yet: an attempt may still need its finalizer. So what is durable is the call, not the row:
a row of `LOG/.generate/journal.sqlite` for each answered sample; the log's rows are made of these and of the recipe
alone, so that they do not depend on how often the run was interrupted, nor on the order in which answers came. Shards
of a few rows would be durable too, but cost several syncs and a Parquet footer each, and have no room for an attempt
without its answer.

There is a table for each kind of event (events.py). An answer is committed to the write-ahead log when it comes, which
a killed process survives. What a machine that loses power survives is what was synced: with the first answer that comes
`SYNC_S` after the last sync, all until then, and the rest when the journal is closed. SQLite itself drops a
half-written commit when the journal is opened again, and lets one process hold it. The folder's name begins with a dot,
so that readers of logs pass over it; it goes when the log is sealed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from generate.engines.base import Completion
from generate.journal.events import KINDS, Answered, Event, Requested, columns_of, event_of, row_of
from toolkit.errors import DamagedError, ExistsError, MismatchError, ThinkbackError, WriteError

FOLDER = ".generate"
JOURNAL = "journal.sqlite"
SYNC_S = 0.1
BEGUN = "begun"
"""The journal's name for the settings that a run began with."""
PAGE, WAL_PAGES = 2**14, 256
"""Bytes of a page, so that several texts share one, and pages that the write-ahead log gathers before they are moved
into the tables."""
SETTINGS = (f"page_size = {PAGE}", "locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL",
            f"wal_autocheckpoint = {WAL_PAGES}")  # fmt: skip
SAVED = "progress is saved: make room and run the same command again"

OUTCOME = tuple(field.name for field in fields(Answered) if field.name != "completion")
SILENT = Completion("", None, None, None, None, None, False, None, 0.0, None)

Kind = TypeVar("Kind", bound=Event)


class Journal:
    """The open journal in `out/.generate`; at most one process holds it.

    ThinkbackError when another process does, when the file is damaged, and when the disk is full.
    """

    def __init__(self, out: Path):
        self.out, self.folder = out, out / FOLDER
        self.path = self.folder / JOURNAL
        self._unsynced, self._synced_at = False, time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        except OSError as error:
            raise WriteError(f"`{out}` can't be written: {error.strerror}") from None
        except sqlite3.Error as error:
            raise self._write_error(error) from None
        try:
            self._lock_and_make_tables()
        except BaseException:
            self._db.close()
            raise

    def _lock_and_make_tables(self) -> None:
        """Lock the file and make its tables."""
        with self._named_errors():
            for setting in SETTINGS:
                self._db.execute(f"PRAGMA {setting}")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("CREATE TABLE IF NOT EXISTS Kept (name PRIMARY KEY, value)")
            for kind in KINDS:
                self._db.execute(f"CREATE TABLE IF NOT EXISTS {kind.__name__} ({', '.join(columns_of(kind))})")
                there = [row[1] for row in self._db.execute(f"PRAGMA table_info({kind.__name__})")]
                if there != list(columns_of(kind)):
                    raise MismatchError(
                        f"`{self.out}` was begun by another version: finish it with that one, or name another `out`"
                    )
            self._db.execute("CREATE INDEX IF NOT EXISTS ByExample ON Answered (about)")
            self._db.execute("CREATE INDEX IF NOT EXISTS RequestedByExample ON Requested (about)")
            self._db.execute("COMMIT")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Sync what was appended and let others write."""
        self._db.close()

    def append(self, events: Iterable[Event], keep: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Store events, and replace named mappings: all of them or, after a kill, none."""
        rows = [(type(event), row_of(event)) for event in events]
        with self._named_errors():
            self._db.execute("BEGIN")
            for kind, listed in groupby(rows, key=itemgetter(0)):
                marks = ", ".join("?" * len(columns_of(kind)))
                self._db.executemany(f"INSERT INTO {kind.__name__} VALUES ({marks})", map(itemgetter(1), listed))
            for name, value in (keep or {}).items():
                self._db.execute("INSERT OR REPLACE INTO Kept VALUES (?, ?)", (name, json.dumps(value)))
            self._db.execute("COMMIT")
        self._unsynced = True
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync_to_disk()

    def events(self, kind: type[Kind]) -> Iterator[Kind]:
        """All events of one kind, in the order in which they came."""
        with self._named_errors():
            for row in self._db.execute(f"SELECT * FROM {kind.__name__} ORDER BY rowid"):
                yield event_of(kind, row)  # type: ignore[arg-type, misc]

    def answers_of(self, about: Sequence[str]) -> Iterator[Answered]:
        """The answers to calls of some examples: by example, those of one in the order in which they came."""
        sql = f"SELECT * FROM Answered WHERE about IN ({', '.join('?' * len(about))}) ORDER BY about, rowid"
        with self._named_errors():
            for row in self._db.execute(sql, about):
                yield event_of(Answered, row)  # type: ignore[misc]

    def requests_of(self, about: Sequence[str]) -> Iterator[Requested]:
        """The requests of some examples' loops, in the order in which they were asked."""
        marks = ", ".join("?" * len(about))
        with self._named_errors():
            for row in self._db.execute(f"SELECT * FROM Requested WHERE about IN ({marks}) ORDER BY rowid", about):
                yield Requested(*row)

    def answers_without_text(self) -> Iterator[Answered]:
        """All answers without their completions: of an answered call `completion` is one of empty text."""
        names = ", ".join(OUTCOME)
        with self._named_errors():
            for *row, answered in self._db.execute(f"SELECT {names}, text IS NOT NULL FROM Answered ORDER BY rowid"):
                yield Answered(**dict(zip(OUTCOME, row, strict=True)), completion=SILENT if answered else None)

    def token_totals(self) -> tuple[int | None, int | None, float | None]:
        """The prompt tokens, completion tokens and cost of all answers; None where none is known."""
        sql = "SELECT SUM(prompt_tokens), SUM(completion_tokens), SUM(cost) FROM Answered"
        with self._named_errors():
            prompt, completion, cost = self._db.execute(sql).fetchone()
        return prompt, completion, cost

    def has_no_events(self) -> bool:
        """Whether the journal has no events."""
        return not any(next(self.events(kind), None) for kind in KINDS)

    def store_mapping(self, name: str, value: Mapping[str, Any]) -> None:
        """Store a mapping under a name, replacing the earlier one."""
        self.append((), {name: value})

    def stored_mapping(self, name: str) -> dict[str, Any]:
        """The mapping stored under a name; empty without one."""
        with self._named_errors():
            row = self._db.execute("SELECT value FROM Kept WHERE name = ?", (name,)).fetchone()
        return {} if row is None else dict(json.loads(row[0]))

    def sync_to_disk(self) -> None:
        """Have everything that was appended on the disk."""
        if self._unsynced:
            try:
                with self.path.with_name(f"{JOURNAL}-wal").open("rb") as file:
                    os.fsync(file.fileno())
            except OSError as error:
                raise WriteError(f"`{self.out}` can't be written: {error.strerror}; {SAVED}") from None
        self._unsynced, self._synced_at = False, time.monotonic()

    def remove(self) -> None:
        """Remove the journal, as the sealed log holds everything."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into ThinkbackErrors that say what to do, and roll back."""
        try:
            yield
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise self._write_error(error) from None

    def _write_error(self, error: sqlite3.Error) -> ThinkbackError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return ExistsError(f"`{self.out}` is being written by another run: wait for it, or write elsewhere")
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return DamagedError(f"`{self.path}` is damaged: restore the file, or generate into another `out`")
        full = code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        what = f"the disk is full or failed; {SAVED}" if full else str(error)
        return WriteError(f"`{self.out}` can't be written: {what}")


def differing_key_text(
    before: Mapping[str, Any], now: Mapping[str, Any], keys: Iterable[str] | None = None, most: int = 60
) -> str | None:
    """ "`seed` is 1 there and 2 here" of the first key that differs, by default of all, those of now first; None where
    none does. Values are cut after so many characters.
    """
    for key in dict.fromkeys([*now, *before]) if keys is None else keys:
        if now.get(key) != before.get(key):
            return f"`{key}` is {_cut_json(before.get(key), most)} there and {_cut_json(now.get(key), most)} here"
    return None


def _cut_json(value: Any, most: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= most:
        return text
    return f'{text[: most - 2]}…"' if isinstance(value, str) else f"{text[: most - 1]}…"
