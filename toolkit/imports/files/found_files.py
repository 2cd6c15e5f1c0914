"""The files that an import is given: by name, in folders and below, by globs, in archives, at any fsspec address.

Each has a path, relative to what was named, which tells it from others of the same name; and it is opened as a stream
of its unpacked bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from toolkit.errors import ThinkbackError, counted, first_line
from toolkit.imports.files.archives import UNPACKERS, Allowance, Open, open_archive, unpacked
from toolkit.imports.files.file_names import relative
from toolkit.imports.files.source_files import fixed_part, hidden

ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".csv", ".tsv", ".eval")
_ARCHIVE = ".zip"
_OTHER_ARCHIVE = re.compile(r"\.(tar|tgz|tbz2?|txz|7z|rar)(\.\w+)?$", re.IGNORECASE)
_BROKEN = (OSError, EOFError, ValueError, ImportError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error)
_SMALL = 2**24
_NO_NAMES = ("", "/", ".", "..")


@dataclass(frozen=True)
class FoundFile:
    """`path`: relative to what was named, without the ending of a compression. `local`: a file that is not packed.

    `place`: the whole path, from the outermost archive to the file; `address` is what a user would write. `beside`: the
    folder that the file lies in, or the outermost archive. `named`: by itself, and not found in a folder or an archive.
    """

    path: str
    address: str
    place: str
    beside: str
    open: Open
    sha256: Callable[[], str]
    local: Path | None = None
    named: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def ending(self) -> str:
        """What its name ends in, in lower case."""
        return PurePosixPath(self.path).suffix.lower()

    @property
    def folder(self) -> str:
        """The name of the folder that it lies in; of the archive, where that has none."""
        return PurePosixPath(self.place).parent.name.removesuffix(_ARCHIVE)

    @contextmanager
    def seekable(self) -> Iterator[BinaryIO]:
        """The unpacked bytes in a file that can be sought in."""
        if self.local is not None:
            with self.local.open("rb") as file:
                yield file
            return
        with self.open() as stream, tempfile.SpooledTemporaryFile(_SMALL) as copy:
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            yield cast(BinaryIO, copy)

    def read(self) -> bytes:
        """All of its bytes."""
        with self.open() as stream:
            return stream.read()


def find_files(sources: Sequence[str], takes: Callable[[str], bool]) -> list[FoundFile]:
    """The files that are meant, sorted; of folders and archives, those whose path `takes` wants.

    ThinkbackError where a source can't be opened, or has none of them.
    """
    if not sources:
        raise ThinkbackError("no source given: name one or more files, globs, folders or archives")
    found = [file for source in sources for file in _of_source(source, takes)]
    distinct = {file.address: file for file in found}
    return _told_apart(list(distinct.values()))


def with_companions(files: Sequence[FoundFile], names: Sequence[str]) -> list[FoundFile]:
    """Files, and those of certain names in the same folders, packed or not, where these are not among them."""
    found, given = dict[str, FoundFile](), {file.path for file in files}
    for file in files if names else ():
        for name in names:
            path = str(PurePosixPath(file.path).with_name(name))
            if path not in {*found, *given} and "::" not in file.address and file.name not in names:
                folder = file.address.rpartition("/")[0]
                near = (_if_there(f"{folder}/{name}{packing}") for packing in ("", *UNPACKERS))
                there = next(filter(None, near), None)
                found |= {path: replace(there, path=path)} if there is not None else {}
    return [*files, *found.values()]


def _if_there(address: str) -> FoundFile | None:
    try:
        return find_files([address], lambda _: True)[0]
    except ThinkbackError:
        return None


def _of_source(source: str, takes: Callable[[str], bool]) -> list[FoundFile]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(source)
        if system.isfile(path):
            names, root = [path], str(PurePosixPath(path).parent)
        elif system.isdir(path):
            root = path.rstrip("/")
            names = [name for name in system.find(path) if not hidden(name.removeprefix(root))]
        else:
            root = fixed_part(path)
            globbed = system.glob(path) if root else []
            names = [name for name in globbed if system.isfile(name)]
            names += [name for one in globbed if system.isdir(one) for name in system.find(one)]
            names = [name for name in names if not hidden(name.removeprefix(root))]
    except _BROKEN as error:
        raise ThinkbackError(f"source `{source}` can't be opened: {first_line(error)}") from None
    if not names:
        raise ThinkbackError(f"source `{source}`: there is no such file or folder, or nothing in it")
    named = system.isfile(path)
    _, chained, inside = source.partition("::")  # a place inside another file: zip://*.jsonl::runs.zip
    found: list[FoundFile] = []
    for name in sorted(set(names)):
        address = f"{system.unstrip_protocol(name)}{chained}{inside}" if "://" in source else name
        relative = name.removeprefix(root).lstrip("/")
        local = Path(name) if "://" not in source else None
        size = partial(_size, system, name)
        found += _of_file(_opened(relative, address, local, size), takes, named)
    if not found:
        among = counted(len(names), "file")
        raise ThinkbackError(f"source `{source}`: no file of this format by its name among {among}")
    return found


def _of_file(file: FoundFile, takes: Callable[[str], bool], named: bool) -> list[FoundFile]:
    """The file, where it is wanted or was named; what is wanted of an archive."""
    if _OTHER_ARCHIVE.search(file.place) and (named or takes(file.path)):
        raise ThinkbackError(f"`{file.address}`: of archives only `.zip` is read: unpack it, and name the folder")
    if file.ending != _ARCHIVE:
        return [replace(file, named=named)] if named or takes(file.path) else []
    with file.seekable() as packed, open_archive(file.address, packed) as archive:
        members = [name for name in archive.members if takes(_plain(name)) and not hidden(name)]
        inner = next((name for name in archive.members if name.lower().endswith(_ARCHIVE)), None)
        if not members and inner is not None:
            raise ThinkbackError(f"`{file.address}` holds the archive `{inner}`, which is not read: unpack it first")
        allowance = Allowance.of(file.address, packed.seek(0, io.SEEK_END))
    return [_member(file, name, allowance) for name in members]


def _member(archive: FoundFile, name: str, allowance: Allowance) -> FoundFile:
    """A file of an archive, all of whose files have one allowance."""
    inner, packing = PurePosixPath(_plain(name)), _packing(name)

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with (
            archive.seekable() as packed,
            open_archive(archive.address, packed, allowance) as unzipped,
            unzipped.open(name) as stream,
        ):
            if not packing:
                yield stream
                return
            with unpacked(stream, packing, allowance) as plain:
                yield plain

    folder = PurePosixPath(archive.path).with_suffix("")
    safe = [part for part in inner.parts if part not in _NO_NAMES]
    path, place = "/".join([*folder.parts, *safe]), "/".join([archive.place, *safe])
    return FoundFile(path, f"{archive.address}::{name}", place, archive.beside, opened, archive.sha256)


def _opened(relative: str, address: str, local: Path | None, size: Callable[[], int]) -> FoundFile:
    packing = _packing(relative)

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with _packed(address) as packed:
            if not packing:
                yield packed
                return
            with unpacked(packed, packing, Allowance.of(address, size())) as plain:
                yield plain

    def digest() -> str:
        with _packed(address) as packed:
            return hashlib.file_digest(packed, "sha256").hexdigest()

    place, beside = _place_of(address), address.rpartition("::")[2].rpartition("/")[0]
    return FoundFile(_plain(relative), address, place, beside, opened, digest, None if packing else local)


@contextmanager
def _packed(address: str) -> Iterator[io.BufferedReader]:
    """The bytes at an address, as they lie there. ThinkbackError where they can't be read."""
    import fsspec

    with ExitStack() as opened:
        try:
            # Of a chain of addresses, the archives stay open only as long as this object does.
            packed = opened.enter_context(fsspec.open(address, "rb"))
        except _BROKEN as error:
            raise ThinkbackError(f"source `{address}` can't be read: {first_line(error)}") from None
        yield io.BufferedReader(_Guarded(packed, address))


