"""Verifiers that are asked in words: a judge, self-reflection, a choice among an example's traces.

Each answered call goes to the journal before it is counted. A judgement that can't be read is asked once more, with
another seed and at `retry_temperature`; both calls' tokens and seconds stand on the row. One that can't be read twice
has no row, for a score that was not given is not zero: it is counted, and its tokens with it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from generate.engines.base import Call, CallFailure, Completion, Engine, writable
from generate.journal.store import Entry, Journal
from generate.recipes.temperatures import seed_of
from generate.signals.additions import Additions, Asked
from generate.signals.judgements import read_judgement
from generate.signals.signal import Advance, Made, Unreadable, score_rows
from generate.traces.block import LISTED_FIELDS, TRACE_FIELDS, Block, asked_about, asked_of_all, check_fields
from toolkit.errors import ThinkbackError
from toolkit.log import Log

PER_BLOCK = 2_048
PATIENCE = 20
HOPELESS = 100
"""Judgements that may be unreadable, all from the first on, before a run gives up."""
TRIES = 2
SINGLE = "it is alone in its group, so there is nothing to choose among"
ASK = "ask"
"""Behind a step's key: its calls in the journal."""


@dataclass(frozen=True)
class Question:
    """What is asked about one trace, or about several at once. `key` names it in the journal."""

    key: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass
