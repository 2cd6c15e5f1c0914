"""What scores texts for loops, and what they search: the tables `[score.NAME]` and `[search.NAME]` of a recipe.

Each is opened when the first request comes, and is given all that are due at one time; functions of users are called
on threads.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl

from generate.loops.requests import Ask, Neighbours, Passages, Results, Score, Scores, Search, Steps, Verify
from generate.loops.rules import load_from_file
from generate.passes.batching import TokenIds
from generate.passes.reader import Reader, ReadSettings, classifier_outputs, label_probabilities
from generate.passes.scoring import read_scores
from generate.recipes.prompting import Template, parse_template
from generate.recipes.recipe import Recipe
from generate.retrieval.corpus import Corpus
from generate.retrieval.http_search import HttpSearch
from generate.retrieval.pairs import CrossEncoderScore, EntailmentScore
from generate.retrieval.searches import CorpusSearch, PassagesSearch, RunSearch, WorldSearch
from generate.signals.judge import read_number
from generate.signals.sequence_classifier import open_classifier, read_classifier
from toolkit.errors import RequiredError, RuleError, UnknownError, UnsuitableError, suggest, user_code
from toolkit.settings import Checked, from_table, setting

GOLD = "gold_documents"
Scored = Score | Verify
Request = Scored | Search
Demand = tuple[Any, Mapping[str, str]]
"""A request, with the fields of its example."""


class Service(Protocol):
    """Something that answers searches or scores, without a language model."""

    def answer(self, requests: Sequence[Demand]) -> list[Scores] | list[Results]:
        """An answer to each request."""

    def describe(self) -> Mapping[str, Any]:
        """The manifest's record."""


def texts_to_score(request: Any) -> Sequence[Any]:
    """The texts that a request wants scored."""
    return (request.text,) if type(request) is Verify else request.texts


def fields_of(request: Any, text: Any, fields: Mapping[str, str]) -> dict[str, str]:
    """What a prompt shows of a text: `{{attempt}}`, of a trace its `{{answer}}`, of a pair the first as `{{query}}`."""
    pair = text if isinstance(text, tuple) else ("", text)
    return {**fields, "query": pair[0], "attempt": pair[1], "answer": getattr(request, "answer", None) or ""}


@dataclass(frozen=True, kw_only=True)
class ClassifierScore(ReadSettings):
    """A sequence classifier, whose output on the text that its prompt makes is the score. The settings are those of a
    verifier of this kind.
    """

    model: str = setting()
    prompt: str | None = setting(None)
    base: str | None = setting(None)
    score: str = setting("sigmoid", choices=("sigmoid", "raw"))
    label: int | None = setting(None, low=0)

    def opened(self, recipe: Recipe, place: str) -> Service:
        """The classifier, loaded."""
        model = recipe.resolve_model(self.model)
        trained = read_classifier(model)
        if self.prompt is not None:
            template = recipe.prompts[self.prompt]
        elif trained is not None and trained.prompt is not None:
            template = parse_template("classifier.json", f"{trained.prompt}\n")
        else:
            raise RequiredError(f"`{place}`: the model's folder keeps no prompt: name a file in `prompt`")
        base = None if self.base is None else recipe.resolve_model(self.base)
        return _Classifier(self, template, open_classifier(model, self, base, place))


@dataclass(frozen=True)
class _Classifier:
    settings: ClassifierScore
    template: Template
    reader: Reader

    def answer(self, requests: Sequence[Demand]) -> list[Scores]:
        ids = [[self._ids(fields_of(one, text, more)) for text in texts_to_score(one)] for one, more in requests]
        return read_scores(self.reader, ids, self._scores)

    def _ids(self, fields: Mapping[str, str]) -> TokenIds:
        return TokenIds(tuple(self.reader.tokens.encode(self.template.render(fields), whole=True)))

    def _scores(self, read: Any) -> np.ndarray:
        if self.settings.label is not None:
            return label_probabilities(read)[:, self.settings.label]
        raw = classifier_outputs(read)[:, 0]
        return 1 / (1 + np.exp(-raw)) if self.settings.score == "sigmoid" else raw

    def describe(self) -> Mapping[str, Any]:
        return {**self.reader.describe(), "prompt": self.template.text, "score": self.settings.score}


