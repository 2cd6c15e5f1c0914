"""The ranked table for a column of a paper: policy, quality, cost, difference; short names, and four short notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from string import ascii_uppercase
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
    (r"(?<=AC )0(?=\.\d)", ""),
)
"""What the standard suite calls policies, and what papers do."""
_CASCADE = re.compile(
    r"^(.+?), then (?:([^:@]+?)(?:: |(?= where )))?(\S+@\d+)? where (.+?)(?: is low)?(?:\[(?:gate\.)?below=(.+)\])?$"
)
_ROOM = 18
"""Letters of a cascade's name that a column of a paper has room for."""


def paper_names(called: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Names of policies as papers have them, by whole name, and a note on those of cascades, empty without any.

    A cascade is `A→B .3`. Where the names of its pools have no room, they are letters, in other policies' names too.
    Where two names would be one, both stay as they are called.
    """
    cascades = {name: match for name, text in called.items() if (match := _CASCADE.match(text))}
    pools = dict.fromkeys(pool for match in cascades.values() for pool in match.group(1, 2) if pool)
    signals = dict.fromkeys(match[4] for match in cascades.values())
    letters = {pool: pool for pool in pools}

    def name_of(match: re.Match[str]) -> str:
        value = re.sub(r"^(-?)0(?=\.)", r"\1", match[5] or "").replace("-", "−")
        words = (match[4] if len(signals) > 1 or not value else "", value)
        then = ": ".join(filter(None, (letters.get(match[2]), _abbreviate(match[3] or ""))))
        return " ".join(filter(None, (f"{letters[match[1]]}→{then}", *words)))

    if any(len(name_of(match)) > _ROOM for match in cascades.values()):
        letters = dict(zip(pools, ascii_uppercase, strict=False)) if len(pools) <= len(ascii_uppercase) else letters
    short = {}
    for name, text in called.items():
        pool, _, rest = text.partition(": ")
        text = f"{letters[pool]}: {rest}" if rest and pool in letters else text
        short[name] = name_of(cascades[name]) if name in cascades else _abbreviate(text)
    often = Counter(short.values())
    names = {name: text if often[text] == 1 else called[name] for name, text in short.items()}
    if not cascades:
        return names, ""
    first, then, signal = next((letters[m[1]], letters.get(m[2]) or _abbreviate(m[3]), m[4]) for m in cascades.values())
    which = ", ".join(f"{letter}: {pool}" for pool, letter in letters.items() if letter != pool)
    form = f"{first}→{then} x: {then} where {first}'s {signal} < x" if len(signals) == 1 else ""
    form = form or f"{first}→{then} s x: {then} where {first}'s s < x"
    return names, f"{which}. {form}." if which else f"{form}."


def _abbreviate(text: str) -> str:
    for pattern, words in _SHORT:
        text = re.sub(pattern, words, text)
    return text


def one_column(results: RankedInput, table: Table) -> Table:
    """The table's rows with four columns, and in place of its notes at most four numbered lines."""
    keys = [column.key for column in table.columns]
    narrow = table.only([key for key in (results.metric, str(results.cost_column.metric), "difference") if key in keys])
    names, key = paper_names(results.display_names)
    diagnostic = {policy.name: policy.diagnostic for policy in results.policies if policy.diagnostic}
    level, how = f"{100 * results.level:g} %", "over clusters" if results.clustered else "paired by example"
    weighed = ", weighed" if any(note.code in ON_WEIGHTS for note in results.notes) else ""
    rows, every = len(narrow.rows), len(results.policies)
    of = f", {rows} of {every} policies" if rows < every else ""
    notes = {results.metric: f"{results.judged_count:,} examples{weighed}{of}; {level} intervals, {how}."}
    if "difference" in keys:
        notes["difference"] = f"To {names[str(results.baseline)]}; intervals hold for all policies at once."
    return with_numbered_notes(narrow, names, notes, key, diagnostic)


def with_numbered_notes(
    table: Table, names: Mapping[str, str], notes: Mapping[str, str], key: str = "",
    diagnostic: Mapping[str, str] | None = None,
) -> Table:  # fmt: skip
    """The table with at most four numbered lines below, in place of its own: `key` to the names, `notes` by the keys of
    columns (as one where there are more than four), one on intervals of few examples, and one on what policies see.
    `names`: what policies are called; `diagnostic`: what some of them see.
    """
    sees = diagnostic or {}
    marked = any("†" in value.mark for row in table.rows for value in row if isinstance(value, IntervalCell))
    texts = list(notes.values())
    if key and marked and len(texts) > 1 and any(str(row[0]) in sees for row in table.rows):
        texts = [f"{texts[0]} Last column: {texts[1][0].lower()}{texts[1][1:]}"]
    lines = [*([key] if key else []), *texts]
    raised = {name: RAISED[min(len(lines) - len(texts) + at, len(lines) - 1)] for at, name in enumerate(notes)}
    few = gold = ""
    if marked:
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
    columns = (replace(first, name=first.name + RAISED[0] * bool(key), form=NameForm(called)), *heads)
    return replace(
        table,
        columns=columns,
        rows=tuple(tuple(map(cell, row[: len(columns)])) for row in table.rows),
        below=tuple(ColumnNote(f"{sign} {text}") for sign, text in zip(RAISED, lines, strict=False)),
    )
