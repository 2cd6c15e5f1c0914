"""Tasks with exact answers, generated here, for models small enough to train: linear equations, numeric claims, and
questions about an invented world.

>>> task = make_task("algebra_linear_1d", {"answer": 9})
>>> frame = examples(task, {"train": 1_000, "dev": 500, "test": 1_000}, seed=0)
>>> for item in stream(task, "fit", seed=0): ...  # texts to fit a model's weights to, without end
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import polars as pl

from generate.tasks.algebra import Algebra
from generate.tasks.exercises import judge_attempts
from generate.tasks.formats import CHARACTERS, GRADES, PROMPTS
from generate.tasks.invented_texts import InventedTexts
from generate.tasks.invented_world import InventedWorld
from generate.tasks.numeric_claims import Claims
from generate.tasks.task import (
    ANSWER,
    SPLITS,
    AnswerCheck,
    Item,
    QuestionAttempts,
    Task,
    TaskText,
    answer_of,
    endless_questions,
    examples,
    first_questions,
    split_of_question,
)
from toolkit.errors import InvalidError, LimitError, RequiredError, ThinkbackError, UnknownError, quote, suggest
from toolkit.settings import Checked, from_table, setting

__all__ = [
    "ANSWER", "CHARACTERS", "GRADES", "PROMPTS", "SPLITS", "TASKS", "Algebra", "AnswerCheck", "Claims",
    "InventedTexts", "InventedWorld", "Item", "QuestionAttempts", "Task", "TaskText", "answer_of", "endless_questions",
    "examples", "first_questions", "judge_attempts", "make_task", "split_of_question", "task_examples",
]  # fmt: skip

TASKS: Mapping[str, Callable[..., Task]] = {
    "algebra_linear_1d": Algebra, "numeric_claims": Claims, "invented_world": InventedWorld,
    "invented_texts": InventedTexts,
}  # fmt: skip


def make_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """Makes a task from its name and difficulty. ThinkbackError for an unknown name or setting, or an unfit value."""
    if name not in TASKS:
        raise UnknownError(f"unknown task `{name}`; {suggest(name, TASKS)}")
    known = [field.name for field in dataclasses.fields(TASKS[name])]  # type: ignore[arg-type]
    for key in settings or {}:
        if key not in known:
            raise UnknownError(f"`{name}` has no setting `{key}`; {suggest(key, known)}")
    try:
        return TASKS[name](**(settings or {}))
    except ThinkbackError as error:
        raise InvalidError(f"`{name}`: {error}") from None


MOST_QUESTIONS = 10_000_000


def _read_sizes(value: Any, place: str) -> dict[str, int]:
    """Reads the number of examples of each split: one number for all, or a table."""
    sizes = value if isinstance(value, Mapping) else dict.fromkeys(SPLITS, value)
    if not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in sizes.values()):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes an integer, at least 1, or a table of such")
    if max(sizes.values(), default=0) > MOST_QUESTIONS:
        raise LimitError(f"`{place}` is {quote(value)}; at most {MOST_QUESTIONS:,} are drawn of a split")
    return {str(split): int(n) for split, n in sizes.items()}


@dataclasses.dataclass(frozen=True)
class TaskDraw(Checked):
    """What to draw of a task: the number of examples of each split, and the seed."""

    n: Mapping[str, int] = setting({"train": 1_000, "dev": 500, "test": 1_000, "fit": 1_000}, read=_read_sizes)
    seed: int = setting(0)


def task_examples(
    name: str, splits: Sequence[str], options: Mapping[str, Any], called: str | None = None
) -> pl.DataFrame:
    """Generates a task's examples. The options are its settings, `seed` (0), and `n`, the number for each split.

    `n` is a number, or a table such as `{train = 1000, dev = 500, test = 1000}`, the default. `variants` makes several
    data sets of the task: a table by their names, each with the settings that are its own.
    """
    if "variants" in options:
        return _variant_examples(name, splits, options)
    settings = {key: value for key, value in options.items() if key not in ("n", "seed")}
    try:
        drawn = from_table(TaskDraw, {key: value for key, value in options.items() if key not in settings})
    except ThinkbackError as error:
        raise InvalidError(f"`{name}`: {error}") from None
    for split in splits:
        if split not in drawn.n:
            raise RequiredError(f"`{name}`: `n` has no number of examples for the split `{split}`")
    return examples(make_task(name, settings), {split: drawn.n[split] for split in splits}, drawn.seed, called)


def _variant_examples(name: str, splits: Sequence[str], options: Mapping[str, Any]) -> pl.DataFrame:
    """Generates the examples of every variant of a task, under the variant's name."""
    shared, variants = {key: value for key, value in options.items() if key != "variants"}, options["variants"]
    if not isinstance(variants, Mapping) or not variants or not all(isinstance(v, Mapping) for v in variants.values()):
        raise InvalidError(f"`{name}`: `variants` is {quote(variants)}; it takes a table of tables, by data set")
    parts = [task_examples(name, splits, {**shared, **settings}, called) for called, settings in variants.items()]
    return pl.concat(parts, how="diagonal_relaxed")
