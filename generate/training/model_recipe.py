"""What a training recipe says: the task, the model's shape, the schedule, and the phases with their mixture of texts.

seed = 0

[task]
name = "algebra_linear_1d"
options = { terms = 2 }

[model]
hidden = 128
layers = 6

[[phase]]
tokens = 9_000_000
mixture = { solve = 1 }

[[phase]]
tokens = 5_000_000
mixture = { solve = 4, verify = 2, judge = 1 }
attempts = { questions = 4000, samples = 4, temperatures = [0.5, 0.8, 1.0] }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate.recipes.settings import check_bounds, from_table, parse_toml, setting
from generate.tasks import PROMPTS, TASKS, Task, make_task
from toolkit.errors import ThinkbackError, suggest

RECIPES = Path(__file__).resolve().parent / "shipped"


@dataclass(frozen=True)
class TaskSettings:
    """The task, with its difficulty as `options`."""

    name: str = setting(choices=TASKS)
    options: Mapping[str, Any] = setting({})

    def make(self) -> Task:
        """The task itself."""
        return make_task(self.name, self.options)


@dataclass(frozen=True)
class Shape:
    """A Llama-architecture model: `heads` of `hidden`/`heads` dimensions, of which `kv_heads` keep keys and values."""

    hidden: int = setting(128, low=8)
    layers: int = setting(6, low=1)
    heads: int = setting(4, low=1)
    kv_heads: int = setting(1, low=1)
    intermediate: int = setting(384, low=8)
    context: int = setting(512, low=16)

    def __post_init__(self) -> None:
        if self.hidden % self.heads or self.hidden // self.heads % 2 or self.heads % self.kv_heads:
            raise ThinkbackError(
                "`model`: `hidden` must be an even multiple of `heads`, and `heads` a multiple of `kv_heads`"
            )


@dataclass(frozen=True)
class Schedule:
    """One schedule over all phases: `warmup` steps up to `rate`, then down to nothing in a straight line.

    batch_tokens: places of one batch, padding included. weight_decay: of the matrices.
    """

    rate: float = setting(0.004, low=1e-6, high=1)
    warmup: int = setting(50, low=0)
    weight_decay: float = setting(0.05, low=0, high=1)
    batch_tokens: int = setting(4096, low=64)


@dataclass(frozen=True)
class Attempts:
    """Whose attempts a phase learns to revise and to judge: samples of the model as it is when the phase begins.

    questions: new to the model; samples: of each, at temperatures taken in turn; max_tokens: of a whole attempt, and
    `short`: the limits at which further ones are cut off, taken in turn.
    """

    questions: int = setting(4000, low=8)
    samples: int = setting(4, low=2)
    temperatures: tuple[float, ...] = setting(
        (0.6, 0.8, 1.0), read=lambda given, place: _numbers(given, place, low=0.0)
    )
    max_tokens: int = setting(160, low=1)
    short: tuple[int, ...] = setting((), read=lambda given, place: tuple(map(int, _numbers(given, place, low=1))))


@dataclass(frozen=True)
class Phase:
    """`tokens` of texts (padding not counted), drawn from formats in the proportions of `mixture`.

    Without `attempts`, attempts are solutions with one error put in, and whole ones.
    """

    tokens: int = setting(low=1)
    mixture: Mapping[str, float] = setting({"solve": 1.0}, read=lambda given, place: _mixture(given, place))
    attempts: Attempts | None = setting(None, read=lambda given, place: from_table(Attempts, given, place))  # noqa: RUF009


@dataclass(frozen=True)
class TrainingRecipe:
    """Everything that decides the weights. start: folder of a model to go on from, in place of random weights of the
    shape `model`.
    """

    name: str
    seed: int
    task: TaskSettings
    model: Shape
    schedule: Schedule
    phases: tuple[Phase, ...]
    start: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all phases."""
        return sum(phase.tokens for phase in self.phases)


def shipped_training_recipes() -> tuple[str, ...]:
    """Names of the recipes that come with the product."""
    return tuple(sorted(path.stem for path in RECIPES.glob("*.toml")))


def load_training_recipe(recipe: str) -> TrainingRecipe:
    """Read a training recipe: a file, or a shipped one by its name. ThinkbackError: one line that names the key."""
    path = Path(recipe)
    if not path.is_file():
        if path.name != recipe or path.name not in shipped_training_recipes():
            known = suggest(path.name, shipped_training_recipes())
            raise ThinkbackError(f"`{recipe}` is no file and no shipped training recipe; {known}")
        path = RECIPES / f"{path.name}.toml"
    top = parse_toml(path)
    try:
        return _recipe(top, path.stem)
    except ThinkbackError as error:
        raise ThinkbackError(f"recipe `{path.name}`: {error}") from None


def _recipe(top: Mapping[str, Any], stem: str) -> TrainingRecipe:
    known = ("name", "seed", "start", "task", "model", "schedule", "phase")
    for key in top:
        if key not in known:
            raise ThinkbackError(f"unknown key `{key}`; {suggest(key, known)}")
    for needed in ("task", "phase"):
        if needed not in top:
            raise ThinkbackError(f"`{needed}` is missing")
    if not isinstance(top["phase"], list):
        raise ThinkbackError("write each phase as `[[phase]]`")
    name, seed = top.get("name", stem), top.get("seed", 0)
    if not isinstance(name, str) or not isinstance(seed, int) or isinstance(seed, bool):
        raise ThinkbackError("`name` must be text in quotes, and `seed` a whole number")
    start = top.get("start")
    if start is not None and (not isinstance(start, str) or not start):
        raise ThinkbackError("`start` must be the folder of a model, in quotes")
    if start is not None and "model" in top:
        raise ThinkbackError("leave out `[model]` or `start`: a model that goes on keeps its shape")
    made = TrainingRecipe(
        name=name,
        seed=seed,
        task=from_table(TaskSettings, top["task"], "task"),
        model=from_table(Shape, top.get("model", {}), "model"),
        schedule=from_table(Schedule, top.get("schedule", {}), "schedule"),
        phases=tuple(from_table(Phase, phase, f"phase.{n}") for n, phase in enumerate(top["phase"], start=1)),
        start=start,
    )
    made.task.make()
    return made


def _mixture(given: Any, place: str) -> dict[str, float]:
    if not isinstance(given, Mapping) or not given:
        raise ThinkbackError(f"`{place}` must be a table of formats, as {{ solve = 4, judge = 1 }}")
    for name, weight in given.items():
        if name not in PROMPTS:
            raise ThinkbackError(f"`{place}`: there is no format `{name}`; {suggest(name, PROMPTS)}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight <= 0:
            raise ThinkbackError(f"`{place}.{name}` must be a number above 0, not {weight!r}")
    return {name: float(weight) for name, weight in given.items()}


def _numbers(given: Any, place: str, low: float) -> tuple[float, ...]:
    right = isinstance(given, Sequence) and not isinstance(given, str) and given
    if not right or any(isinstance(item, bool) or not isinstance(item, int | float) for item in given):
        raise ThinkbackError(f"`{place}` must be a list of numbers, not {given!r}")
    for item in given:
        check_bounds(item, place, low, None)
    return tuple(float(item) for item in given)
