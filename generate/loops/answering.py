"""Answers from what was retrieved: a reader sees the documents that an evidence ranks first, and the path to them.

The pools of the thesis on frontier-aware iterative retrieval (TU Delft, 2026): an answer alone, one chain of reasoning,
or several, on the documents of SELF-ASK, SUNAR, FAIR or a first stage, or on the gold ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import polars as pl

from generate.loops.loop import Loop
from generate.loops.meanings import CLUSTERS, MeaningClusters
from generate.loops.requests import Ask, Example, Paid, Passages, Read, Steps, Trace
from generate.loops.retrieving import leading_answers, rounds_of
from generate.tasks.formats import path_text
from toolkit.errors import InvalidError, RequiredError, UnsuitableError, listed, quote, suggest
from toolkit.log import Log, collect
from toolkit.rounds.frontier import Rounds
from toolkit.rounds.ranking import RoundRanking
from toolkit.settings import from_table, setting

GOLD = "gold"
"""The evidence that is the gold documents."""
EVIDENCES: Mapping[str, RoundRanking] = {
    "self-ask": RoundRanking(order="retriever"),
    "self-ask-rerank": RoundRanking(multiplier=1.0),
    "first-stage": RoundRanking(order="retriever"),
    "sunar": RoundRanking(penalty="sunar"),
    "fair": RoundRanking(),
}
"""The policies `retrieve` that rank the documents of an evidence, by its name."""
STANDS_ON = {
    "near": (("self-ask", "self-ask-rerank"), "with `neighbours = 0`"),
    "split": (("first-stage",), "of one hop, the question itself, without `decompose_prompt`"),
}
"""What a pool of rounds may not have under an evidence: documents of neighbours, sub-questions."""


def _read_evidence(given: Any, place: str) -> str | RoundRanking:
    if isinstance(given, RoundRanking) or given == GOLD or (isinstance(given, str) and given in EVIDENCES):
        return given
    if isinstance(given, Mapping):
        ranking: RoundRanking = from_table(RoundRanking, given, place)
        return ranking
    raise InvalidError(
        f"`{place or 'evidence'}` is {quote(given)}; {suggest(str(given), [*EVIDENCES, GOLD])}, or a table of the keys"
        " by which a policy `retrieve` ranks"
    )


@dataclass(frozen=True, kw_only=True)
class Answering(Loop):
    """Answers from the documents of logged rounds: the reader is shown the first `documents` of each hop, as `evidence`
    ranks them, or all gold ones, with the path of sub-questions and answers, and gives `answers`, a trace each.

    evidence: a name of `EVIDENCES`, `gold`, or the keys by which a policy `retrieve` ranks. An example without rounds,
    or with gold evidence that the corpus lacks, has no trace. The last trace pays for what judged meanings.
    """

    corpus: str = setting()
    evidence: str | RoundRanking = setting(read=_read_evidence)
    documents: int = setting(10, low=1)
    answers: int = setting(1, low=1)
    logprobs: int = setting(0, low=0)
    cluster: str = setting("equal", choices=CLUSTERS)
    meaning: str | None = setting(None)
    negative: bool = setting(False, key=False, identity=False)  # whether the pool has a relevance below 0
    leading: RoundRanking = setting(RoundRanking(), key=False, identity=False)  # by which answers went into the path
    most_repeated_tokens: int = setting(0, key=False, identity=False)  # bytes of a path, at most

    kind = "answer"
    prompt_fields = ("passages", "path")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster != "equal" and self.meaning is None:
            raise RequiredError(f"`cluster` is `{self.cluster}`: name a `[score]` table that judges pairs as `meaning`")

    @property
    def ranking(self) -> RoundRanking | None:
        """What ranks its documents; None for the gold ones."""
        return EVIDENCES.get(self.evidence) if isinstance(self.evidence, str) else self.evidence

    @property
    def needs_log(self) -> bool:
        """Whether it reads rounds of a log."""
        return self.ranking is not None

    def on_log(self, log: Log, pools: Sequence[str]) -> Self:
        """The loop with what the log says of the pool of rounds that it reads. ThinkbackError where it does not name
        one, or the pool lacks what its evidence ranks by.
        """
        if self.ranking is None and not pools:
            return self
        if len(pools) != 1 or not log.has("rounds"):
            raise RequiredError(f"`of` is {listed(pools) or 'missing'}: name one pool of `rounds`")
        columns, ranks = ["relevance", "retrieval_rank", "answer_scores"], pl.col("retrieval_rank").list
        names, question = ["example_id", "pool", "hop", "answers", *columns], pl.col("sub_question")
        rows = log.scan("rounds", [*names, "sub_question"]).filter(pool=pools[0])
        longest = [one.str.len_bytes().max().fill_null(0) for one in (question, pl.col("answers").explode())]
        least = rows.join(log.scan("examples", ["example_id", "question"]), on="example_id").select(
            *(pl.col(name).list.min().min() for name in columns),
            path=(pl.col("hop").max() + 1) * (sum(longest) + len(path_text([("", "")]))),
            near=(ranks.len() > ranks.drop_nulls().list.len()).any(),
            split=((pl.col("hop") > 0) | (question != pl.col("question")).fill_null(False)).any(),
        )
        facts = collect(least, log).row(0, named=True)
        ranking = self.ranking or RoundRanking()
        for column in (ranking.rank_column, ranking.weights):
            if column is not None and facts[column] is None:
                raise UnsuitableError(f"pool `{pools[0]}` of `rounds` has no `{column}`, to rank by: name another pool")
        for fact, (evidences, way) in STANDS_ON.items():
            if facts[fact] and self.evidence in evidences:
                raise UnsuitableError(
                    f"`{self.evidence}` needs rounds {way}, and pool `{pools[0]}` has others: name another pool"
                    " as `of`, or give `evidence` the keys by which a policy `retrieve` ranks"
                )
        settings = log.manifest.pools.get(pools[0]) if log.manifest is not None else None
        explore = settings.get("explore") if isinstance(settings, Mapping) else None
        leading = from_table(RoundRanking, explore) if isinstance(explore, Mapping) else RoundRanking()
        negative, path = (facts["relevance"] or 0) < 0, facts["path"] or 0
        return replace(self, negative=negative, leading=leading, most_repeated_tokens=path)

    def run(self, example: Example) -> Steps:
        rounds = rounds_of(example.rounds)
        if self.ranking is None:
            names = example.gold_documents
        elif not example.rounds or (self.ranking.weights and rounds.has_unscored_answer.any()):
            return
        else:
            names = self._first_documents(rounds, self.ranking)
        texts = yield Passages(names, self.corpus, partial=self.ranking is None)
        if len(texts) < len(names) or (self.ranking is None and not names):
            return
        prompt = example.prompt(self.prompt, passages="\n\n".join(texts), path=self._path(example, rounds))
        replies = yield Ask(prompt, self.max_tokens, self.answers, self.temperature, logprobs=self.logprobs)
        answers = []
        for reply in replies:
            answers.append((yield Read(reply.text, reply.finish_reason == "length")))
        meanings = MeaningClusters(self.cluster, self.meaning)
        clustered = yield from meanings.assign(example.fields["question"], [one for one in answers if one is not None])
        for place, (reply, answer) in enumerate(zip(replies, answers, strict=True)):
            cluster = None if answer is None else meanings.first[meanings.number[answer]]
            paid: tuple[Paid, ...] = (reply, *(clustered.paid if place + 1 == len(replies) else ()))
            columns = {"documents": list(names), "answer_cluster": cluster}
            yield Trace(reply.text, paid, reasoning=reply.reasoning, columns=columns)

    def _first_documents(self, rounds: Rounds, ranking: RoundRanking) -> tuple[str, ...]:
        """The first `documents` of each hop's list, hop after hop, each once."""
        order, place = ranking.ranked_documents(rounds, self.negative)
        return tuple(dict.fromkeys(rounds.documents.gather(order[place < self.documents])))

    def _path(self, example: Example, rounds: Rounds) -> str:
        """The sub-questions with their answers, two lines each; empty where the question itself is the only one."""
        questions = rounds.rows.frame["sub_question"].gather(rounds.first_row_of_hop).to_list()
        if questions in ([], [None], [example.fields["question"]]):
            return ""
        return path_text(zip(questions, leading_answers(rounds, self.leading), strict=True))

    @property
    def most_requests(self) -> int:
        return 1 + (self.meaning is not None)

    @property
    def most_calls(self) -> tuple[int, int]:
        """The requests to a model of an example, and samples of these."""
        return 1, self.answers

    @property
    def most_traces(self) -> int:
        return self.answers
