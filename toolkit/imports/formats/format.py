"""Formats of other tools, as data.

A format is a file `maps/NAME.toml`, whose table `[format]` says which files have the format. Where no mapping can read
the rows, `prepare` names the module of this folder whose function `prepare` converts them.
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
"""The bytes at the beginning of a file in which the keys are looked up; long texts may stand before the keys."""
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


@dataclass(frozen=True)
class FileHead:
    """What the beginning of a file shows. `keys`: of the first object or the table's columns; `members`: an archive's
    files.

    `fault`: why the file can't be read.
    """

    path: str
    keys: frozenset[str]
    members: frozenset[str] = frozenset()
    fault: str | None = None

    def has_keys(self, *keys: str) -> bool:
        return self.keys.issuperset(keys)


def _read_key_lists(value: Any, place: str) -> tuple[frozenset[str], ...]:
    """Reads lists of keys. A file has the format when it has all keys of one list."""
    lists = value if isinstance(value, list) else [value]
    if not all(isinstance(one, list) and all(isinstance(key, str) for key in one) for one in lists):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes lists of keys, such as `[['id', 'samples']]`")
    return tuple(map(frozenset, lists))


@dataclass(frozen=True)
class KnownFormat(Checked):
    """A tool's format, the table `[format]` of its mapping. Its files have all keys of a list, or one of `members`."""

    name: str = setting()
    title: str = setting()
    files: str = setting()
    """A regular expression that the paths of its files match, in a folder or an archive."""
    lacks: str = setting()
    keys: tuple[frozenset[str], ...] = setting((), read=_read_key_lists)
    members: tuple[str, ...] = setting(())
    """File names; an archive of the format has one of them."""
    prepare: str | None = setting(None)
    """The module whose function `prepare` converts the files to rows; empty where the mapping reads them."""
    options: tuple[str, ...] = setting(())
    """Settings of the format, beside those of its mapping."""
    depth: int = setting(1, low=1)
    """The number of names at the end of a path that say the content; the names before them say the run."""
    of_requests: bool = setting(False)
    """Whether its ids are those of requests, several of which may ask the same question."""
    nameless: bool = setting(False)
    """Whether its files have arbitrary names, so that they are recognised by their content."""
    companions: tuple[str, ...] = setting(())
    """Names of files that are read together with a file of the format, also when only that file was named."""
    mapping: Path = field(default=MAPS, compare=False)
    """The mapping file that has this table."""

    def accepts_path(self, path: str) -> bool:
        """Whether a file's path is one that the format may have."""
        return re.search(self.files, path, re.IGNORECASE) is not None

    def recognises(self, head: FileHead) -> bool:
        """Whether the beginning of a file shows this format."""
        return not head.members.isdisjoint(self.members) or any(map(head.keys.issuperset, self.keys))

    def prepared(self, files: Sequence[ListedFile], options: Mapping[str, str]) -> Iterator[PreparedRows]:
        """Yields the rows of files as the format's own module converts them, with the format's own settings."""
        rows: Iterator[PreparedRows] = import_module(f"{__package__}.{self.prepare}").prepare(files, **options)
        return rows


def _read_format(path: Path) -> KnownFormat:
    named = f"mapping `{path.name}`"
    table = parse_toml(read_text(path, named), named).get("format", {})
    return replace(from_table(KnownFormat, {"name": path.stem, **table}, "format"), mapping=path)


FORMATS: dict[str, KnownFormat] = {path.stem: _read_format(path) for path in sorted(MAPS.glob("*.toml"))}
"""All formats by name."""


def head_of(file: ListedFile) -> FileHead:
    """Reads the head of a file. One that cannot be read gets no keys, and the reason as `fault`."""
    try:
        if file.ending in (".parquet", ".pq"):
            with file.seekable_file() as opened:
                return FileHead(file.path, frozenset(pl.read_parquet_schema(opened)))
        with file.open() as stream:
            begin = stream.read(LOOKED_AT)
        if (begin.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(begin))) or file.ending == ".eval":
            with file.seekable_file() as opened, open_archive(file.address, opened) as archive:
                return FileHead(file.path, frozenset(), frozenset(archive.members))
        return FileHead(file.path, _first_keys(begin.decode("utf-8-sig", "ignore")))
    except ThinkbackError as error:
        return FileHead(file.path, frozenset(), fault=str(error))
    except (OSError, ValueError, *_BROKEN) as error:
        return FileHead(file.path, frozenset(), fault=f"`{file.address}` can't be read: {first_line(error)}")


def _first_keys(text: str) -> frozenset[str]:
    """The keys of the JSON object, or of a list's first object, at the beginning of a text. Of a text that was cut off,
    those before the cut.
    """
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
