"""How the documents of rounds rank: by relevance, and by whether the answers of their round agree.

Replay ranks what is logged by it, and a loop that retrieves what it reads next. R rounds, D documents, as in `Rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from toolkit.errors import ConflictError, InvalidError, listed, quote
from toolkit.rounds.frontier import REWARDS, Frontiers, Reward, Rounds, frontier_of_each_round, low_entropy_reward
from toolkit.settings import Checked, check, from_table, setting

ENTROPY = "{ entropy = 0.5 }"


@dataclass(frozen=True, kw_only=True)
class EntropyReward(Checked):
    """Rewards rounds whose answers' clusters have at most so much entropy, in nats."""

    entropy: float = setting(low=0)


def _read_reward(given: object, place: str) -> str | EntropyReward | None:
    if given is None or isinstance(given, EntropyReward) or (isinstance(given, str) and given in REWARDS):
        return given
    if isinstance(given, Mapping):
        return from_table(EntropyReward, given, place)
    raise InvalidError(
        f"`{place or 'reward'}` is {quote(given)}; it takes one of {listed(list(REWARDS))}, or {ENTROPY}"
    )


@dataclass(frozen=True, kw_only=True)
class RoundRanking:
    """A ranking of the documents of rounds, those of rewarded rounds first.

    `frontier` is how many clusters of answers it keeps, `frontier_of` of what, and `support` by which counts; `reward`
    says which rounds are rewarded, whose documents count `multiplier` times their `relevance`; `weights` counts answers
    by their scores; `penalty` takes the place of the reward; `order` ranks by relevance, or as the first-stage
    retriever did. ThinkbackError where the settings do not fit.
    """

    frontier: int = setting(2, low=1, high=1000)
    multiplier: float | None = setting(None, above=0)
    frontier_of: str = setting("hop", choices=("hop", "round"))
    support: str = setting("sum", choices=("sum", "last"))
    reward: str | EntropyReward | None = setting(None, read=_read_reward)
    weights: str | None = setting(None, choices=("answer_scores",))
    penalty: str | None = setting(None, choices=("sunar",))
    relevance: str = setting("auto", choices=("auto", "raw", "logistic"))
    order: str = setting("relevance", choices=("relevance", "retriever"))

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "reward", _read_reward(self.reward, ""))
        if self.penalty is None:
            object.__setattr__(self, "multiplier", 2.0 if self.multiplier is None else self.multiplier)
            object.__setattr__(self, "reward", "single" if self.reward is None else self.reward)
            return
        given = next((key for key in ("multiplier", "reward") if getattr(self, key) is not None), None)
        if given is not None:
            raise ConflictError(f"`penalty` takes the place of the reward, so it does not go with `{given}`")

    @property
    def rewards_every_round(self) -> bool:
        """Whether every round that has answers is rewarded, whatever they are."""
        return (self.frontier == 1 and self.reward == "single") or (
            self.frontier_of == "round" and self.reward == "aligned"
        )

    @property
    def rank_column(self) -> str | None:
        """The column of `rounds` that orders documents in place of relevance."""
        return "retrieval_rank" if self.order == "retriever" else None

    def frontiers(self, rounds: Rounds) -> Frontiers:
        """The frontier after each round."""
        answers = rounds.answer_score_sums if self.weights else rounds.answer_counts
        return frontier_of_each_round(
            rounds, answers, self.frontier, self.frontier_of == "round", self.support == "sum"
        )

    def is_rewarded(self, rounds: Rounds, frontiers: Frontiers) -> np.ndarray:
        """Which rounds are rewarded: bool (R,)."""
        reward: Reward = (
            low_entropy_reward(self.reward.entropy)
            if isinstance(self.reward, EntropyReward)
            else REWARDS[str(self.reward)]
        )
        return rounds.has_answers & reward(rounds, frontiers)

    def relevance_factor(self, rounds: Rounds, frontiers: Callable[[], Frontiers]) -> np.ndarray:
        """What the relevance of a round's documents is multiplied with (R,). frontiers: gives those after each round,
        which a penalty does not need.
        """
        if self.penalty is not None:
            return np.where(rounds.has_answers, 2 / np.maximum(rounds.contradicting_pairs, 1), 1.0)
        return np.where(self.is_rewarded(rounds, frontiers()), float(self.multiplier or 1), 1.0)

    def sort_keys(self, rounds: Rounds, factor: np.ndarray, negative: bool) -> np.ndarray:
        """The keys (D,) by which documents are sorted, ascending. factor: of each round (R,); negative: whether the
        pool has a relevance below 0, which `auto` sends through the logistic function.
        """
        if self.rank_column is not None:
            return rounds.retrieval_rank
        logistic = self.relevance == "logistic" or (self.relevance == "auto" and negative)
        relevance = rounds.logistic_relevance if logistic else rounds.relevance
        return -(relevance * rounds.values_by_document(factor))

    def ranked_documents(self, rounds: Rounds, negative: bool) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the different documents of all rounds by hop, best first, and their places in it, from 0."""
        keys = self.sort_keys(rounds, self.relevance_factor(rounds, lambda: self.frontiers(rounds)), negative)
        return rounds.rank_documents(keys, np.ones(len(rounds.hop_of_row), bool))
