"""The journal of a run: every answered call, on disk before the next one is counted as done.

A log is written in shards of whole blocks of examples, sealed at the end. Between two shards lie hundreds of calls,
and some of them are no rows yet: an attempt may still need its finalizer. So what is durable is the call, not the row:
one JSON line per answered call in `LOG/.generate/journal.jsonl`, appended and synced; rows are made of it and of the
recipe alone, so that they do not depend on how often the run was interrupted. Shards of a few rows would be durable
too, but cost several syncs and a Parquet footer each, and have no room for an attempt without its answer.

A line is written to the file when its call is answered, which a killed process survives, and synced at the latest
`SYNC_S` later, which a machine that loses power survives. A last line that was cut off is dropped when the file is
opened again. The folder's name begins with a dot, so that readers of logs pass over it; it goes when the log is sealed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from generate.engines.base import Completion
from toolkit.errors import ThinkbackError

FOLDER = ".generate"
SYNC_S = 0.1
JOURNAL, RECIPE, _LOCK = "journal.jsonl", "recipe.json", "lock"
_KEPT = tuple(field.name for field in fields(Completion) if field.name != "token_ids")


@dataclass(frozen=True)
class Entry:
    """One answered call: samples `indices` of (example, pool), their completions, or why there are none.

    `pool` ends in `FINALIZER` for the calls that read an answer. `elapsed_s`: wall-clock seconds since the step's
    entry before, so that they add up to the step's wall-clock seconds over all interruptions.
    """

    example_id: str
    pool: str
    indices: tuple[int, ...]
    completions: tuple[Completion, ...]
    failure: str | None
    elapsed_s: float


class Journal:
    """The open journal of one log; at most one process holds it.

    ThinkbackError when another process does, when the file is damaged, and when the disk is full.
    """

    def __init__(self, out: Path):
        self.out, self.folder = out, out / FOLDER
        self.path = self.folder / JOURNAL
        self._unsynced = self._end = 0
        self._synced_at = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                raise ThinkbackError(
                    f"`{out}` is being written by another run: wait for it, or write elsewhere"
                ) from None
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
            self._cut_half_line()
        except OSError as error:
            raise self._trouble(error) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Sync what was appended and let others write."""
        if self._file >= 0:
            try:
                self.sync()
            finally:
                os.close(self._file)
                os.close(self._lock)
                self._file = -1

    def size(self) -> int:
        """Bytes of whole lines: 0 where nothing was answered."""
        return self._end

    def entries(self) -> Iterator[Entry]:
        """Every call that was answered before, in order."""
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield _entry(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    raise ThinkbackError(
                        f"`{self.path}`, line {number}, is damaged: restore the file, or generate into another --out"
                    ) from None

    def append(self, entry: Entry) -> None:
        """Keep an answered call."""
        try:
            line = json.dumps(_line(entry), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        except ValueError:
            raise ThinkbackError(
                f"the engine gave a number that is none (NaN or infinite) for `{entry.example_id}/{entry.pool}`"
            ) from None
        end = self._end
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # the next opening cuts the half line
                os.ftruncate(self._file, end)
            raise self._trouble(error) from None
        self._end = end + len(line)
        self._unsynced += 1
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """Have everything that was appended on the disk."""
        if self._unsynced:
            try:
                os.fsync(self._file)
            except OSError as error:
                raise self._trouble(error) from None
        self._unsynced = 0
        self._synced_at = time.monotonic()

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Keep the settings that the run begins with."""
        self.keep(RECIPE, identity)

    def keep(self, name: str, value: Mapping[str, Any]) -> None:
        """Keep a file of JSON beside the journal, the old one or the new one at any moment."""
        path, beside = self.folder / name, self.folder / f"{name}.part"
        try:
            with beside.open("w", encoding="utf-8") as file:
                json.dump(value, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise self._trouble(error) from None

    def begun(self) -> dict[str, Any]:
        """What `begin` kept; empty where nothing was begun. ThinkbackError where it is damaged."""
        path = self.folder / RECIPE
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise ThinkbackError(f"`{path}` can't be read: {error}") from None

    def remove(self) -> None:
        """The log is sealed and holds everything: the journal goes."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _cut_half_line(self) -> None:
        size = os.fstat(self._file).st_size
        end = size
        while end > 0:
            start = max(0, end - 65536)
            newline = os.pread(self._file, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._file, end)
        self._end = end

    def _trouble(self, error: OSError) -> ThinkbackError:
        what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else error.strerror
        return ThinkbackError(
            f"`{self.out}` can't be written: {what}; every answered call before is kept: make room and run the same"
            " command again"
        )


def _line(entry: Entry) -> dict[str, Any]:
    made: dict[str, Any] = {"example_id": entry.example_id, "pool": entry.pool, "indices": list(entry.indices)}
    if entry.failure is not None:
        made["failure"] = entry.failure
    made["completions"] = [
        {name: value for name, value in asdict(c).items() if name in _KEPT} for c in entry.completions
    ]
    made["elapsed_s"] = round(entry.elapsed_s, 6)
    return made


def _entry(line: Mapping[str, Any]) -> Entry:
    completions = []
    for given in line["completions"]:
        logprobs = given["token_logprobs"]
        known = {name: given[name] for name in _KEPT}
        known["token_logprobs"] = None if logprobs is None else tuple(logprobs)
        completions.append(Completion(token_ids=None, **known))
    return Entry(
        example_id=line["example_id"],
        pool=line["pool"],
        indices=tuple(line["indices"]),
        completions=tuple(completions),
        failure=line.get("failure"),
        elapsed_s=float(line["elapsed_s"]),
    )
