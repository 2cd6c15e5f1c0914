"""Clusters of answers that mean the same, over the rounds of one sub-question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from generate.loops.requests import Paid, Score, Steps

ENTAILS, CONTRADICTS = 1.0, -1.0
"""What a model of three labels says of a pair of texts; 0 where neither holds."""
CLUSTERS = ("equal", "entail", "no_contradiction")


@dataclass(frozen=True)
class ClusteredAnswers:
    """The cluster of each answer; contradictions: pairs of distinct ones that contradict each other, None where no
    model says so of each pair; what it cost.
    """

    clusters: tuple[int, ...]
    contradictions: int | None
    paid: tuple[Paid, ...]


@dataclass
class MeaningClusters:
    """The clusters of a sub-question so far: `first` has the first answer of each, `number` that of every answer.

    rule: an answer joins the lowest cluster whose first answer it equals, entails and is entailed by, or contradicts
    neither way; else it opens one. model: a table of `[score]` that judges pairs; those it gives no score stay apart.
    """

    rule: str
    model: str | None
    first: list[str] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def assign(self, question: str, answers: Sequence[str]) -> Steps:
        """Gives each answer of a round its cluster: ClusteredAnswers."""
        distinct = list(dict.fromkeys(answers))
        paid = yield from self._judge_entailment(question, distinct)
        for answer in distinct:
            if answer not in self.number:
                joined = (cluster for cluster, first in enumerate(self.first) if self._has_same_meaning(answer, first))
                self.number[answer] = next(joined, len(self.first))
                if self.number[answer] == len(self.first):
                    self.first.append(answer)
        pairs = [self._both_ways(*pair) for pair in combinations(distinct, 2)]
        judged = self.model is not None and not any(None in pair for pair in pairs)
        count = sum(CONTRADICTS in pair for pair in pairs) if judged else None
        return ClusteredAnswers(tuple(self.number[answer] for answer in answers), count, paid)

    def _judge_entailment(self, question: str, distinct: Sequence[str]) -> Steps:
        """Has the pairs judged that a round asks about for the first time, both ways, given the sub-question."""
        if self.model is None:
            return ()
        new = [answer for answer in distinct if answer not in self.number]
        pairs = [*combinations(distinct, 2), *((answer, first) for answer in new for first in self.first)]
        both = dict.fromkeys(pair for one in pairs for pair in (one, one[::-1]))
        unknown = [pair for pair in both if pair not in self.verdicts]
        if not unknown:
            return ()
        texts = tuple((f"{question} {first}", f"{question} {second}") for first, second in unknown)
        scores = yield Score(texts, self.model)
        self.verdicts.update(zip(unknown, scores.values, strict=True))
        return (scores,)

    def _has_same_meaning(self, answer: str, first: str) -> bool:
        verdicts = self._both_ways(answer, first)
        if self.rule == "entail":
            return verdicts == (ENTAILS, ENTAILS)
        return self.rule == "no_contradiction" and not {None, CONTRADICTS} & {*verdicts}

    def _both_ways(self, one: str, other: str) -> tuple[float | None, float | None]:
        return self.verdicts.get((one, other)), self.verdicts.get((other, one))
