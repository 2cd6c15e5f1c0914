"""Numeric claim checking: a claim in words about a small table of evidence, in the manner of QuanTemp.

    year jobs homes
    2011 40 12
    2012 46/49 15
    claim: jobs rose by 6 from 2011 to 2012 and homes were above 20 in 2012.
    jobs 46-40=6 49-40=9, 6: half
    homes 15>20: no
    #### Conflicting

The table has a row a year; a cell with two numbers is one on which two sources differ. A claim has one or two parts,
each of one of six kinds: a value, a change, a sum of two years, a bound, a gap between two columns, a multiple of
another column. A part holds (`yes`), does not (`no`), or holds by one source and not by the other (`half`). A claim all
of whose parts hold is True; one none of whose parts hold is False; any other is Conflicting: in part so, in part not.
The justification does the arithmetic of each part with every number that the sources give. It takes the parts in
either order, and may first read out the cells that a part speaks of (`jobs 2011 40, 2012 46/49`): a model that has seen
all of these ways varies its way from sample to sample, so that its errors differ and a vote can be better than one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from generate.tasks.exercises import ExerciseTask
from generate.tasks.task import ANSWER, AnswerCheck, Item, share_of_lines_that_hold
from toolkit.errors import InvalidError
from toolkit.settings import setting

LABELS = ("True", "False", "Conflicting")
TOPICS = ("jobs", "homes", "cars", "births", "farms", "shops", "fires", "votes", "loans", "trees", "crimes", "boats")
KINDS = ("value", "change", "sum", "bound", "gap", "times")
LATER, OTHER = ("change", "sum"), ("gap", "times")
"""The kinds that compare two years of a column, and two columns of a year."""
YES, NO, HALF = "yes", "no", "half"

# One wording a line; a wording says nothing that its kind and direction do not, so it is no part of the canonical form.
_WORDS: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("value", 0): ("{a} were {n} in {y}", "{a} stood at {n} in {y}", "in {y} there were {n} {a}"),
    ("change", 1): ("{a} rose by {n} from {y} to {z}", "{a} grew by {n} from {y} to {z}"),
    ("change", -1): ("{a} fell by {n} from {y} to {z}", "{a} shrank by {n} from {y} to {z}"),
    ("sum", 0): ("{a} in {y} and {z} add up to {n}", "{a} came to {n} in {y} and {z} together"),
    ("bound", 1): ("{a} were above {n} in {y}", "more than {n} {a} in {y}"),
    ("bound", -1): ("{a} were below {n} in {y}", "fewer than {n} {a} in {y}"),
    ("gap", 0): ("{a} beat {b} by {n} in {y}", "{n} more {a} than {b} in {y}"),
    ("times", 0): ("{a} were {n} times {b} in {y}", "in {y} there were {n} times as many {a} as {b}"),
}
_VERDICT = re.compile(r": (yes|no|half)$")


@dataclass(frozen=True)
class _ClaimPart:
    """One part of a claim. Columns and years are places in the table; `way` is the direction, if there is one."""

    kind: str
    way: int
    column: int
    other: int
    year: int
    later: int
    number: int


@dataclass(frozen=True)
class _FactTable:
    """The evidence of a claim. `cells[column][year]` holds one or two numbers, one for each source."""

    topics: tuple[str, ...]
    years: tuple[int, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]

    def __str__(self) -> str:
        rows = [
            " ".join((str(year), *("/".join(map(str, column[place])) for column in self.cells)))
            for place, year in enumerate(self.years)
        ]
        return "\n".join((" ".join(("year", *self.topics)), *rows))


@dataclass(frozen=True)
class Claims(ExerciseTask):
    """Difficulty: `years` rows and `columns` columns of numbers up to `largest`; two parts with probability
    `two_parts`; a cell has two sources with probability `differ`; `kinds` of parts; how often each label is wanted.
    """

    years: int = setting(3, low=2, high=6)
    columns: int = setting(2, low=2, high=4)
    largest: int = setting(60, low=10)
    two_parts: float = setting(0.6, low=0, high=1)
    differ: float = setting(0.2, low=0, high=1)
    kinds: tuple[str, ...] = setting(KINDS, choices=KINDS)
    shares: tuple[float, ...] = setting((1 / 3, 1 / 3, 1 / 3), low=0)

    name: ClassVar[str] = "numeric_claims"
    labels: ClassVar[tuple[str, ...]] = LABELS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "shares", tuple(self.shares))
        if not self.kinds:
            raise InvalidError(f"`kinds` is empty; it takes some of {', '.join(KINDS)}")
        if len(self.shares) != 3 or not sum(self.shares):
            raise InvalidError("`shares` takes three weights, of True, False and Conflicting")

    def draw(self, rng: random.Random) -> Item | None:
        """Draws a claim with its table; null where a hundred tries did not give the wanted label.

        The label is drawn first and kept over the tries, so that labels are as frequent as `shares` say.
        """
        wanted = rng.choices(LABELS, weights=self.shares)[0]
        items = (self._draw_item(rng, wanted) for _ in range(100))
        return next((item for item in items if item is not None), None)

    def _draw_item(self, rng: random.Random, wanted: str) -> Item | None:
        table = self._draw_table(rng)
        count = 2 if rng.random() < self.two_parts else 1
        parts = tuple(self._draw_part(table, rng, wanted) for _ in range(count))
        if len({(part.kind, part.column, part.year) for part in parts}) < count:
            return None
        verdicts = [part_verdict(table, part) for part in parts]
        label = _label_of(verdicts)
        if label != wanted:
            return None
        claim = " and ".join(_claim_words(table, part, rng) for part in parts) + "."
        evidence = str(table).split("\n")
        extra: dict[str, str | list[str]] = {"claim": claim, "evidence": evidence}
        reads = rng.random() < 0.5
        lines = []
        for part in parts if rng.random() < 0.5 else parts[::-1]:
            lines += [_reading_line(table, part), _part_line(table, part)] if reads else [_part_line(table, part)]
        solution = "\n".join([*lines, f"{ANSWER}{label}"])
        facts = tuple(line for part in parts for line in (_reading_line(table, part), _part_line(table, part)))
        return Item(f"{table}\nclaim: {claim}", label, solution, canonical(table, parts), extra, facts)

    def wrong_solution(self, item: Item, rng: random.Random) -> str:
        """A justification with one number misread or one verdict reversed, and so a wrong label."""
        lines = item.solution.split("\n")[:-1]
        at = rng.choice([number for number, line in enumerate(lines) if _VERDICT.search(line)])
        body, _, answer = lines[at].rpartition(": ")
        turned = rng.choice([one for one in (YES, NO, HALF) if one != answer])
        numbers = list(re.finditer(r"\d+", body))
        if rng.random() < 0.7:
            one = rng.choice(numbers)
            other = max(0, int(one[0]) + rng.choice((-10, -2, -1, 1, 2, 10)))
            body = f"{body[: one.start()]}{other}{body[one.end() :]}"
        changed = [*lines[:at], f"{body}: {turned}", *lines[at + 1 :]]
        label = _label_of([line.rpartition(": ")[2] for line in changed if _VERDICT.search(line)])
        if label == item.answer:
            label = rng.choice([one for one in LABELS if one != item.answer])
        return "\n".join([*changed, f"{ANSWER}{label}"])

    def check(self, item: Item, answer: str | None) -> AnswerCheck:
        """Checks an answer by doing the arithmetic of the parts afresh."""
        text, _, label = item.solution.rpartition(f"\n{ANSWER}")
        return AnswerCheck(text if answer else f"no answer\n{text}", answer == label, label)

    def sound_share(self, item: Item, attempt: str) -> float:
        """The share of an attempt's lines that are facts of the item or its answer."""
        true = {*item.facts, f"{ANSWER}{item.answer}"}
        return share_of_lines_that_hold(attempt, true.__contains__)

    def _draw_table(self, rng: random.Random) -> _FactTable:
        first = rng.randint(2001, 2024 - self.years)
        cells = tuple(tuple(self._draw_cell(rng) for _ in range(self.years)) for _ in range(self.columns))
        return _FactTable(tuple(rng.sample(TOPICS, self.columns)), tuple(range(first, first + self.years)), cells)

    def _draw_cell(self, rng: random.Random) -> tuple[int, ...]:
        value = rng.randint(1, self.largest)
        if rng.random() >= self.differ:
            return (value,)
        other = max(1, value + rng.choice((-1, 1)) * rng.randint(1, 9))
        return (value, other) if other != value else (value,)

    def _draw_part(self, table: _FactTable, rng: random.Random, label: str) -> _ClaimPart:
        """A part that is true, or false, as the wanted label needs it most of the time."""
        kind = rng.choice(self.kinds)
        column, other = rng.sample(range(self.columns), 2)
        year, later = sorted(rng.sample(range(self.years), 2))
        if kind == "times" and rng.random() < 0.6:  # most numbers are no multiple of another: look for a pair that is
            pairs = [
                (a, b, y) for a in range(self.columns) for b in range(self.columns) for y in range(self.years)
                if a != b and 1 < table.cells[a][y][0] / table.cells[b][y][0] <= 9
                and table.cells[a][y][0] % table.cells[b][y][0] == 0
            ]  # fmt: skip
            if pairs:
                column, other, year = rng.choice(pairs)
        if kind == "gap" and min(table.cells[column][year]) < max(table.cells[other][year]):
            column, other = other, column  # the larger first; where the sources leave it open, either
        hold = {"True": 1.0, "False": 0.0}.get(label, 0.5)
        number, way = self._draw_number(table, (kind, column, other, year, later), rng, rng.random() < hold)
        return _ClaimPart(kind, way, column, other, year, later, number)

    def _draw_number(
        self, table: _FactTable, place: tuple[str, int, int, int, int], rng: random.Random, hold: bool
    ) -> tuple[int, int]:
        """The number that a part claims, and its direction. `hold`: whether the part is to be true."""
        kind, column, other, year, later = place
        least = 2 if kind == "times" else 1
        value, after = rng.choice(table.cells[column][year]), rng.choice(table.cells[column][later])
        against = rng.choice(table.cells[other][year])
        if kind == "bound":
            way = rng.choice((-1, 1))
            step = rng.randint(1, 9)
            return max(1, value - step * way if hold else value + (step - 1) * way), way
        if kind == "times":
            true = max(2, round(value / against))
        else:
            true = _arithmetic_result(kind, value, after if kind in LATER else against)
        way = 0 if kind != "change" else 1 if true >= 0 else -1
        number = abs(true) if kind == "change" else true
        if hold:
            return max(0, number), way
        if kind == "change" and rng.random() < 0.3:
            return max(1, number), -way
        return max(least, number + rng.choice((-10, -3, -2, -1, 1, 2, 3, 10))), way