class _Guarded(io.RawIOBase):
    """A stream of which no read fails but in a line that names it."""

    def __init__(self, stream: Any, address: str):
        self._stream, self._address = stream, address

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            piece = self._stream.read(len(buffer))
        except _BROKEN as error:
            raise ThinkbackError(f"source `{self._address}` can't be read: {first_line(error)}") from None
        buffer[: len(piece)] = piece
        return len(piece)


def _place_of(address: str) -> str:
    """The path that an address leads along: in `zip://a/b.jsonl::runs.zip` it is `runs.zip/a/b.jsonl`."""
    if "://" not in address:
        return address
    links = [link.partition("://")[2] or link for link in address.split("::")]
    return "/".join(link.rstrip("/") for link in reversed(links))


def _told_apart(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Where two sources have files of one path, all paths begin below the folder that the sources share."""
    if len({file.path for file in files}) == len(files):
        return list(files)
    parts = [[part for part in file.place.split("/") if part not in _NO_NAMES] for file in files]
    paths = [_plain(path) for path in relative(["/".join(one) for one in parts])]
    seen: dict[str, FoundFile] = {}
    for path, file in zip(paths, files, strict=True):
        if seen.setdefault(path, file) is not file:
            both = f"`{seen[path].address}` and `{file.address}`"
            raise ThinkbackError(f"{both} are one file, packed and unpacked: name the one that counts")
    return [replace(file, path=path) for file, path in zip(files, paths, strict=True)]


def _size(system: Any, name: str) -> int:
    return int(system.size(name) or 0)


def _packing(path: str) -> str:
    ending = PurePosixPath(path).suffix.lower()
    return ending if ending in UNPACKERS else ""


def _plain(path: str) -> str:
    """A path without the ending of a compression."""
    packing = _packing(path)
    return path[: len(path) - len(packing)]
