"""The base classes of signals of traces: verifiers, feature columns, hidden states.

A kind is a frozen dataclass of its settings, and one line of the table in additions.py. What adds signals to a log
(generate.annotating) asks it which traces it is for, what it reads of them and of the log, what it needs of the recipe,
how its rows are known, what decides them, what it costs, and for the worker that makes them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from generate.engines.base import Engine
from generate.journal.database import Journal
from generate.passes.embedding import Embedder
from generate.recipes.prompting import PER_MESSAGE, Template
from generate.recipes.recipe import EmbeddingSettings, EngineSettings
from generate.recipes.toml_file import RecipePart
from generate.traces.block import READ, TextsToRead, TraceBlock
from toolkit.errors import ConflictError, InvalidError, RequiredError, ThinkbackError, UnsuitableError, quote
from toolkit.log import Log, collect, schema_of
from toolkit.progress import Advance
from toolkit.settings import Checked, as_kind, check, flatten, setting

SCORES = {name: schema_of("verifications")[name].dtype for name in (
    "trace_id", "verifier", "example_id", "score", "candidates", "prompt_tokens", "completion_tokens", "latency_s",
    "device_s",
)}  # fmt: skip
"""The columns of a verification."""
LISTED = {name: schema_of("verifications")[name].dtype for name in ("token_logprobs", "token_entropies", "token_ranks")}
"""Columns that few verifiers have."""
HASHES = ("weights_sha256", "base_weights_sha256", "sha256")
"""Keys of workers' records for the hash of a model's weights."""
ROW_BYTES = 200


class UnreadableError(ThinkbackError):
    """Not one judgement of a verifier could be read."""


@dataclass(frozen=True)
class BlockRows:
    """The rows of a block with what is missing. `skipped`: traces that can't have a row, and why; `incomplete`: traces
    whose row lacks a value, and why. `unreadable`: traces of judgements that could not be read; `lost_tokens`: prompt
    and completion tokens spent for nothing. `recounted`: traces whose text has another number of tokens than logged,
    with it; `refused`: traces whose call failed, why, and the cause to count it under.
    """

    rows: pl.DataFrame
    skipped: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, ...], ...] = ()
    lost_tokens: int = 0
    incomplete: tuple[tuple[str, str], ...] = ()
    recounted: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str, str], ...] = ()


class Worker(ABC):
    """Computes a signal's rows. `per_block`: about how many traces it takes at once, to bound memory. `looks_ahead`:
    whether it takes calls of the next block while it waits for those of one.
    """

    per_block: int
    looks_ahead: ClassVar[bool] = False

    def __init__(self, step: Any, work: WorkerInput):
        self.step, self.work = step, work

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """The manifest's record of what makes the rows: model, weights' hash, versions, device, prompts."""

    @abstractmethod
    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        """Computes the rows of a block's wanted traces. `advance` counts the traces that are done."""

    def announce_next(self, block: TraceBlock) -> None:  # noqa: B027 (most work on one block alone)
        """Tells which block comes after the one that is run next."""

    def final_record(self, rows: int, unreadable: int) -> Mapping[str, Any] | None:  # noqa: B027 (most know no more)
        """The last record for the manifest, given the numbers of rows and of unreadable judgements. UnreadableError
        where all judgements are unreadable.
        """

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Frees memory and connections."""


@dataclass(frozen=True)
class Workload:
    """The work that a signal still has: numbers of traces and of groups. `text_bytes`: those of all these traces' texts
    and of their examples' columns.
    """

    additions: Additions
    traces: int
    groups: int
    text_bytes: Callable[[], int]

    def read_tokens(self, prompt: str | None) -> int:
        """An upper bound for the tokens of reading all traces once in the prompt file `prompt`, or without one."""
        words = len(self.additions.prompts[prompt].text.encode()) if prompt else 0
        return self.text_bytes() + self.traces * (words + PER_MESSAGE) if self.traces else 0


@dataclass(frozen=True)
class CostBounds:
    """Upper bounds for the calls, tokens and disk space of a signal."""

    calls: int = 0
    tokens: int = 0
    disk_bytes: int = 0


@dataclass(frozen=True)
class WorkerInput:
    """The resources of a worker. pools: those of its traces, and of the traces that these revise; existing: the number
    of rows in the log; journal: None on a worker of a cluster, which asks no engine; open_engine, embedder: the
    recipe's, or others given in their place; with_failures: whether calls that fail are abandoned, whatever the reason.
    """

    additions: Additions
    log: Log
    pools: tuple[str, ...]
    existing: int
    journal: Journal | None
    open_engine: Callable[[Additions], Engine] | None
    embedder: Embedder | None
    with_failures: bool = False


def _read_counts(value: Any, place: str) -> dict[str, int]:
    """Reads a number for each split, from a table such as `{ train = 300, test = 300 }`."""
    counts = {str(name): as_kind(int, count) for name, count in value.items()} if isinstance(value, Mapping) else {}
    if not isinstance(value, Mapping) or not all(isinstance(n, int) and n >= 1 for n in counts.values()):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a table of splits, each with an integer, at least 1")
    return {name: int(count) for name, count in counts.items() if count is not None}


@dataclass(frozen=True, kw_only=True)
class TraceSignal(Checked, ABC):
    """Which traces it is for: of these pools, splits and data sets; `answered`: only those with an answer; `samples`:
    only the first so many of an example in a pool; `examples`: of each split named only the first so many. Its `name`
    is what the recipe and the manifest call it. Further settings, of a kind, name files where they are called `prompt`,
    `prompts` or `chat_template`, and models where they are called `model` or `base`.
    """

    name: str = setting("")
    pools: tuple[str, ...] = setting((), identity=False)
    split: tuple[str, ...] = setting((), identity=False)
    dataset: tuple[str, ...] = setting((), identity=False)
    answered: bool = setting(False, identity=False)
    samples: int | None = setting(None, low=1, identity=False)
    examples: Mapping[str, int] = setting({}, read=_read_counts, identity=False)

    kind: ClassVar[str]
    """The kind's name in recipes."""
    list_name: ClassVar[str]
    """The list of a recipe that it stands in."""
    section: ClassVar[str]
    """The key of its records in the manifest's `source`."""
    table: ClassVar[str]
    """The table of the log that it writes."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Its own columns, where it shares `one_row` with others."""
    worker: ClassVar[type[Worker]]
    """The worker that makes its rows. Its models are loaded at once, an engine at the first call."""
    texts_to_read: ClassVar[TextsToRead] = TextsToRead.WHOLE
    """The texts of a trace that it reads."""
    trace_columns: ClassVar[tuple[str, ...]] = READ
    """The columns of `traces` that it reads."""
    one_row: ClassVar[bool] = False
    """Whether its rows are columns of a trace's only row in its table, beside those of others."""
    renamed_by: ClassVar[str] = "name"
    """The setting that distinguishes its rows from others of the same name."""
    whole_groups: ClassVar[bool] = False
    """Whether it is made of all traces of a group at once or of none (generate.traces.block.GROUP)."""
    needs_engine: ClassVar[bool] = False
    needs_embedding: ClassVar[bool] = False
    reads_once: ClassVar[bool] = False
    """Whether its model reads every text once, so that tokens are counted."""
    recorded: ClassVar[Mapping[str, Any]] = {}
    """Settings that older logs recorded for it although they did not concern it."""

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "name", self.name or self.default_name())
        object.__setattr__(self, "examples", _read_counts(self.examples, "examples"))
        if not re.fullmatch(r"[^/\s.][^/\n]*", self.name):
            raise InvalidError(f"`name` is `{self.name}`; it takes a name without `/` that begins with no dot")

    def default_name(self) -> str:
        """The signal's name where the recipe gives none."""
        return self.kind

    @property
    def place_in_recipe(self) -> str:
        """The words for the signal's table of the recipe in errors."""
        return f"`{self.list_name}.{self.name}`"

    @abstractmethod
    def traces_with_rows(self, log: Log) -> pl.DataFrame | None:
        """The ids of traces that have rows of this signal in the log; None where the log has none of its name."""

    def eligible_traces(self, traces: pl.DataFrame) -> pl.DataFrame:
        """Those of the filtered traces (example_id, sample_index, …) that the signal is for."""
        return traces

    def check_log(self, additions: Additions, log: Log) -> None:
        """Raises ThinkbackError where the log lacks what the signal is made of. No weights are loaded."""
        if self.texts_to_read is not TextsToRead.NONE and "text" not in log.columns("traces"):
            raise UnsuitableError(
                f"{self.section} `{self.name}`: the log has no texts of its traces: `traces` has no column `text`"
            )

    @property
    def prompt_files(self) -> tuple[str, ...]:
        """The prompt files that the signal's settings name."""
        named = (getattr(self, "prompt", None), *getattr(self, "prompts", {}).values())
        return tuple(dict.fromkeys(name for name in named if name))

    @property
    def template_files(self) -> tuple[str, ...]:
        """The chat templates that the signal's settings name."""
        return tuple(name for name in (getattr(self, "chat_template", None),) if name)

    @property
    def models(self) -> Mapping[str, str]:
        """The models that the signal's settings name, by setting."""
        return {name: getattr(self, name) for name in ("model", "base") if getattr(self, name, None)}

    def identity(self, additions: Additions) -> dict[str, Any]:
        """The settings that determine the signal's rows, as dotted names and JSON values."""
        flat = {**self.recorded, "kind": self.kind, **flatten(self)}
        for name in (*self.prompt_files, *self.template_files):
            flat[f"prompts.{name}"] = additions.prompts[name].digest
        flat |= {name: Path(model).name for name, model in self.models.items()}
        if self.needs_engine:
            engine = additions.engine_settings()
            flat |= {"seed": additions.seed, "engine.kind": engine.kind, "engine.model": Path(engine.model).name}
            flat |= flatten(engine.identity(), "engine")
            if engine.chat_template is not None:
                flat[f"prompts.{engine.chat_template}"] = additions.prompts[engine.chat_template].digest
        if self.needs_embedding and additions.embedding is not None:
            flat["embedding.model"] = Path(additions.embedding.model).name
        return flat

    def weights_and_prompts(self, described: Mapping[str, Any]) -> dict[str, str]:
        """The parts of a worker's record that must not change when a run is continued: hashes of weights, and prompts.
        An unknown hash is left out.
        """
        entries: dict[str, str] = {}
        for name, value in described.items():
            if isinstance(value, Mapping) and name != "versions":
                entries |= {f"{name}.{inner}": mark for inner, mark in self.weights_and_prompts(value).items()}
                if name == "prompts":
                    entries |= {f"{name}.{pool}": str(text) for pool, text in value.items()}
            elif (name in HASHES or name == "prompt") and isinstance(value, str):
                entries[name] = value
        return entries

    def cost(self, load: Workload) -> CostBounds:
        """An upper bound of the signal's cost."""
        tokens = load.read_tokens(getattr(self, "prompt", None)) if self.reads_once and self.models else 0
        return CostBounds(0, tokens, self.disk_bytes(load))

    def disk_bytes(self, load: Workload) -> int:
        """An upper bound for the bytes of the signal's rows on disk."""
        return load.traces * ROW_BYTES


