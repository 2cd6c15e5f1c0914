"""Prefix statistics: what a policy knows after each step of an order, for all examples at once.

One pass over the steps keeps a small state per example (votes and best score per answer) and writes the
statistics of every prefix. Whether and where a policy stops is decided afterwards, from these arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from replay.sampling.per_answer import NONE, AnswerNumbers, best_scores, by_appearance, counted, leading_sum, score_sums
from replay.sampling.unscored import PARTIAL, Unscored

VOTES, SCORES, FEATURES = "votes", "scores", "features"
"""What a rule may read beside the counts that every policy knows."""


class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays by name, each made when it is first asked for and read-only."""

    def __init__(self, names: Iterable[str] = (), make: Callable[[str], np.ndarray] = np.array) -> None:
        self._names, self._make = tuple(names), make
        self._made: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _read_only(self._make(name))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> LazyArrays:
        """The same names with `change` of each array, made when it is asked for."""
        return LazyArrays(self._names, lambda name: change(self[name]))


@dataclass(frozen=True)
class Prefix:
    """What has been revealed after each step; arrays are (E, S), column s - 1 standing for step s.

    A step is a trace (generation order), verified at once if it is valid and the policy verifies, or a
    verification (other orders). Statistics of scores are zero, or NaN where said, for policies that
    do not verify. Statistics of every answer are (E, S, A), answers numbered from 0 in the order in which the steps
    reveal them. What only some rules ask for is made when it is first asked for.
    """

    traces: np.ndarray
    """Traces generated so far."""
    valid: np.ndarray
    """Valid ones among them."""
    answers: np.ndarray
    """Distinct valid answers so far."""
    votes: np.ndarray
    """Votes of the leading answer."""
    second_votes: np.ndarray
    """Votes of the answer behind it; 0 when there is none."""
    run: np.ndarray
    """Length of the run of equal valid answers that ends here; 0 at an invalid trace."""
    verified: np.ndarray
    """Traces verified so far."""
    verified_answers: np.ndarray
    """Distinct answers among them."""
    best_score: np.ndarray
    """Highest score so far; NaN before any."""
    lead: np.ndarray
    """Best score minus the best score of any other answer; NaN while fewer than two answers are verified."""
    last_score: np.ndarray
    """Score revealed in this very step; NaN when none was."""
    tokens: np.ndarray
    """Prompt, completion and verification tokens paid so far; NaN where some are not logged."""
    features: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """Columns of `features`, of the trace that each step reveals; NaN where there is none."""
    examples: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """Columns of `examples`, (E,): numbers as float, NaN for null; texts as they are."""
    revealed: Revealed | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for values in self._arrays().values():  # every policy of a walk reads these very arrays
            _read_only(values)

    def rows(self, examples: slice) -> Prefix:
        """The same statistics of some examples alone."""
        return Prefix(
            **{name: values[examples] for name, values in self._arrays().items()},
            features=self.features.each(lambda values: values[examples]),
            examples=self.examples.each(lambda values: values[examples]),
            revealed=None if self.revealed is None else self.revealed.rows(examples),
        )

    def first(self, steps: int) -> Prefix:
        """The same statistics cut off after `steps` steps."""
        return Prefix(
            **{name: values[:, :steps] for name, values in self._arrays().items()},
            features=self.features.each(lambda values: values[:, :steps]),
            examples=self.examples,
            revealed=None if self.revealed is None else self.revealed.first(steps),
        )

    @cached_property
    def step(self) -> np.ndarray:
        """The number of each step, from 1."""
        steps = np.arange(1, self.traces.shape[1] + 1, dtype=np.int32)
        return np.broadcast_to(steps, self.traces.shape)

    @cached_property
    def answer(self) -> np.ndarray:
        """Number of the answer revealed in this very step; -1 when there was none."""
        return _read_only(self._numbers.answer)

    @cached_property
    def leader(self) -> np.ndarray:
        """Number of the answer with most votes; of several the one generated first, revealed or not; -1 before any."""
        return _read_only(self._numbers.of(self.walk.votes.winner))

    @cached_property
    def best_answer(self) -> np.ndarray:
        """Number of the answer of the trace with the highest score; -1 before any."""
        return _read_only(self._numbers.at_place(self.walk.at, self.walk.best.place))

    @cached_property
    def sum_leader(self) -> np.ndarray:
        """Number of the answer with the highest sum of scores; -1 before any. Of several it is the one with the
        verified trace that was generated first.
        """
        return _read_only(leading_sum(self._verified_numbers, self.walk.score, self.walk.at, self.score_sums))

    @cached_property
    def answer_votes(self) -> np.ndarray:
        """Votes of every answer: int (E, S, A)."""
        return _read_only(counted(self._numbers))

    @cached_property
    def score_sums(self) -> np.ndarray:
        """Sum of the scores of every answer (E, S, A); NaN before its first score."""
        return _read_only(score_sums(self._verified_numbers, self.walk.score))

    @cached_property
    def best_scores(self) -> np.ndarray:
        """Highest score of every answer (E, S, A); NaN before its first score."""
        return _read_only(best_scores(self._verified_numbers, self.walk.score))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            name: value for name in self.__dataclass_fields__ if isinstance(value := getattr(self, name), np.ndarray)
        }

    @property
    def walk(self) -> Revealed:
        """What the steps reveal, which no rule is shown. Raises ValueError where this was made without a walk."""
        if self.revealed is None:
            raise ValueError("statistics of every answer need a walk: this `Prefix` was made without one")
        return self.revealed

    @cached_property
    def _numbers(self) -> AnswerNumbers:
        return by_appearance(self.walk.code)

    @cached_property
    def _verified_numbers(self) -> AnswerNumbers:
        return self._numbers if self.walk.verifies else by_appearance(self.walk.verified_code)


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def alike(code: np.ndarray) -> np.ndarray:
    """Answer codes that tell valid answers from others alone: 0 and NONE."""
    return np.where(code >= 0, 0, NONE).astype(code.dtype)


