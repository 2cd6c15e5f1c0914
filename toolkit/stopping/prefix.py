"""Prefix statistics: what a policy knows after each step of an order, for all examples at once.

One pass over the steps keeps a small state per example (votes and best score per answer) and writes the statistics of
every prefix. Whether and where a policy stops is decided afterwards, from these arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from toolkit.stopping.ties import TieRanks
from toolkit.stopping.unscored import PARTIAL, UnscoredTreatment

NONE = -1


VOTES, SCORES, FEATURES = "votes", "scores", "features"
"""What a rule may declare to read beside the counts that every rule sees."""

TRACE_SIGNALS: Mapping[str, str] = {
    name: name for name in ("sum_logprob", "completion_tokens", "prompt_tokens", "truncated")
} | {"finalizer_used": "finalizers"}
"""Signals of a single trace, each with its name in a pool of a block."""


class LazyArrays(Mapping[str, np.ndarray]):
    """Read-only arrays by name, each computed at its first use."""

    def __init__(self, names: Iterable[str] = (), make: Callable[[str], np.ndarray] = np.array) -> None:
        self._names, self._make = tuple(names), make
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = _read_only(self._make(name))
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def at_index(self, index: Any) -> LazyArrays:
        """The same arrays at an index, each taken at its first use."""
        return LazyArrays(self._names, lambda name: self[name][index])


class _Statistic:
    """A descriptor: an attribute of `Prefix` that reads one of its `statistics`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, seen: Prefix | None, owner: type) -> Any:
        return self if seen is None else seen.statistics[self._name]