@dataclass(frozen=True)
class JudgeScore(Checked):
    """A language model that is asked for a score: a number from JSON (under `key`), or the first of its text."""

    prompt: str = setting()
    engine: str = setting("")
    read: str = setting("json", choices=("json", "number"))
    key: str = setting("score")
    max_tokens: int = setting(128, low=1)
    temperature: float = setting(0.0, low=0, high=5)

    def loop(self, recipe: Recipe, request: Any, fields: Mapping[str, str]) -> Steps:
        """Asks for the score of each text."""
        prompts = [
            recipe.prompts[self.prompt].render(fields_of(request, text, fields)) for text in texts_to_score(request)
        ]
        replies = []
        for prompt in prompts:
            replies += yield Ask(prompt, self.max_tokens, temperature=self.temperature, engine=self.engine)
        costs = {
            name: _sum_of_costs(replies, name)
            for name in ("prompt_tokens", "completion_tokens", "latency_s", "device_s")
        }
        return Scores(
            tuple(read_number(reply.text, self.read, self.key) for reply in replies), **costs, calls=len(replies)
        )


def _sum_of_costs(replies: Sequence[Any], name: str) -> Any:
    parts = [getattr(reply, name) for reply in replies]
    return None if None in parts else sum(parts)


@dataclass(frozen=True)
class _UserFunction(ABC):
    """A function of a user's in use, which is called by at most `at_once` threads."""

    rule: str
    function: Callable[[Any], Any]
    at_once: int

    def answer(self, requests: Sequence[Demand]) -> Any:
        """The answer to each request."""
        return [self.answer_one(request) for request, _ in requests]

    @abstractmethod
    def answer_one(self, request: Any) -> Scores | Results:
        """The answer to a request. RuleError where the function fails, or gives something else."""

    def describe(self) -> Mapping[str, Any]:
        return {"rule": self.rule}


@dataclass(frozen=True)
class FunctionSettings(Checked):
    """A function of a user's, `FILE.py:NAME`. at_once: how many calls of it may run at one time."""

    rule: str = setting()
    at_once: int = setting(8, low=1, identity=False)
    service: ClassVar[type[_UserFunction]]

    def opened(self, recipe: Recipe, place: str) -> Service:
        """The function, from its file."""
        return self.service(self.rule, load_from_file(self.rule, recipe.resolve_path, "functions"), self.at_once)


class _ScoreFunction(_UserFunction):
    def answer_one(self, request: Any) -> Scores:
        texts, began = list(texts_to_score(request)), time.perf_counter()
        with user_code(f"`{self.rule}`"):
            values = list(self.function(texts))
            numbers = tuple(None if value is None else float(value) for value in values)
        if len(numbers) != len(texts) or not all(number is None or math.isfinite(number) for number in numbers):
            raise RuleError(f"`{self.rule}` must give a number or nothing for each of {len(texts)} texts")
        return Scores(numbers, latency_s=time.perf_counter() - began)


class _SearchFunction(_UserFunction):
    def answer_one(self, request: Search) -> Results:
        began = time.perf_counter()
        with user_code(f"`{self.rule}`"):
            given = self.function(request.query)
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise RuleError(f"`{self.rule}` must give a text or a list of texts, it gives {type(given).__name__}")
        return Results(tuple(texts[: request.top]), latency_s=time.perf_counter() - began)


class FunctionScore(FunctionSettings):
    """A function from a list of texts to their scores."""

    service = _ScoreFunction


class FunctionSearch(FunctionSettings):
    """A function from a query to a text or to a list of texts: a tool, or a search."""

    service = _SearchFunction


