"""Tasks with exact answers, generated here: linear equations and numeric claims, for models small enough to train.

>>> task = make_task("algebra_linear_1d", {"answer": 9})
>>> frame = examples(task, {"train": 1_000, "dev": 500, "test": 1_000}, seed=0)
>>> for item in stream(task, "fit", seed=0): ...  # texts to fit a model's weights to, without end
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from generate.tasks.algebra import Algebra
from generate.tasks.formats import CHARACTERS, GRADES, PROMPTS, Text
from generate.tasks.numeric_claims import Claims
from generate.tasks.task import ANSWER, SPLITS, Check, Item, Task, answer_of, draw, examples, part_of, stream
from toolkit.errors import ThinkbackError, suggest

__all__ = [
    "ANSWER", "CHARACTERS", "GRADES", "PROMPTS", "SPLITS", "TASKS", "Algebra", "Check", "Claims", "Item", "Task",
    "Text", "answer_of", "draw", "examples", "make_task", "part_of", "stream", "task_examples",
]  # fmt: skip

TASKS: Mapping[str, Callable[..., Task]] = {"algebra_linear_1d": Algebra, "numeric_claims": Claims}


def make_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """A task by its name and difficulty. ThinkbackError for an unknown name or setting, or an unfit value."""
    if name not in TASKS:
        raise ThinkbackError(f"there is no task `{name}`; {suggest(name, TASKS)}")
    fields = {field.name: field.default for field in dataclasses.fields(TASKS[name])}  # type: ignore[arg-type]
    for key, value in (settings or {}).items():
        if key not in fields:
            raise ThinkbackError(f"`{name}` has no setting `{key}`; {suggest(key, fields)}")
        if not _is_like(value, fields[key]):
            raise ThinkbackError(f"`{name}`: `{key}` is `{value}`; it must be like `{fields[key]}`")
    return TASKS[name](**(settings or {}))


def _is_like(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of a setting's default; a whole number may stand for a number."""
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(_is_like(item, default[0]) for item in value)
    kind = int | float if isinstance(default, float) else type(default)
    return isinstance(value, kind) and not isinstance(value, bool)


def task_examples(name: str, splits: Sequence[str], options: Mapping[str, Any]) -> pl.DataFrame:
    """The examples of some splits: the options are the task's settings, `seed` (0), and `n`, how many of each split.

    `n` is a number, or a table such as `{train = 1000, dev = 500, test = 1000}`, the default.
    """
    settings = {key: value for key, value in options.items() if key not in ("n", "seed")}
    wanted = options.get("n", {"train": 1_000, "dev": 500, "test": 1_000, "fit": 1_000})
    sizes: dict[str, int] = {}
    for split in splits:
        n = wanted.get(split) if isinstance(wanted, Mapping) else wanted
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ThinkbackError(f"`{name}`: `n` gives no whole number of examples for `{split}`, but `{n}`")
        sizes[split] = n
    seed = options.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ThinkbackError(f"`{name}`: `seed` must be a whole number, not `{seed}`")
    return examples(make_task(name, settings), sizes, seed)
