"""What a run gives back: a value that people hold, show, save and ask."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replay.runs.found import Found, Scratch
from replay.runs.paid_traces import copy_traces, has_traces, write_traces
from replay.runs.saved import read_found, write_found
from toolkit.errors import ThinkbackError


@dataclass(frozen=True, eq=False)
class Result(Found):
    """What a run found. Frames are polars; `notes` are what a table should carry."""

    def save(self, directory: str | Path, *, traces: bool = False, texts: bool = False) -> None:
        """Write the result into a folder, for `load`; docs/results.md describes the files.

        `traces`: with what policies paid trace by trace, in which orders, and where each stopped, for which the log is
        read once more; `texts`: with questions and what the model wrote. Raises ThinkbackError where the folder can't
        be written, or a loaded result has no such part.
        """
        folder = Path(directory)
        if (traces or texts) and self.source is None:
            self._need_part(texts)
        write_found(self, folder)
        if traces or texts:
            self._write_traces(folder, texts)

    def _need_part(self, texts: bool) -> None:
        """Raise where a loaded result lacks the part by trace."""
        if self.folder is None or not has_traces(self.folder, texts):
            what = "texts" if texts else "traces"
            raise ThinkbackError(f"this result was saved without {what}: replay again, and save it with `{what}=True`")

    def _write_traces(self, folder: Path, texts: bool) -> None:
        if self.source is None:
            copy_traces(Path(str(self.folder)), folder, texts)
        else:
            write_traces(folder, self.source.plan, self.source.policies, self.source.acting, texts)

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
