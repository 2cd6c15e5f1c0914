"""The table `[classifier]` of a recipe: what a verifier is trained on, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate.engines.weights import DEVICES, DTYPES
from generate.recipes.prompting import Template, read_template
from generate.recipes.toml_file import RecipePart, name_file_in_errors, read_head, read_toml
from toolkit.answers import MEASURES
from toolkit.errors import ConflictError, InvalidError, RequiredError, listed
from toolkit.settings import Checked, check, from_table, is_sequence, setting

FIX = "fix:"
VERDICTS = ("correct", *MEASURES)
"""Columns of verdicts that a classifier may learn."""
HELD_OUT = ("question", "trace")
"""What is held out as one: a question with all its traces, or a trace."""


@dataclass(frozen=True)
class TrainingSplit(Checked):
    """The splits of a log to learn from, by default all, and what is held out as one of these."""

    of: tuple[str, ...] = setting(())
    by: str = setting("question", choices=HELD_OUT)


def _read_split(given: Any, place: str) -> TrainingSplit:
    """A list of splits, `question` or `trace`, or a table of both."""
    if isinstance(given, TrainingSplit):
        return given
    if isinstance(given, Mapping):
        return from_table(TrainingSplit, given, place)
    return from_table(TrainingSplit, {"of" if is_sequence(given) else "by": given}, place)


@dataclass(frozen=True)
class ClassifierTraining:
    """The settings by which a classifier is trained.

    model: the encoder or decoder that it grows out of. target: `correct` or another verdict, or `fix:ACTION` on the
    traces that ACTION revised: whether it made right what was wrong (the share of its rollouts that did). method:
    `lora` with its rank, alpha, dropout and the layers of `adapt`, or `full`. balance: a `weight` on the positive
    class, of negative over positive, a `sample` drawn evenly from both, `down` (rows of the larger class are left out,
    once, by the seed), or `none`. dev: the share of examples held out, or of traces; the epoch with the best `metric`
    on them is kept, and training ends after `patience` epochs without a better one. keep: LoRA weights as an `adapter`
    beside the base, or `merged` into a model of their own. store: the numbers in which weights are kept. context:
    longer texts are left out, and counted.
    """

    model: str = setting()
    prompt: str = setting()
    target: str = setting("correct")
    pools: tuple[str, ...] = setting(())
    split: TrainingSplit = setting(TrainingSplit(), read=_read_split)
    dataset: tuple[str, ...] = setting(())
    method: str = setting("lora", choices=("lora", "full"))
    rank: int = setting(8, low=1)
    alpha: int = setting(16, low=1)
    dropout: float = setting(0.0, low=0, high=0.9)
    adapt: tuple[str, ...] = setting(("all-linear",))
    balance: str = setting("weight", choices=("weight", "sample", "down", "none"))
    dev: float = setting(0.2, low=0.01, high=0.9)
    metric: str = setting("auprc", choices=("auprc", "accuracy"))
    epochs: int = setting(3, low=1)
    patience: int = setting(2, low=1)
    learning_rate: float = setting(2e-4, low=1e-9, high=1)
    weight_decay: float = setting(0.01, low=0, high=1)
    warmup: float = setting(0.05, low=0, high=1)
    batch: int = setting(16, low=1)
    batch_tokens: int = setting(8_192, low=1)
    context: int | None = setting(None, low=1)
    device: str = setting("auto", choices=DEVICES)
    dtype: str = setting("auto", choices=DTYPES)
    load_in_4bit: bool = setting(False)
    keep: str = setting("adapter", choices=("adapter", "merged"))
    store: str = setting("float32", choices=("float32", "float16", "bfloat16"))

    def __post_init__(self) -> None:
        check(self)
        if self.target not in VERDICTS and not re.fullmatch(rf"{FIX}.+", self.target):
            raise InvalidError(
                f"`target` is `{self.target}`; it takes {listed(VERDICTS)} or, as `fix:active_verify`, `fix:ACTION`"
            )
        if self.load_in_4bit and self.keep == "merged":
            raise ConflictError("`keep` can't be `merged` with `load_in_4bit`: keep the adapter")


@dataclass(frozen=True)
class ClassifierRecipe(RecipePart):
    """The part of a recipe that trains a classifier, read and checked."""

    training: ClassifierTraining
    template: Template


def load_training(recipe: str | Path, settings: Sequence[str] = ()) -> ClassifierRecipe:
    """Reads the table `[classifier]` of a recipe. ThinkbackError: one line that names the file and the key."""
    top, path = read_toml(recipe, settings)
    with name_file_in_errors(path):
        if "classifier" not in top:
            raise RequiredError("trains nothing: it has no `[classifier]`")
        training = from_table(ClassifierTraining, top["classifier"], "classifier")
        head, folder = read_head(top, path), path.resolve().parent
        template = read_template(training.prompt, folder)
        return ClassifierRecipe(path.name, folder, head.name, head.seed, training, template)