def _second_cell(part: _ClaimPart) -> tuple[int, int] | None:
    """The column and year of the cell that a part compares its first with; None where it speaks of one cell."""
    if part.kind in LATER:
        return part.column, part.later
    return (part.other, part.year) if part.kind in OTHER else None


def _number_pairs(table: _FactTable, part: _ClaimPart) -> list[tuple[int, int]]:
    """The numbers that a part compares, (first, second), for each choice of sources; second is 0 where unused."""
    second = _second_cell(part)
    cells = (0,) if second is None else table.cells[second[0]][second[1]]
    return list(product(table.cells[part.column][part.year], cells))


def part_verdict(table: _FactTable, part: _ClaimPart) -> str:
    """Whether the table bears a part out: `yes`, `no`, or `half` where only some sources do."""
    held = {_part_holds(part, first, second) for first, second in _number_pairs(table, part)}
    return HALF if len(held) == 2 else YES if held == {True} else NO


def _part_holds(part: _ClaimPart, first: int, second: int) -> bool:
    if part.kind == "bound":
        return (first - part.number) * part.way > 0
    if part.kind == "times":
        return second * part.number == first
    return _arithmetic_result(part.kind, first, second) * (part.way or 1) == part.number


def _arithmetic_result(kind: str, first: int, second: int) -> int:
    return {"value": first, "change": second - first, "sum": first + second, "gap": first - second}[kind]


