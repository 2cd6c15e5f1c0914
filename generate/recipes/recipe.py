"""A recipe: the data, prompts, engine, sampling, budgets and steps that make a log, as frozen dataclasses.

The tables of the file, all strict (an unknown key is an error that names the nearest one):

    name = "…"    seed = 0    license = "…"
    [data]        dataset (a data set, or "examples": a file in the log's own columns), path, split, limit, options
    [engine]      kind, model, and whatever that engine takes besides
    [engines.NAME] a further engine, which a step names as its `engine`
    [answers]     how answers are read, normalised and judged (as in the mapping files of `thinkback import table`)
    [embedding]   model: the folder of a sentence encoder, for few-shot examples and evidence chosen by similarity
    [evidence]    top passages of each example, with a floor of similarity
    [few_shot]    worked examples in the prompt
    [finalizer]   the call that reads an answer out of a text without one
    [[sample]]    a pool of first attempts
    [[revise]]    a pool of revisions of another pool's trace
    [[loop]]      a pool of a loop: `kind`, or `rule` for one of a user's
    [score.NAME]  what scores texts for loops
    [search.NAME] what loops search

Paths are looked for beside the recipe, then in the working directory.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from generate.engines import ENGINES, Engine, EngineOptions, open_engine, read_settings, settings_of
from generate.loops.loop import prompts_of
from generate.loops.rules import read_loop
from generate.recipes.prompting import Template, read_template, read_whole
from generate.recipes.toml_file import (
    RecipePart,
    name_file_in_errors,
    read_head,
    read_optional,
    read_toml,
    table_of,
    table_place,
    tables_of,
)
from toolkit.answers import CREDIT, JUDGES, KINDS, MEASURES, WAYS, check_pattern
from toolkit.errors import (
    ConflictError,
    EmptyError,
    InvalidError,
    RequiredError,
    UnknownError,
    listed,
    quote,
    require_known,
    suggest,
)
from toolkit.settings import Checked, check, flatten, from_table, setting

HOTTEST = 5.0
KEYS = ("mixture", "low", "high", "step")


def seed_of(recipe_seed: int, example_id: str, pool: str, index: int) -> int:
    """The seed of one sample, 0 … 2**31 - 1."""
    return _hash_number(str(recipe_seed), example_id, pool, str(index)) & 0x7FFFFFFF


class _TemperatureSchedule(ABC):
    """The temperature of each sample of an example; those of the first k do not depend on the number of samples."""

    @abstractmethod
    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""


@dataclass(frozen=True)
class _ConstantTemperature(Checked, _TemperatureSchedule):
    """Every sample at one temperature; 0 is greedy."""

    value: float = setting(low=0, high=HOTTEST)

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        return self.value


@dataclass(frozen=True)
class _TemperatureMixture(_TemperatureSchedule):
    """The temperatures listed, in turn: sample i has the (i mod m)-th."""

    mixture: tuple[float, ...] = setting(low=0, high=HOTTEST)

    def __post_init__(self) -> None:
        check(self)
        if not self.mixture:
            raise InvalidError("`mixture` is empty; it takes a list of temperatures")

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        return self.mixture[index % len(self.mixture)]


@dataclass(frozen=True)
class _BalancedTemperatures(_TemperatureSchedule):
    """A grid from low to high, used in rounds: each round takes every temperature once, in an order of its own.

    The order is drawn per example and round from the recipe's seed, so that no temperature is tied to a place in the
    pool: a rule that stops early sees cold and hot samples alike. At any length two temperatures' counts differ by at
    most one.
    """

    low: float = setting(low=0, high=HOTTEST)
    high: float = setting(low=0, high=HOTTEST)
    step: float = setting(above=0, high=HOTTEST)

    def __post_init__(self) -> None:
        check(self)
        steps = (self.high - self.low) / self.step
        if steps < 0 or abs(steps - round(steps)) >= 1e-6:
            raise InvalidError(f"the grid from {self.low} to {self.high} can't be cut into steps of {self.step}")

    def temperatures(self) -> tuple[float, ...]:
        """The temperatures, ascending, rounded to six decimals."""
        count = round((self.high - self.low) / self.step) + 1
        return tuple(round(self.low + i * self.step, 6) for i in range(count))

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        grid = self.temperatures()
        turn, place = divmod(index, len(grid))

        def sort_number(value: float) -> int:
            return _hash_number(str(recipe_seed), example_id, pool, "temperature", str(turn), repr(value))

        return sorted(grid, key=sort_number)[place]


def _read_schedule(value: Any, place: str) -> _TemperatureSchedule:
    """A temperature schedule, from a number, a table of `mixture`, or one of `low`, `high` and `step`; or as it is."""
    if isinstance(value, _TemperatureSchedule):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if key not in KEYS:
                raise UnknownError(f"unknown key `{key}` in `{place}`; {suggest(key, KEYS)}")
        return from_table(_TemperatureMixture if "mixture" in value else _BalancedTemperatures, value, place)
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= HOTTEST:
        return _ConstantTemperature(float(value))
    raise InvalidError(
        f"`{place}` is {quote(value)}; it takes a number from 0 to {HOTTEST:g}, `{{ mixture = […] }}` or"
        " `{ low, high, step }`"
    )


def _hash_number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")


FILES = frozenset({"evidence", "exclude"})
"""Options of data sets that name a file or folder: looked for beside the recipe, and free to lie elsewhere when a run
is continued."""
MATH_JUDGE = "math-verify"
"""The judge that compares answers as mathematics."""
GREEDY = _ConstantTemperature(0.0)


@dataclass(frozen=True)
class DataSettings(Checked):
    """Which examples: a registered data set, or `examples` for a Parquet or JSON-lines file of the log's columns."""

    dataset: str = setting()
    path: str | None = setting(None, identity=False)
    split: tuple[str, ...] = setting(())
    limit: int | None = setting(None, low=1)
    options: Mapping[str, Any] = setting({})

    @property
    def source(self) -> str:
        return self.path or self.dataset