KINDS: Mapping[str, Mapping[str, type[Any]]] = {
    "score": {
        "classifier": ClassifierScore, "judge": JudgeScore, "function": FunctionScore,
        "cross_encoder": CrossEncoderScore, "entailment": EntailmentScore,
    },
    "search": {
        "passages": PassagesSearch, "world": WorldSearch, "run": RunSearch, "http": HttpSearch,
        "function": FunctionSearch,
    },
}  # fmt: skip


class Services:
    """The scores and searches of a recipe, by table and name. ThinkbackError where a table is unfit."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.settings = {
            (table, name): _read_service(table, name, given)
            for table, tables in (("score", recipe.score), ("search", recipe.search))
            for name, given in tables.items()
        }
        self.opened: dict[tuple[str, str], Service] = {}

    def settings_of(self, table: str, name: str) -> Any:
        """The settings of a table. UnknownError where the recipe has none of that name."""
        if (table, name) not in self.settings:
            known = [one for kind, one in self.settings if kind == table]
            raise UnknownError(f"the recipe has no `[{table}.{name}]`; {suggest(name, known)}")
        return self.settings[table, name]

    def answer(self, table: str, name: str, requests: Sequence[Demand]) -> Sequence[Scores | Results]:
        """The answers to requests that are due at one time."""
        return self._service(table, name).answer(requests)

    def thread_count(self, table: str, name: str) -> int:
        """How many requests a service answers at one time, on threads; 0 for one that answers all due ones at once."""
        return int(getattr(self._service(table, name), "at_once", 0))

    def corpus_answer(self, request: Passages | Neighbours) -> Any:
        """What a corpus has of some passages. ThinkbackError where it has none of them, or the table is no corpus."""
        corpus = self.corpus_of(request.index)
        if type(request) is Neighbours:
            return corpus.neighbours(request.ids, request.top)
        partial = getattr(request, "partial", False)
        return corpus.texts([name for name in request.ids if not partial or name in corpus])

    def corpus_of(self, name: str) -> Corpus:
        """The corpus of a table of `[search]`. UnsuitableError where it is of another kind."""
        service = self._service("search", name)
        if type(service) is not CorpusSearch:
            raise UnsuitableError(f"`[search.{name}]` is no corpus: name one of kind `passages`")
        return service.corpus

    def gold_notes(self, examples: pl.DataFrame) -> tuple[str, ...]:
        """A line for each corpus of a loop that lacks gold documents of some examples."""
        names = dict.fromkeys(step.loop.corpus for step in self.recipe.loop if hasattr(step.loop, "corpus"))
        if GOLD not in examples.columns:
            return ()
        golds, lines = examples[GOLD].drop_nulls(), []
        for name in names:
            corpus = self.corpus_of(name)
            count = sum(any(document not in corpus for document in documents) for documents in golds)
            if count:
                lines.append(
                    f"`[search.{name}]` lacks gold documents of {count:,} of {len(golds):,} questions, which are kept"
                )
        return tuple(lines)

    def _service(self, table: str, name: str) -> Service:
        """A score or a search, opened when it is first needed."""
        settings = self.settings_of(table, name)
        if (table, name) not in self.opened:
            self.opened[table, name] = settings.opened(self.recipe, f"{table}.{name}")
        return self.opened[table, name]

    def describe(self) -> dict[str, Any]:
        """The manifest's records of those that were opened."""
        return {f"{table}.{name}": dict(service.describe()) for (table, name), service in self.opened.items()}


def _read_service(table: str, name: str, given: Mapping[str, Any]) -> Any:
    place, kinds = f"{table}.{name}", KINDS[table]
    kind = given.get("kind")
    if kind not in kinds:
        raise UnknownError(f"`{place}.kind` is {kind!r}; {suggest(str(kind), kinds)}")
    return from_table(kinds[str(kind)], {key: value for key, value in given.items() if key != "kind"}, place)
