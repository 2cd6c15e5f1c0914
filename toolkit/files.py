"""Atomic writing of files and directories: what stands under a name is complete and on disk. A writer that is killed
leaves a partial file beside the name; the next writer clears it (toolkit.work_places).
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from toolkit.errors import ConflictError, ExistsError, WriteError, argument
from toolkit.work_places import WAS, clear_parts, new_name_beside, remove_path, work_place

AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Linux's constants of `renameat2`: paths relative to the working directory; swap the two names."""

FULL = 2**16
"""Free bytes below which a failed write is blamed on a full disk."""


@contextmanager
def replacing(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yields a directory to fill, which becomes `path` when the block ends without an error; else it is removed.

    Refused before the block runs: a `path` that exists (unless `force`, which replaces it whole), one whose
    parent is no directory that can be written, the working directory and what lies above it.

    >>> with replacing("results") as directory:
    ...     (directory / "table.csv").write_text("a,b")
    """
    with _replace_when_done(path, force, _make_folder, 0o777) as temporary:
        yield temporary


@contextmanager
def replacing_file(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yields a temporary file to write, which becomes `path` when the block ends without an error; see `replacing`."""
    check_replaceable(path, force)
    if Path(path).is_dir():
        raise WriteError(f"`{path}` is a folder: name a file")
    with _replace_when_done(path, force, _make_file, 0o666) as temporary:
        yield temporary


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o700)


def _make_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


@contextmanager
def _replace_when_done(path: str | Path, force: bool, make: Callable[[Path], None], mode: int) -> Iterator[Path]:
    """Yields the temporary file or directory that `make` creates beside `path`. It is synced and renamed to `path` when
    the block ends without an error.
    """
    target = Path(os.path.abspath(path))  # not resolve(): a link is replaced, not what it points to  # noqa: PTH100
    check_replaceable(target, force, str(path))
    parents = _make_parents(target.parent)
    temporary = new_name_beside(target, ".part")  # named before it is made: an interrupt leaves nothing
    with ExitStack() as held:
        try:
            try:
                held.enter_context(work_place(temporary, make))
            except OSError as error:
                raise WriteError(f"cannot write in `{target.parent}`: {error.strerror}") from None
            temporary.chmod(mode & ~umask())
            yield temporary
            for item in (temporary, *temporary.rglob("*")):
                sync_to_disk(item)
            check_replaceable(target, force, str(path))  # someone may have made it meanwhile
            _swap_in(temporary, target)
        except BaseException as error:
            full = isinstance(error, Exception) and _is_disk_full(target.parent)  # each library says it in its own way
            remove_path(temporary)
            _remove_parents(parents)
            if full:
                raise WriteError(f"cannot write `{path}`: no space left on the disk") from error
            raise


def _is_disk_full(folder: Path) -> bool:
    with suppress(OSError):  # it may be gone by now
        return shutil.disk_usage(folder).free < FULL
    return False


def check_replaceable(
    path: str | Path, force: bool, label: str | None = None, inputs: Sequence[str | Path | None] = ()
) -> None:
    """Raises ThinkbackError where `replacing(path, force)` would, so that long work fails at its start. Partial files
    of killed writers of `path` are removed. `inputs` are paths to be read: neither they nor folders that hold them are
    ever replaced.
    """
    target = Path(os.path.abspath(path))  # noqa: PTH100
    label = label or str(path)
    here = Path.cwd().resolve()
    if target.resolve() in (here, *here.parents):
        raise WriteError(f"`{label}` is the working directory or above it: name a directory of its own")
    clear_parts(target)
    for read in inputs:
        if read is not None and target.resolve() in (Path(read).resolve(), *Path(read).resolve().parents):
            raise ConflictError(f"`{label}` is, or holds, `{read}`, which is read: name another place to write")
        if read is not None and Path(read).is_dir() and Path(read).resolve() in target.resolve().parents:
            raise ConflictError(f"`{label}` lies in `{read}`, which is read: name another place to write")
    if os.path.lexists(target) and not force:
        raise ExistsError(f"`{label}` exists: name another place, or replace it as a whole with {argument('force')}")
    for parent in target.parents:
        if parent.is_dir():
            if not os.access(parent, os.W_OK | os.X_OK):
                locked = os.statvfs(parent).f_flag & os.ST_RDONLY
                why = "a read-only file system holds" if locked else "no permission in"
                raise WriteError(f"cannot write `{label}`: {why} `{parent}`")
            return
        if os.path.lexists(parent):
            raise WriteError(f"cannot write `{label}`: `{parent}` is not a directory")


def _swap_in(temporary: Path, target: Path) -> None:
    """Renames `temporary` to `target`, in one step where the system can. Elsewhere the old folder is renamed first, and
    renamed back on failure.
    """
    if os.path.lexists(target) and temporary.is_dir():  # a file replaces a file in one step
        if _exchange_names(temporary, target):
            sync_to_disk(target.parent)
            remove_path(temporary)  # what was there
            return
        _replace_by_two_renames(temporary, target)
        return
    temporary.rename(target)
    sync_to_disk(target.parent)


def _exchange_names(first: Path, second: Path) -> bool:
    """Exchanges two names in one step. Returns False where this system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # not Linux, or an old library of C
        return False
    renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0


def _replace_by_two_renames(temporary: Path, target: Path) -> None:
    """Replaces a folder by two renames. After a kill between them the old folder is beside the target, and
    `clear_parts` puts it back.
    """
    aside = new_name_beside(target, ".old")
    was = aside / WAS
    try:
        with work_place(aside, _make_folder):
            target.rename(was)
            try:
                temporary.rename(target)
            except BaseException:
                was.rename(target)
                raise
            sync_to_disk(target.parent)
            remove_path(aside)
    finally:
        with suppress(OSError):  # gone, or it holds what could not be put back
            aside.rmdir()


def _make_parents(parent: Path) -> list[Path]:
    """Makes the missing directories above the target; returns those made, innermost first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot make `{parent}`: {error.strerror}") from None
    return missing


def _remove_parents(parents: list[Path]) -> None:
    with suppress(OSError):  # gone, or someone has put something there
        for directory in parents:
            directory.rmdir()


def sync_to_disk(path: Path) -> None:
    """Waits until a file, or the entries of a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def umask() -> int:
    """The permission bits that this process withholds from new files."""
    current = os.umask(0)
    os.umask(current)
    return current


def move_into_parent(inner: Path) -> None:
    """Moves the content of a directory into its parent and removes it, for writers that insist on a new directory."""
    for item in inner.iterdir():
        item.rename(inner.parent / item.name)
    inner.rmdir()