@dataclass(frozen=True)
class EngineSettings:
    """Which engine and model; `settings` are the engine's own and checked by it. `in_flight`: examples that are open at
    one time.
    """

    kind: str = setting(choices=ENGINES)
    model: str = setting()
    samples_per_call: int | None = setting(None, low=1, identity=False)
    in_flight: int | None = setting(None, low=1, identity=False)
    settings: Mapping[str, Any] = setting({})
    options: EngineOptions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(self)
        if not self.model.strip():
            raise InvalidError("`model` is empty: name a model, or its folder")
        given = {"model": self.model, **self.settings}
        object.__setattr__(self, "options", read_settings(settings_of(self.kind), given, self.kind))

    def samples_at_once(self, samples: int) -> int:
        """The number of samples in one call, by the recipe, else by the engine."""
        return self.samples_per_call or self.options.samples_at_once(samples)

    @property
    def chat_template(self) -> str | None:
        """The file that takes the place of the model's own chat template."""
        return self.settings.get("chat_template")

    def identity(self) -> dict[str, Any]:
        """The engine's own settings, as they were given, that decide what comes back."""
        return {key: value for key, value in self.settings.items() if self.options.changes_completions(key)}

    def opened(self, recipe: RecipePart, allow_keys: Collection[str] = ()) -> Engine:
        """The engine, whose model and other files may lie beside the recipe. `allow_keys`: variables whose key may go
        to whatever server the recipe names. EngineError where another goes to one that it is not known to belong to.
        """
        self.options.check_api_key_access(allow_keys)
        given = {"model": recipe.resolve_model(self.model), **self.settings}
        for name in self.options.paths:
            if isinstance(given.get(name), str) and recipe.resolve_path(given[name]).exists():
                given[name] = str(recipe.resolve_path(given[name]))
        return open_engine(self.kind, given)


@dataclass(frozen=True)
class AnswerSettings:
    """How an answer is read out of a text, brought into its normal form and judged; see toolkit.answers. measures:
    columns beside the verdict.
    """

    kind: str = setting("exact", choices=KINDS)
    read: tuple[str, ...] = setting((), choices=WAYS)
    pattern: str | None = setting(None)
    judge: str = setting("equal", choices=(*JUDGES, MATH_JUDGE))
    measures: tuple[str, ...] = setting((), choices=(*MEASURES, CREDIT))
    labels: tuple[str, ...] = setting(())
    aliases: Mapping[str, str] = setting({})

    def __post_init__(self) -> None:
        check(self)
        if self.kind == "label" and not self.labels:
            raise RequiredError("`kind` is `label`: list the label space in `labels`")
        if ("pattern" in self.read) != (self.pattern is not None):
            raise RequiredError("`pattern` and the way `pattern` in `read` go together: give both")
        if self.pattern is not None:
            check_pattern(self.pattern)


@dataclass(frozen=True)
class EmbeddingSettings(Checked):
    """The sentence encoder: a folder with a model in Hugging Face's form."""

    model: str = setting(identity=False)


