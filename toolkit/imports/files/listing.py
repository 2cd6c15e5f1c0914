"""The files that an import is given: by name, in folders and below, by globs, in archives, at any fsspec address.

Each file of a format has a path, relative to what was named, which tells it from others of the same name; and it is
opened as a stream of its unpacked bytes. Tables that a mapping reads are listed by address: the files of a folder, else
all below it; with a `path` pattern, all files in and below it that fit the pattern.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import shlex
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from toolkit.errors import (
    AmbiguousError,
    ConflictError,
    FormatError,
    NotFoundError,
    RequiredError,
    ThinkbackError,
    UnsuitableError,
    counted,
    first_line,
)
from toolkit.imports.files.archives import UNPACKERS, ByteStream, Open, UnpackAllowance, open_archive, unpacked_stream
from toolkit.imports.files.file_names import fitting_paths, relative_paths

ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".csv", ".tsv", ".eval")
TABLES = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_ARCHIVE = ".zip"
_OTHER_ARCHIVE = re.compile(r"\.(tar|tgz|tbz2?|txz|7z|rar)(\.\w+)?$", re.IGNORECASE)
_BROKEN = (OSError, EOFError, ValueError, ImportError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error,
           lzma.LZMAError)  # fmt: skip
_SMALL = 2**24
_NO_NAMES = ("", "/", ".", "..")


MOST_OFFERED = 3
"""Files of a folder without tables that a message names."""


@dataclass(frozen=True)
class ListedFile:
    """One file of an import. `path`: relative to the source named, without an ending of compression; `local`: an
    unpacked local file.

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
        return PurePosixPath(self.path).name

    @property
    def ending(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    @property
    def folder(self) -> str:
        """The name of the folder that the file is in, else of its archive."""
        return PurePosixPath(self.place).parent.name.removesuffix(_ARCHIVE)

    @contextmanager
    def seekable_file(self) -> Iterator[BinaryIO]:
        """The unpacked bytes as a file in which one can seek."""
        if self.local is not None:
            with self.local.open("rb") as file:
                yield file
            return
        with self.open() as stream, tempfile.SpooledTemporaryFile(_SMALL) as copy:
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            yield cast(BinaryIO, copy)

    def read(self) -> bytes:
        with self.open() as stream:
            return stream.read()


def find_files(sources: Sequence[str], takes: Callable[[str], bool]) -> list[ListedFile]:
    """Lists the files of the sources, sorted. In folders and archives it takes those for whose path `takes` is true.

    ThinkbackError where a source can't be opened, or has none of them.
    """
    if not sources:
        raise RequiredError("no source given: name one or more files, globs, folders or archives")
    files = [file for source in sources for file in _files_of_source(source, takes)]
    distinct = {file.address: file for file in files}
    return _with_distinct_paths(list(distinct.values()))


def with_companions(files: Sequence[ListedFile], names: Sequence[str]) -> list[ListedFile]:
    """The files, and the files with the given names in the same folders, compressed or not."""
    others, given = dict[str, ListedFile](), {file.path for file in files}
    for file in files if names else ():
        for name in names:
            path = str(PurePosixPath(file.path).with_name(name))
            if path not in {*others, *given} and "::" not in file.address and file.name not in names:
                folder = file.address.rpartition("/")[0]
                near = (_file_if_exists(f"{folder}/{name}{packing}") for packing in ("", *UNPACKERS))
                there = next(filter(None, near), None)
                others |= {path: replace(there, path=path)} if there is not None else {}
    return [*files, *others.values()]


def _file_if_exists(address: str) -> ListedFile | None:
    try:
        return find_files([address], lambda _: True)[0]
    except ThinkbackError:
        return None


@dataclass(frozen=True)
class _ListedSource:
    """A place to list files in: a single file, or the visible files and folders below `root`."""

    text: str
    system: Any
    files: list[str]
    folders: list[str]
    root: str
    named: bool = False

    def files_below(self, folder: str) -> list[str]:
        return [name for name in self.system.find(folder) if not is_hidden(name.removeprefix(self.root))]

    def address_of(self, name: str) -> str:
        """The address of one of its files or folders, as a user would write it."""
        _, chained, inside = self.text.partition("::")  # a place inside another file: zip://*.jsonl::runs.zip
        return f"{self.system.unstrip_protocol(name)}{chained}{inside}" if "://" in self.text else name


@contextmanager
def _open_source(source: str) -> Iterator[_ListedSource]:
    """Opens the source at an address: a file, a folder, or the matches of a glob. ThinkbackError where none opens."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(source)
        if system.isfile(path):
            yield _ListedSource(source, system, [path], [], str(PurePosixPath(path).parent), named=True)
        elif system.isdir(path):
            folder = path.rstrip("/") or path
            yield _ListedSource(source, system, [], [folder], folder)
        else:
            root = _fixed_part(path)
            names = [name for name in (system.glob(path) if root else []) if not is_hidden(name.removeprefix(root))]
            folders = [name for name in names if system.isdir(name)]
            yield _ListedSource(source, system, [name for name in names if system.isfile(name)], folders, root)
    except _BROKEN as error:
        raise FormatError(f"source `{source}` can't be opened: {first_line(error)}") from None


def _files_of_source(source: str, takes: Callable[[str], bool]) -> list[ListedFile]:
    with _open_source(source) as there:
        names = sorted({*there.files, *(name for folder in there.folders for name in there.files_below(folder))})
    if not names:
        raise NotFoundError(f"source `{source}`: there is no such file or folder, or nothing in it")
    files: list[ListedFile] = []
    for name in names:
        local = Path(name) if "://" not in source else None
        size = partial(_file_size, there.system, name)
        file = _list_file(name.removeprefix(there.root).lstrip("/"), there.address_of(name), local, size)
        files += _files_of_file(file, takes, there.named)
    if not files:
        among = counted(len(names), "file")
        raise NotFoundError(f"source `{source}`: none of {among} has a name of this format")
    return files


def _files_of_file(file: ListedFile, takes: Callable[[str], bool], named: bool) -> list[ListedFile]:
    """The file itself, if `takes` accepts it or it was named; of an archive, the members that `takes` accepts."""
    if _OTHER_ARCHIVE.search(file.place) and (named or takes(file.path)):
        raise FormatError(f"`{file.address}`: the only archives read are `.zip`: unpack it, and name the folder")
    if file.ending != _ARCHIVE:
        return [replace(file, named=named)] if named or takes(file.path) else []
    with file.seekable_file() as packed, open_archive(file.address, packed) as archive:
        members = [name for name in archive.members if takes(_without_compression(name)) and not is_hidden(name)]
        inner = next((name for name in archive.members if name.lower().endswith(_ARCHIVE)), None)
        if not members and inner is not None:
            raise FormatError(f"`{file.address}` holds the archive `{inner}`, which is not read: unpack it first")
        allowance = UnpackAllowance.of(file.address, packed.seek(0, io.SEEK_END))
    return [_archive_member(file, name, allowance) for name in members]


def _archive_member(archive: ListedFile, name: str, allowance: UnpackAllowance) -> ListedFile:
    """One file of an archive. All files of an archive share one allowance."""
    inner, packing = PurePosixPath(_without_compression(name)), _packing_ending(name)

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with (
            archive.seekable_file() as packed,
            open_archive(archive.address, packed, allowance) as unzipped,
            unzipped.open(name) as stream,
            unpacked_stream(stream, packing, allowance) as plain,
        ):
            yield plain

    folder = PurePosixPath(archive.path).with_suffix("")
    safe = [part for part in inner.parts if part not in _NO_NAMES]
    path, place = "/".join([*folder.parts, *safe]), "/".join([archive.place, *safe])
    return ListedFile(path, f"{archive.address}::{name}", place, archive.beside, opened, archive.sha256)


def _list_file(relative: str, address: str, local: Path | None, size: Callable[[], int]) -> ListedFile:
    packing = _packing_ending(relative)

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        allowance = UnpackAllowance.of(address, size() if packing else 0)
        with _open_packed(address) as packed, unpacked_stream(packed, packing, allowance) as plain:
            yield plain

    def file_digest() -> str:
        with _open_packed(address) as packed:
            return hashlib.file_digest(packed, "sha256").hexdigest()

    place, beside = _path_of_address(address), address.rpartition("::")[2].rpartition("/")[0]
    return ListedFile(
        _without_compression(relative), address, place, beside, opened, file_digest, None if packing else local
    )


@contextmanager
def _open_packed(address: str) -> Iterator[io.BufferedReader]:
    """A stream of the stored bytes at an address. ThinkbackError where they can't be read."""
    import fsspec

    with ExitStack() as opened:
        try:
            # Of a chain of addresses, the archives stay open only as long as this object does.
            packed = opened.enter_context(fsspec.open(address, "rb"))
        except _BROKEN as error:
            raise FormatError(f"source `{address}` can't be read: {first_line(error)}") from None

        def read(size: int) -> bytes:
            try:
                return bytes(packed.read(size))
            except _BROKEN as error:
                raise FormatError(f"source `{address}` can't be read: {first_line(error)}") from None

        yield io.BufferedReader(ByteStream(read))


def _path_of_address(address: str) -> str:
    """The path that an address leads to, outermost first: of `zip://a/b.jsonl::runs.zip` it is `runs.zip/a/b.jsonl`."""
    if "://" not in address:
        return address
    links = [link.partition("://")[2] or link for link in address.split("::")]
    return "/".join(link.rstrip("/") for link in reversed(links))


def _with_distinct_paths(files: Sequence[ListedFile]) -> list[ListedFile]:
    """Makes paths distinct: where two sources have equal ones, all paths start at the folder that the sources share."""
    if len({file.path for file in files}) == len(files):
        return list(files)
    parts = [[part for part in file.place.split("/") if part not in _NO_NAMES] for file in files]
    paths = [_without_compression(path) for path in relative_paths(["/".join(one) for one in parts])]
    seen: dict[str, ListedFile] = {}
    for path, file in zip(paths, files, strict=True):
        if seen.setdefault(path, file) is not file:
            both = f"`{seen[path].address}` and `{file.address}`"
            raise ConflictError(f"{both} are one file, packed and unpacked: name the one that counts")
    return [replace(file, path=path) for file, path in zip(files, paths, strict=True)]


def _file_size(system: Any, name: str) -> int:
    return int(system.size(name) or 0)


def _packing_ending(path: str) -> str:
    return next((ending for ending in UNPACKERS if path[-len(ending) :].lower() == ending), "")


def _without_compression(path: str) -> str:
    packing = _packing_ending(path)
    return path[: len(path) - len(packing)]


@dataclass(frozen=True)
class _TableAddresses:
    """The addresses of tables, each once. `folder`: where companions of the files are looked up; `left_out`: the number
    of files that do not match the pattern.
    """

    files: tuple[str, ...]
    folder: str
    left_out: int = 0


def find_tables(sources: Sequence[str], pattern: str | None = None, beside: str | None = None) -> _TableAddresses:
    """The addresses of tables that names, globs and folders give. ThinkbackError where there are none. In a folder,
    files count whose relative path matches `pattern`, or if none does, whose whole path does. The file `beside` is left
    out.
    """
    each = [_find_addresses(str(source), pattern, beside) for source in sources]
    if not each:
        raise RequiredError("no source given: name one or more files, globs or folders")
    joined = "/".join(filter(None, [each[0].folder, beside]))
    files = tuple(dict.fromkeys(file for one in each for file in one.files if not beside or file != joined))
    if not files:
        raise UnsuitableError(
            f"source `{sources[0]}` is the file that the mapping joins: name those that it joins it to"
        )
    return _TableAddresses(files, each[0].folder, sum(one.left_out for one in each))


def _find_addresses(source: str, pattern: str | None, beside: str | None) -> _TableAddresses:
    """The sorted tables of a single file name, glob or folder."""
    with _open_source(source) as there:
        parts = [] if there.files else [_tables_of_folder(there, folder, pattern, beside) for folder in there.folders]
        chosen = sorted(there.files) or sorted(name for names, _ in parts for name in names)
    if not chosen:
        raise NotFoundError(f"source `{source}`: there is no such file; name a JSONL, CSV or Parquet file")
    if there.named:
        return _TableAddresses((source,), source.rpartition("/")[0])
    addresses = tuple(map(there.address_of, chosen))
    alone = there.folders == [there.root]
    near = there.address_of(there.root) if alone else addresses[0].rpartition("/")[0]
    return _TableAddresses(addresses, near, sum(others for _, others in parts))


def _tables_of_folder(
    there: _ListedSource, folder: str, pattern: str | None, beside: str | None
) -> tuple[list[str], int]:
    """The tables of a folder, and the number of tables that were left out. ThinkbackError where it has no table."""
    source = there.text if folder == there.root else folder
    places = {name: name.removeprefix(folder).lstrip("/") for name in there.files_below(folder)}
    known = {name: place for name, place in places.items() if format_of(name) is not None}
    known = {name: place for name, place in known.items() if place != beside}
    if not known:
        endings = ", ".join(f"`{ending}`" for ending in TABLES)
        others = sorted(map(there.address_of, places))[:MOST_OFFERED]
        cure = f"; files of other endings are read by what they hold where they are named: {shlex.join(others)}"
        raise NotFoundError(
            f"source `{source}`: no file in the folder, or below it, ends in one of {endings}{cure * bool(others)}"
        )
    if pattern is None:
        return [name for name, place in known.items() if "/" not in place] or list(known), 0
    places = {place: name for name, place in known.items()}
    fitting = [places[place] for place in fitting_paths(pattern, places)] or fitting_paths(pattern, known)
    if not fitting:
        why = f"none of its files fits the mapping's `path`, `{pattern}`"
        raise AmbiguousError(f"source `{source}`: {why}; the first is `{next(iter(known))}`")
    return fitting, len(known) - len(fitting)


def _fixed_part(pattern: str) -> str:
    """The folder that a glob starts with, before its first wildcard; empty for a path without wildcards."""
    signs = [place for place in map(pattern.find, "*?[") if place >= 0]
    return pattern[: min(signs)].rpartition("/")[0] + "/" if signs else ""


def is_hidden(path: str) -> bool:
    """Whether a path leads to a program's hidden file, such as `.cache/x` or `__MACOSX/x`."""
    return any((part.startswith(".") and part not in (".", "..")) or part == "__MACOSX" for part in path.split("/"))


@lru_cache(maxsize=2**16)
def path_without_archive(address: str) -> PurePosixPath:
    """The path of a file, without the address of the archive that it lies in."""
    return PurePosixPath(address.partition("::")[0])


def format_of(address: str) -> str | None:
    """The ending that tells a table's format, below one of compression; None for another ending."""
    name = path_without_archive(address)
    ending = PurePosixPath(name.stem).suffix if name.suffix.lower() in UNPACKERS else name.suffix
    return ending.lower() if ending.lower() in TABLES else None


def read_chunks(address: str, size: int) -> Iterator[bytes]:
    """Yields a file's unpacked bytes in chunks of about `size`, or all at once for -1."""
    import fsspec

    unpack = UNPACKERS.get(_packing_ending(str(path_without_archive(address))), nullcontext)
    opening: Callable[..., Any] = open if local_path(address) is not None else fsspec.open
    try:
        with opening(address, "rb") as packed, unpack(packed) as stream:
            while chunk := stream.read(size) if size > 0 else stream.read():
                yield bytes(chunk)
    except _BROKEN as error:
        raise FormatError(f"source `{address}` can't be read: {first_line(error)}") from None


def local_path(address: str) -> Path | None:
    """The local path of an uncompressed local file; None for others."""
    path = None if "://" in address or _packing_ending(address) else Path(address)
    return path if path is not None and path.is_file() else None


def likely_bytes(addresses: Collection[str]) -> int:
    """The approximate total size of files in bytes once unpacked, where the file system tells their sizes."""
    import fsspec

    total = 0
    for address in addresses:
        if (local := local_path(address)) is not None and local.suffix.lower() not in (".parquet", ".pq"):
            total += local.stat().st_size
            continue
        with suppress(*_BROKEN, TypeError):
            system, path = fsspec.core.url_to_fs(address)
            packed = path_without_archive(address).suffix.lower() in (*UNPACKERS, ".parquet", ".pq")
            total += int(system.size(path) or 0) * (SHRUNK if packed else 1)
    return total


SHRUNK = 5
"""The assumed ratio of unpacked to compressed size of text."""
