"""Temporary files and folders of running work. Each is locked while its process lives; after a kill the next process
clears it.

The lock is the system's (flock), so that it goes with the process however that ends. Where a file system has no locks,
nothing is cleared.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

SCRATCH = "thinkback-scratch-"
MARK = ".thinkback-scratch"
"""The file in each of our temporary folders that is locked; a folder without it belongs to someone else."""
WAS = "was"
"""The name of old content that was renamed into a folder `.NAME-DRAWN.old`."""
_DRAWN = "[a-z0-9_]{8}"
"""Pattern of the random part of names, of this and earlier versions."""


_HELD: set[Path] = set()
"""The locked places of this process: a second lock on one of them would wait for ever."""


def is_in_scratch(path: Path) -> bool:
    """Whether a path lies in a temporary folder of this process, where no other process writes."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    return any(place in (absolute, *absolute.parents) for place in _HELD)


def new_name_beside(target: Path, suffix: str) -> Path:
    """A new name beside a target, in the form that `clear_parts` recognises."""
    return target.parent / f".{target.name}-{secrets.token_hex(4)}{suffix}"


@contextmanager
def work_place(path: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """Creates a file or folder with `make` and holds its lock, so that no other process clears it."""
    handle = None
    while handle is None:  # it may be cleared before it is locked
        make(path)
        handle = _acquire_lock(path, wait=True)
    _HELD.add(path)
    try:
        yield
    finally:
        _HELD.discard(path)
        os.close(handle)


def clear_parts(target: Path) -> None:
    """Removes what killed writers of `target` left beside it. If they had set its old content aside and put nothing in
    its place, that comes back.
    """
    drawn = re.compile(rf"\.{re.escape(target.name)}-{_DRAWN}\.(part|old)")
    for path in _entries_named(target.parent, drawn):
        handle = _acquire_lock(path, wait=False)
        if handle is not None:
            with suppress(OSError):
                if path.suffix == ".old" and not os.path.lexists(target):
                    (path / WAS).rename(target)
            remove_path(path)
            os.close(handle)


def remove_path(path: Path) -> None:
    """Removes a file, a link, or a folder with its content, as far as that is allowed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _clear_scratch() -> None:
    """Removes the temporary folders of killed processes."""
    for folder in _entries_named(Path(tempfile.gettempdir()), re.compile(SCRATCH + _DRAWN)):
        with suppress(OSError):
            folder.rmdir()  # an empty one: its process was killed before it had a mark, or makes one anew
        handle = _acquire_lock(folder / MARK, wait=False)
        if handle is not None:
            remove_path(folder)
            os.close(handle)


def scratch_folder() -> str:
    """Makes a new temporary folder, which is removed at the latest when the process exits."""
    return tempfile.mkdtemp(dir=_scratch_of_process())


@cache
def _scratch_of_process() -> Path:
    """The folder that holds all temporary folders of this process, under one lock."""
    _clear_scratch()
    while True:
        folder = Path(tempfile.gettempdir()) / f"{SCRATCH}{secrets.token_hex(4)}"
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # first: an interrupt leaves nothing
        folder.mkdir(mode=0o700)
        mark = folder / MARK
        with suppress(FileNotFoundError):  # another process found it empty
            mark.touch()
        if _acquire_lock(mark, wait=True) is not None:  # held until the process ends
            return folder


def _entries_named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """The entries of a folder with matching names; empty where it cannot be read."""
    try:
        return [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return []


def _acquire_lock(path: Path, *, wait: bool) -> int | None:
    """Locks an existing file or folder; returns its open handle. None where it is missing, is no file or folder of this
    user, or (without `wait`) is locked or can't be.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:  # another holds it, or this file system has no locks
            if not wait:
                raise
        if os.path.samestat(os.fstat(handle), os.lstat(path)):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None