@dataclass(frozen=True)
class EvidenceSettings(Checked):
    """Which passages of the column `evidence` go into the prompt: the `top` most similar ones above `floor`.

    Where fewer than `top` reach the floor it is relaxed: the best `top` are taken, and the log says so.
    """

    top: int = setting(low=1)
    floor: float = setting(-1.0, low=-1, high=1)


@dataclass(frozen=True)
class FewShotSettings(Checked):
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

    def data(self, recipe_data: DataSettings) -> DataSettings:
        """The pool, as data to load, for a recipe whose data are `recipe_data`."""
        path = recipe_data.path if self.dataset is None and self.path is None else self.path
        return DataSettings(self.dataset or recipe_data.dataset, path, self.split, None, self.options)


@dataclass(frozen=True)
class FinalizerSettings(Checked):
    """The second call where no answer can be read: its prompt sees the last `tail` characters of the text. `extra`:
    further members of its requests to a server, over those of the engine."""

    prompt: str = setting()
    max_tokens: int = setting(512, low=1)
    tail: int = setting(4000, low=1)
    temperature: float = setting(0.0, low=0, high=5)
    stop: tuple[str, ...] = setting(())
    extra: Mapping[str, Any] = setting({})
    engine: str = setting("")


class _Step:
    """A step: a pool of traces, sampled from one prompt."""

    def __post_init__(self: Any) -> None:
        check(self)
        object.__setattr__(self, "temperature", _read_schedule(self.temperature, "temperature"))
        if not self.pool or "/" in self.pool:
            raise InvalidError(f"`pool` is `{self.pool}`; it takes a name without `/`")
        if self.of is not None and self.action in ("", "solve"):
            raise InvalidError(f"`action` is `{self.action}`; it takes the name of a revision, not `solve`")


@dataclass(frozen=True)
class _SampleStep(_Step):
    """A pool of first attempts: `samples` traces of each example."""

    pool: str = setting()
    prompt: str = setting()
    max_tokens: int = setting(low=1)
    samples: int = setting(1, low=1)
    temperature: _TemperatureSchedule = setting(GREEDY, read=_read_schedule)
    top_p: float = setting(1.0, low=1e-6, high=1)
    stop: tuple[str, ...] = setting(())
    logprobs: int = setting(0, low=0)
    finalize: bool = setting(True)
    extra: Mapping[str, Any] = setting({})
    engine: str = setting("")

    table: ClassVar[str] = "sample"
    action: ClassVar[str] = "solve"
    of: ClassVar[str | None] = None
    of_sample: ClassVar[int] = 0
    joined: ClassVar[bool] = False


@dataclass(frozen=True)
class _ReviseStep(_Step):
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
    temperature: _TemperatureSchedule = setting(GREEDY, read=_read_schedule)
    top_p: float = setting(1.0, low=1e-6, high=1)
    stop: tuple[str, ...] = setting(())
    logprobs: int = setting(0, low=0)
    finalize: bool = setting(True)
    extra: Mapping[str, Any] = setting({})
    engine: str = setting("")
    joined: bool = setting(False)

    table: ClassVar[str] = "revise"

    @property
    def samples(self) -> int:
        """How many traces of each example: the rollouts."""
        return self.rollouts


PoolStep = _SampleStep | _ReviseStep
LOGGED = "log"
"""The data set of pools that are added to a log: its own examples."""
MOST_REQUESTS = 100
"""Of an example, where a loop of a user's has no `requests`."""


@dataclass(frozen=True)
class LoopStep(Checked):
    """A pool that a loop makes: one that ships, by its `kind`, or one of a user's, by its `rule`. requests: the most of
    an example; of: pools of the log that is added to, whose traces and rounds it reads. `loop` is the loop with its
    `settings`.
    """

    pool: str = setting()
    kind: str | None = setting(None)
    rule: str | None = setting(None)
    engine: str = setting("")
    requests: int | None = setting(None, low=1, identity=False)
    of: tuple[str, ...] = setting(())
    settings: Mapping[str, Any] = setting({})
    loop: Any = field(default=None, compare=False)

    table: ClassVar[str] = "loop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pool or "/" in self.pool or "#" in self.pool:
            raise InvalidError(f"`pool` is `{self.pool}`; it takes a name without `/` and `#`")

    @property
    def name(self) -> str:
        """The kind, or the name of a user's loop."""
        return self.kind or str(self.rule)

    @property
    def most_requests(self) -> int:
        """The most requests of an example; one more ends the run."""
        return self.requests or int(getattr(self.loop, "most_requests", MOST_REQUESTS))


