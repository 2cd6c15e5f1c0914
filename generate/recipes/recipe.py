"""A recipe: the data, prompts, engine, sampling, budgets and steps that make a log, as frozen dataclasses.

The tables of the file, all strict (an unknown key is an error that names the nearest one):

    name = "…"    seed = 0    license = "…"
    [data]        dataset (a data set, or "examples": a file in the log's own columns), path, split, limit, options
    [engine]      kind, model, and whatever that engine takes besides
    [answers]     how answers are read, normalised and judged (as in the mapping files of `thinkback import table`)
    [embedding]   model: the folder of a sentence encoder, for few-shot examples and evidence chosen by likeness
    [evidence]    top passages of each example, with a floor of similarity
    [few_shot]    worked examples in the prompt
    [finalizer]   the call that reads an answer out of a text without one
    [[sample]]    a pool of first attempts
    [[revise]]    a pool of revisions of another pool's trace

Paths are looked for beside the recipe, then in the working directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate.engines import ENGINES
from generate.recipes.prompting import Template
from generate.recipes.settings import find_beside, flatten, setting
from generate.recipes.temperatures import Constant, Schedule, read_schedule
from toolkit.answers import KINDS, WAYS

RUNNING = frozenset({
    "base_url", "key_variable", "concurrency", "timeout_s", "connect_timeout_s", "retries", "backoff_s",
    "longest_wait_s", "stop_after", "seed", "batch_size", "batch_tokens", "download",
})  # fmt: skip
"""Engine settings that say how calls are made, not what comes back: they may change when a run is continued."""


FILES = frozenset({"evidence", "exclude"})
"""Options of data sets that name a file, which may lie elsewhere when a run is continued."""

GREEDY = Constant(0.0)


@dataclass(frozen=True)
class Data:
    """Which examples: a registered data set, or `examples` for a Parquet or JSON-lines file of the log's columns."""

    dataset: str = setting()
    path: str | None = setting(None, identity=False)
    split: tuple[str, ...] = setting(())
    limit: int | None = setting(None, low=1)
    options: Mapping[str, Any] = setting({})


@dataclass(frozen=True)
class EngineSettings:
    """Which engine and model; `settings` are the engine's own and checked by it."""

    kind: str = setting(choices=ENGINES)
    model: str = setting()
    samples_per_call: int | None = setting(None, low=1, identity=False)
    settings: Mapping[str, Any] = setting({})


@dataclass(frozen=True)
class Answers:
    """How an answer is read out of a text, brought into its normal form and judged; see toolkit.answers."""

    kind: str = setting("exact", choices=KINDS)
    read: tuple[str, ...] = setting((), choices=WAYS)
    pattern: str | None = setting(None)
    judge: str = setting("equal")
    labels: tuple[str, ...] = setting(())
    aliases: Mapping[str, str] = setting({})


@dataclass(frozen=True)
class Embedding:
    """The sentence encoder: a folder with a model in Hugging Face's form."""

    model: str = setting(identity=False)


@dataclass(frozen=True)
class Evidence:
    """Which passages of the column `evidence` go into the prompt: the `top` most similar ones above `floor`.

    Where fewer than `top` reach the floor it is relaxed: the best `top` are taken, and the log says so.
    """

    top: int = setting(low=1)
    floor: float = setting(-1.0, low=-1, high=1)


@dataclass(frozen=True)
class FewShot:
    """Worked examples: the first `k` of a pool (`fixed`, or those of `ids`), or the `k` nearest by embedding.

    The pool is another split of the recipe's data, or the data set that `dataset` and `path` name.
    """

    choose: str = setting(choices=("fixed", "similar"))
    k: int = setting(low=1)
    prompt: str = setting()
    dataset: str | None = setting(None)
    path: str | None = setting(None, identity=False)
    split: tuple[str, ...] = setting(())
    options: Mapping[str, Any] = setting({})
    ids: tuple[str, ...] = setting(())
    separator: str = setting("\n\n")

    def data(self, of: Data) -> Data:
        """The pool, as data to load, for a recipe whose data are `of`."""
        path = of.path if self.dataset is None and self.path is None else self.path
        return Data(self.dataset or of.dataset, path, self.split, None, self.options)