@dataclass(frozen=True)
class Votes:
    """Running vote: counts (E, S) as in `Prefix`, and the place in the order of the winner's first vote."""

    answers: np.ndarray
    votes: np.ndarray
    second_votes: np.ndarray
    run: np.ndarray
    winner: np.ndarray  # int (E, S): the winning answer's code, NONE before any vote


@dataclass(frozen=True)
class Best:
    """Running best: scores (E, S) as in `Prefix`, and the place of the best verified trace."""

    verified: np.ndarray
    verified_answers: np.ndarray
    best_score: np.ndarray
    lead: np.ndarray
    place: np.ndarray  # int (E, S): generation place of the best verified trace, NONE before any


def running_votes(code: np.ndarray, first_place: np.ndarray) -> Votes:
    """Votes after every step.

    `code` int (E, S): the answer revealed in each step, NONE for an invalid one. `first_place` int (E, A):
    where each answer first appears in the order of generation, which breaks ties.
    """
    examples, steps = code.shape
    place = np.take_along_axis(first_place, np.maximum(code, 0), axis=1)
    second, distinct, run = (np.zeros(examples, dtype=np.int32) for _ in range(3))
    top, winner, last = np.zeros(examples, np.int64), np.full(examples, NONE, np.int64), np.zeros(examples, np.int32)
    out = {name: np.empty((examples, steps), dtype=np.int32) for name in Votes.__dataclass_fields__}
    for step, (standing, best, leader) in enumerate(standings(code, first_place.shape[1], place)):
        seen, count = code[:, step], votes_of(standing)
        valid = count > 0
        distinct += count == 1
        behind = np.where(leader != winner, top, np.where(valid & (seen != leader), np.maximum(second, count), second))
        second = behind.astype(np.int32)
        top, winner = votes_of(best), leader.copy()
        run = np.where(valid, np.where((seen == last) & (run > 0), run + 1, 1), 0)
        last = seen
        now: tuple[np.ndarray, ...] = (distinct, top, second, run, winner)
        for name, value in zip(out, now, strict=True):
            out[name][:, step] = value
    return Votes(**out)


VOTE = np.int64(1 << 32)
"""Weight of a vote in a standing: it outweighs every place, and of equal votes the earlier place is more."""


