"""The files that others wrote: found by name, glob, folder or address, and opened without their compression.

Of a folder the files are meant that lie in it, or else those below it; where paths tell something, those in it and
below it whose paths do.
"""

from __future__ import annotations

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from toolkit.errors import ThinkbackError, first_line

PACKED = (".gz", ".bz2", ".xz", ".zst")
FORMATS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_BROKEN = (OSError, EOFError, ValueError, ImportError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class Addresses:
    """The files that are meant, each once; `folder`: where what lies beside them is looked for.

    `left_out`: files of folders whose paths do not tell what they should.
    """

    files: tuple[str, ...]
    folder: str
    left_out: int = 0


@dataclass(frozen=True)
class FolderRules:
    """Which files of a folder are meant: those of which `fits` holds for their path, where it is given.

    The path is from the folder, and where none fits so, the whole one. `pattern` says so to people; `beside` is a file
    of the folder that is none of them.
    """

    pattern: str | None = None
    fits: Callable[[str], bool] | None = None
    beside: str | None = None


def found_files(sources: Sequence[str], rules: FolderRules) -> Addresses:
    """The files that names, globs and folders mean. ThinkbackError where there are none."""
    each = [_find(str(source), rules) for source in sources]
    if not each:
        raise ThinkbackError("no source given: name one or more files, globs or folders")
    files = tuple(dict.fromkeys(file for found in each for file in found.files))
    return Addresses(files, each[0].folder, sum(found.left_out for found in each))


def _find(source: str, rules: FolderRules) -> Addresses:
    """The files that a file name, glob or folder means, sorted."""
    import fsspec

    left_out = 0
    try:
        system, path = fsspec.core.url_to_fs(source)
        folder = path.rstrip("/") if system.isdir(path) else None
        if system.isfile(path):
            found = [path]
        elif folder is not None:
            found, left_out = _of_folder(system, source, folder, rules)
        else:
            root = fixed_part(path)
            globbed = sorted(name for name in system.glob(path) if not hidden(name.removeprefix(root))) if root else []
            found = [name for name in globbed if system.isfile(name)]
            inside = [_of_folder(system, name, name, rules) for name in globbed if not found]
            left_out = sum(others for _, others in inside)
            found += [name for names, _ in inside for name in names]
    except _BROKEN as error:
        raise ThinkbackError(f"source `{source}` can't be opened: {first_line(error)}") from None
    if not found:
        raise ThinkbackError(f"source `{source}`: there is no such file; name a JSONL, CSV or Parquet file")
    if system.isfile(path):
        return Addresses((source,), source.rpartition("/")[0])
    addresses = tuple(_address(system, source, name) for name in sorted(found))
    beside = addresses[0].rpartition("/")[0] if folder is None else _address(system, source, folder)
    return Addresses(addresses, beside, left_out)


def _address(system: Any, source: str, name: str) -> str:
    """What a user would write for a file that a source means."""
    _, chained, inside = source.partition("::")  # a place inside another file: zip://*.jsonl::runs.zip
    return f"{system.unstrip_protocol(name)}{chained}{inside}" if "://" in source else name


def _of_folder(system: Any, source: str, folder: str, rules: FolderRules) -> tuple[list[str], int]:
    """The files that a folder means, and how many others of a known ending it has. ThinkbackError where it has none."""
    places = {name: name.removeprefix(folder).lstrip("/") for name in system.find(folder)}
    known = {name: place for name, place in places.items() if format_of(name) is not None and not hidden(place)}
    known = {name: place for name, place in known.items() if place != rules.beside}
    if not known:
        endings = ", ".join(f"`{ending}`" for ending in FORMATS)
        raise ThinkbackError(f"source `{source}`: no file in the folder, or below it, ends in one of {endings}")
    if rules.fits is None:
        return [name for name, place in known.items() if "/" not in place] or list(known), 0
    fitting = [name for name, place in known.items() if rules.fits(place)] or list(filter(rules.fits, known))
    if not fitting:
        told = f"none of its files fits the mapping's `path`, `{rules.pattern}`"
        raise ThinkbackError(f"source `{source}`: {told}; the first is `{next(iter(known))}`")
    return fitting, len(known) - len(fitting)


def fixed_part(pattern: str) -> str:
    """The folder at the beginning of a glob in which it has no sign of one; empty where a path is no glob."""
    signs = [place for place in map(pattern.find, "*?[") if place >= 0]
    return pattern[: min(signs)].rpartition("/")[0] + "/" if signs else ""


def hidden(path: str) -> bool:
    """Whether a file of a folder or an archive is one that programs keep for themselves: `.cache/x`, `__MACOSX/x`."""
    return any((part.startswith(".") and part not in (".", "..")) or part == "__MACOSX" for part in path.split("/"))


def plain_path(address: str) -> PurePosixPath:
    """The path of a file, without the address of an archive that it lies in."""
    return PurePosixPath(address.partition("::")[0])


def format_of(address: str) -> str | None:
    """The ending that tells the format, without that of a compression; None for another."""
    name = plain_path(address)
    ending = PurePosixPath(name.stem).suffix if name.suffix.lower() in PACKED else name.suffix
    return ending.lower() if ending.lower() in FORMATS else None


def content(address: str) -> bytes:
    """What a file holds."""
    return b"".join(chunks(address, -1))


def chunks(address: str, size: int) -> Iterator[bytes]:
    """What a file holds, in pieces of about `size` bytes; all of it at once for -1."""
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(_opened(address))
            piece = stream.read(size) if size > 0 else stream.read()
        except _BROKEN as error:
            raise ThinkbackError(f"source `{address}` can't be read: {first_line(error)}") from None
        while piece:
            yield bytes(piece)
            try:
                piece = stream.read(size) if size > 0 else b""
            except _BROKEN as error:
                raise ThinkbackError(f"source `{address}` can't be read: {first_line(error)}") from None


@contextlib.contextmanager
def _opened(address: str) -> Iterator[IO[bytes] | Any]:
    import fsspec

    zstandard = plain_path(address).suffix.lower() == ".zst"  # which fsspec unpacks only beside another library
    with fsspec.open(address, "rb", compression=None if zstandard else "infer") as handle:
        if not zstandard:
            yield handle
            return
        import pyarrow as pa

        with pa.CompressedInputStream(pa.PythonFile(handle, mode="r"), "zstd") as stream:  # all the file's frames
            yield stream


def local_path(address: str) -> Path | None:
    """Where a file that is neither compressed nor elsewhere lies on this machine."""
    path = Path(address)
    return path if "://" not in address and path.suffix.lower() not in PACKED and path.is_file() else None


def likely_bytes(addresses: Collection[str]) -> int:
    """About how many bytes files hold without their compression, where their places tell."""
    import fsspec

    total = 0
    for address in addresses:
        with contextlib.suppress(*_BROKEN, TypeError):
            system, path = fsspec.core.url_to_fs(address)
            packed = plain_path(address).suffix.lower() in (*PACKED, ".parquet", ".pq")
            total += int(system.size(path) or 0) * (SHRUNK if packed else 1)
    return total


SHRUNK = 5
"""How many times larger texts are than what compression makes of them."""