def _part_line(table: _FactTable, part: _ClaimPart) -> str:
    """A justification's line for a part: the arithmetic for each choice of sources, the claimed number, the verdict."""
    sums = [_arithmetic_text(part, first, second) for first, second in _number_pairs(table, part)]
    claimed = "" if part.kind in ("bound", "times") else f", {part.number}"
    return f"{table.topics[part.column]} {' '.join(sums)}{claimed}: {part_verdict(table, part)}"


def _reading_line(table: _FactTable, part: _ClaimPart) -> str:
    """The line that reads out a part's cells: `jobs 2011 40, 2012 46/49`, `jobs 2011 40, homes 2011 12`."""
    second = _second_cell(part)
    cells = [(part.column, part.year), *([] if second is None else [second])]
    readings = []
    for number, (column, year) in enumerate(cells):
        topic = "" if number and column == part.column else f"{table.topics[column]} "
        readings.append(f"{topic}{table.years[year]} {'/'.join(map(str, table.cells[column][year]))}")
    return ", ".join(readings)


def _arithmetic_text(part: _ClaimPart, first: int, second: int) -> str:
    if part.kind in ("change", "sum", "gap"):
        one, two = (second, first) if part.kind == "change" and part.way >= 0 else (first, second)
        return f"{one}+{two}={one + two}" if part.kind == "sum" else f"{one}-{two}={one - two}"
    return {
        "value": f"{first}",
        "bound": f"{first}{'>' if part.way > 0 else '<'}{part.number}",
        "times": f"{part.number}*{second}={part.number * second}, {first}",
    }[part.kind]