@dataclass(frozen=True, kw_only=True)
class VerifierSignal(TraceSignal):
    """A verifier: it gives each trace a score, under the name that policies use."""

    name: str = setting()

    list_name = "verify"
    section = "verifiers"
    table = "verifications"

    def traces_with_rows(self, log: Log) -> pl.DataFrame | None:
        if not log.has(self.table):
            return None
        verifications = log.scan(self.table, ["trace_id", "verifier"]).filter(pl.col("verifier") == self.name)
        traces = collect(verifications.select("trace_id").unique(), log)
        return traces if traces.height else None

    def verification_row(self, trace: Mapping[str, Any], score: float | None = None, **more: Any) -> dict[str, Any]:
        """A row of `verifications` for a trace. Costs that are not in `more` are unknown."""
        keys = {"trace_id": trace["trace_id"], "verifier": self.name, "example_id": trace["example_id"]}
        return {**keys, "score": score, **more}


FREE = {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "device_s": 0.0}
"""The zero cost of a score that is read from the log or drawn."""


def score_rows(rows: Sequence[dict[str, Any]], decimals: int | None = None) -> pl.DataFrame:
    """Verifications as a frame, null in missing columns. Scores are rounded to `decimals`, if given."""
    schema = SCORES | {name: kind for name, kind in LISTED.items() if any(name in row for row in rows)}
    frame = pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)
    return frame if decimals is None else frame.with_columns(pl.col("score").round(decimals))


