"""How a file of texts holds its rows, by what it begins with and not by its name: JSON, columns behind commas,
semicolons or tabs, or the white space of TREC's runs and judgements; and its bytes as UTF-8, whatever they were saved
as.
"""

from __future__ import annotations

import codecs
import csv
import logging
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

HEAD = 2**16
"""Bytes at the beginning by which a file is known."""
SEPARATORS = {",": ".csv", "\t": ".tsv", ";": ";", "|": "|"}
"""What stands between columns, and the name of its reader."""
RUN = ("qid", "q0", "docno", "rank", "score", "run")
QRELS = ("qid", "iteration", "docno", "relevance")
"""The columns of TREC's runs and judgements, which have no header: https://trec.nist.gov/data/qrels_eng/."""
_RUN = re.compile(rb"\s*\S+\s+Q0\s+\S+\s+-?\d+\s+-?[\d.eE+-]+\s+\S+\s*", re.IGNORECASE)
_QRELS = re.compile(rb"\s*\S+\s+(?:0|Q0)\s+\S+\s+-?\d+\s*")
_FEW = 5
"""Lines that are looked at."""
_SAVED_AS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_EXCEL = "cp1252"
_RECODED = "`%s` is not UTF-8 (line %s): read as Windows-1252, Excel's Latin-1"
_NO_CODING = "line {} is not UTF-8: save it as UTF-8, or `iconv -f CODING -t UTF-8` makes it so"
_LOGGER = logging.getLogger("thinkback")


def reader_of(head: bytes, ending: str | None) -> str | None:
    """The name of the reader for a file, by its first bytes; its ending decides where these do not contradict it.

    None where a file of no known ending begins like none.
    """
    begin = utf8_content(head, None).removeprefix(codecs.BOM_UTF8).lstrip()
    if begin.startswith((b"{", b"[")):
        if ending == ".json" or (ending in (".jsonl", ".ndjson") and not re.match(rb"\[\s*\{", begin)):
            return ending
        return ".jsonl" if begin.startswith(b"{") else ".json"
    lines = [line for line in begin.splitlines()[: _FEW + 1] if line.strip()][:_FEW]
    if lines and (all(map(_RUN.fullmatch, lines)) or all(map(_QRELS.fullmatch, lines))):
        return "run" if _RUN.fullmatch(lines[0]) else "qrels"
    separator = separator_of(begin)
    return ending if separator is None else SEPARATORS[separator]


def separator_of(begin: bytes) -> str | None:
    """The sign that separates the columns, equally often in the header and the row below it; None without one."""
    text = begin.decode("utf-8", "replace")
    for separator in SEPARATORS:
        rows = [row for row, _ in zip(csv.reader(text.splitlines(True), delimiter=separator), range(2), strict=False)]
        if rows and len(rows[0]) > 1 and len({len(row) for row in rows if row}) == 1:
            return separator
    return None


def utf8_content(content: bytes, address: str | None, first: int = 1, quiet: bool = False) -> bytes:
    """A file's bytes in UTF-8, from its line `first` on. The guessed coding is logged for an `address`, unless `quiet`.
    ValueError where no guess fits.
    """
    for mark, coding in _SAVED_AS.items():
        if content.startswith(mark):
            with suppress(UnicodeDecodeError):
                return content.decode(coding, "strict" if address else "ignore").encode()
    try:
        content.decode()
        return content
    except UnicodeDecodeError as error:
        if address is None:
            return content
        row = content.count(b"\n", 0, error.start) + first
        try:
            recoded = content.decode(_EXCEL).encode()
        except UnicodeDecodeError:
            raise ValueError(_NO_CODING.format(row)) from None
        if not quiet:
            _LOGGER.warning(_RECODED, address, row)
        return recoded


def has_wide_signs(head: bytes) -> bool:
    """True where a file's first bytes say that it is UTF-16, in which no byte alone ends a line."""
    return head.startswith(tuple(_SAVED_AS))


def utf8_file(path: Path, copy: Path, address: str) -> Path:
    """The file where it is UTF-8, else `copy`, written in UTF-8 block by block. The guessed coding is logged.

    ValueError where no guess fits.
    """
    with path.open("rb") as file:
        coding = _SAVED_AS.get(file.read(2))
    row = 1 if coding else _line_of_other_coding(path)
    if row is None:
        return path
    try:
        with (
            path.open(encoding=coding or _EXCEL, newline="") as file,
            copy.open("w", encoding="utf-8", newline="") as written,
        ):
            shutil.copyfileobj(file, written, HEAD)
    except UnicodeDecodeError:
        raise ValueError(_NO_CODING.format(row)) from None
    if coding is None:
        _LOGGER.warning(_RECODED, address, row)
    return copy


def _line_of_other_coding(path: Path) -> int | None:
    """The first line of a file that is not UTF-8, from 1; None where all are."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        while True:
            block = file.read(HEAD)
            try:
                line += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                return line + error.object.count(b"\n", 0, error.start)
            if not block:
                return None


def white_space_rows(content: bytes, columns: Sequence[str]) -> dict[str, list[str]]:
    """The columns of lines with fields between white space. ValueError for a line with another number of fields."""
    rows = []
    for number, line in enumerate(content.decode().splitlines(), 1):
        fields = line.split()
        if fields and len(fields) != len(columns):
            raise ValueError(f"line {number} has {len(fields)} fields and not {len(columns)} ({' '.join(columns)})")
        rows += [fields] if fields else []
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}
