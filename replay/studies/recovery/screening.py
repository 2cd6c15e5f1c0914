"""The table of what every logged action does to the base attempts, on the examples that it was chosen on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from replay.studies.kit.layout import DATASET
from replay.studies.kit.published import FindRow
from replay.studies.kit.sheet import Column, Row, Sheet, listed, numbers, words
from replay.studies.recovery import columns
from toolkit.show import Number, TableColumn


def screening_rows(study: Any, find: FindRow = lambda dataset, action: {}) -> Iterator[Row]:
    """A row for each action of a data set's `screening`, which `find` finds published."""
    screening = study.screening.with_columns(screened_on="dataset")
    for row in listed(screening.iter_rows(named=True), ("action", "examples")):
        yield replace(row, published=find(str(row.values["dataset"]), row.heads[0]))


def _columns(studies: Sequence[Any]) -> list[Column]:
    """Whose examples the actions were screened on stands there where these are others than the row's data set."""
    others = any(set(study.screening["dataset"]) != {study.dataset} for study in studies)
    return [
        *([words("screened on", "screened_on", drop=1)] if others else []),
        replace(columns.ACCURACY, form=Number(2, 100)), columns.FIXES, columns.FLIPS,
        numbers("finalizer %", "finalizer_rate", shown=100, drop=2),
        numbers("truncated %", "truncation_rate", shown=100, drop=2), replace(columns.ACTION_TOKENS, drop=0),
    ]  # fmt: skip


SCREENING = Sheet[Any](
    "screening", "Screening of the actions", ("action", TableColumn("examples", Number(0))), _columns, screening_rows,
    ("On the examples that gates are fitted on. Finalizer and truncated: of the action's own calls. The oracle sees "
     "gold: a diagnostic.",),
    DATASET,
)  # fmt: skip