@dataclass(frozen=True)
class Prefix:
    """What the traces revealed so far give after each step; arrays are (E, S), column s - 1 standing for step s.

    A step is a trace (generation order), verified at once if it is valid and the policy verifies, or a verification
    (other orders). Statistics of scores are zero, or NaN where said, for policies that do not verify. Statistics of
    every answer are (E, S, A), answers numbered from 0 in the order in which the steps reveal them. What no rule asks
    for is never made.
    """

    statistics: LazyArrays
    """Running statistics by name, those that are neither columns of a log nor for each answer."""
    features: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """Columns of `features`, of the trace that each step reveals; NaN where there is none."""
    examples: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """Columns of `examples`, (E,): numbers as float, NaN for null; texts as they are."""
    revealed: RevealedTraces | None = field(default=None, repr=False)
    signals: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """What is logged of the trace that each step reveals (E, S), by `TRACE_SIGNALS`; NaN where there is nothing."""
    by_code: bool = False
    """Whether answers are numbered by their codes, which is quicker, but may tell what comes later."""
    answer_matches: LazyArrays = field(default_factory=LazyArrays, repr=False)
    """Whether the answer of the trace that each step reveals is a text, bool (E, S), by the text."""
    _cache: dict[Hashable, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    traces = _Statistic()
    """Traces generated so far."""
    valid = _Statistic()
    """Valid traces generated so far."""
    answers = _Statistic()
    """Distinct valid answers so far."""
    votes = _Statistic()
    """Votes of the leading answer."""
    second_votes = _Statistic()
    """Votes of the second answer by votes; 0 when there is none."""
    run = _Statistic()
    """Length of the run of equal valid answers that ends here; 0 at an invalid trace."""
    verified = _Statistic()
    """Traces verified so far."""
    verified_answers = _Statistic()
    """Distinct answers of the traces verified so far."""
    best_score = _Statistic()
    """Highest score so far; NaN before any."""
    best_step = _Statistic()
    """Number of the step that revealed the highest score, of several the earliest generated trace's; 0 before any."""
    lead = _Statistic()
    """Best score minus the best score of any other answer; NaN while fewer than two answers are verified."""
    last_score = _Statistic()
    """Score revealed in this step; NaN when none was."""
    tokens = _Statistic()
    """Prompt, completion and verification tokens paid so far; NaN where some are not logged."""
    completion_tokens = _Statistic()
    """Completion tokens paid so far; NaN where some are not logged."""

    def rows(self, examples: slice) -> Prefix:
        """The statistics of some examples alone."""
        revealed = None if self.revealed is None else self.revealed.rows(examples)
        tables = self.statistics.at_index(examples), self.features.at_index(examples), self.examples.at_index(examples)
        columns = self.signals.at_index(examples), self.by_code, self.answer_matches.at_index(examples)
        return Prefix(*tables, revealed, *columns)

    def first(self, steps: int) -> Prefix:
        """The statistics of the first `steps` steps alone."""
        revealed = None if self.revealed is None else self.revealed.first_steps(steps)
        cut = slice(None), slice(steps)
        names = "statistics", "features", "signals", "answer_matches"
        tables = {name: getattr(self, name).at_index(cut) for name in names}
        return replace(self, **tables, revealed=revealed)

    def compute_once(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """A result that rules with the same key share, computed once."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @cached_property
    def by_answer_code(self) -> Prefix:
        """The prefix for a rule known not to look ahead, in which answers are numbered by their codes."""
        return replace(self, by_code=True)

    @cached_property
    def step(self) -> np.ndarray:
        """The number of each step, from 1."""
        steps = np.arange(1, self.traces.shape[1] + 1, dtype=np.int32)
        return np.broadcast_to(steps, self.traces.shape)

    @cached_property
    def answer(self) -> np.ndarray:
        """Number of the answer revealed in this step; -1 when there was none."""
        return _read_only(self._numbers.answer)

    @cached_property
    def leader(self) -> np.ndarray:
        """Number of the answer with most votes; -1 before any. Of several it is the one generated first, revealed or
        not, unless the policy's `tie` says otherwise.
        """
        return self._number_answers(self.revealed_walk.vote_counts.winner)

    @cached_property
    def best_answer(self) -> np.ndarray:
        """Number of the answer of the trace with the highest score; -1 before any."""
        at = np.take_along_axis(self.answer, np.maximum(self.best_step, 1) - 1, axis=1)
        return _read_only(np.where(self.best_step > 0, at, NONE))

    @cached_property
    def sum_leader(self) -> np.ndarray:
        """Number of the answer with the highest sum of scores; -1 before any. Of several it is the one with the
        verified trace that was generated first.
        """
        return self._number_answers(self.revealed_walk.highest_sum_answer)

    @cached_property
    def answer_places(self) -> np.ndarray:
        """The first place of every answer in the order of generation (E, A), which no rule is shown; NONE for a
        null that votes.
        """
        places = self.revealed_walk.answer_place
        return places if self.by_code else self._numbers.first_place_of_answers(places)

    @cached_property
    def answer_votes(self) -> np.ndarray:
        """Votes of every answer: int (E, S, A)."""
        return _read_only(np.cumsum(self._numbers.reveals_each_answer, axis=1, dtype=np.int32))

    @cached_property
    def score_sums(self) -> np.ndarray:
        """Sum of the scores of every answer (E, S, A); NaN before its first score."""
        return _read_only(self._verified_numbers.running_scores(np.add, self.revealed_walk.score, 0.0))

    @cached_property
    def best_scores(self) -> np.ndarray:
        """Highest score of every answer (E, S, A); NaN before its first score."""
        return _read_only(self._verified_numbers.running_scores(np.maximum, self.revealed_walk.score, -np.inf))

    @property
    def revealed_walk(self) -> RevealedTraces:
        """The revealed traces themselves, which rules may not read. Raises ValueError for a prefix without a walk."""
        if self.revealed is None:
            raise ValueError("statistics of every answer need a walk, which this `Prefix` does not have")
        return self.revealed

    def _number_answers(self, code: np.ndarray) -> np.ndarray:
        return _read_only(code if self.by_code else self._numbers.numbers_of_codes(code))

    @cached_property
    def _numbers(self) -> _AnswerNumbers:
        if self.by_code:
            first = self.revealed_walk.first_place
            return _AnswerNumbers(
                self.revealed_walk.voted_code, np.broadcast_to(np.arange(first.shape[1]), first.shape)
            )
        return _number_by_appearance(self.revealed_walk.voted_code)

    @cached_property
    def _verified_numbers(self) -> _AnswerNumbers:
        return self._numbers if self.revealed_walk.verifies else _number_by_appearance(self.revealed_walk.verified_code)


STATISTICS = tuple(name for name, value in vars(Prefix).items() if isinstance(value, _Statistic))


def prefix_of_one(**statistics: Sequence[float | None]) -> Prefix:
    """The prefix of one example from these statistics after each of S traces; None stands for NaN."""
    return Prefix(LazyArrays(statistics, lambda name: np.array([statistics[name]], dtype=np.float64)))


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def valid_or_none_codes(code: np.ndarray) -> np.ndarray:
    """Answer codes that only tell valid answers, 0, from none, NONE."""
    return np.where(code >= 0, 0, NONE).astype(code.dtype)


@dataclass(frozen=True)
class VoteCounts:
    """Vote counts (E, S) after each step, named as in `Prefix`, and the leading answer."""

    answers: np.ndarray
    votes: np.ndarray
    second_votes: np.ndarray
    run: np.ndarray
    winner: np.ndarray  # int (E, S): the winning answer's code, NONE before any vote


@dataclass(frozen=True)
class BestScores:
    """Statistics (E, S) of the best scores after each step, named as in `Prefix`."""

    verified: np.ndarray
    verified_answers: np.ndarray
    best_score: np.ndarray
    best_step: np.ndarray
    lead: np.ndarray


def _running_votes(code: np.ndarray, place: np.ndarray, answers: int) -> VoteCounts:
    """The vote counts after each step.

    `code` int (E, S): the answer revealed in each step, NONE for none, below `answers`. `place` int (E, S): what breaks
    ties, such as where that answer first appears in the order of generation.
    """
    examples, steps = code.shape
    second, distinct, run = (np.zeros(examples, dtype=np.int32) for _ in range(3))
    top, winner, last = np.zeros(examples, np.int64), np.full(examples, NONE, np.int64), np.zeros(examples, np.int32)
    out = {name: np.empty((examples, steps), dtype=np.int32) for name in VoteCounts.__dataclass_fields__}
    for step, (standing, best, leader) in enumerate(vote_standings(code, answers, place)):
        seen, count = code[:, step], _votes_of(standing)
        valid = count > 0
        distinct += count == 1
        behind = np.where(leader != winner, top, np.where(valid & (seen != leader), np.maximum(second, count), second))
        second = behind.astype(np.int32)
        top, winner = _votes_of(best), leader.copy()
        run = np.where(valid, np.where((seen == last) & (run > 0), run + 1, 1), 0)
        last = seen
        now: tuple[np.ndarray, ...] = (distinct, top, second, run, winner)
        for name, value in zip(out, now, strict=True):
            out[name][:, step] = value
    return VoteCounts(**out)


VOTE = np.int64(1 << 32)
"""The weight of a vote in a standing, above any place: the earlier place decides between equal votes alone."""
_PLACE = VOTE - 1


def vote_standings(
    code: np.ndarray, answers: int, place: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Count votes step by step: the standing of the answer just seen, the highest standing, and its answer, (R,) each.

    `code` (R, S): the answer of each step, NONE for none, below `answers`. `place` (R, S): what breaks ties, the lowest
    that the votes for an answer had. A standing is 0 without an answer, the leader NONE before any. All that votes are
    counted for is made of these: what rules see, and means over orders. The second and the third are changed by the
    next step.
    """
    rows, steps = code.shape
    flat = np.arange(rows) * (answers + 1) + 1  # in front of each row's answers stands none
    every = np.zeros(rows * (answers + 1), np.int64)
    top, leader = np.zeros(rows, np.int64), np.full(rows, NONE, np.int64)
    for step in range(steps):
        answer = code[:, step]
        at = flat + answer
        now = every[at]
        now += VOTE + np.where(now == 0, -place[:, step], np.maximum((-now & _PLACE) - place[:, step], 0))
        now[answer < 0] = 0
        every[at] = now
        wins = now > top
        leader[wins] = answer[wins]
        np.maximum(top, now, out=top)
        yield now, top, leader


def _votes_of(standing: np.ndarray) -> np.ndarray:
    return -(-standing >> 32)


def running_best(code: np.ndarray, score: np.ndarray, place: np.ndarray, answers: int) -> BestScores:
    """The best score after each step, overall and of the best other answer.

    `code` int (E, S) and `score` float (E, S): what each step reveals, NONE for a step without a verification; `place`
    int (E, S): its place in the order of generation, which breaks ties; `answers`: how many codes there are.
    """
    examples, steps = code.shape
    rows = np.arange(examples)
    per_answer = np.full((examples, max(answers, 1)), -np.inf)
    best, second = np.full(examples, -np.inf), np.full(examples, -np.inf)
    leader, best_place = (np.full(examples, NONE, dtype=np.int32) for _ in range(2))
    verified, distinct, best_step = (np.zeros(examples, dtype=np.int32) for _ in range(3))
    counts = {n: np.empty((examples, steps), dtype=np.int32) for n in ("verified", "verified_answers", "best_step")}
    scores = {n: np.empty((examples, steps)) for n in ("best_score", "lead")}
    for step in range(steps):
        valid = code[:, step] >= 0
        at = np.where(valid, code[:, step], 0)
        value = np.where(valid, score[:, step], -np.inf)
        before = per_answer[rows, at]
        distinct += valid & (before == -np.inf)
        verified += valid
        answer_best = np.maximum(before, value)
        per_answer[rows[valid], at[valid]] = answer_best[valid]
        takes = valid & ((value > best) | ((value == best) & (place[:, step] < best_place)))
        best_place = np.where(takes, place[:, step], best_place).astype(np.int32)
        best_step[takes] = step + 1
        same = at == leader
        higher = valid & ~same & (answer_best > best)
        second = np.where(higher, best, np.where(valid & ~same, np.maximum(second, answer_best), second))
        leader = np.where(higher, at, leader).astype(np.int32)
        best = np.where(valid, np.maximum(best, answer_best), best)
        counts["verified"][:, step], counts["verified_answers"][:, step] = verified, distinct
        counts["best_step"][:, step] = best_step
        with np.errstate(invalid="ignore"):
            scores["lead"][:, step] = np.where(distinct > 1, best - second, np.nan)
        scores["best_score"][:, step] = np.where(verified > 0, best, np.nan)
    return BestScores(**counts, **scores)


def running_sum_leaders(code: np.ndarray, score: np.ndarray, place: np.ndarray, answers: int) -> np.ndarray:
    """The answer with the highest sum of scores after each step: its code (E, S), NONE before any.

    Sums are taken in the order of the steps, in float64; among equal sums the answer wins whose verified traces have
    the lowest `place` (E, S), such as that in the order of generation. What has no score adds nothing.
    """
    examples, steps = code.shape
    rows = np.arange(examples)
    sums = np.full((examples, max(answers, 1)), -np.inf)
    earliest = np.full((examples, max(answers, 1)), np.iinfo(np.int32).max, dtype=np.int32)
    winner = np.empty((examples, steps), dtype=np.int32)
    for step in range(steps):
        on = (code[:, step] >= 0) & ~np.isnan(score[:, step])
        row, at = rows[on], code[on, step]
        before = sums[row, at]
        sums[row, at] = np.where(before == -np.inf, 0.0, before) + score[on, step]
        earliest[row, at] = np.minimum(earliest[row, at], place[on, step])
        top = sums.max(axis=1, keepdims=True)
        tied = np.where(sums == top, earliest, np.iinfo(np.int32).max)
        winner[:, step] = np.where(top[:, 0] == -np.inf, NONE, tied.argmin(axis=1))
    return winner


@dataclass(frozen=True)
class RevealedTraces:
    """The traces that the steps of a walk reveal, (E, S) each, from which selects and stops have their statistics.

    `code`: the answer, NONE for none; `score`: the verifier's, NaN for none; `at`: the trace's place in the order of
    generation. `first_place` (E, A): where each answer first appears in that order. `verifies`: whether steps verify.
    `unscored`: what becomes of valid traces without a score. `nulls` bool: where a trace without an answer votes for
    none, which is then one more answer, with the last code. `ranks`: what breaks ties; None: the order of generation.
    """

    code: np.ndarray
    score: np.ndarray
    at: np.ndarray
    first_place: np.ndarray
    answers: int
    verifies: bool
    unscored: UnscoredTreatment = PARTIAL
    nulls: np.ndarray | None = None
    ranks: TieRanks | None = None

    def rows(self, examples: slice) -> RevealedTraces:
        """The traces revealed on some examples."""
        parts = {name: getattr(self, name)[examples] for name in ("code", "score", "at", "first_place")}
        nulls = None if self.nulls is None else self.nulls[examples]
        return replace(self, **parts, nulls=nulls, ranks=None if self.ranks is None else self.ranks.rows(examples))

    def first_steps(self, steps: int) -> RevealedTraces:
        """The traces that the first `steps` steps reveal; where later answers first appear is unknown."""
        parts = {name: getattr(self, name)[:, :steps] for name in ("code", "score", "at")}
        voted = self.voted_code[:, :steps]
        row, step = np.nonzero(voted >= 0)
        place = np.full_like(self.first_place, np.iinfo(self.first_place.dtype).max)
        known = row, voted[row, step]
        place[known] = self.first_place[known]
        nulls = None if self.nulls is None else self.nulls[:, :steps]
        ranks = None if self.ranks is None else self.ranks.first_steps(steps)
        return replace(self, **parts, first_place=place, nulls=nulls, ranks=ranks)

    @cached_property
    def voted_code(self) -> np.ndarray:
        """The answer code that each step votes for; NONE where it does not vote."""
        return self.code if self.nulls is None else np.where(self.nulls, self.answers, self.code).astype(np.int32)

    @cached_property
    def answer_place(self) -> np.ndarray:
        """The place at which each answer first appears (E, A); NONE for a null, which is no trace's answer."""
        if self.nulls is None:
            return self.first_place
        return np.insert(self.first_place[:, :-1], self.answers, NONE, axis=1)

    def _break_ties(self, count: Callable[[np.ndarray], np.ndarray], earliest: np.ndarray) -> np.ndarray:
        """The winning answers (E, S) of a count with ties broken; `earliest` (E, S): those by order of generation."""
        return count(earliest) if self.ranks is None else self.ranks.winning_answers(count, self.voted_code)

    @cached_property
    def verified_code(self) -> np.ndarray:
        """The code of the answer that each step verifies; NONE where it verifies none."""
        return self.unscored.verified_codes(self.code, self.score) if self.verifies else np.full_like(self.code, NONE)

    @cached_property
    def vote_counts(self) -> VoteCounts:
        answers = self.first_place.shape[1]
        earliest = np.take_along_axis(self.first_place, np.maximum(self.voted_code, 0), axis=1)
        votes = _running_votes(self.voted_code, earliest, answers)
        if self.ranks is None:
            return votes
        winner = self._break_ties(lambda rank: _running_votes(self.voted_code, rank, answers).winner, earliest)
        return replace(votes, winner=winner)

    @cached_property
    def best_scores(self) -> BestScores:
        return self.best_scores_by(self.score)

    @cached_property
    def highest_sum_answer(self) -> np.ndarray:
        """The answer with the highest sum of scores after each step (E, S)."""
        code, score, answers = self.verified_code, self.score, self.answers
        return self._break_ties(lambda rank: running_sum_leaders(code, score, rank, answers), self.at)

    def best_scores_by(self, score: np.ndarray) -> BestScores:
        """The running best by other scores (E, S), such as calibrated ones."""
        return running_best(self.verified_code, score, self.at, self.answers)


@dataclass(frozen=True)
class _AnswerNumbers:
    """Numbers of answers by first appearance: `answer` int (E, S) of each step's, `number` int (E, C) of each code;
    NONE for none.
    """

    answer: np.ndarray
    number: np.ndarray

    @property
    def count_answers(self) -> int:
        """How many answers are numbered at most; 1 where there is no answer."""
        return max(int(self.number.max(initial=NONE)) + 1, 1)

    @property
    def reveals_each_answer(self) -> np.ndarray:
        """Whether each step reveals each numbered answer: bool (E, S, A)."""
        return self.answer[..., None] == np.arange(self.count_answers, dtype=self.answer.dtype)

    def running_scores(self, join: np.ufunc, score: np.ndarray, start: float) -> np.ndarray:
        """The scores (E, S) of each answer joined by `join` from step to step: (E, S, A), NaN before the first."""
        on = self.reveals_each_answer & ~np.isnan(score)[..., None]
        total = join.accumulate(np.where(on, score[..., None], start), axis=1)
        return np.where(np.logical_or.accumulate(on, axis=1), total, np.nan)

    def numbers_of_codes(self, code: np.ndarray) -> np.ndarray:
        """The numbers of answer codes (E, S)."""
        numbers = np.take_along_axis(self.number, np.maximum(code, 0), axis=1)
        return np.where(code >= 0, numbers, NONE).astype(np.int32)

    def first_place_of_answers(self, first_place: np.ndarray) -> np.ndarray:
        """The place (E, A) at which each numbered answer first appears, from the places of codes (E, C)."""
        by_number = np.full((len(self.number), self.count_answers), NONE, dtype=np.int32)
        row, code = np.nonzero(self.number >= 0)
        by_number[row, self.number[row, code]] = first_place[row, code]
        return by_number


def first_places(code: np.ndarray, answers: int) -> np.ndarray:
    """Place (E, A) at which each answer first appears in `code` (E, S): int32, the largest where it does not."""
    first = np.full((len(code), max(answers, 1)), np.iinfo(np.int32).max, dtype=np.int32)
    for step in range(code.shape[1] - 1, -1, -1):
        on = np.flatnonzero(code[:, step] >= 0)
        first[on, code[on, step]] = step
    return first


def _number_by_appearance(code: np.ndarray) -> _AnswerNumbers:
    """Answer codes (E, S), numbered in the order in which they first appear."""
    first = first_places(code, int(code.max(initial=0)) + 1)
    row, known = np.nonzero(first < code.shape[1])
    fresh = np.zeros(code.shape, dtype=np.int32)
    fresh[row, first[row, known]] = 1
    number = np.full(first.shape, NONE, dtype=np.int32)
    number[row, known] = np.cumsum(fresh, axis=1, dtype=np.int32)[row, first[row, known]] - 1
    answer = np.where(code >= 0, np.take_along_axis(number, np.maximum(code, 0), axis=1), NONE)
    return _AnswerNumbers(answer, number)
