"""The files that others wrote: found by name, glob, folder or address, and opened without their compression."""

from __future__ import annotations

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from toolkit.errors import ThinkbackError, first_line

PACKED = (".gz", ".bz2", ".xz", ".zst")
FORMATS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_BROKEN = (OSError, EOFError, ValueError, ImportError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)


def found_files(sources: Sequence[str]) -> list[str]:
    """Addresses of the files that names, globs and folders mean, each once. ThinkbackError where there are none."""
    found = list(dict.fromkeys(file for source in sources for file in _find(str(source))))
    if not found:
        raise ThinkbackError("no source given: name one or more files, globs or folders")
    return found


def _find(source: str) -> list[str]:
    """Addresses of the files that a file name, glob or folder means, sorted."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(source)
        if system.isfile(path):
            return [source]
        if system.isdir(path):
            found = [name for name in system.ls(path, detail=False) if format_of(name) is not None]
        else:
            pattern = any(sign in path for sign in "*?[")
            found = [name for name in system.glob(path) if system.isfile(name)] if pattern else []
    except _BROKEN as error:
        raise ThinkbackError(f"source `{source}` can't be opened: {first_line(error)}") from None
    if not found:
        raise ThinkbackError(f"source `{source}`: there is no such file; name a JSONL, CSV or Parquet file")
    _, chained, inside = source.partition("::")  # a place inside another file: zip://*.jsonl::runs.zip
    return [f"{system.unstrip_protocol(name)}{chained}{inside}" if "://" in source else name for name in sorted(found)]


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
