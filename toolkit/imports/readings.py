"""What an import read, so that a wrong reading is seen: the share that is right, wrong answers beside their gold, and,
where nearly nothing is right or readable, another way to read that would make it so.

A cure is proposed only where it was tried on a sample of the log's own answers and makes many of them right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from toolkit.answers import judge, normalise, read_answers
from toolkit.errors import counted
from toolkit.imports.mapping import AnswerRules, ImportMapping
from toolkit.log import Log, collect, open_log
from toolkit.notes import Note, note, warning

NEARLY_NOTHING = 0.02
"""A share of right or readable answers up to which a reading is doubted."""
_SHOWN, _LONGEST = 3, 60
_TRIED, _GAIN = 200, 0.1
"""Traces on which a cure is tried, and the share of them that it must make right, or readable."""
_KINDS = ("number", "choice", "exact", "text")
_WAYS = ("####", "boxed", "answer is", "last number", "last line")
_COLUMNS = ("example_id", "trace_id", "answer", "text", "correct", "opaque")


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer beside its gold. `answer` is null where none was read; `text` is then what it was read from."""

    example_id: str
    answer: str | None
    gold: str | None
    text: str | None


@dataclass(frozen=True)
class Readings:
    """Traces that were judged and are right, those without a readable answer, some wrong ones, and a likely cure."""

    traces: int
    judged: int
    right: int
    unread: int
    wrong: tuple[WrongAnswer, ...]
    cure: str | None

    @property
    def unreadable(self) -> bool:
        """Whether nearly no answer is readable."""
        return self.traces > 0 and self.traces - self.unread <= NEARLY_NOTHING * self.traces

    @property
    def doubtful(self) -> bool:
        """Whether nearly nothing is right, or readable."""
        return self.unreadable or (self.judged > 0 and self.right <= NEARLY_NOTHING * self.judged)

    def notes(self) -> Iterator[Note]:
        """For people: the share, the wrong answers, and the warning."""
        if self.judged:
            share = f"{self.right / self.judged:.1%}".replace("%", " %")
            yield note("right", f"right: {self.right:,} of {counted(self.judged, 'judged trace')} ({share})")
        for one in self.wrong:
            told = f"`{_short(one.answer)}`" if one.answer is not None else f"none in `{_end(one.text)}`"
            whose = ", by the source's verdict" if one.answer is not None and one.answer == one.gold else ""
            yield note("wrong", f"wrong: {_short(one.example_id)}: answer {told}, gold `{_short(one.gold)}`{whose}")
        if self.doubtful:
            readable, right = self.traces - self.unread, self.right
            what = (
                f"only {readable:,} of {counted(self.traces, 'trace')} have a readable answer"
                if self.unreadable
                else f"only {right:,} of {counted(self.judged, 'judged trace')} are right"
            )
            cure = self.cure or "see whether `answers.kind`, `answers.read` and the gold column are what they should be"
            yield warning("doubtful_reading", f"{what}: {cure}")


def check_readings(log: Path, mapping: ImportMapping) -> Readings:
    """Look at what a log just imported through a mapping holds."""
    opened = open_log(log)
    plain = ~pl.col("opaque").fill_null(False)
    correct, unread = pl.col("correct"), pl.col("answer").is_null()
    counts = collect(
        opened.scan("traces", ["answer", "correct", "opaque"]).select(
            traces=pl.len(), judged=correct.count(), right=correct.sum(), unread=(unread & plain).sum()
        ),
        opened,
    ).row(0, named=True)
    missed = plain & ~correct.fill_null(True)
    shown = pl.concat([
        _first(opened, missed & ~unread, _TRIED).unique("example_id", keep="first", maintain_order=True),
        _first(opened, missed & unread, _TRIED).unique("example_id", keep="first", maintain_order=True),
    ]).head(_SHOWN)  # fmt: skip
    wrong = tuple(WrongAnswer(row["example_id"], row["answer"], row["gold"], row["text"])
                  for row in shown.iter_rows(named=True))  # fmt: skip
    found = Readings(**counts, wrong=wrong, cure=None)
    if not found.doubtful:
        return found
    tried = _first(opened, plain & ~correct.fill_null(False), _TRIED)
    return replace(found, cure=_cure(tried, mapping))


def _first(log: Log, condition: pl.Expr, most: int) -> pl.DataFrame:
    """The first traces for which a condition holds, with their gold; few of them, so memory does not grow."""
    rows = collect(log.scan("traces", _COLUMNS).filter(condition).head(most), log).sort("example_id", "trace_id")
    ids = pl.col("example_id").is_in(rows["example_id"].unique().implode())
    gold = collect(log.scan("examples", ["example_id", "gold"]).filter(ids), log)
    return rows.join(gold, on="example_id", how="left", maintain_order="left")


def _cure(sample: pl.DataFrame, mapping: ImportMapping) -> str | None:
    """The least change of the rules that makes most answers of a sample right, or else readable."""
    rules = mapping.answers
    if not sample.height or rules.kind == "label" or rules.judge == "source":
        return None
    given = any("answer" in table.columns for table in mapping.traces)
    texts = sample["answer"] if given else sample["text"]
    kinds, best, most = dict.fromkeys((rules.kind, *_KINDS)), None, _GAIN * sample.height
    for kind, way, gold_way in itertools.product(kinds, (None, *_WAYS), (None, *_WAYS)):
        answers = sample["answer"] if way is None else read_answers(texts, [way])
        gold = sample["gold"] if gold_way is None else read_answers(sample["gold"], [gold_way])
        right = _right(answers, gold, replace(rules, kind=kind))
        if right > most:
            best, most = _settings(mapping, kind, way, gold_way), right
    if best is not None:
        return f"{best} would make {most:,} of {sample.height:,} tried right"
    readable = {way: read_answers(texts, [way]).count() for way in _WAYS}
    way = max(readable, key=lambda one: readable[one])
    if sample["answer"].null_count() == sample.height and readable[way] > most:
        return f"{_settings(mapping, rules.kind, way, None)} would read {readable[way]:,} of {sample.height:,} tried"
    return None


def _right(answers: pl.Series, gold: pl.Series, rules: AnswerRules) -> int:
    """How many are right by these rules."""
    ours, theirs = (normalise(texts, rules.kind, rules.labels, rules.aliases) for texts in (answers, gold))
    return int(judge(ours, theirs, rules.judge).fill_null(False).sum())


def _settings(mapping: ImportMapping, kind: str, way: str | None, gold_way: str | None) -> str:
    """What to add to the command."""
    changed = [
        *([f"answers.kind={kind}"] if kind != mapping.answers.kind else []),
        *([f'answers.read=["{way}"]'] if way else []),
        *([f'answers.read_gold=["{gold_way}"]'] if gold_way else []),
    ]
    options = [f"--set '{one}'" for one in changed]
    options += ["--rejudge"] if any("correct" in table.columns for table in mapping.traces) else []
    return f"`{' '.join(options)}`"


def _short(text: str | None) -> str:
    if text is None:
        return "(none)"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def _end(text: str | None) -> str:
    if not text:
        return "(no text)"
    return text if len(text) <= _LONGEST else f"…{text[-_LONGEST:]}"