class AskedWorker:
    """A verifier that is asked of an engine, which is opened when the first call is due. `key`: of the step, in the
    journal.
    """

    step: Asked
    additions: Additions
    log: Log
    key: str
    journal: Journal
    open_engine: Callable[[], Engine]
    per_block = PER_BLOCK
    engine: Engine | None = None
    answers: dict[str, dict[int, Completion]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    transient: list[tuple[str, str]] = field(default_factory=list)
    in_a_row: int = 0
    read: int = 0
    unread: int = 0
    said: str = ""

    def __post_init__(self) -> None:
        self.template = self.additions.prompts[self.step.prompt]
        further = LISTED_FIELDS if self.step.kind == "listwise" else TRACE_FIELDS
        check_fields(self.template, list(self.log.columns("examples")), further)

    def recall(self, entry: Entry) -> None:
        """Note a call that was answered."""
        if entry.failure is not None:
            self.failed[entry.example_id] = entry.failure
        for index, completion in zip(entry.indices, entry.completions, strict=entry.failure is None):
            self.answers.setdefault(entry.example_id, {})[index] = completion

    def describe(self) -> dict[str, object]:
        """The engine, the prompt, and how often a judgement is asked for."""
        engine = self.opened()
        described = {"name": engine.name, **engine.describe()}
        return {"model": engine.model, "engine": described, "prompt": self.template.text, "tries": TRIES}

    def run(self, block: Block, advance: Advance) -> Made:
        """Ask about a block's traces; the rows of those whose judgement could be read."""
        questions = self.questions(block)
        single = [question.rows[0]["trace_id"] for question in questions if self._single(question)]
        advance(len(single))
        questions = [question for question in questions if not self._single(question)]
        alone = 0 if self.read else HOPELESS
        parts = [self._settle(block, part, advance) for part in (questions[:alone], questions[alone:]) if part]
        frame = score_rows([row for rows, *_ in parts for row in rows])
        skipped = (*((trace, SINGLE) for trace in single), *(pair for _, pairs, *_ in parts for pair in pairs))
        unreadable = tuple(name for *_, names, _ in parts for name in names)
        return Made(frame, skipped, unreadable, sum(tokens for *_, tokens in parts))

    def _settle(
        self, block: Block, questions: Sequence[Question], advance: Advance
    ) -> tuple[list[dict[str, Any]], list[tuple[str, str]], list[tuple[str, ...]], int]:
        """(rows, skipped, unreadable, tokens of what came to nothing) of some questions, asked as often as need be."""
        sizes = {question.key: len(question.rows) for question in questions}
        advance(sum(size for key, size in sizes.items() if key in self.answers or key in self.failed))
        for number in range(TRIES):
            due = [question for question in questions if self._due(question, number)]
            self._ask([self._call(block, question, number) for question in due], number, sizes, advance)
        if self.transient:
            raise self._come_again(f"{len(self.transient):,} calls failed")
        rows: list[dict[str, Any]] = []
        skipped: list[tuple[str, str]] = []
        unreadable: list[tuple[str, ...]] = []
        tokens = 0
        for question in questions:
            given = list(self.answers.pop(question.key, {}).values())
            values = [value for one in given if (value := self._value(question, one.text)) is not None]
            if values:
                self.read += 1
                rows += self._rows(question, values[0], given)
                continue
            tokens += sum((one.prompt_tokens or 0) + (one.completion_tokens or 0) for one in given)
            if question.key in self.failed:
                skipped += [(row["trace_id"], self.failed[question.key]) for row in question.rows]
            else:
                self.unread += 1
                self.said = self.said or given[0].text
                unreadable.append(tuple(row["trace_id"] for row in question.rows))
        if not self.read and self.unread >= HOPELESS:
            raise self.hopeless()
        return rows, skipped, unreadable, tokens

    def hopeless(self) -> Unreadable:
        """The error of a verifier of which nothing can be read."""
        first = f", the first says {self.said[:60]!r}" if self.said else ""
        return Unreadable(
            f"`{self.step.name}`: not one of {self.unread:,} judgements can be read{first}: look at its prompt, `read`"
            " and `max_tokens`; the log is as it was"
        )

    def questions(self, block: Block) -> list[Question]:
        """One for each wanted trace; of a listwise verifier one for each pool of an example."""
        if self.step.kind != "listwise":
            return [Question(row["trace_id"], (row,)) for row in block.rows]
        groups = groupby(block.rows, key=lambda row: (row["example_id"], row["pool"], row["action"], row["parent_id"]))
        return [Question(_named(key, rows), rows) for key, rows in ((key, tuple(rows)) for key, rows in groups)]

    def _single(self, question: Question) -> bool:
        return self.step.kind == "listwise" and len(question.rows) == 1

    def opened(self) -> Engine:
        """The engine, opened when it is first needed."""
        if self.engine is None:
            self.engine = self.open_engine()
        return self.engine

    def close(self) -> None:
        """Give back the engine."""
        if self.engine is not None:
            self.engine.close()

    def _due(self, question: Question, number: int) -> bool:
        """Whether a question is to be asked for the time `number`: not answered yet, and not readable before."""
        given = self.answers.get(question.key, {})
        if question.key in self.failed or number in given:
            return False
        return all(i in given and self._value(question, given[i].text) is None for i in range(number))

    def _call(self, block: Block, question: Question, number: int) -> Call:
        step = self.step
        if step.kind == "listwise":
            prompt = asked_of_all(self.template, block, question.rows, step.lines)
        else:
            prompt = asked_about(self.template, block, question.rows[0])
        return Call(
            key=f"{question.key}/{step.name}/{number}",
            prompt=prompt,
            seeds=(seed_of(self.additions.seed, question.key, step.name, number),),
            temperatures=(step.retry_temperature if number else step.temperature,),
            max_tokens=step.max_tokens,
            stop=step.stop,
        )

    def _ask(self, calls: Sequence[Call], number: int, sizes: Mapping[str, int], advance: Advance) -> None:
        """Run calls; each answer is in the journal before it is counted, as many traces as its question is about."""
        if not calls:
            return
        before = time.monotonic()
        try:
            for call, outcome in self.opened().run(calls):
                now = time.monotonic()
                failure = outcome.reason if isinstance(outcome, CallFailure) else None
                completions = () if isinstance(outcome, CallFailure) else tuple(writable(one) for one in outcome)
                if isinstance(outcome, CallFailure) and outcome.retryable:
                    self.transient.append((call.key, outcome.reason))
                    self.in_a_row += 1
                    if self.in_a_row >= PATIENCE:
                        raise self._come_again(f"{PATIENCE} calls in a row failed")
                    continue
                self.in_a_row = 0
                key = call.key.removesuffix(f"/{self.step.name}/{number}")
                entry = Entry(key, f"{self.key}/{ASK}", (number,), completions, failure, now - before)
                before = now
                self.journal.append(entry)
                self.recall(entry)
                if number == 0:
                    advance(sizes[key])
        finally:
            self.journal.sync()

    def _come_again(self, what: str) -> ThinkbackError:
        key, reason = self.transient[-1]
        return ThinkbackError(
            f"`{self.step.name}` is not complete: {what}, the last is `{key}`: {reason}; every answered call is kept:"
            " run the same command again"
        )

    def _value(self, question: Question, text: str) -> float | None:
        return read_judgement(text, self.step.kind, self.step.read, self.step.field, len(question.rows))

    def _rows(self, question: Question, value: float, given: Sequence[Completion]) -> list[dict[str, Any]]:
        """The row of a trace, or of all that were shown: the costs stand on the first of them, the others' are 0."""
        listwise = self.step.kind == "listwise"
        lowest = min(range(len(question.rows)), key=lambda i: question.rows[i]["sample_index"])
        made = []
        for number, row in enumerate(question.rows):
            costs = {name: _sum(given, name) for name in COSTS}
            if number != lowest:
                costs = dict.fromkeys(costs, 0)
            made.append(
                {
                    "trace_id": row["trace_id"],
                    "verifier": self.step.name,
                    "example_id": row["example_id"],
                    "score": float(number + 1 == value) if listwise else value,
                    "candidates": len(question.rows) if listwise else None,
                    **costs,
                }
            )
        return made


def _named(group: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> str:
    """A choice by its group and by what is shown in which order: a number says nothing of another list."""
    shown = hashlib.sha256("\0".join(row["trace_id"] for row in rows).encode()).hexdigest()[:12]
    return "/".join([*(part for part in group if part is not None), shown])


COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "device_s")


def _sum(given: Sequence[Completion], name: str) -> Any:
    """Null where one of the calls' is not known."""
    parts = [getattr(one, name) for one in given]
    return None if any(part is None for part in parts) else sum(parts)
