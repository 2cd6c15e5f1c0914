"""A run file of TREC: the ranking of another tool, a line for each question and passage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import ConflictError, EmptyError, FormatError, NotFoundError

SHAPE = "write six columns: question, `Q0`, passage, rank, score, name"
Ranking = tuple[tuple[str, ...], tuple[float, ...]]
"""The passages of a question, best first, and their scores."""


def read_run(path: Path, place: str) -> Mapping[str, Ranking]:
    """The rankings of a run file by question: by score, equal ones by rank, then by line.

    ThinkbackError where there is no such file, a line is no ranking, or a question has a passage twice.
    """
    if not path.is_file():
        raise NotFoundError(f"`{place}.path`: there is no file `{path}`")
    rows: dict[str, dict[str, tuple[float, int, int]]] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            question, passage, rank, score = _parse_run_line(line, f"`{place}.path`: `{path}`, line {number}")
            known = rows.setdefault(question, {})
            if passage in known:
                raise ConflictError(
                    f"`{place}.path`: `{path}`, line {number}: question `{question}` has passage `{passage}` twice"
                )
            known[passage] = (-score, rank, number)
    if not rows:
        raise EmptyError(f"`{place}.path`: `{path}` has no lines")
    return {question: _sort_ranking(known) for question, known in rows.items()}


def _sort_ranking(known: Mapping[str, tuple[float, int, int]]) -> Ranking:
    order = sorted(known, key=known.__getitem__)
    return tuple(order), tuple(-known[one][0] for one in order)


def _parse_run_line(line: str, where: str) -> tuple[str, str, int, float]:
    columns = line.split()
    if len(columns) != 6:
        raise FormatError(f"{where} has {len(columns)} columns: {SHAPE}")
    try:
        rank, score = int(columns[3]), float(columns[4])
    except ValueError:
        raise FormatError(f"{where}: rank `{columns[3]}` or score `{columns[4]}` is no number: {SHAPE}") from None
    if not math.isfinite(score):
        raise FormatError(f"{where}: score `{columns[4]}` is no number: {SHAPE}")
    return columns[0], columns[2], rank, score
