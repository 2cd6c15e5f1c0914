"""The base class of tasks: endless questions with exact answers, in splits that share no question.

A question has a *canonical form* in which wording, names and order do not count. A hash of that form decides which
split may hold the question, so the splits are disjoint whatever is drawn, in whatever number, with whatever seed:

    fit    70 of 100 parts: the texts that a model's weights are fitted to
    train  10 parts: the log's training examples, new to the model, to fit verifiers and policies to
    dev    10 parts
    test   10 parts

Example i of a split depends on the task's settings, the seed and i alone.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Protocol

import polars as pl

from toolkit.errors import EmptyError, LimitError, UnknownError, suggest
from toolkit.settings import converted

SPLITS: Mapping[str, range] = {"fit": range(70), "train": range(70, 80), "dev": range(80, 90), "test": range(90, 100)}
TRIES = 50_000
ANSWER = "#### "
"""What stands before the answer on the last line of a solution."""


@dataclass(frozen=True)
class Item:
    """One generated question. `solution` ends in the answer's line; `extra`: further columns of the example; `facts`:
    the lines that a sound solution may hold, where the task can list them; `turn`: 0 or 1, where two kinds of question
    take turns in each split.
    """

    question: str
    answer: str
    solution: str
    canonical: str
    extra: Mapping[str, str | int | list[str] | None]
    facts: tuple[str, ...] = ()
    turn: int | None = None


@dataclass(frozen=True)
class AnswerCheck:
    """A check of a proposed answer: its lines, whether the answer holds, and the answer that the check itself comes to,
    if any.
    """

    text: str
    holds: bool
    answer: str | None = None


@dataclass(frozen=True)
class QuestionAttempts:
    """A question with several attempts at it, and whether each one's answer is right. `cut` attempts were stopped by a
    limit.
    """

    item: Item
    attempts: tuple[str, ...]
    verdicts: tuple[bool, ...]

    @property
    def share_right(self) -> float:
        """The share of right attempts, which says how easy the question is for the model that made them."""
        return sum(self.verdicts) / len(self.verdicts)


@dataclass(frozen=True)
class TaskText:
    """A training text: a prompt, and the completion that the model is to learn; then, perhaps, `more` such pairs that
    follow in the same text.
    """

    format: str
    prompt: str
    completion: str
    more: tuple[tuple[str, str], ...] = ()


class Difficulty:
    """A task's settings. They are checked and kept as given, since their wording seeds the questions drawn."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            converted(type(self), field.name, getattr(self, field.name), field.name)


class Task(Protocol):
    """A kind of generated question. Its fields set the difficulty."""

    @property
    def name(self) -> str:
        """The name of the task's data set in the log."""
        ...

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels that an answer may be, where the question is closed; else None."""
        ...

    def draw(self, rng: random.Random) -> Item | None:
        """Draws one question; null where this try failed."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of its training texts, of which a recipe's mixture is made."""
        ...

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """All words of its texts, where a token of its models is a word; None where it is a character."""
        ...

    def training_texts(
        self,
        mixture: Mapping[str, float],
        rng: random.Random,
        questions: Iterator[Item],
        samples: Sequence[QuestionAttempts] = (),
    ) -> Iterator[TaskText]:
        """Yields training texts without end, in formats drawn in the proportions of a mixture. questions: new ones;
        samples: a model's attempts, for formats that need them.
        """
        ...


class WrongSolutionTask(Protocol):
    """A task that can write a wrong solution and check an attempt, as training texts about attempts need it."""

    def wrong_solution(self, item: Item, rng: random.Random) -> str:
        """A solution with one error, carried on to a wrong answer."""
        ...

    def check(self, item: Item, answer: str | None) -> AnswerCheck:
        """Checks a proposed answer without solving the question. A null answer does not hold."""
        ...

    def sound_share(self, item: Item, attempt: str) -> float:
        """The share of an attempt's lines that hold; 0 without lines."""
        ...


def split_of_question(canonical: str) -> str:
    """The split to which a question with this canonical form belongs."""
    place = int.from_bytes(hashlib.sha256(canonical.encode()).digest()[:8], "big") % 100
    return next(split for split, places in SPLITS.items() if place in places)


def endless_questions(task: Task, split: str, seed: int) -> Iterator[Item]:
    """Yields the questions of one split without end and without repeats.

    Raises ThinkbackError where the task's settings have no further question of that split.
    """
    if split not in SPLITS:
        raise UnknownError(f"`{task.name}` has no split `{split}`; {suggest(split, SPLITS)}")
    rng = random.Random(f"{task!r} {split} {seed}")
    seen: set[bytes] = set()
    tries = 0
    while True:
        item = task.draw(rng)
        tries += 1
        if item is not None and split_of_question(item.canonical) == split:
            form = hashlib.sha256(item.canonical.encode()).digest()
            if form not in seen and item.turn in (None, len(seen) % 2):
                seen.add(form)
                tries = 0
                yield item
        if tries > TRIES:
            raise LimitError(
                f"`{task.name}` with these settings has no more than about {len(seen)} questions in `{split}`:"
                " ask for fewer, or widen its settings"
            )


def first_questions(task: Task, split: str, n: int, seed: int) -> list[Item]:
    """The first `n` questions of a split."""
    return list(islice(endless_questions(task, split, seed), n))


def examples(task: Task, sizes: Mapping[str, int], seed: int, name: str | None = None) -> pl.DataFrame:
    """The table `examples` for some splits (split -> how many), with `canonical`, `solution` and the task's columns.

    `name`: what the log calls the data set; by default as the task.
    """
    rows = []
    name = name or task.name
    for split, n in sizes.items():
        for number, item in enumerate(first_questions(task, split, n, seed)):
            rows.append(
                {
                    "example_id": f"{name}-{split}-{number:05d}",
                    "dataset": name,
                    "split": split,
                    "question": item.question,
                    "gold": item.answer,
                    "labels": list(task.labels) if task.labels else None,
                    "cluster": None,
                    "canonical": item.canonical,
                    "solution": item.solution,
                    **item.extra,
                }
            )
    if not rows:
        raise EmptyError(f"`{task.name}`: no examples were asked for")
    types = {"labels": pl.List(pl.String()), "cluster": pl.String()}
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)


def share_of_lines_that_hold(attempt: str, holds: Callable[[str], bool]) -> float:
    """The share of an attempt's non-blank lines that hold; 0 without lines."""
    lines = [line for line in attempt.split("\n") if line.strip()]
    return sum(map(holds, lines)) / len(lines) if lines else 0.0


def answer_of(text: str) -> str | None:
    """The answer that ends a solution or attempt of these tasks; null where it was cut off before."""
    _, mark, last = text.rpartition(ANSWER)
    last = last.split("\n")[0].strip()
    return last if mark and last else None
