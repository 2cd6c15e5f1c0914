"""Writing a whole directory or nothing: what is seen under its name is complete and on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolkit.errors import ThinkbackError, argument

FULL = 2**16
"""Free bytes below which a disk counts as full, when writing failed."""


@contextmanager
def replacing(path: str | Path, force: bool = False) -> Iterator[Path]:
    """A directory to fill, which becomes `path` when the block ends well and vanishes when it does not.

    Refused before the block runs: a `path` that exists (unless `force`, which replaces it whole), one whose
    parent is no directory that can be written, the working directory and what lies above it.

    >>> with replacing("results") as directory:
    ...     (directory / "table.csv").write_text("a,b")
    """
    with _in_the_place_of(path, force, tempfile.mkdtemp, 0o777) as temporary:
        yield temporary


@contextmanager
def replacing_file(path: str | Path, force: bool = False) -> Iterator[Path]:
    """The same for one file: a name to write under, which becomes `path` when the block ends well."""
    check_replaceable(path, force)
    if Path(path).is_dir():
        raise ThinkbackError(f"`{path}` is a folder: name a file")
    with _in_the_place_of(path, force, _make_file, 0o666) as temporary:
        yield temporary


def _make_file(**named: Any) -> str:
    handle, name = tempfile.mkstemp(**named)
    os.close(handle)
    return name


@contextmanager
def _in_the_place_of(path: str | Path, force: bool, make: Callable[..., str], mode: int) -> Iterator[Path]:
    """What `make` makes beside `path`, which takes its name, synced, when the block ends well."""
    target = Path(os.path.abspath(path))  # not resolve(): a link is replaced, not what it points to  # noqa: PTH100
    check_replaceable(target, force, str(path))
    made = _make_parents(target.parent)
    try:
        temporary = Path(make(prefix=f".{target.name}-", suffix=".part", dir=target.parent))
    except OSError as error:
        _remove_parents(made)
        raise ThinkbackError(f"cannot write in `{target.parent}`: {error.strerror}") from None
    try:
        temporary.chmod(mode & ~umask())
        yield temporary
        for item in (temporary, *temporary.rglob("*")):
            sync(item)
        check_replaceable(target, force, str(path))  # someone may have made it meanwhile
        _swap(temporary, target)
    except BaseException as error:
        full = shutil.disk_usage(target.parent).free < FULL
        shutil.rmtree(temporary, ignore_errors=True)
        if temporary.is_file():
            temporary.unlink()
        _remove_parents(made)
        if full and isinstance(error, Exception):  # each library says it in its own way
            raise ThinkbackError(f"cannot write `{path}`: no space left on the disk") from error
        raise


def check_replaceable(
    path: str | Path, force: bool, shown: str | None = None, inputs: Sequence[str | Path | None] = ()
) -> None:
    """Raise ThinkbackError where `replacing(path, force)` would; for failing before long work starts.

    `inputs` are what is read: a path that is one of them, or holds one, is never replaced.
    """
    target = Path(os.path.abspath(path))  # noqa: PTH100
    shown = shown or str(path)
    here = Path.cwd().resolve()
    if target.resolve() in (here, *here.parents):
        raise ThinkbackError(f"`{shown}` is the working directory or above it: name a directory of its own")
    for read in inputs:
        if read is not None and target.resolve() in (Path(read).resolve(), *Path(read).resolve().parents):
            raise ThinkbackError(f"`{shown}` is, or holds, `{read}`, which is read: name another place to write")
    if os.path.lexists(target) and not force:
        raise ThinkbackError(f"`{shown}` exists: name another place, or replace it as a whole with {argument('force')}")
    for parent in target.parents:
        if parent.is_dir():
            if not os.access(parent, os.W_OK | os.X_OK):
                raise ThinkbackError(f"cannot write `{shown}`: no permission in `{parent}`")
            return
        if os.path.lexists(parent):
            raise ThinkbackError(f"cannot write `{shown}`: `{parent}` is not a directory")


def _swap(temporary: Path, target: Path) -> None:
    """Put `temporary` in the place of `target`; what was there is set aside, and comes back if that fails."""
    aside: Path | None = None
    if os.path.lexists(target) and temporary.is_dir():  # a file replaces a file in one step
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".old", dir=target.parent)) / "was"
        target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:
        if aside is not None:
            aside.rename(target)
            aside.parent.rmdir()
        raise
    sync(target.parent)
    if aside is not None:
        shutil.rmtree(aside.parent, ignore_errors=True)


def _make_parents(parent: Path) -> list[Path]:
    """Make the missing directories above the target; return those made, innermost first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ThinkbackError(f"cannot make `{parent}`: {error.strerror}") from None
    return missing


def _remove_parents(made: list[Path]) -> None:
    with suppress(OSError):  # gone, or someone has put something there
        for directory in made:
            directory.rmdir()


def sync(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def umask() -> int:
    """The process's mask of permissions."""
    current = os.umask(0)
    os.umask(current)
    return current


def hoist(inner: Path) -> None:
    """Move what a directory holds into its parent, and remove it: for writers that insist on a new directory."""
    for item in inner.iterdir():
        item.rename(inner.parent / item.name)
    inner.rmdir()