@dataclass(frozen=True)
class Additions(RecipePart):
    """The part of a recipe that adds to a log, checked as a whole. `prompts`: the prompt files it names, by name."""

    engine: EngineSettings | None
    embedding: EmbeddingSettings | None
    verify: tuple[TraceSignal, ...]
    features: tuple[TraceSignal, ...]
    states: tuple[TraceSignal, ...]
    prompts: Mapping[str, Template]

    def __post_init__(self) -> None:
        if not self.steps:
            raise RequiredError("adds nothing to a log: it has no `[[verify]]`, `[[features]]` or `[[states]]`")
        named: dict[tuple[str, str], TraceSignal] = {}
        written: dict[tuple[str, str], str] = {}
        for step in self.steps:
            if (step.list_name, step.name) in named:
                raise ConflictError(f"`{step.list_name}.name` `{step.name}` names two steps: give each its own `name`")
            named[step.list_name, step.name] = step
            for column in step.columns:
                other = written.setdefault((step.table, column), step.name)
                if other != step.name:
                    raise ConflictError(
                        f"{step.place_in_recipe} writes `{column}`, as `{other}` does: set a `{step.renamed_by}`"
                    )
            if step.needs_embedding and self.embedding is None:
                raise RequiredError(f"{step.place_in_recipe} compares texts: it needs `[embedding]` with a `model`")
            if step.needs_engine:
                self.engine_settings()

    @property
    def steps(self) -> tuple[TraceSignal, ...]:
        """The signals in the order in which they are computed: features come first, since they cost least."""
        return (*self.features, *self.verify, *self.states)

    def engine_settings(self) -> EngineSettings:
        """The settings of the recipe's engine. ThinkbackError where it has none."""
        if self.engine is None:
            raise RequiredError("a verifier that prompts a model needs `[engine]`")
        return self.engine
