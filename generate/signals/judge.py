"""Verifiers that are asked: a judge, whose score is from 0 to 1, self-reflection, from 1 to 10, and a choice among an
example's traces, the number, from 1, of the best of those of a group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import polars as pl

from generate.engines.base import Prompt
from generate.recipes.prompting import Template
from generate.signals.asked import AskedVerifier, Question
from generate.traces.block import LISTED_FIELDS, TraceBlock, group_of, prompt_about_all
from toolkit.settings import setting

SHARED: Mapping[str, Any] = {"lines": None, "first": None}
"""Settings of choices, which every verifier that is asked recorded when they had one class for all."""


@dataclass(frozen=True, kw_only=True)
class Judge(AskedVerifier):
    """Says a score in [0, 1]."""

    kind = "judge"
    recorded: ClassVar[Mapping[str, Any]] = SHARED


@dataclass(frozen=True, kw_only=True)
class Reflection(AskedVerifier):
    """Says a number from 1 to 10, which is kept as it is."""

    kind = "reflection"
    recorded: ClassVar[Mapping[str, Any]] = SHARED
    low = 1.0
    high = 10.0


@dataclass(frozen=True, kw_only=True)
class Listwise(AskedVerifier):
    """Says the number, from 1, of the best trace: it scores 1, the others 0. `lines`: its prompt shows the last lines
    of each trace, on one line; without it whole texts. `first`: it chooses among the first samples only, as many as
    that.
    """

    kind = "listwise"

    lines: int | None = setting(None, low=1)
    first: int | None = setting(None, low=2)

    fields = LISTED_FIELDS
    key_of_kind = "best"
    whole_groups = True

    def chosen(self, traces: pl.DataFrame) -> pl.DataFrame:
        """The first samples."""
        return traces if self.first is None else traces.filter(pl.col("sample_index") < self.first)

    def questions(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Question]:
        """One about each group, by what is shown in which order: a number says nothing of another list."""
        for group, members in groupby(rows, key=group_of):
            listed = tuple(members)
            shown = hashlib.sha256("\0".join(row["trace_id"] for row in listed).encode()).hexdigest()[:12]
            yield Question("/".join([*(part for part in group if part is not None), shown]), listed)

    def ask(self, template: Template, block: TraceBlock, question: Question) -> Prompt:
        """With all texts of the group."""
        return prompt_about_all(template, block, question.rows, self.lines)

    def fits(self, number: float, question: Question) -> bool:
        """Whether a number is that of a trace."""
        return number == int(number) and 1 <= number <= len(question.rows)

    def scored(self, number: float, question: Question) -> list[dict[str, Any]]:
        """1 for the best, 0 for the others, and among how many it was chosen."""
        count = len(question.rows)
        return [{"score": float(place == number), "candidates": count} for place in range(1, count + 1)]