def _label_of(verdicts: list[str]) -> str:
    """The claim's label from its parts' verdicts. All yes: True; all no: False; anything else: Conflicting."""
    if set(verdicts) == {YES}:
        return "True"
    return "False" if set(verdicts) == {NO} else "Conflicting"


def canonical(table: _FactTable, parts: tuple[_ClaimPart, ...]) -> str:
    """A form of a claim that ignores topics, years, wording, and the order of columns, parts and sources."""
    cells = [tuple(tuple(sorted(cell)) for cell in column) for column in table.cells]
    order = sorted(range(len(cells)), key=lambda place: (cells[place], _column_uses(parts, place)))
    place_of = {column: place for place, column in enumerate(order)}
    statements = sorted(
        (part.kind, part.way, place_of[part.column], place_of[part.other] if part.kind in OTHER else -1,
         part.year, part.later if part.kind in LATER else -1, part.number)
        for part in parts
    )  # fmt: skip
    return repr((tuple(cells[column] for column in order), statements))


def _column_uses(parts: tuple[_ClaimPart, ...], column: int) -> list[tuple[str, int, int, bool]]:
    """What a claim says about a column, which tells columns with equal numbers apart."""
    return sorted(
        (part.kind, part.year, part.number, part.column == column)
        for part in parts
        if column == part.column or (part.kind in OTHER and column == part.other)
    )


def _claim_words(table: _FactTable, part: _ClaimPart, rng: random.Random) -> str:
    wording = rng.choice(_WORDS[(part.kind, part.way)])
    first, second = table.topics[part.column], table.topics[part.other]
    return wording.format(a=first, b=second, n=part.number, y=table.years[part.year], z=table.years[part.later])
