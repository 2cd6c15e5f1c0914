"""What a run gives back: a value that people hold, show, save and ask."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replay.runs.found import Found, Scratch
from replay.runs.saved import read_found, write_found


@dataclass(frozen=True, eq=False)
class Result(Found):
    """What a run found. Frames are polars; `notes` are what a table should carry."""

    def save(self, directory: str | Path) -> None:
        """Write the result into a folder, for `load`; docs/results.md describes the files.

        Raises ThinkbackError where the folder can't be written.
        """
        write_found(self, Path(directory))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (_packed(self),)


def load(address: str | Path) -> Result:
    """A result that was saved, as it was: it draws its tables and figures without the log.

    Raises ThinkbackError where there is none, it is damaged, or it was written by a newer version.
    """
    return Result(**read_found(address))


def _packed(result: Result) -> bytes:
    """A result as bytes, for pickles: the files of a saved one."""
    held, scratch = io.BytesIO(), Scratch()
    folder = result.folder
    if folder is None:
        folder = scratch.path
        result.save(folder)
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(path for path in folder.iterdir() if path.suffix in (".parquet", ".json")):
            archive.write(file, file.name)
    return held.getvalue()


def _unpacked(data: bytes) -> Result:
    """The result in bytes."""
    scratch = Scratch()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(scratch.path)
    return replace(load(scratch.path), scratch=scratch)
