"""The ranked table for a column of a paper: policy, quality, cost, difference; short names, and four short notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolkit.show.ranking.ranking import ON_WEIGHTS, RankedInput
from toolkit.show.tables.table import Table
from toolkit.show.tables.table_content import ColumnNote, IntervalCell, NameForm

RAISED = "¹²³⁴"
_SHORT = (
    (r"adaptive consistency (?=[\d\[])", "AC "),
    (r"\bmajority@", "maj@"),
    (r"\bweighted vote of (\d+) by ([^,:]+)", r"wBoN@\1 (\2)"),
    (r"\bbest of (\d+) by ([^,:]+)", r"BoN@\1 (\2)"),
    (r"\bone sample \(mean\)", "one sample"),
    (r"\bwindow of ", "window "),
    (r"^(.+), then (.+) where (.+) is low\[gate\.below=(.+)\]$", r"\1→\2 (\3 < \4)"),
    (r"^(.+), then (.+) where (.+)$", r"\1→\2 (\3)"),
    (r"(?<=AC |.< )0(?=\.\d)", ""),
)
"""What the standard suite calls policies, and what papers do."""


def abbreviated_names(called: Mapping[str, str]) -> dict[str, str]:
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
    names, diagnostic = abbreviated_names(results.called), {one.name: one.diagnostic for one in results.policies}
    level, how = f"{100 * results.level:g} %", "over clusters" if results.clustered else "paired by example"
    weighed = ", weighed" if any(note.code in ON_WEIGHTS for note in results.notes) else ""
    rows, every = len(narrow.rows), len(results.policies)
    of = f", {rows} of {every} policies" if rows < every else ""
    notes = {results.metric: f"{results.judged:,} examples{weighed}{of}; {level} intervals, {how}."}
    if "difference" in keys:
        notes["difference"] = f"To {names[str(results.baseline)]}; intervals hold for all policies at once."
    return with_numbered_notes(narrow, names, notes, {name: sees for name, sees in diagnostic.items() if sees})


def with_numbered_notes(
    table: Table, names: Mapping[str, str], notes: Mapping[str, str], diagnostic: Mapping[str, str] | None = None
) -> Table:
    """The table with numbered lines below, in place of its own: `notes` by the keys of columns, one on intervals of few
    examples, and one on what policies see. `names`: what policies are called; `diagnostic`: what some of them see.
    """
    sees, lines = diagnostic or {}, list(notes.values())
    raised = dict(zip(notes, RAISED, strict=False))
    few = gold = ""
    if any("†" in value.mark for row in table.rows for value in row if isinstance(value, IntervalCell)):
        few = RAISED[len(lines)]
        lines.append("Few examples of a kind: the interval allows for that.")
    if seen := sorted({sees[str(row[0])] for row in table.rows if str(row[0]) in sees}):
        gold = RAISED[len(lines)]
        lines.append(f"Diagnostic: {', '.join(seen)}.")

    def cell(value: Any) -> Any:
        return replace(value, mark=value.mark.replace("†", few)) if isinstance(value, IntervalCell) else value

    called = {name: text + gold * (name in sees) for name, text in names.items()}
    first, *rest = (column for column in table.columns if not column.beneath)
    heads = (replace(one, name=one.name + raised.get(str(one.key), "")) for one in rest)
    columns = (replace(first, form=NameForm(called)), *heads)
    return replace(
        table,
        columns=columns,
        rows=tuple(tuple(map(cell, row[: len(columns)])) for row in table.rows),
        below=tuple(ColumnNote(f"{sign} {text}") for sign, text in zip(RAISED, lines, strict=False)),
    )