@dataclass(frozen=True)
class Finalizer:
    """The second call where no answer can be read: its prompt sees the last `tail` characters of the text. `extra`:
    further members of its requests to a server, over those of the engine."""

    prompt: str = setting()
    max_tokens: int = setting(512, low=1)
    tail: int = setting(4000, low=1)
    temperature: float = setting(0.0, low=0, high=5)
    stop: tuple[str, ...] = setting(())
    extra: Mapping[str, Any] = setting({})


@dataclass(frozen=True)
class Sample:
    """A pool of first attempts: `samples` traces of each example."""

    pool: str = setting()
    prompt: str = setting()
    max_tokens: int = setting(low=1)
    samples: int = setting(1, low=1)
    temperature: Schedule = setting(GREEDY, read=read_schedule)  # noqa: RUF009 (a field, not a call per instance)
    top_p: float = setting(1.0, low=1e-6, high=1)
    stop: tuple[str, ...] = setting(())
    logprobs: int = setting(0, low=0)
    finalize: bool = setting(True)
    extra: Mapping[str, Any] = setting({})

    action = "solve"


@dataclass(frozen=True)
class Revise:
    """A pool of revisions: `rollouts` of them of the trace `of_sample` of the pool `of`.

    joined: the revision goes on where the attempt stops, so that the answer is read from both texts, one after the
    other; an attempt that was at its end keeps its answer.
    """

    pool: str = setting()
    action: str = setting()
    of: str = setting()
    prompt: str = setting()
    max_tokens: int = setting(low=1)
    rollouts: int = setting(1, low=1)
    of_sample: int = setting(0, low=0)
    temperature: Schedule = setting(GREEDY, read=read_schedule)  # noqa: RUF009 (a field, not a call per instance)
    top_p: float = setting(1.0, low=1e-6, high=1)
    stop: tuple[str, ...] = setting(())
    logprobs: int = setting(0, low=0)
    finalize: bool = setting(True)
    extra: Mapping[str, Any] = setting({})
    joined: bool = setting(False)

    @property
    def samples(self) -> int:
        """How many traces of each example: the rollouts."""
        return self.rollouts


Step = Sample | Revise


@dataclass(frozen=True)
class Recipe:
    """A recipe, read and checked. `prompts` holds the files that it names, by name, a chat template of its own among
    them; `folder` is where it lies.
    """

    file: str
    folder: Path
    name: str
    seed: int
    license: str | None
    data: Data
    engine: EngineSettings
    answers: Answers
    embedding: Embedding | None
    evidence: Evidence | None
    few_shot: FewShot | None
    finalizer: Finalizer | None
    sample: tuple[Sample, ...]
    revise: tuple[Revise, ...]
    prompts: Mapping[str, Template]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they run."""
        return (*self.sample, *self.revise)

    def find(self, path: str) -> Path:
        """A path of the recipe: beside it where that exists, else as it stands, in the working directory."""
        return find_beside(self.folder, path)

    def identity(self) -> dict[str, Any]:
        """Everything that decides what is written, as dotted names and JSON values, in the file's order."""
        flat: dict[str, Any] = {"name": self.name, "seed": self.seed, "license": self.license}
        flat |= flatten(self.data, "data")
        for option in FILES.intersection(self.data.options):
            flat[f"data.options.{option}"] = Path(str(self.data.options[option])).name
        engine = {key: value for key, value in self.engine.settings.items() if key not in RUNNING}
        flat |= {"engine.kind": self.engine.kind, "engine.model": self.engine.model}
        flat |= flatten(engine, "engine")
        if engine.get("samples_per_request", 1) > 1:  # the samples of a request share its first one's seed
            flat["engine.samples_per_call"] = self.engine.samples_per_call
        for place in ("engine.model", "engine.tokenizer"):  # which weights lie there is models_file.py's to know
            folder = flat.get(place) and self.find(str(flat[place]))
            if folder and folder.is_dir():
                flat[place] = folder.resolve().name
        for place in ("answers", "evidence", "few_shot", "finalizer", "sample", "revise"):
            value = getattr(self, place)
            flat |= flatten(value, place) if value else {place: None}
        flat |= {"embedding.model": None if self.embedding is None else Path(self.embedding.model).name}
        for name, template in self.prompts.items():
            flat[f"prompts.{name}"] = f"sha256 {hashlib.sha256(template.text.encode()).hexdigest()[:16]}"
        return flat