@dataclass(frozen=True)
class Recipe(RecipePart):
    """A recipe, checked as a whole. `prompts` holds the files that it names, by name, a chat template of its own among
    them; `folder` is where it lies; `overruled` are the settings that overruled the file.
    """

    license: str | None
    data: DataSettings
    engine: EngineSettings
    answers: AnswerSettings
    embedding: EmbeddingSettings | None
    evidence: EvidenceSettings | None
    few_shot: FewShotSettings | None
    finalizer: FinalizerSettings | None
    sample: tuple[_SampleStep, ...]
    revise: tuple[_ReviseStep, ...]
    prompts: Mapping[str, Template]
    overruled: tuple[str, ...] = ()
    engines: Mapping[str, EngineSettings] = field(default_factory=dict)
    loop: tuple[LoopStep, ...] = ()
    score: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_pools()
        for step in self.loop:
            self.require_engine(step.engine, f"`{step.pool}.engine`")
        for place, part in [*((step.pool, step) for step in self.steps), ("finalizer", self.finalizer)]:
            if part is not None:
                self.require_engine(part.engine, f"`{place}.engine`")
                self.engine_of(part.engine).options.check_extra(part.extra, f"`{place}`: `extra`")
        currencies = {one.options.cost_currency for one in (self.engine, *self.engines.values())} - {None}
        if len(currencies) > 1:
            raise ConflictError(f"the engines bill in {listed(sorted(map(str, currencies)))}: a log has one `currency`")
        similar = self.few_shot is not None and self.few_shot.choose == "similar"
        if self.embedding is None and (self.evidence is not None or similar):
            raise RequiredError("evidence and few-shot examples chosen by similarity need `[embedding]`")

    def _check_pools(self) -> None:
        seen: dict[str, int] = {}
        for step in self.steps:
            place = f"{step.table}.{step.pool}"
            if step.pool in seen:
                raise ConflictError(f"`{place}.pool` names two steps")
            if step.of is not None and step.of not in seen and step not in self.logged_trace_revisions:
                raise UnknownError(f"`{place}.of`: no pool `{step.of}` before it; {suggest(step.of, seen)}")
            if step.of in seen and step.of_sample >= seen[step.of]:
                traces = f"`{step.of}` has {seen[step.of]} trace{'s' if seen[step.of] > 1 else ''}"
                raise InvalidError(f"`{place}.of_sample` is {step.of_sample}, but {traces}, counted from 0")
            seen[step.pool] = step.samples
        for loop in self.loop:
            if loop.pool in seen:
                raise ConflictError(f"`loop.{loop.pool}.pool` names two steps")
            seen[loop.pool] = 0

    @property
    def steps(self) -> tuple[PoolStep, ...]:
        """The steps in the order in which they run."""
        return (*self.sample, *self.revise)

    @property
    def logged_trace_revisions(self) -> tuple[_ReviseStep, ...]:
        """The steps that revise a trace of the log that pools are added to."""
        names = {step.pool for step in self.steps}
        return tuple(step for step in self.revise if step.of not in names) if self.data.dataset == LOGGED else ()

    def step_of(self, pool: str) -> PoolStep:
        """The step that makes a pool."""
        return next(step for step in self.steps if step.pool == pool)

    def template(self, prompt: str) -> Template:
        """A prompt file by its name. ThinkbackError where no setting of the recipe names it."""
        require_known(prompt, self.prompts, f"no setting of the recipe names the prompt file `{prompt}`")
        return self.prompts[prompt]

    def require_engine(self, name: str, subject: str) -> None:
        """UnknownError about a subject where the recipe has no engine of this name; empty for `[engine]`."""
        if name:
            require_known(name, self.engines, f"{subject}: the recipe has no `[engines.{name}]`")

    def engine_of(self, name: str) -> EngineSettings:
        """The settings of an engine by its name; empty for `[engine]`."""
        return self.engines[name] if name else self.engine

    def open_example_count(self, least: int) -> int:
        """The number of examples that are open at one time: by `[engine]`, else two for each call that the engines work
        on, and at least so many.
        """
        slots = sum(one.options.slots for one in (self.engine, *self.engines.values()))
        return self.engine.in_flight or max(least, 2 * slots)

    def with_engine(self, name: str) -> Recipe:
        """The recipe with an engine in the place of `[engine]`, for what opens it."""
        return replace(self, engine=self.engine_of(name)) if name else self

    def identity(self) -> dict[str, Any]:
        """Everything that decides what is written, as dotted names and JSON values, in the file's order."""
        flat: dict[str, Any] = {"name": self.name, "seed": self.seed, "license": self.license}
        flat |= flatten(self.data, "data")
        for option in FILES.intersection(self.data.options):
            flat[f"data.options.{option}"] = Path(str(self.data.options[option])).name
        flat |= self._engine_identity("engine", self.engine)
        for name, engine in self.engines.items():
            flat |= self._engine_identity(f"engines.{name}", engine)
        for place in ("answers", "evidence", "few_shot", "finalizer", "sample", "revise"):
            value = getattr(self, place)
            flat |= without_engine(flatten(value, place)) if value else {place: None}
        if not self.answers.measures:  # as in logs that were made before there were any
            del flat["answers.measures"]
        for step in self.loop:
            named = {"rule": step.name, "engine": step.engine, **flatten(step.loop)}
            named |= {"of": list(step.of)} if step.of else {}
            flat |= without_engine({f"loop.{step.pool}.{key}": value for key, value in named.items()})
        for place, tables in (("score", self.score), ("search", self.search)):
            for name, table in tables.items():
                paths = {key: Path(str(table[key])).name for key in ("model", "path", "rule") if key in table}
                flat |= flatten({k: v for k, v in {**table, **paths}.items() if k != "at_once"}, f"{place}.{name}")
        flat |= {"embedding.model": None if self.embedding is None else Path(self.embedding.model).name}
        return flat | {f"prompts.{name}": template.digest for name, template in self.prompts.items()}

    def _engine_identity(self, place: str, engine: EngineSettings) -> dict[str, Any]:
        flat: dict[str, Any] = {f"{place}.kind": engine.kind, f"{place}.model": engine.model}
        flat |= flatten(engine.identity(), place)
        if engine.options.seeds_are_shared:
            flat[f"{place}.samples_per_call"] = engine.samples_per_call
        for key in (f"{place}.model", f"{place}.tokenizer"):  # which weights lie there is for ModelsSeen to know
            folder = flat.get(key) and self.resolve_path(str(flat[key]))
            if folder and folder.is_dir():
                flat[key] = folder.resolve().name
        return flat


