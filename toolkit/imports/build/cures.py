"""Other ways to read answers and gold, tried on a sample of a log whose answers are nearly all wrong or unreadable.

A cure is proposed only where it makes many of the tried answers right. The last number of a text is an answer only
where the gold is a number, and no gold is its last number: a program or a sentence has one by chance.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import polars as pl

from toolkit.answers import judge, normalise, number_form, read_answers
from toolkit.imports.map.mapping import AnswerRules, ImportMapping

_GAIN = 1 / 3
"""The share of the tried traces that a cure must make right, or readable."""
_SEVERAL = 3
"""Wrong answers of a log that is not doubted from which another form of them is proposed."""
_NUMBERS = 0.9
"""The share of gold that must be numbers, for the last number of a text to be an answer."""
_KINDS = ("number", "choice", "exact", "text")
_GOLD_WAYS = ("####", "boxed", "answer is", "last line")
_MARKS = ("####", "boxed", "answer is")
_WAYS = (*_MARKS, "last number", "last line")
"""The ways to read answers. Those without a mark find something in any text, so they prove nothing beside a gold."""
Reading = tuple[str, str | None]
"""The column that is read, and how; None: it is as it should be."""


@dataclass(frozen=True)
class Cure:
    """The options `settings` would make `helped` of the `tried` traces right, or else readable.

    `harms`: whether they would make others wrong. `elsewhere`: whether other traces need other options.
    """

    settings: str
    helped: int
    tried: int
    reads: bool = False
    harms: bool = False
    elsewhere: bool = False

    def __str__(self) -> str:
        told = f"`{self.settings}` would "
        if self.reads:
            told += f"read {self.helped:,} of {self.tried:,} tried"
        else:
            told += f"make {self.helped:,} of {self.tried:,} tried right"
        if self.harms:
            return f"{told}; it would make others wrong, so import these apart"
        return f"{told}; others need another setting, so import these apart" if self.elsewhere else told


@dataclass(frozen=True)
class _Change:
    """What a cure does: the kind, and how answers and gold are read."""

    kind: str
    reading: Reading
    gold_way: str | None


@dataclass(frozen=True)
class _Tried:
    """A sample of traces with `answer`, `text` and `gold`, read in several ways."""

    sample: pl.DataFrame
    rules: AnswerRules

    def right(self, change: _Change) -> int:
        """How many are right by a change of the rules."""
        gold = self._gold(change)
        if change.reading[1] == "last number" and not _numbers(gold):
            return 0
        return int(judge(self._answers(change), gold, self.rules.judge).fill_null(False).sum())

    def alike(self, kind: str) -> pl.Series:
        """Which answers, as they are, have their gold's form of a kind; signs mean nothing in that of a text."""
        answers, gold = self.sample["answer"], self.sample["gold"]
        same = (self._normal(answers, kind) == self._normal(gold, kind)).fill_null(False)
        if kind != "text":
            return same
        pairs = zip(answers, gold, strict=True)
        numbers = [_is_number(one or "") or _is_number(other or "") for one, other in pairs]
        return same & ~pl.Series(numbers, dtype=pl.Boolean)

    def _answers(self, change: _Change) -> pl.Series:
        return self._normal(self.read(*change.reading), change.kind)

    def _gold(self, change: _Change) -> pl.Series:
        return self._normal(self.read("gold", change.gold_way), change.kind)

    def _normal(self, texts: pl.Series, kind: str) -> pl.Series:
        return normalise(texts, kind, self.rules.labels, self.rules.aliases)

    def read(self, column: str, way: str | None) -> pl.Series:
        """A column as it is, or read in a way."""
        return self.sample[column] if way is None else read_answers(self.sample[column], [way])


