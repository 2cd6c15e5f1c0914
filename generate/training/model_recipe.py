"""Training recipes: the task, the model's shape, the schedule, and the phases with their mixtures of texts.

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

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any

from generate.recipes.toml_file import name_file_in_errors, parse_toml, shipped_recipes
from generate.tasks import CHARACTERS, TASKS, Task, make_task
from toolkit.errors import ConflictError, InvalidError, NotFoundError, RequiredError, UnknownError, quote, suggest
from toolkit.settings import Checked, check, from_table, setting

SHIPPED = Path(__file__).resolve().parent / "shipped"


def _read_mixture(value: Any, place: str) -> dict[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a table of formats, as {{ solve = 4, judge = 1 }}")
    for name, weight in value.items():
        if not isinstance(weight, Real) or isinstance(weight, bool) or not float(weight) > 0:
            raise InvalidError(f"`{place}.{name}` is {quote(weight)}; it takes a number above 0")
    return {name: float(weight) for name, weight in value.items()}


@dataclass(frozen=True)
class _TaskSettings:
    """The task to train on, with its difficulty as `options`."""

    name: str = setting(choices=TASKS)
    options: Mapping[str, Any] = setting({})

    def __post_init__(self) -> None:
        check(self)
        self.make()

    def make(self) -> Task:
        """Makes the task from its settings."""
        return make_task(self.name, self.options)


@dataclass(frozen=True)
class ModelShape:
    """The shape of a model: `heads` of `hidden`/`heads` dimensions, of which `kv_heads` have keys and values.

    convolution: the tokens that a short convolution in place of attention reads, in every other layer, the first among
    them: the model is then an LFM2, which learns to look up what follows a few words much faster. 0: a Llama.
    """

    hidden: int = setting(128, low=8)
    layers: int = setting(6, low=1)
    heads: int = setting(4, low=1)
    kv_heads: int = setting(1, low=1)
    intermediate: int = setting(384, low=8)
    context: int = setting(512, low=16)
    convolution: int = setting(0, low=0, high=64)

    def __post_init__(self) -> None:
        check(self)
        if self.hidden % self.heads or self.hidden // self.heads % 2 or self.heads % self.kv_heads:
            raise InvalidError("`hidden` must be an even multiple of `heads`, and `heads` a multiple of `kv_heads`")


@dataclass(frozen=True)
class LearningRateSchedule(Checked):
    """The learning rate over all phases: it rises to `rate` in `warmup` steps, then falls to 0 in a straight line.

    batch_tokens: places of one batch, padding included. weight_decay: of the matrices.
    """

    rate: float = setting(0.004, low=1e-6, high=1)
    warmup: int = setting(50, low=0)
    weight_decay: float = setting(0.05, low=0, high=1)
    batch_tokens: int = setting(4096, low=64)


@dataclass(frozen=True)
class AttemptSettings:
    """The attempts that a phase learns to revise and to judge: samples of the model as it is when the phase begins.

    questions: new to the model; samples: of each, at temperatures taken in turn; max_tokens: of a whole attempt, and
    `short`: the limits at which further ones are cut off, taken in turn.
    """

    questions: int = setting(4000, low=8)
    samples: int = setting(4, low=2)
    temperatures: tuple[float, ...] = setting((0.6, 0.8, 1.0), low=0)
    max_tokens: int = setting(160, low=1)
    short: tuple[int, ...] = setting((), low=1)

    def __post_init__(self) -> None:
        check(self)
        if not self.temperatures:
            raise InvalidError("`temperatures` is empty; it takes a list of numbers, at least 0")


@dataclass(frozen=True)
class TrainingPhase:
    """A phase of training: `tokens` of texts (without padding), in formats drawn in the proportions of `mixture`.

    Without `attempts`, attempts are solutions with one error put in, and whole ones.
    """

    tokens: int = setting(low=1)
    mixture: Mapping[str, float] = setting({"solve": 1.0}, read=_read_mixture)
    attempts: AttemptSettings | None = setting(None)

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "mixture", _read_mixture(self.mixture, "mixture"))


@dataclass(frozen=True, kw_only=True)
class ModelRecipe(Checked):
    """A training recipe: the settings that determine the weights. start: a model's folder to train further, in place of
    random weights.

    classes: words of which its completions are one. The model is kept as a sequence classifier: for two words the
    log-odds of the first, for more a logit for each.
    """

    name: str = setting()
    seed: int = setting(0)
    task: _TaskSettings = setting()
    model: ModelShape = setting(ModelShape())
    schedule: LearningRateSchedule = setting(LearningRateSchedule())
    phases: tuple[TrainingPhase, ...] = setting()
    start: str | None = setting(None)
    classes: tuple[str, ...] = setting(())

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.classes)) != len(self.classes) or len(self.classes) == 1:
            raise InvalidError("`classes` takes two words or more, each once")
        task = self.task.make()
        known = task.formats
        for name in self.classes:
            if name not in (task.vocabulary or CHARACTERS):
                raise UnknownError(f"`classes`: `{name}` is no token of `{self.task.name}`")
        for number, phase in enumerate(self.phases, start=1):
            for name in phase.mixture:
                if name not in known:
                    raise UnknownError(f"`phase.{number}.mixture`: unknown format `{name}`; {suggest(name, known)}")
            if phase.attempts is not None and "solve" not in known:
                raise ConflictError(
                    f"`phase.{number}.attempts`: `{self.task.name}` has no texts about attempts; leave it out"
                )

    @property
    def tokens(self) -> int:
        return sum(phase.tokens for phase in self.phases)


def _shipped_training_recipes() -> tuple[str, ...]:
    return shipped_recipes(SHIPPED)


def load_training_recipe(recipe: str) -> ModelRecipe:
    """Reads a training recipe: a file, or a shipped one by its name. ThinkbackError: one line that names the key."""
    path = Path(recipe)
    if not path.is_file():
        if path.name != recipe or path.name not in _shipped_training_recipes():
            known = suggest(path.name, _shipped_training_recipes())
            raise NotFoundError(f"`{recipe}` is neither a file nor a shipped training recipe; {known}")
        path = SHIPPED / f"{path.name}.toml"
    top = parse_toml(path)
    with name_file_in_errors(path):
        return _read_model_recipe(top, path.stem)


def _read_model_recipe(top: Mapping[str, Any], stem: str) -> ModelRecipe:
    known = [field.name for field in fields(ModelRecipe) if field.name != "phases"] + ["phase"]
    for key in top:
        if key not in known:
            raise UnknownError(f"unknown key `{key}`; {suggest(key, known)}")
    if not isinstance(top.get("phase"), list):
        raise RequiredError("`phase` is required: write each as `[[phase]]`")
    if "start" in top and "model" in top:
        raise ConflictError("leave out `[model]` or `start`: a model that is trained further keeps its shape")
    phases = tuple(
        from_table(TrainingPhase, one, f"phase.{number}") for number, one in enumerate(top["phase"], start=1)
    )
    rest = {key: value for key, value in top.items() if key != "phase"}
    return from_table(ModelRecipe, {"name": stem, **rest, "phases": phases})
