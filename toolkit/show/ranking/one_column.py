"""The ranked table for a column of a paper: policy, quality, cost, difference; short names, and four short notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolkit.show.ranking.ranking import ON_WEIGHTS, RankedInput
from toolkit.show.tables.table import Table
from toolkit.show.tables.table_content import Called, ColumnNote, IntervalCell

RAISED = "¹²³⁴"
_SHORT = (
    (r"adaptive consistency (?=[\d\[])", "AC "),
    (r"\bmajority@", "maj@"),
    (r"\bweighted vote of (\d+) by ([^,:]+)", r"wBoN@\1 (\2)"),
    (r"\bbest of (\d+) by ([^,:]+)", r"BoN@\1 (\2)"),
    (r"\bone sample \(mean\)", "one sample"),
    (r"\bwindow of ", "window "),
    (r"(?<=AC )0(?=\.\d)", ""),
)
"""What the standard suite calls policies, and what papers do."""


def abbreviated(called: Mapping[str, str]) -> dict[str, str]:
    """Names of policies as papers have them, by whole name; where two would be one, both stay as they are called."""
    short = {name: _abbreviate(text) for name, text in called.items()}
    often = Counter(short.values())
    return {name: text if often[text] == 1 else called[name] for name, text in short.items()}


def _abbreviate(text: str) -> str:
    for pattern, words in _SHORT:
        text = re.sub(pattern, words, text)
    return text


def one_column(results: RankedInput, table: Table) -> Table:
    """The table's rows with four columns, and in place of its notes at most four numbered lines."""
    keys = [column.key for column in table.columns]
    narrow = table.only([key for key in (results.metric, str(results.cost.metric), "difference") if key in keys])
    names, diagnostic = abbreviated(results.called), {one.name: one.diagnostic for one in results.policies}
    notes: list[str] = []

    def raised(text: str) -> str:
        notes.append(text)
        return RAISED[len(notes) - 1]

    level, how = f"{100 * results.level:g} %", "over clusters" if results.clustered else "paired by example"
    weighed = ", weighed" if any(note.code in ON_WEIGHTS for note in results.notes) else ""
    rows, every = len(narrow.rows), len(results.policies)
    of = f", {rows} of {every} policies" if rows < every else ""
    headings = {results.metric: raised(f"{results.n:,} examples{weighed}{of}; {level} intervals, {how}.")}
    if "difference" in keys:
        to = f"To {names[str(results.baseline)]}"
        headings["difference"] = raised(f"{to}; intervals hold for all policies at once.")
    cells = [cell for row in narrow.rows for cell in row if isinstance(cell, IntervalCell)]
    few = raised("Few examples of a kind: the interval allows for that.") if any("†" in c.mark for c in cells) else ""
    sees = sorted({diagnostic[str(row[0])] for row in narrow.rows} - {""})
    gold = raised(f"Diagnostic: {', '.join(sees)}.") if sees else ""

    def cell(value: Any) -> Any:
        return replace(value, mark=value.mark.replace("†", few)) if isinstance(value, IntervalCell) else value

    called = {name: text + gold * bool(diagnostic[name]) for name, text in names.items()}
    first, *rest = (column for column in narrow.columns if not column.beneath)
    heads = (replace(one, name=one.name + headings.get(str(one.key), "")) for one in rest)
    columns = (replace(first, form=Called(called)), *heads)
    return replace(
        narrow,
        columns=columns,
        rows=tuple(tuple(map(cell, row[: len(columns)])) for row in narrow.rows),
        below=tuple(ColumnNote(f"{sign} {text}") for sign, text in zip(RAISED, notes, strict=False)),
    )
