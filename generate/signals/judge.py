"""Prompted verifiers: a judge (score from 0 to 1), self-reflection (1 to 10), and a choice among the traces of a group
(the number, from 1, of the best).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

import polars as pl

from generate.engines.base import FAILED, Call, Completion, Engine, Prompt, summed_cost
from generate.journal.events import Answered
from generate.journal.queue import JournalCall, JournalQueue, tokens_of
from generate.recipes.prompting import Template
from generate.recipes.recipe import seed_of
from generate.signals.signal import (
    BlockRows,
    CostBounds,
    UnreadableError,
    VerifierSignal,
    Worker,
    WorkerInput,
    Workload,
    score_rows,
)
from generate.traces.block import (
    LISTED_FIELDS,
    TRACE_FIELDS,
    TraceBlock,
    check_fields,
    choice_group,
    prompt_about,
    prompt_about_all,
)
from toolkit.progress import Advance
from toolkit.settings import setting

PER_BLOCK = 2_048
MAX_UNREADABLE = 100
"""The number of unreadable judgements at the beginning of a run at which it ends."""
MIN_UNREADABLE = 10
"""The least number of unreadable judgements, without a readable one, that is an error at the end."""
TRIES = 2
COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "device_s")


@dataclass(frozen=True)
class _JudgeQuestion:
    """A question to a judge about one trace or several. `key` names it in the journal."""

    key: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class _OpenQuestion:
    """A question on its way, with its loop."""

    question: _JudgeQuestion
    loop: Generator[JournalCall, Completion, float | None]


class _PromptedWorker(Worker):
    """Asks an engine to judge traces. The engine is opened at the first call that the journal has no answer to."""

    per_block = PER_BLOCK
    looks_ahead = True

    def __init__(self, step: _PromptedVerifier, work: WorkerInput):
        super().__init__(step, work)
        self.template = work.additions.prompts[step.prompt]
        check_fields(self.template, work.log, step.fields)
        assert work.journal is not None  # signals that need an engine are not spread
        self.queue = JournalQueue(work.journal, f"`{step.name}`", self._open_engine)
        self.engine: Engine | None = None
        self.answers: dict[str, dict[int, Completion]] = {}
        self.failed: dict[str, tuple[str, str]] = {}
        self.later: tuple[TraceBlock, list[_JudgeQuestion]] | None = (
            None  # the next block, until its questions are asked
        )
        self.begun: set[str] = set()  # questions that were asked, or had an answer, of the block at hand and the next
        self.open: dict[str, _OpenQuestion] = {}  # those of them that wait for an answer
        self.read, self.unread, self.first_unread = work.existing, 0, ""
        for answered in work.journal.events(Answered):
            self._note(answered)

    def _note(self, event: Answered) -> None:
        """Note the answer to a call: its completion, or its failure."""
        self.queue.note_earlier_answer(event)
        if event.completion is None:
            self.failed[event.about] = event.failure or "", event.cause or FAILED
        else:
            self.answers.setdefault(event.about, {})[event.sample] = event.completion

    def describe(self) -> Mapping[str, Any]:
        engine = self._open_engine()
        described = {"name": engine.name, **engine.describe()}
        return {"model": engine.model, "engine": described, "prompt": self.template.text, "tries": TRIES}

    def announce_next(self, block: TraceBlock) -> None:
        self.later = block, list(self.step.questions(block.wanted_rows))

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        """Asks about a block's traces; returns rows for those whose judgement could be read."""
        questions = list(self.step.questions(block.wanted_rows))
        self._ask_questions(block, questions, advance)
        self.begun.difference_update(question.key for question in questions)
        if self.work.with_failures:
            for _, answered in self.queue.make_failures_final():
                for sample in answered:
                    self._note(sample)
        self.queue.check_failures()
        rows: list[dict[str, Any]] = []
        refused: list[tuple[str, str, str]] = []
        unreadable: list[tuple[str, ...]] = []
        tokens = 0
        for question in questions:
            given = list(self.answers.pop(question.key, {}).values())
            verdict = self._verdict(question, given)
            if verdict is not None:
                rows += self._rows(question, verdict, given)
                continue
            tokens += sum((one.prompt_tokens or 0) + (one.completion_tokens or 0) for one in given)
            if question.key in self.failed:
                refused += [(row["trace_id"], *self.failed[question.key]) for row in question.rows]
            else:
                unreadable.append(tuple(row["trace_id"] for row in question.rows))
        return BlockRows(score_rows(rows), unreadable=tuple(unreadable), lost_tokens=tokens, refused=tuple(refused))

    def final_record(self, rows: int, unreadable: int) -> Mapping[str, Any]:
        """The final record, with what is known of the server by now. UnreadableError where no judgement can be read."""
        if unreadable >= MIN_UNREADABLE and not rows:
            self.unread = unreadable
            raise self._unreadable_error()
        return self.describe()

    def close(self) -> None:
        self.queue.cancel()
        if self.engine is not None:
            self.engine.close()

    def _ask_questions(self, block: TraceBlock, questions: Sequence[_JudgeQuestion], advance: Advance) -> None:
        """Ask until each question is readable or has no further attempt: no more than `MAX_UNREADABLE` before one is.
        With the first answer to a question its traces are counted, as many as it is about. Once all are asked and one
        is readable, those of the next block are asked, too.
        """
        keys = {question.key for question in questions}
        for begun, question in enumerate(questions, start=1):
            if question.key in self.answers or question.key in self.failed:
                advance(len(question.rows))
            self._begin_question(block, question)
            while not self.read and begun >= MAX_UNREADABLE and self.queue.waiting:
                self._take_answers(keys, advance)
        while keys & self.open.keys():
            if self.later is not None and self.read:
                later, self.later = self.later, None
                for question in later[1]:
                    self._begin_question(later[0], question)
            self._take_answers(keys, advance)

    def _begin_question(self, block: TraceBlock, question: _JudgeQuestion) -> None:
        """Ask a question unless it was asked, or is answered."""
        if question.key not in self.begun:
            self.begun.add(question.key)
            loop = self.step.judging_loop(question, partial(self._call, block, question))
            self._continue_loop(_OpenQuestion(question, loop), next(loop))

    def _take_answers(self, keys: Collection[str], advance: Advance) -> None:
        """Record some answers, and let the loops that they belong to go on."""
        for one, answered in self.queue.completed():
            for sample in answered:
                self._note(sample)
            if one.about in self.open:
                going = self.open.pop(one.about)
                if answered:
                    if one.samples == (0,) and one.about in keys:
                        advance(len(going.question.rows), tokens_of(answered))
                    self._continue_loop(going, one)

    def _continue_loop(self, going: _OpenQuestion, call: JournalCall) -> None:
        """Have a loop's call answered, by the journal where it has been; one that failed ends the loop."""
        question = going.question
        try:
            while question.key not in self.failed:
                given = self.answers.get(question.key, {})
                if call.samples[0] not in given:
                    self.open[question.key] = going
                    self.queue.submit_calls([call])
                    return
                call = going.loop.send(given[call.samples[0]])
        except StopIteration as end:
            self._count_question(question, end.value)

    def _count_question(self, question: _JudgeQuestion, number: float | None) -> None:
        """Count a question as read or unreadable. UnreadableError where all are unreadable, and they are many."""
        if number is not None:
            self.read += 1
            return
        self.unread += 1
        self.first_unread = self.first_unread or self.answers[question.key][0].text
        if not self.read and self.unread >= MAX_UNREADABLE:
            raise self._unreadable_error()

    def _verdict(self, question: _JudgeQuestion, given: Sequence[Completion]) -> float | None:
        """The first number that can be read of some answers; None where there is none."""
        numbers = (self.step.read_number(one.text, question) for one in given)
        return next((number for number in numbers if number is not None), None)

    def _unreadable_error(self) -> UnreadableError:
        first = f", the first says {self.first_unread[:60]!r}" if self.first_unread else ""
        return UnreadableError(
            f"`{self.step.name}`: not one of {self.unread:,} judgements can be read{first}: look at its prompt, `read`"
            " and `max_tokens`; the log is unchanged"
        )

    def _open_engine(self) -> Engine:
        if self.engine is None:
            assert self.work.open_engine is not None
            self.engine = self.work.open_engine(self.work.additions)
        return self.engine

    def _call(self, block: TraceBlock, question: _JudgeQuestion, number: int) -> JournalCall:
        step = self.step
        call = Call(
            key=f"{question.key}/{step.name}/{number}",
            prompt=step.question_prompt(self.template, block, question),
            seeds=(seed_of(self.work.additions.seed, question.key, step.name, number),),
            temperatures=(step.retry_temperature if number else step.temperature,),
            max_tokens=step.max_tokens,
            stop=step.stop,
        )
        return JournalCall(call, question.key, "", (number,))

    def _rows(self, question: _JudgeQuestion, number: float, answer: Sequence[Completion]) -> list[dict[str, Any]]:
        """The row of each trace in a question. That of the lowest sample index has the costs, others have 0."""
        lowest = min(question.rows, key=lambda row: row["sample_index"])
        costs = {name: summed_cost(answer, name) for name in COSTS}
        scores = self.step.scored_traces(number, question)
        return [
            self.step.verification_row(row, **score, **(costs if row is lowest else dict.fromkeys(costs, 0)))
            for row, score in zip(question.rows, scores, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class _PromptedVerifier(VerifierSignal):
    """A verifier that prompts a model. `read`: its number is taken from JSON (under `key`) or is the text's first
    number. An unreadable judgement is asked for once more, at `retry_temperature`.
    """

    prompt: str = setting()
    read: str = setting("json", choices=("json", "number"))
    key: str | None = setting(None)
    max_tokens: int = setting(128, low=1)
    temperature: float = setting(0.0, low=0, high=5)
    retry_temperature: float = setting(0.5, low=0, high=5)
    stop: tuple[str, ...] = setting(())

    worker = _PromptedWorker
    needs_engine = True
    key_of_kind: ClassVar[str] = "score"
    """The name of the number in JSON, where `key` gives none."""
    fields: ClassVar[tuple[str, ...]] = TRACE_FIELDS
    """What its prompt may name besides the columns of `examples`."""
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0

    def questions(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[_JudgeQuestion]:
        """Yields the questions about some traces, which come group by group: here one about each trace."""
        return (_JudgeQuestion(row["trace_id"], (row,)) for row in rows)

    def question_prompt(self, template: Template, block: TraceBlock, question: _JudgeQuestion) -> Prompt:
        """The prompt that asks a question."""
        return prompt_about(template, block, question.rows[0])

    def judging_loop(
        self, question: _JudgeQuestion, ask: Callable[[int], JournalCall]
    ) -> Generator[JournalCall, Completion, float | None]:
        """A loop that asks until a number can be read, at most `TRIES` times; it returns the number, None without one.
        ask: gives the call of a try.
        """
        for number in range(TRIES):
            reply = yield ask(number)
            judged = self.read_number(reply.text, question)
            if judged is not None:
                return judged
        return None

    def is_valid_judgement(self, number: float, question: _JudgeQuestion) -> bool:
        """Whether a number is a valid judgement, here: whether it is on the scale."""
        return self.low <= number <= self.high

    def scored_traces(self, number: float, question: _JudgeQuestion) -> list[dict[str, Any]]:
        """Each trace in a question with the columns that the judged number gives: its score, and any others."""
        return [{"score": number}]

    def read_number(self, text: str, question: _JudgeQuestion) -> float | None:
        """The number in a judgement's text; None where none can be read or it is not valid."""
        number = read_number(text, self.read, self.key or self.key_of_kind)
        return number if number is not None and self.is_valid_judgement(number, question) else None

    def cost(self, load: Workload) -> CostBounds:
        """An upper bound of the cost, with every question asked as often as allowed."""
        calls = TRIES * (load.groups if self.whole_groups else load.traces)
        tokens = TRIES * load.read_tokens(self.prompt) + calls * self.max_tokens
        return CostBounds(calls, tokens, self.disk_bytes(load))


_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_DECODER = json.JSONDecoder()


def read_number(text: str, how: str, field: str) -> float | None:
    """The number in a judgement's text; None where none can be read.

    how: `json` takes the last JSON object of the text that has the `field`; `number` the first number there is.
    """
    if how == "json":
        value = _number_in_last_json(text, field)
    else:
        value = float(match.group()) if (match := _NUMBER.search(text)) else None
    return value if value is not None and math.isfinite(value) else None


def _number_in_last_json(text: str, field: str) -> float | None:
    """The field of the last JSON object that has it. Judges write text before the object, and fence it."""
    value: Any = None
    place = text.find("{")
    while place >= 0:
        try:
            read, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(read, dict) and field in read:
            value = read[field]
        place = text.find("{", end)
    if isinstance(value, str):
        whole = _NUMBER.fullmatch(value.strip())
        value = None if whole is None else float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None


SHARED: Mapping[str, Any] = {"lines": None, "first": None}
"""Settings of choices that older logs recorded for every prompted verifier."""


@dataclass(frozen=True, kw_only=True)
class Judge(_PromptedVerifier):
    """A verifier that asks a model for a score from 0 to 1."""

    kind = "judge"
    recorded: ClassVar[Mapping[str, Any]] = SHARED


@dataclass(frozen=True, kw_only=True)
class Reflection(_PromptedVerifier):
    """A verifier that asks a model for a number from 1 to 10, which is the score."""

    kind = "reflection"
    recorded: ClassVar[Mapping[str, Any]] = SHARED
    low = 1.0
    high = 10.0


@dataclass(frozen=True, kw_only=True)
class Listwise(_PromptedVerifier):
    """A verifier that asks a model for the number of the best trace in a group, which scores 1, the others 0. `lines`:
    the prompt shows each trace's last lines on one line, by default whole texts. `first`: only so many first samples
    take part.
    """

    kind = "listwise"

    lines: int | None = setting(None, low=1)
    first: int | None = setting(None, low=2)

    fields = LISTED_FIELDS
    key_of_kind = "best"
    whole_groups = True

    def eligible_traces(self, traces: pl.DataFrame) -> pl.DataFrame:
        return traces if self.first is None else traces.filter(pl.col("sample_index") < self.first)

    def questions(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[_JudgeQuestion]:
        """Yields one question for each group. Its key tells which traces are shown in which order, as a number fits
        only that list.
        """
        for group, members in groupby(rows, key=choice_group):
            listed = tuple(members)
            digest = hashlib.sha256("\0".join(row["trace_id"] for row in listed).encode()).hexdigest()[:12]
            yield _JudgeQuestion("/".join([*(part for part in group if part is not None), digest]), listed)

    def question_prompt(self, template: Template, block: TraceBlock, question: _JudgeQuestion) -> Prompt:
        """The prompt that shows all texts of the group."""
        return prompt_about_all(template, block, question.rows, self.lines)

    def is_valid_judgement(self, number: float, question: _JudgeQuestion) -> bool:
        return number == int(number) and 1 <= number <= len(question.rows)

    def scored_traces(self, number: float, question: _JudgeQuestion) -> list[dict[str, Any]]:
        """The columns of each trace: 1 for the best and 0 for others, and the number of candidates."""
        count = len(question.rows)
        return [{"score": float(place == number), "candidates": count} for place in range(1, count + 1)]
