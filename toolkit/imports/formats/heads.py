"""What a file begins with, which tells its format: the keys of its first object, its columns, an archive's members."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass

import polars as pl

from toolkit.errors import ThinkbackError, first_line
from toolkit.imports.files.archives import open_archive
from toolkit.imports.formats.found_files import FoundFile

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
        """Whether all these keys are there."""
        return self.keys.issuperset(keys)


def head_of(file: FoundFile) -> FileHead:
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
        return FileHead(file.path, first_keys(begin.decode("utf-8-sig", "ignore")))
    except ThinkbackError as error:
        return FileHead(file.path, frozenset(), fault=str(error))
    except (OSError, ValueError, *_BROKEN) as error:
        return FileHead(file.path, frozenset(), fault=f"`{file.address}` can't be read: {first_line(error)}")


def first_keys(text: str) -> frozenset[str]:
    """The keys of the first JSON object that a text begins with, or a list in it; those seen, where it is cut off."""
    keys: list[str] = []
    open_: list[str] = []
    last = ""
    for found in _TOKEN.finditer(text):
        token = found[0]
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
