"""Iterative retrieval: batches of documents from a first stage and from the neighbours of what ranks best, with answers
sampled from each batch.

Algorithm 1 of the thesis on frontier-aware iterative retrieval (FAIR), with the defaults of SUNAR's public code
(`VenkteshV/SUNAR`) where the thesis is silent; decomposition as in self-ask (Press et al. 2023, arXiv:2210.03350).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from generate.loops.loop import Loop
from generate.loops.meanings import CLUSTERS, MeaningClusters
from generate.loops.requests import (
    Ask,
    Example,
    Neighbours,
    Paid,
    Passages,
    Read,
    RefusedError,
    Row,
    Score,
    Search,
    Steps,
    Together,
)
from generate.tasks.formats import ANSWERED, FOLLOW, path_text
from toolkit.errors import InvalidError, RequiredError, UnknownError, UnsuitableError, quote, suggest
from toolkit.log.contract.manifest import BY_RELEVANCE, EXPLORING
from toolkit.rounds.frontier import REWARDS, Rounds
from toolkit.rounds.ranking import RoundRanking
from toolkit.settings import flatten, from_table, setting
from toolkit.table_rows import TableRows

UNKNOWN = "unknown"
"""The answer of a sub-question that has none."""


@dataclass(frozen=True)
class _Round:
    """A round: its batch with relevance and first-stage ranks, and its answers with clusters and scores."""

    documents: tuple[str, ...]
    relevance: tuple[float, ...]
    ranks: tuple[int | None, ...]
    answers: tuple[str, ...]
    clusters: tuple[int, ...]
    contradictions: int | None
    scores: tuple[float | None, ...] | None
    paid: tuple[Paid, ...]

    def log_row(self, hop: int, number: int, question: str, paid: Sequence[Paid]) -> Row:
        """The round's row of `rounds`. paid: answers that it pays for beside its own."""
        columns: dict[str, Any] = {
            "hop": hop, "round": number, "sub_question": question, "documents": list(self.documents),
            "relevance": list(self.relevance), "retrieval_rank": list(self.ranks), "answers": list(self.answers),
            "clusters": list(self.clusters),
        }  # fmt: skip
        columns |= {} if self.contradictions is None else {"contradictions": self.contradictions}
        columns |= {} if self.scores is None else {"answer_scores": list(self.scores)}
        return Row("rounds", columns, (*paid, *self.paid))


