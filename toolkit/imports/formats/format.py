"""A format that others write, as data: the table `[format]` of its mapping says which files are of it.

A file `maps/NAME.toml` is all that a format by name needs. Where no mapping can take its rows, `prepare` names the
module of this folder whose function `prepare` makes them.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.documents import parse_toml, read_text
from toolkit.errors import InvalidError, ThinkbackError, first_line, quote
from toolkit.imports.files.archives import open_archive
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.prepared import PreparedRows
from toolkit.settings import Checked, from_table, setting

MAPS = Path(__file__).parent / "maps"
LOOKED_AT = 2**20
"""Bytes at the beginning in which the keys must be; texts of thousands of words may stand before them."""
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


@dataclass(frozen=True)
class FileHead:
    """`keys`: of the first object, or a table's columns; empty where there are none. `members`: of an archive.

    `fault`: why the file can't be read.
    """

    path: str
    keys: frozenset[str]
    members: frozenset[str] = frozenset()
    fault: str | None = None

    def has(self, *keys: str) -> bool:
        return self.keys.issuperset(keys)


def _keys(given: Any, place: str) -> tuple[frozenset[str], ...]:
    """Lists of keys, of which one must be in a file as a whole."""
    lists = given if isinstance(given, list) else [given]
    if not all(isinstance(one, list) and all(isinstance(key, str) for key in one) for one in lists):
        raise InvalidError(f"`{place}` is {quote(given)}; it takes lists of keys, such as `[['id', 'samples']]`")
    return tuple(map(frozenset, lists))


@dataclass(frozen=True)
class KnownFormat(Checked):
    """The table `[format]`. A file is of the format where it has all of one of the lists of `keys`, or a member."""

    name: str = setting()
    title: str = setting()
    files: str = setting()
    """A regular expression that the paths of its files match, in a folder or an archive."""
    lacks: str = setting()
    keys: tuple[frozenset[str], ...] = setting((), read=_keys)
    members: tuple[str, ...] = setting(())
    """Files of which an archive of the format has one."""
    prepare: str | None = setting(None)
    """The module whose function `prepare` makes rows of its files, where no mapping can take these."""
    options: tuple[str, ...] = setting(())
    """Settings that are its own, beside those of its mapping."""
    depth: int = setting(1, low=1)
    """How many names at the end of a path say what a file holds; those before them, which run it is of."""
    of_requests: bool = setting(False)
    """Whether its ids are those of requests, of which several may ask the same."""
    nameless: bool = setting(False)
    """Whether its files have no names of their own: of a folder, those are of the format that it recognises."""
    companions: tuple[str, ...] = setting(())
    """Names of files that belong to one of the format and are read with it, though it alone was named."""
    mapping: Path = field(default=MAPS, compare=False)
    """The mapping file that has this table."""

    def takes(self, path: str) -> bool:
        """Whether a file of a folder or an archive is one of the format, as its path says."""
        return re.search(self.files, path, re.IGNORECASE) is not None

    def recognises(self, head: FileHead) -> bool:
        """Whether a file is of the format, as its beginning says."""
        return not head.members.isdisjoint(self.members) or any(map(head.keys.issuperset, self.keys))

    def prepared(self, files: Sequence[ListedFile], options: Mapping[str, str]) -> Iterator[PreparedRows]:
        """The rows that its module makes of files, with the settings that are the format's own."""
        rows: Iterator[PreparedRows] = import_module(f"{__package__}.{self.prepare}").prepare(files, **options)
        return rows


def _read_format(path: Path) -> KnownFormat:
    """The format of a mapping file."""
    named = f"mapping `{path.name}`"
    table = parse_toml(read_text(path, named), named).get("format", {})
    return replace(from_table(KnownFormat, {"name": path.stem, **table}, "format"), mapping=path)


FORMATS: dict[str, KnownFormat] = {path.stem: _read_format(path) for path in sorted(MAPS.glob("*.toml"))}
"""The formats that there are, by name."""


def head_of(file: ListedFile) -> FileHead:
    """Look at the beginning of a file; a file that can't be read has no keys."""
    try:
        if file.ending in (".parquet", ".pq"):
            with file.seekable() as opened:
                return FileHead(file.path, frozenset(pl.read_parquet_schema(opened)))
        with file.open() as stream:
            begin = stream.read(LOOKED_AT)
        if (begin.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(begin))) or file.ending == ".eval":
            with file.seekable() as opened, open_archive(file.address, opened) as archive:
                return FileHead(file.path, frozenset(), frozenset(archive.members))
        return FileHead(file.path, _first_keys(begin.decode("utf-8-sig", "ignore")))
    except ThinkbackError as error:
        return FileHead(file.path, frozenset(), fault=str(error))
    except (OSError, ValueError, *_BROKEN) as error:
        return FileHead(file.path, frozenset(), fault=f"`{file.address}` can't be read: {first_line(error)}")


def _first_keys(text: str) -> frozenset[str]:
    """The keys of the first JSON object that a text begins with, or a list in it; those seen, where it is cut off."""
    keys: list[str] = []
    open_: list[str] = []
    last = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        objects = open_.count("{")
        if token in "{[":
            open_.append(token)
        elif token in "}]":
            if not open_ or (token == "}" and objects == 1 and open_[-1] == "{"):
                break
            open_.pop()
        elif token == ":" and objects == 1 and open_[-1] == "{":
            keys.append(last)
        last = token[1:-1]
    return frozenset(keys)
