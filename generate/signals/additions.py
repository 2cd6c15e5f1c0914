"""What a recipe adds to a log that stands: verifiers, features, hidden states. The tables of the file:

    [[verify]]    a verifier: kind "classifier", "reward", "judge", "reflection", "listwise", "logprob" or "random"
    [[features]]  columns of one kind: "claims", "serving", "peers" or "contradiction"
    [[states]]    hidden states of a model that reads the traces

Every one of them says which traces it is for: `pools`, `split` and `dataset` of the examples, `answered` (only traces
with an answer); by default all. A recipe may hold these beside the tables that make a log, or alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate.engines.loading import DEVICES, DTYPES
from generate.recipes.prompting import Template
from generate.recipes.recipe import Embedding, EngineSettings
from generate.recipes.settings import find_beside, model_beside, setting
from generate.signals.spans import read_layers, read_tokens
from toolkit.errors import ThinkbackError

CLASSIFIERS = ("classifier", "reward")
ASKED = ("judge", "reflection", "listwise")
SCORES = ("sigmoid", "raw")
READINGS = ("json", "number")
ENDS = ("auto", "always", "never")
PEERS = ("others", "earlier")
SIDES = ("right", "left")
STORED = ("float16", "float32")


@dataclass(frozen=True, kw_only=True)
class Step:
    """Which traces a step adds to: of these pools, splits and data sets; `answered`: only those with an answer."""

    pools: tuple[str, ...] = setting((), identity=False)
    split: tuple[str, ...] = setting((), identity=False)
    dataset: tuple[str, ...] = setting((), identity=False)
    answered: bool = setting(False, identity=False)


@dataclass(frozen=True, kw_only=True)
class Reading(Step):
    """How a model reads the traces: the longest text and a batch, both in tokens, where, and in which numbers."""

    context: int | None = setting(None, low=1)
    batch_tokens: int | None = setting(None, low=1, identity=False)
    device: str = setting("auto", choices=DEVICES, identity=False)
    dtype: str = setting("auto", choices=DTYPES)
    load_in_4bit: bool = setting(False)
    padding: str = setting("right", choices=SIDES, identity=False)


@dataclass(frozen=True, kw_only=True)
class TeacherForced(Reading):
    """How a trace is put before a model as if that had written it: what stood before it, and what ended it.

    prompt: the file with what stood before the trace; by default the pool's own prompt, as the manifest keeps it;
    `prompts` gives one for each pool. end: whether a trace's end of sequence is read with it: where the model ended it
    by itself (`auto`, which stop texts of its pool leave unknown: not there), for all that no limit cut (`always`), or
    for none. chat_template: a file in the place of the model's own; template_options: its variables; by default those
    of the engine that wrote the traces, where it ran this model.
    """

    model: str | None = setting(None, identity=False)
    prompt: str | None = setting(None)
    prompts: Mapping[str, str] = setting({})
    end: str = setting("auto", choices=ENDS)
    chat_template: str | None = setting(None)
    template_options: Mapping[str, Any] = setting({})


@dataclass(frozen=True, kw_only=True)
class Classifier(Reading):
    """A sequence classifier that reads a trace: one that was trained here, or any outcome reward model.

    Its score is of its only output, or of the output `label`, a probability: `sigmoid` (the default of the kind
    `classifier`) or `raw` (that of `reward`). `base`: the folder of the model that a LoRA adapter belongs to, where it
    is not the one that its adapter_config.json names. decimals: scores are rounded to so many, which takes less room.
    """

    name: str = setting()
    kind: str = setting(choices=CLASSIFIERS)
    model: str = setting(identity=False)
    prompt: str | None = setting(None)
    base: str | None = setting(None, identity=False)
    score: str | None = setting(None, choices=SCORES)
    label: int | None = setting(None, low=0)
    decimals: int | None = setting(None, low=1, high=9)

    table = "verifications"

    @property
    def scored(self) -> str:
        """`sigmoid` or `raw`."""
        return self.score or ("sigmoid" if self.kind == "classifier" else "raw")


@dataclass(frozen=True, kw_only=True)
class Asked(Step):
    """A verifier that is asked in words, of the recipe's engine.

    judge: a score in [0, 1]. reflection: a number from 1 to 10, kept as it is. listwise: the number, from 1, of the
    best of an example's traces in a pool; it scores 1, the others 0. `read`: where the number stands, in JSON (under
    `key`) or as the first number of the text. What can't be read is asked once more, at `retry_temperature`.
    `lines`: a listwise prompt shows the last lines of each trace, on one line; without it whole texts. `first`: it
    chooses among the first samples only, as many as that.
    """

    name: str = setting()
    kind: str = setting(choices=ASKED)
    prompt: str = setting()
    read: str = setting("json", choices=READINGS)
    key: str | None = setting(None)
    max_tokens: int = setting(128, low=1)
    temperature: float = setting(0.0, low=0, high=5)
    retry_temperature: float = setting(0.5, low=0, high=5)
    stop: tuple[str, ...] = setting(())
    lines: int | None = setting(None, low=1)
    first: int | None = setting(None, low=2)

    table = "verifications"

    @property
    def field(self) -> str:
        """The name of the number in JSON."""
        return self.key or ("best" if self.kind == "listwise" else "score")


@dataclass(frozen=True, kw_only=True)
class LogProb(TeacherForced):
    """The sum or mean of a text's log-probabilities, over all its tokens or the `last` ones.

    With a `model` it is that model's, by a teacher-forced pass; without one that of the model that wrote it, as the log
    has it (`sum_logprob`, `token_logprobs`). A text of fewer than `last` tokens is taken whole. decimals: scores are
    rounded to so many.
    """

    name: str = setting()
    kind: str = setting(choices=("logprob",))
    how: str = setting("sum", choices=("sum", "mean"))
    last: int | None = setting(None, low=1)
    decimals: int | None = setting(None, low=1, high=9)

    table = "verifications"


@dataclass(frozen=True, kw_only=True)
class Random(Step):
    """A scorer that knows nothing: uniform in [0, 1), drawn from the recipe's seed, its own name and the trace's id."""

    name: str = setting()
    kind: str = setting(choices=("random",))

    table = "verifications"


@dataclass(frozen=True, kw_only=True)
class Features(Step):
    """Columns of one kind, for the traces; generate/features says what each is. `name` is the kind, unless given.

    prefix: stands before every column's name. pattern: the justification of a text is the first group of this regular
    expression (its last match); without one, or where it does not match, the whole text is taken. evidence: the
    column of `examples` with the passages. long: the words at which `length` is 1. peers: the example's `others` in the
    pool, or those `earlier` than the trace, which a rule that stops early may know; most: how many of them at most,
    the nearest by sample index. model: the NLI model of `contradiction`.
    """

    kind: str = setting(choices=("claims", "serving", "peers", "contradiction"))
    name: str = setting("")
    prefix: str = setting("")
    pattern: str | None = setting(None)
    evidence: str = setting("evidence")
    long: int = setting(200, low=1)
    peers: str = setting("others", choices=PEERS)
    most: int | None = setting(None, low=1)
    model: str | None = setting(None, identity=False)
    batch_tokens: int | None = setting(None, low=1, identity=False)
    device: str = setting("auto", choices=DEVICES, identity=False)

    table = "features"


@dataclass(frozen=True, kw_only=True)
class States(TeacherForced):
    """Hidden states of `model` at `layers` x `tokens` of each trace, by a teacher-forced pass.

    layers: as transformers' `hidden_states`, 0 the embeddings and -1 the last. tokens: from the start (0 is the first)
    or from the end (-1), a list or `{ first = -16, last = -1 }`. store: float16, or float32 where float16 has no room
    for a model's states. grid: round states to multiples of it, so that they are off by half of it at most and take
    less room.
    """

    model: str = setting(identity=False)
    layers: tuple[int, ...] = setting(read=read_layers)
    tokens: tuple[int, ...] = setting(read=read_tokens)
    name: str = setting("")
    store: str = setting("float16", choices=STORED)
    grid: float | None = setting(None, low=1e-6)

    kind = "states"

    @property
    def table(self) -> str:
        """The table that the states go into."""
        return f"hidden_states/{self.name}"


Verify = Classifier | Asked | LogProb | Random
Addition = Verify | Features | States
KINDS: Mapping[str, type[Any]] = {
    **dict.fromkeys(CLASSIFIERS, Classifier),
    **dict.fromkeys(ASKED, Asked),
    "logprob": LogProb,
    "random": Random,
}
"""The settings class of each kind of `[[verify]]`."""


@dataclass(frozen=True)
class Additions:
    """The part of a recipe that adds to a log, read and checked. `prompts` holds the prompt files that it names."""

    file: str
    folder: Path
    name: str
    seed: int
    engine: EngineSettings | None
    embedding: Embedding | None
    verify: tuple[Verify, ...]
    features: tuple[Features, ...]
    states: tuple[States, ...]
    prompts: Mapping[str, Template]

    @property
    def steps(self) -> tuple[Addition, ...]:
        """The steps in the order in which they run: what features cost least, so they come first."""
        return (*self.features, *self.verify, *self.states)

    def find(self, path: str) -> Path:
        """A path of the recipe: beside it where that exists, else as it stands, in the working directory."""
        return find_beside(self.folder, path)

    def model(self, path: str) -> str:
        """A model's folder as `find` finds it, or its name on a hub."""
        return model_beside(self.folder, path)

    def engine_settings(self) -> EngineSettings:
        """The engine. ThinkbackError where the recipe has none."""
        if self.engine is None:
            raise ThinkbackError(f"recipe `{self.file}`: a verifier that is asked needs `[engine]`")
        return self.engine


def prompt_names(step: Addition) -> tuple[str, ...]:
    """The prompt files that a step names."""
    named = [getattr(step, "prompt", None), *getattr(step, "prompts", {}).values()]
    return tuple(dict.fromkeys(name for name in named if name))
