"""verl's dumped generations, `{step}.jsonl`: one line for each sample, with what its reward function gave.

The verdict is `acc` where a sample has one, else the score, which is a verdict only where all scores of the folder are
0 or 1: rewards of other sizes and bonuses for a format are none. Without a verdict the answer is read from the text and
compared with the reference, as in the other formats. A reference that is an object, or a list of several, is none until
a setting names a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from toolkit.errors import FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import json_objects, number, text
from toolkit.imports.formats.judging import ScoreValues, as_verdict
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row

_ACC, _SCORE = "acc", "score"


@dataclass
class _DumpFolder:
    """What is known of a folder's files: the values of each column, and a part of the first unusable reference."""

    values: dict[str, ScoreValues] = field(default_factory=dict)
    part: str | None = None

    def note_row(self, row: Mapping[str, Any]) -> None:
        column, value = _judging_column(row)
        if value is not None:
            self.values.setdefault(column, ScoreValues()).add(value)
        if self.part is None and _gold_text(row) is None:
            self.part = _first_plain_path(row.get("gts"))

    def verdict(self, row: Mapping[str, Any]) -> bool | None:
        column, value = _judging_column(row)
        return as_verdict(value) if value is not None and self.values[column].whole else None

    def notes(self, folder: str) -> Iterator[FileNote]:
        for column, seen in self.values.items():
            if not seen.whole:
                text = (
                    f"`{column}` is from {seen.least:g} to {seen.most:g} and not 0 or 1 throughout, so it is no verdict"
                )
                text += f" (say which are right: `--set 'traces.correct={column} >= …'`)"
                yield FileNote(folder, text, code="grades")
        if self.part is not None:
            text = "`gts` holds objects or lists, which are no gold: name the part that is"
            yield FileNote(folder, f"{text}, such as `--set 'examples.gold={self.part}'`", code="gold_lists")


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each file. For each folder it is decided what its scores mean."""
    runs: dict[str, _DumpFolder] = {}
    for file in files:
        run = runs.setdefault(_folder_of(file), _DumpFolder())
        for row in _samples(file):
            run.note_row(row)
    notes = [note for folder, run in runs.items() for note in run.notes(f"`{PurePosixPath(folder).name or folder}`")]
    for file in files:
        yield PreparedRows(file, _rows(file, runs[_folder_of(file)]), notes)
        notes = []


def _folder_of(file: ListedFile) -> str:
    return str(PurePosixPath(file.place).parent)


def _samples(file: ListedFile) -> Iterator[Row]:
    """Yields the lines of a file. What a reward function returned besides its score may be in one object with it."""
    for place, row in enumerate(json_objects(file), 1):
        if not {"input", "output", "score"} <= row.keys():
            raise FormatError(f"`{file.address}`, sample {place}: no `input`, `output` and `score`, as verl has them")
        score = row["score"]
        yield {**score, **row, "score": score.get("score")} if isinstance(score, dict) else row


def _rows(file: ListedFile, run: _DumpFolder) -> Iterator[Row]:
    """Yields each line unchanged but for a plain `score`, the `verdict` and the `gold`."""
    for row in _samples(file):
        yield {**row, "score": _plain_number(row["score"]), "verdict": run.verdict(row), "gold": _gold_text(row)}


def _judging_column(row: Mapping[str, Any]) -> tuple[str, float | None]:
    """The column that judges a sample (name), and the sample's value in it."""
    value = _plain_number(row.get(_ACC))
    return (_ACC, value) if value is not None else (_SCORE, _plain_number(row["score"]))


def _plain_number(value: Any) -> float | None:
    """A number or a boolean as a number; a list of one counts as its element."""
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    return float(one) if isinstance(one, bool) else number(one)


def _gold_text(row: Mapping[str, Any]) -> str | None:
    """The reference as text, also out of a list of one; None for an object or a longer list."""
    given = row.get("gts")
    one = given[0] if isinstance(given, list) and len(given) == 1 else given
    return None if isinstance(one, dict | list) else text(one)


def _first_plain_path(value: Any, path: str = "gts") -> str | None:
    """The path of the first plain value inside an object or a list."""
    steps: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        steps = [(f".{key}" if key.isidentifier() else f"['{key}']", one) for key, one in value.items()]
    elif isinstance(value, list):
        steps = [(f"[{place}]", one) for place, one in enumerate(value)]
    for step, one in steps:
        inner = _first_plain_path(one, path + step) if isinstance(one, dict | list) else path + step
        if inner is not None:
            return inner
    return None
