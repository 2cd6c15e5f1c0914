"""The table `[classifier]` of a recipe: what a verifier is trained on, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from generate.engines.weights import DEVICES, DTYPES
from generate.recipes.prompting import Template, read_template
from generate.recipes.toml_file import RecipePart, naming, read_head, read_toml
from toolkit.errors import ConflictError, InvalidError, RequiredError
from toolkit.settings import check, from_table, setting

FIX = "fix:"


@dataclass(frozen=True)
class ClassifierTraining:
    """The settings by which a classifier is trained.

    model: the encoder or decoder that it grows out of. target: `correct`, or `fix:ACTION` on the traces that ACTION
    revised: whether it made right what was wrong (the share of its rollouts that did). method: `lora` with its rank,
    alpha, dropout and the layers of `adapt`, or `full`. balance: a `weight` on the positive class, of negative over
    positive, a `sample` drawn evenly from both, or `none`. dev: the share of examples held out; the epoch with the best
    `metric` on them is kept, and training ends after `patience` epochs without a better one. keep: LoRA weights as an
    `adapter` beside the base, or `merged` into a model of their own. store: the numbers in which weights
    are kept. context: longer texts are left out, and counted.
    """

    model: str = setting()
    prompt: str = setting()
    target: str = setting("correct")
    pools: tuple[str, ...] = setting(())
    split: tuple[str, ...] = setting(())
    dataset: tuple[str, ...] = setting(())
    method: str = setting("lora", choices=("lora", "full"))
    rank: int = setting(8, low=1)
    alpha: int = setting(16, low=1)
    dropout: float = setting(0.0, low=0, high=0.9)
    adapt: tuple[str, ...] = setting(("all-linear",))
    balance: str = setting("weight", choices=("weight", "sample", "none"))
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
        if self.target != "correct" and not re.fullmatch(rf"{FIX}.+", self.target):
            raise InvalidError(
                f"`target` is `{self.target}`; it takes `correct` or, as `fix:active_verify`, `fix:ACTION`"
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
    with naming(path):
        if "classifier" not in top:
            raise RequiredError("trains nothing: it has no `[classifier]`")
        training = from_table(ClassifierTraining, top["classifier"], "classifier")
        head, folder = read_head(top, path), path.resolve().parent
        template = read_template(training.prompt, folder)
        return ClassifierRecipe(path.name, folder, head.name, head.seed, training, template)