def likely_cure(sample: pl.DataFrame, others: pl.DataFrame, mapping: ImportMapping) -> Cure | None:
    """The least change of the rules that makes most answers of a sample right, or else readable.

    `others` are traces that are read well: a cure that makes these wrong is for the sample's files alone.
    """
    rules = mapping.answers
    if not sample.height or rules.kind == "label" or rules.judge == "source":
        return None
    tried, rest, height = _Tried(sample, rules), _Tried(others, rules), sample.height
    changes = list(_changes(mapping))
    right = {place: tried.right(change) for place, change in enumerate(changes)}
    best = max(right, key=lambda place: right[place])
    if right[best] > _GAIN * height:
        harm = rest.right(changes[best]) < rest.right(changes[0])
        return Cure(_settings(mapping, changes[best]), right[best], height, harms=harm)
    column = _columns(mapping)[-1]
    ways = _WAYS if sample["gold"].null_count() == height else _MARKS
    readable = {way: tried.read(column, way).count() for way in ways}
    way = max(readable, key=lambda one: readable[one])
    if sample["answer"].null_count() == height and readable[way] > _GAIN * height:
        return Cure(_settings(mapping, _Change(rules.kind, (column, way), None)), readable[way], height, reads=True)
    return None


def other_form(sample: pl.DataFrame, others: pl.DataFrame, mapping: ImportMapping) -> Cure | None:
    """The kind of answer in whose form several wrong answers of a sample are exactly their gold.

    `others` are traces that are right: a kind by which these are wrong is for the sample's files alone.
    """
    rules = mapping.answers
    if not sample.height or rules.kind == "label" or rules.judge == "source":
        return None
    tried, rest = _Tried(sample, rules), _Tried(others, rules)
    known = tried.alike(rules.kind)
    helped = {kind: int((tried.alike(kind) & ~known).sum()) for kind in _KINDS if kind != rules.kind}
    best = max(helped, key=lambda kind: helped[kind])
    if helped[best] < _SEVERAL:
        return None
    now, change = (_Change(kind, ("answer", None), None) for kind in (rules.kind, best))
    # The log has the forms alone: what numbers looked like, and whether another kind takes them for equal, is unknown.
    numbers = rules.kind == "number" and any(map(_is_number, others["gold"].drop_nulls()))
    harm = numbers or rest.right(change) < rest.right(now)
    return Cure(_settings(mapping, change), helped[best], sample.height, harms=harm)


def text_setting(mapping: ImportMapping) -> str | None:
    """The setting that reads answers from the text in the place of the answers that are mapped, where there is one."""
    alone = mapping.traces[0].columns if len(mapping.traces) == 1 else {}
    return f"traces.answer={alone['text']}" if "answer" in alone and "text" in alone else None


def _changes(mapping: ImportMapping) -> Iterator[_Change]:
    """The rules as they are, and the changes that are tried, the least ones first."""
    readings: list[Reading] = [("answer", None), *itertools.product(_columns(mapping), _WAYS)]
    for kind in dict.fromkeys((mapping.answers.kind, *_KINDS)):
        for reading, gold_way in itertools.product(readings, (None, *_GOLD_WAYS)):
            yield _Change(kind, reading, gold_way)


def _columns(mapping: ImportMapping) -> list[str]:
    """What answers may be read from: the mapped answers and, where a setting can say so, the text."""
    if not any("answer" in table.columns for table in mapping.traces):
        return ["text"]
    return ["answer", "text"] if text_setting(mapping) else ["answer"]


def _numbers(gold: pl.Series) -> bool:
    known = gold.drop_nulls().to_list()
    return sum(_is_number(text) for text in known) >= _NUMBERS * max(len(known), 1)


@cache
def _is_number(text: str) -> bool:
    return number_form(text) is not None


def _settings(mapping: ImportMapping, change: _Change) -> str:
    """What to add to the command."""
    column, way = change.reading
    own = text_setting(mapping)
    changed = [
        *([f"answers.kind={change.kind}"] if change.kind != mapping.answers.kind else []),
        *([own] if own and column == "text" else []),
        *([f'answers.read=["{way}"]'] if way else []),
        *([f'answers.read_gold=["{change.gold_way}"]'] if change.gold_way else []),
    ]
    options = [f"--set {shlex.quote(one)}" if "'" in one else f"--set '{one}'" for one in changed]
    options += ["--rejudge"] if any("correct" in table.columns for table in mapping.traces) else []
    return " ".join(options)
