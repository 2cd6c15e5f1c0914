"""A result as bytes, for pickles: the files of a saved one."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

from replay.runs.saved.findings import Findings, Scratch
from replay.runs.saved.saved import read_found
from toolkit.errors import ThinkbackError, first_line


def pack(found: Findings, write: Callable[[Path], None]) -> bytes:
    """The files of a result: those that it was loaded from, else those that it can `write` into a folder."""
    held, scratch = io.BytesIO(), Scratch()
    folder = found.folder
    if folder is None:
        write(scratch.path)
        folder = read_found(scratch.path)["folder"]
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for name in (*folder.hashes, "result.json"):
            archive.write(folder.path / name, name)
    return held.getvalue()


def unpack(data: bytes) -> Scratch:
    """A folder with the files in these bytes, which goes when nothing refers to it any more."""
    scratch = Scratch()
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(scratch.path)
    except OSError as error:
        why = f"cannot write the result to a temporary folder ({first_line(error)})"
        raise ThinkbackError(f"{why}: free space there, or set TMPDIR to another folder") from None
    return scratch