def without_engine(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without an `engine` that is not named, as logs have them that were made before engines had names."""
    return {key: value for key, value in flat.items() if value != "" or key.rpartition(".")[2] != "engine"}


_LOOP = ("pool", "kind", "rule", "engine", "requests", "of")
_ENGINE = ("kind", "model", "samples_per_call", "in_flight")


def load_recipe(recipe: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, or a shipped one by its name. `settings` are `KEY=VALUE` strings that overrule the file.

    A key is dotted, `engine.model` or `sample.n15.samples`, and a value is TOML, or else a plain string.
    ThinkbackError: one line that names the file and the key.
    """
    top, path = read_toml(recipe, settings)
    with name_file_in_errors(path):
        return replace(_read_recipe(top, path), overruled=tuple(settings))


def load_added_pools(recipe: str | Path, settings: Sequence[str] = ()) -> Recipe | None:
    """What a recipe without `[data]` samples on the examples of a log, as a recipe; None where it samples nothing. The
    arguments are those of `load_recipe`, the errors too.
    """
    top, path = read_toml(recipe, settings)
    if "data" in top or not any(top.get(name) for name in ("sample", "revise", "loop")):
        return None
    with name_file_in_errors(path):
        for name in ("few_shot", "evidence"):
            if name in top:
                raise ConflictError(f"`[{name}]` chooses from `[data]`, and a log has its own examples")
        return replace(_read_recipe({**top, "data": {"dataset": LOGGED}}, path), overruled=tuple(settings))


def _read_recipe(top: Mapping[str, Any], path: Path) -> Recipe:
    head = read_head(top, path)
    if not {"data", "sample"} & set(top) and {"verify", "features", "states"} & set(top):
        raise RequiredError("adds to an existing log and makes none: name that log as `on`")
    engines = {name: read_engine(table, f"engines.{name}") for name, table in table_of(top, "engines").items()}
    on_log = top.get("data") == {"dataset": LOGGED}
    for needed in ("data", "engine", "sample"):
        others = needed == "sample" and (top.get("loop") or (on_log and top.get("revise")))
        if (needed not in top or top[needed] == []) and not others:
            more = "; without it, a recipe adds pools to a log: name that log as `--on`" if needed == "data" else ""
            raise RequiredError(f"`{'[[sample]]' if needed == 'sample' else f'[{needed}]'}` is missing{more}")
    tables = (one for table in tables_of(top, "loop") for one in _tables_by_pool(table))
    loops = tuple(_read_loop(table, path.resolve().parent) for table in tables)
    recipe = Recipe(
        file=path.name,
        folder=path.resolve().parent,
        name=head.name,
        seed=head.seed,
        license=head.license,
        data=from_table(DataSettings, top["data"], "data"),
        engine=read_engine(top["engine"]),
        answers=from_table(AnswerSettings, top.get("answers", {}), "answers"),
        embedding=read_optional(EmbeddingSettings, top, "embedding"),
        evidence=read_optional(EvidenceSettings, top, "evidence"),
        few_shot=read_optional(FewShotSettings, top, "few_shot"),
        finalizer=read_optional(FinalizerSettings, top, "finalizer"),
        sample=_read_steps(_SampleStep, top),
        revise=_read_steps(_ReviseStep, top),
        prompts={},
        engines=engines,
        loop=loops,
        score=table_of(top, "score"),
        search=table_of(top, "search"),
    )
    parts = (*recipe.steps, *(part for part in (recipe.few_shot, recipe.finalizer) if part is not None))
    names = [part.prompt for part in parts]
    names += [file for step in loops for file in prompts_of(step.loop).values()]
    names += [table["prompt"] for table in recipe.score.values() if isinstance(table.get("prompt"), str)]
    prompts = {name: read_template(name, recipe.folder) for name in dict.fromkeys(names)}
    for engine in (recipe.engine, *engines.values()):
        prompts |= read_chat_template(engine, recipe)
    return replace(recipe, prompts=prompts)


def read_engine(table: Any, place: str = "engine") -> EngineSettings:
    """The table of an engine; what is the engine's own is checked by it."""
    if not isinstance(table, Mapping):
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a table")
    common = {key: value for key, value in table.items() if key in _ENGINE}
    further = {key: value for key, value in table.items() if key not in _ENGINE}
    return from_table(EngineSettings, {**common, "settings": further}, place)


def _tables_by_pool(table: Any) -> list[Any]:
    """A table `[[loop]]` for each pool: where `pool` names a key in braces, one for each of the values listed there."""
    pool = table.get("pool") if isinstance(table, Mapping) else None
    key = re.search(r"\{(\w+)\}", pool) if isinstance(pool, str) else None
    if not isinstance(pool, str) or key is None or not isinstance(values := table.get(key.group(1)), list):
        return [table]
    return [{**table, "pool": pool.replace(key.group(), str(value)), key.group(1): value} for value in values]


def _read_loop(table: Any, folder: Path) -> LoopStep:
    """A table `[[loop]]`; what is the loop's own is checked by it."""
    place = table_place("loop", table)
    if not isinstance(table, Mapping):
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a table")
    common = {key: value for key, value in table.items() if key in _LOOP}
    step = from_table(LoopStep, {**common, "settings": {k: v for k, v in table.items() if k not in _LOOP}}, place)

    def find(file: str) -> Path:
        return folder / file if (folder / file).exists() else Path(file)

    return replace(step, loop=read_loop(step.kind, step.rule, step.settings, place, find))


def read_chat_template(engine: EngineSettings | None, recipe: RecipePart) -> dict[str, Template]:
    """The chat template of an engine by its name, as if it were a prompt file; empty where it has none of its own."""
    template = None if engine is None else engine.chat_template
    return (
        {}
        if template is None
        else {template: read_whole(template, recipe.resolve_path(template), "engine.chat_template")}
    )


def _read_steps(cls: type[Any], top: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(from_table(cls, table, table_place(cls.table, table)) for table in tables_of(top, cls.table))


def rows_of_shard(rows: pl.DataFrame, shard: tuple[int, int], limit: int | None = None) -> pl.DataFrame:
    """Part i of n (from 1) of the first `limit` rows: every n-th, so that parts are alike. None is in two parts.

    ThinkbackError where there is no such part, or it is empty.
    """
    number, count = shard
    if not 1 <= number <= count:
        raise InvalidError(f"`shard` is {number}/{count}: the first number must be between 1 and {count}")
    if limit is not None and limit < 1:
        raise InvalidError(f"`limit` is {limit}; it takes an integer, at least 1")
    first = rows if limit is None else rows.head(limit)
    part = first.gather_every(count, number - 1)
    if not part.height:
        raise EmptyError(f"`shard` is {number}/{count}, and has no examples: there are {first.height}")
    return part