@dataclass
class _Hop:
    """A sub-question that is being answered. waiting: what the first stage has and no batch had, best first, with its
    rank; near: neighbours of what was read, by the parent's score, downwards, and the place in its list.
    """

    question: str
    waiting: dict[str, int] = field(default_factory=dict)
    near: dict[str, tuple[float, int]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    rounds: list[_Round] = field(default_factory=list)
    opening: tuple[Paid, ...] = ()
    expanded: bool = False
    """Whether the last batch came from the neighbours."""

    def next_batch(self, alternates: bool, most: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """The next batch, at most so many, and their first-stage ranks."""
        wants_near = bool(self.rounds) and (not self.expanded if alternates else self.expanded)
        self.expanded = bool(self.near) if wants_near else not self.waiting
        if self.expanded:
            names = tuple(sorted(self.near, key=lambda name: (*self.near[name], name))[:most])
            ranks: tuple[int | None, ...] = (None,) * len(names)
        else:
            names = tuple(self.waiting)[:most]
            ranks = tuple(self.waiting[name] for name in names)
        for name in names:
            self.waiting.pop(name, None)
            self.near.pop(name, None)
        self.read.update(names)
        return names, ranks

    def add_neighbours(self, scores: Sequence[float], neighbours: Sequence[Sequence[str]]) -> None:
        """Take in the neighbours of a batch. scores: of each document of it."""
        for score, names in zip(scores, neighbours, strict=True):
            for place, name in enumerate(names):
                if name not in self.read:
                    self.near[name] = min((-score, place), self.near.get(name, (np.inf, 0)))

    def as_logged_rounds(self) -> Rounds:
        """The hop's rounds in the form of a log's rounds of one example."""
        return rounds_of([one.log_row(0, number, self.question, ()).columns for number, one in enumerate(self.rounds)])


_RANKED: dict[str, Any] = {
    "hop": pl.Int32, "sub_question": pl.String, "documents": pl.List(pl.String), "relevance": pl.List(pl.Float64),
    "retrieval_rank": pl.List(pl.Int32), "answers": pl.List(pl.String), "clusters": pl.List(pl.Int32),
    "contradictions": pl.Int32, "answer_scores": pl.List(pl.Float64),
}  # fmt: skip
"""The columns of rounds that rankings read."""


def rounds_of(rows: Sequence[Mapping[str, Any]]) -> Rounds:
    """The rounds of one example, by hop and round, as replay reads them from a log."""
    frame = pl.DataFrame({name: pl.Series([row.get(name) for row in rows], dtype=kind)
                          for name, kind in _RANKED.items()})  # fmt: skip
    return Rounds(TableRows(frame, np.array([0, len(rows)])), pl.Series("gold_documents", [[]], pl.List(pl.String)))


def leading_answers(rounds: Rounds, ranking: RoundRanking) -> list[str]:
    """The first answer of the cluster that leads the frontier at the end of each hop of an example, or `unknown`."""
    leaders = ranking.frontiers(rounds).leader
    first: dict[tuple[int, int], str] = {}
    columns = rounds.rows.frame["clusters"], rounds.rows.frame["answers"]
    for hop, clusters, answers in zip(rounds.hop_of_row.tolist(), *columns, strict=True):
        for cluster, answer in zip(clusters, answers, strict=True):
            first.setdefault((hop, cluster), answer)
    ends = (rounds.first_row_of_hop + rounds.rounds_of_hop - 1).tolist()
    return [first.get((hop, int(leaders[end])), UNKNOWN) for hop, end in enumerate(ends)]


def _read_explore(given: Any, place: str) -> str | RoundRanking:
    if isinstance(given, RoundRanking) or given == BY_RELEVANCE:
        return given
    if not isinstance(given, Mapping):
        raise InvalidError(
            f"`{place}` is {quote(given)}; it takes `{BY_RELEVANCE}`, or a table of keys of a policy `retrieve`"
        )
    for key in given:
        if key not in EXPLORING:
            raise UnknownError(f"unknown key `{key}` in `{place}`; {suggest(key, EXPLORING)}")
    ranking: RoundRanking = from_table(RoundRanking, given, place)
    if ranking.relevance == "auto":
        raise InvalidError(
            f"`{place}.relevance` is `auto`, which needs the rounds of all examples: write `raw`, or `logistic` where"
            " the scorer gives negative numbers"
        )
    return ranking


@dataclass(frozen=True, kw_only=True)
class Retrieving(Loop):
    """Retrieval in rounds: of each sub-question, a hop, the first stage gives `first` documents; batches of at most
    `batch` come from these and from the `neighbours` nearest documents of what was read, until both are empty or
    `budget` documents are ranked. `scorer` scores each document of a batch for the sub-question, and `answers` are
    sampled from it, which join clusters of meaning.

    alternate: the other side at every round, or once one is exhausted; an empty one is skipped. explore: by what
    neighbours are ordered, the relevance of their parent or its score under the keys of a policy `retrieve`; equal
    ones by their place among its neighbours, then by id. The first answer of the frontier's leader goes into the path,
    from which `decompose_prompt` asks for the next sub-question, at most `hops` in all; without it, the question is the
    only hop.

    A hop's first round pays for what opened it, the last one's for the call that ended the question, too.
    """

    corpus: str = setting()
    scorer: str = setting()
    search: str | None = setting(None)
    decompose_prompt: str | None = setting(None)
    decompose_engine: str | None = setting(None)
    hops: int = setting(4, low=1)
    first: int = setting(100, low=1)
    budget: int = setting(100, low=1)
    batch: int = setting(16, low=1)
    neighbours: int = setting(10, low=0)
    answers: int = setting(5, low=1)
    alternate: str = setting("round", choices=("round", "exhausted"))
    cluster: str = setting("equal", choices=CLUSTERS)
    meaning: str | None = setting(None)
    verifier: str | None = setting(None)
    explore: str | RoundRanking = setting(BY_RELEVANCE, read=_read_explore)
    temperature: float = setting(0.7, low=0, high=5)

    kind = "retrieve"
    prompt_fields = ("path", "sub_question", "passages")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster != "equal" and self.meaning is None:
            raise RequiredError(f"`cluster` is `{self.cluster}`: name a `[score]` table that judges pairs as `meaning`")
        if isinstance(self.explore, RoundRanking) and self.explore.weights is not None and self.verifier is None:
            raise RequiredError("`explore.weights` counts answers by their scores: name what gives them as `verifier`")

    def run(self, example: Example) -> Steps:
        path = list[tuple[str, str]]()
        hop = yield from self._next_hop(example, path)
        hop.question = hop.question or example.fields["question"]
        for number in range(self.hops):
            following, paid = None, tuple[Paid, ...]()
            try:
                yield from self._read_rounds(example, hop)
                path.append((hop.question, self._leading_answer(hop)))
                if number + 1 < self.hops and self.decompose_prompt is not None:
                    following = yield from self._next_hop(example, path)
                    paid = () if following.question else following.opening
            except RefusedError:
                yield from self._rows(number, hop, paid)
                raise
            yield from self._rows(number, hop, paid)
            if following is None or not following.question:
                return
            hop = following

    def _rows(self, number: int, hop: _Hop, ending: Sequence[Paid]) -> Steps:
        """Yields the rows of a hop. ending: what the first one costs beside what opened the hop."""
        for place, one in enumerate(hop.rounds):
            yield one.log_row(number, place, hop.question, () if place else (*hop.opening, *ending))

    def _next_hop(self, example: Example, path: Sequence[tuple[str, str]]) -> Steps:
        """Asks for the next sub-question: a hop, whose question is empty where there is none."""
        if self.decompose_prompt is None:
            return _Hop(example.fields["question"])
        prompt = example.prompt(self.decompose_prompt, path=path_text(path))
        replies = yield Ask(prompt, self.max_tokens, stop=(ANSWERED,), engine=self.decompose_engine)
        _, there, after = replies[0].text.partition(FOLLOW)
        question = next(iter(after.strip().splitlines()), "").strip() if there else ""
        return _Hop(question, opening=tuple(replies))

    def _read_rounds(self, example: Example, hop: _Hop) -> Steps:
        """Reads batch after batch. A hop whose first stage has no document is one round without any."""
        first_stage = self.search or self.corpus
        results = yield Search(hop.question, first_stage, self.first, texts=False)
        if results.texts and not results.ids:
            raise UnsuitableError(f"`[search.{first_stage}]` gives texts without ids: name a corpus or a run file")
        hop.opening = (*hop.opening, results)
        hop.waiting = {name: rank for rank, name in enumerate(results.ids)}
        if not hop.waiting:
            hop.rounds.append(_Round((), (), (), (), (), None, None, ()))
        meanings = MeaningClusters(self.cluster, self.meaning)
        while len(hop.read) < self.budget and (hop.waiting or hop.near):
            names, ranks = hop.next_batch(self.alternate == "round", min(self.batch, self.budget - len(hop.read)))
            yield from self._read_batch(example, hop, meanings, names, ranks)
            if self.neighbours:
                near = yield Neighbours(names, self.corpus, self.neighbours)
                hop.add_neighbours(self._exploring_scores(hop), near)

    def _read_batch(
        self,
        example: Example,
        hop: _Hop,
        meanings: MeaningClusters,
        names: tuple[str, ...],
        ranks: tuple[int | None, ...],
    ) -> Steps:
        """Scores a batch, samples answers from it and gives them clusters: adds a round to the hop."""
        question = hop.question
        texts = yield Passages(names, self.corpus)
        relevance = yield Score(tuple((question, text) for text in texts), self.scorer)
        for name, value in zip(names, relevance.values, strict=True):
            if value is None:
                raise InvalidError(f"`{self.scorer}` gives passage `{name}` no score: is it too long for the model?")
        prompt = example.prompt(self.prompt, sub_question=question, passages="\n\n".join(texts))
        replies = yield Ask(prompt, self.max_tokens, self.answers, self.temperature)
        answers = []
        for reply in replies:
            answer = yield Read(reply.text, reply.finish_reason == "length")
            answers += [] if answer is None else [answer]
        clustered = yield from meanings.assign(question, answers)
        scores, verified = None, tuple[Paid, ...]()
        if self.verifier is not None:
            verified = tuple((yield Together([self._answer_scores(question, answer) for answer in answers])))
            if None in verified:
                raise RefusedError("an answer's verifier was refused")
            scores = tuple(one.values[0] for one in verified)  # type: ignore[union-attr]
        paid = (relevance, *replies, *clustered.paid, *verified)
        values = tuple(map(float, relevance.values))
        hop.rounds.append(
            _Round(names, values, ranks, tuple(answers), clustered.clusters, clustered.contradictions, scores, paid)
        )

    def _answer_scores(self, question: str, answer: str) -> Steps:
        return (yield Score(((question, answer),), str(self.verifier)))

    def _exploring_scores(self, hop: _Hop) -> Sequence[float]:
        """The scores of the last batch, by which the neighbours of its documents are ordered."""
        last = hop.rounds[-1]
        if not isinstance(self.explore, RoundRanking):
            return last.relevance
        ranking, rounds = self.explore, hop.as_logged_rounds()
        keys = ranking.sort_keys(
            rounds, ranking.relevance_factor(rounds, lambda: ranking.frontiers(rounds)), negative=False
        )
        return (-keys[len(keys) - len(last.documents) :]).tolist()

    def _leading_answer(self, hop: _Hop) -> str:
        """The first answer of the frontier's leader at the end of a hop."""
        ranking = self.explore if isinstance(self.explore, RoundRanking) else RoundRanking()
        return leading_answers(hop.as_logged_rounds(), ranking)[0]

    @property
    def explore_record(self) -> str | Mapping[str, Any]:
        """The manifest's record of what neighbours are ordered by, under `explore`."""
        if not isinstance(self.explore, RoundRanking):
            return self.explore
        given = {key: getattr(self.explore, key) for key in EXPLORING}
        return {key: flatten(value) if key == "reward" and value not in REWARDS else value
                for key, value in given.items() if value is not None}  # fmt: skip

    @property
    def most_requests(self) -> int:
        rounds = self.budget if self.neighbours else -(-min(self.first, self.budget) // self.batch)
        each = 2 + (self.meaning is not None) + (self.verifier is not None) * self.answers
        return self.hops * (1 + (self.decompose_prompt is not None) + rounds * each) + 1

    @property
    def most_calls(self) -> tuple[int, int]:
        """The most requests to models, and samples of these, of an example whose batches are full."""
        read, splits = self.budget if self.neighbours else min(self.first, self.budget), bool(self.decompose_prompt)
        rounds = -(-read // self.batch)
        return self.hops * (splits + rounds), self.hops * (splits + rounds * self.answers)

    @property
    def most_repeated_tokens(self) -> int:
        """The most tokens in a prompt that a model wrote: sub-questions, and answers of those before."""
        return 0 if self.decompose_prompt is None else (2 * self.hops - 1) * self.max_tokens

    @property
    def most_traces(self) -> int:
        return 0