def standings(code: np.ndarray, answers: int, place: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Votes counted step by step: the standing of the answer just seen, the highest one, and whose it is, (R,) each.

    `code` (R, S): the answer of each step, NONE for none, below `answers`. `place` (R, S): that of the answer, which
    breaks ties, and is read at its first vote. A standing is 0 without an answer, the leader NONE before any. All
    that votes are counted for is made of these: what rules see, and means over orders. The second and the third are
    changed by the next step.
    """
    rows, steps = code.shape
    flat = np.arange(rows) * (answers + 1) + 1  # in front of each row's answers stands none
    every = np.zeros(rows * (answers + 1), np.int64)
    top, leader = np.zeros(rows, np.int64), np.full(rows, NONE, np.int64)
    for step in range(steps):
        answer = code[:, step]
        at = flat + answer
        now = every[at]
        now += np.where(now == 0, VOTE - place[:, step], VOTE)
        now[answer < 0] = 0
        every[at] = now
        wins = now > top
        leader[wins] = answer[wins]
        np.maximum(top, now, out=top)
        yield now, top, leader


def votes_of(standing: np.ndarray) -> np.ndarray:
    """The votes in a standing."""
    return -(-standing >> 32)


def running_best(code: np.ndarray, score: np.ndarray, place: np.ndarray, answers: int) -> Best:
    """Best scores after every step, overall and of the best other answer.

    `code` int (E, S) and `score` float (E, S): what each step reveals, NONE for a step without a
    verification; `place` int (E, S): its place in the order of generation, which breaks ties;
    `answers`: how many codes there are.
    """
    examples, steps = code.shape
    rows = np.arange(examples)
    per_answer = np.full((examples, max(answers, 1)), -np.inf)
    best, second = np.full(examples, -np.inf), np.full(examples, -np.inf)
    leader, best_place = (np.full(examples, NONE, dtype=np.int32) for _ in range(2))
    verified, distinct = (np.zeros(examples, dtype=np.int32) for _ in range(2))
    counts = {n: np.empty((examples, steps), dtype=np.int32) for n in ("verified", "verified_answers", "place")}
    scores = {n: np.empty((examples, steps)) for n in ("best_score", "lead")}
    for step in range(steps):
        valid = code[:, step] >= 0
        at = np.where(valid, code[:, step], 0)
        value = np.where(valid, score[:, step], -np.inf)
        before = per_answer[rows, at]
        distinct += valid & (before == -np.inf)
        verified += valid
        own = np.maximum(before, value)
        per_answer[rows[valid], at[valid]] = own[valid]
        takes = valid & ((value > best) | ((value == best) & (place[:, step] < best_place)))
        best_place = np.where(takes, place[:, step], best_place).astype(np.int32)
        same = at == leader
        higher = valid & ~same & (own > best)
        second = np.where(higher, best, np.where(valid & ~same, np.maximum(second, own), second))
        leader = np.where(higher, at, leader).astype(np.int32)
        best = np.where(valid, np.maximum(best, own), best)
        counts["verified"][:, step], counts["verified_answers"][:, step] = verified, distinct
        counts["place"][:, step] = best_place
        with np.errstate(invalid="ignore"):
            scores["lead"][:, step] = np.where(distinct > 1, best - second, np.nan)
        scores["best_score"][:, step] = np.where(verified > 0, best, np.nan)
    return Best(**counts, **scores)


def running_sums(code: np.ndarray, score: np.ndarray, place: np.ndarray, answers: int) -> np.ndarray:
    """Answer with the highest sum of scores after every step: its code (E, S), NONE before any.

    Sums are taken in the order of the steps, in float64; among equal sums the answer wins whose earliest
    verified trace (by `place` in the order of generation) comes first.
    """
    examples, steps = code.shape
    rows = np.arange(examples)
    sums = np.full((examples, max(answers, 1)), -np.inf)
    earliest = np.full((examples, max(answers, 1)), np.iinfo(np.int32).max, dtype=np.int32)
    winner = np.empty((examples, steps), dtype=np.int32)
    for step in range(steps):
        on = code[:, step] >= 0
        row, at = rows[on], code[on, step]
        before = sums[row, at]
        sums[row, at] = np.where(before == -np.inf, 0.0, before) + score[on, step]
        earliest[row, at] = np.minimum(earliest[row, at], place[on, step])
        top = sums.max(axis=1, keepdims=True)
        tied = np.where(sums == top, earliest, np.iinfo(np.int32).max)
        winner[:, step] = np.where(top[:, 0] == -np.inf, NONE, tied.argmin(axis=1))
    return winner


@dataclass(frozen=True)
class Revealed:
    """What the steps of a walk reveal, (E, S) each, and the running statistics that selects and stops are made of.

    `code`: the answer, NONE for none; `score`: the verifier's, NaN for none; `at`: the trace's place in the order of
    generation. `first_place` (E, A): where each answer first appears in that order. `verifies`: whether steps verify.
    `unscored`: what becomes of valid traces without a score.
    """

    code: np.ndarray
    score: np.ndarray
    at: np.ndarray
    first_place: np.ndarray
    answers: int
    verifies: bool
    unscored: Unscored = PARTIAL

    def shown(self, reads: frozenset[str]) -> Revealed:
        """The same with what is declared: without votes all valid answers are alike, without scores none is known."""
        made = self
        if VOTES not in reads:
            first = self.first_place.min(axis=1, keepdims=True)
            made = replace(made, code=alike(self.code), first_place=first, answers=min(self.answers, 1))
        return made if SCORES in reads else replace(made, score=np.full_like(self.score, np.nan), unscored=PARTIAL)

    def rows(self, examples: slice) -> Revealed:
        """What the steps of some examples reveal."""
        parts = {name: getattr(self, name)[examples] for name in ("code", "score", "at", "first_place")}
        return replace(self, **parts)

    def first(self, steps: int) -> Revealed:
        """What the first steps reveal; where other answers first appear is not known."""
        parts = {name: getattr(self, name)[:, :steps] for name in ("code", "score", "at")}
        row, step = np.nonzero(parts["code"] >= 0)
        place = np.full_like(self.first_place, np.iinfo(self.first_place.dtype).max)
        known = row, parts["code"][row, step]
        place[known] = self.first_place[known]
        return replace(self, **parts, first_place=place)

    @cached_property
    def verified_code(self) -> np.ndarray:
        """The answer that each step verifies, NONE for none."""
        return self.unscored.verified(self.code, self.score) if self.verifies else np.full_like(self.code, NONE)

    @cached_property
    def votes(self) -> Votes:
        """Running vote over what each step reveals."""
        return running_votes(self.code, self.first_place)

    @cached_property
    def best(self) -> Best:
        """Running best over what each step verifies."""
        return self.best_by(self.score)

    @cached_property
    def sums(self) -> np.ndarray:
        """Answer leading by sum of scores after each step (E, S)."""
        return running_sums(self.verified_code, self.score, self.at, self.answers)

    def best_by(self, score: np.ndarray) -> Best:
        """Running best by other scores (E, S), such as calibrated ones."""
        return running_best(self.verified_code, score, self.at, self.answers)
