"""A trajectory: what an order reveals and costs, step by step, whenever a policy may stop.

What a policy looks at does not depend on when it stops, so each order is walked once per block. A stopping
time is then the first true step of a rule, and an outcome a gather at that step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replay import prefix, selects
from replay.fits import Calibration
from replay.orders import random_keys, random_permutation, verification_order
from replay.pool import Block, Pool, Scores
from replay.prefix import Prefix
from replay.stops import Threshold
from replay.surrogate import Picks, Surrogate, pick
from toolkit.errors import ThinkbackError

COSTS = (
    "traces",
    "valid_traces",
    "finalizers",
    "truncated",
    "prompt_tokens",
    "completion_tokens",
    "generation_s",
    "latency_s",
    "device_s",
    "verifications",
    "verification_tokens",
    "verification_s",
    "price",
)
_AT = {name: i for i, name in enumerate(COSTS)}
NEVER_MISSING = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Walk:
    """How a pool is walked: everything about a policy that shapes its trajectory, and nothing that cuts it."""

    pool: str
    verifier: str | None
    order: str
    seed: int
    repetition: int
    permuted: bool
    cap: int  # traces generated: at most this many
    width: int
    surrogate: Surrogate | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Results:
    """The chosen trace's judgement and the predicted answer's code (-1: null) after each step, (E, S + 1)."""

    judged: np.ndarray
    credit: np.ndarray
    code: np.ndarray


def judged_unless_null(judged: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """A null prediction is wrong, whatever is measured of its trace; unjudged (NaN) where the example is."""
    return np.where(predicted | np.isnan(judged), judged, 0.0)


@dataclass(frozen=True)
class Trajectory:
    """One walk over one block. Steps are traces (generation order) or verifications (other orders).

    `place` int (E, T): the sample index at each place of the order of generation. `generated` (E,): traces
    that the cap allows and the log has. `limit` (E,): the last step. `costs` (E, S + 1, C): cumulative,
    NaN where not logged. `missing` (E,): the first step whose verification the log lacks.
    """

    walk: Walk
    pool: Pool
    place: np.ndarray
    generated: np.ndarray
    limit: np.ndarray
    costs: np.ndarray
    generation: np.ndarray  # (E, S, C) cumulative costs of generation alone, by place
    missing: np.ndarray
    code: np.ndarray  # (E, S) answer revealed by each step, -1: none
    score: np.ndarray  # (E, S) score revealed by each step, NaN: none
    at: np.ndarray  # (E, S) place in the order of generation of the trace that each step reveals
    first_place: np.ndarray  # (E, A) place at which each answer first appears among those generated
    listwise: np.ndarray  # (E,) verified in one call by a listwise verifier
    picks: Picks | None = None

    @property
    def ran_empty(self) -> np.ndarray:
        """Examples (E,) on which the lazy surrogate, unless a rule stops it, runs out of traces before its cap."""
        if self.picks is None:
            return np.zeros(len(self.limit), dtype=bool)
        return self.picks.final < self.generated

    @property
    def scores(self) -> Scores | None:
        """The walk's verifier on its pool."""
        return self.pool.scores[self.walk.verifier] if self.walk.verifier is not None else None

    @cached_property
    def votes(self) -> prefix.Votes:
        """Running vote over what each step reveals."""
        return prefix.running_votes(self.code, self.first_place)

    @cached_property
    def best(self) -> prefix.Best:
        """Running best over what each step verifies."""
        code = self.code if self.scores is not None else np.full_like(self.code, -1)
        return prefix.running_best(code, self.score, self.at, self.pool.answers)

    @cached_property
    def sums(self) -> np.ndarray:
        """Answer leading by sum of scores after each step (E, S)."""
        return prefix.running_sums(self.code, self.score, self.at, self.pool.answers)

    @cached_property
    def prefix(self) -> Prefix:
        """The statistics that a stopping rule may read."""
        votes, best, paid = self.votes, self.best, self.costs[:, 1:]
        prompt, completion, checks = (_AT[c] for c in ("prompt_tokens", "completion_tokens", "verification_tokens"))
        return Prefix(
            traces=_counts(paid[..., _AT["traces"]]),
            valid=_counts(paid[..., _AT["valid_traces"]]),
            answers=votes.answers,
            votes=votes.votes,
            second_votes=votes.second_votes,
            run=votes.run,
            verified=best.verified,
            verified_answers=best.verified_answers,
            best_score=best.best_score,
            lead=self._lead,
            last_score=self.score,
            tokens=paid[..., prompt] + paid[..., completion] + paid[..., checks],
        )

    @property
    def _lead(self) -> np.ndarray:
        """Best score minus the best of any other answer (E, S), of calibrated scores where the walk has them."""
        if self.walk.calibration is None:
            return self.best.lead
        score = self.walk.calibration.apply(self.score)
        return prefix.running_best(self.code, score, self.at, self.pool.answers).lead

    def chosen(self, select: str) -> np.ndarray:
        """Place of the chosen trace at each step, 0 to S: int32 (E, S + 1); -1 where nothing is predicted."""
        if select not in self._chosen:
            self._chosen[select] = selects.SELECTS[select](self)
        return self._chosen[select]

    def highest(self, rule: Threshold) -> np.ndarray:
        """Running maximum of a threshold rule's statistic: float (S, E), so that steps add up fast."""
        if rule.family not in self._highest:
            self._highest[rule.family] = np.maximum.accumulate(rule.strength(self.prefix).T, axis=0)
        return self._highest[rule.family]

    def results(self, select: str) -> Results:
        """What each select rule would have given had the walk ended at step 0, 1, ... S."""
        if select not in self._results:
            chosen = self.chosen(select)
            sample = np.take_along_axis(self.place, np.maximum(chosen, 0), axis=1)
            self._results[select] = Results(
                judged=judged_unless_null(np.take_along_axis(self.pool.judged, sample, axis=1), chosen >= 0),
                credit=np.take_along_axis(self.pool.credit, sample, axis=1),
                code=np.where(chosen >= 0, np.take_along_axis(self.pool.code, sample, axis=1), -1),
            )
        return self._results[select]

    @cached_property
    def _chosen(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _highest(self) -> dict[Hashable, np.ndarray]:
        return {}

    @cached_property
    def _results(self) -> dict[str, Results]:
        return {}


def _counts(values: np.ndarray) -> np.ndarray:
    """Float counts as int32; the padding beyond a pool's end, NaN, as 0."""
    return np.nan_to_num(values).astype(np.int32)


def walk_block(block: Block, walk: Walk) -> Trajectory:
    """Walk one pool of a block."""
    pool = block.pools[walk.pool]
    scores = pool.scores[walk.verifier] if walk.verifier is not None else None
    keys = None
    if walk.permuted or walk.order == "random":
        keys = random_keys(block.hashes, walk.seed, walk.repetition, pool.code.shape[1])
    place = _generation_places(pool, keys if walk.permuted else None, walk.cap)
    generated = np.minimum(pool.size, walk.cap)
    there = np.arange(place.shape[1]) < generated[:, None]
    code = np.where(there, np.take_along_axis(pool.code, place, axis=1), -1)
    score = np.full(code.shape, np.nan)
    if scores is not None:
        score = np.where(code >= 0, np.take_along_axis(scores.score, place, axis=1), np.nan)
    generation = _generation_costs(pool, place, there, walk.width)
    first_place = _first_places(code, pool.answers)
    listwise = scores.listwise if scores is not None else np.zeros(len(generated), dtype=bool)
    if walk.surrogate is not None:
        return _surrogate_walk(walk, pool, place, generated, code, score, generation, first_place, listwise)
    if walk.order == "generation":
        at = np.broadcast_to(np.arange(code.shape[1], dtype=np.int32), code.shape)
        limit, costs, start = generated, generation, None
    else:
        order_keys = None if keys is None else np.take_along_axis(keys, place, axis=1)
        at, limit = verification_order(walk.order, code >= 0, order_keys, score)
        code, score = np.take_along_axis(code, at, axis=1), np.take_along_axis(score, at, axis=1)
        start = generation[np.arange(len(generated)), generated - (generated > 0)]
        start = np.where((generated > 0)[:, None], start, 0.0)
        costs = np.zeros_like(generation)
    if scores is not None:
        costs = costs + _verification_costs(scores, np.take_along_axis(place, at, axis=1), code >= 0, listwise)
    costs = np.concatenate([np.zeros_like(costs[:, :1]), costs], axis=1)
    if start is not None:
        costs += start[:, None]
    return Trajectory(
        walk=walk, pool=pool, place=place, generated=generated, limit=limit, costs=costs,
        generation=generation, missing=_first_missing(code, score, scores), code=code, score=score, at=at,
        first_place=first_place, listwise=listwise,
    )  # fmt: skip


def _surrogate_walk(
    walk: Walk, pool: Pool, place: np.ndarray, generated: np.ndarray, code: np.ndarray, score: np.ndarray,
    generation: np.ndarray, first_place: np.ndarray, listwise: np.ndarray,
) -> Trajectory:  # fmt: skip
    """A walk whose verifications a surrogate picks.

    In the mode `lazy` a last step follows in which nothing is verified: it stands for ending without a rule, when one
    more trace may have been generated.
    """
    settings, scores = walk.surrogate, pool.scores[str(walk.verifier)]
    if settings is None:
        raise ThinkbackError(f"pool `{pool.name}` is walked without a surrogate")
    picks = pick(code, score, gather_features(pool, settings.features, place), generated, settings)
    steps = np.arange(picks.at.shape[1])
    verified = steps < picks.count[:, None]
    code = np.where(verified, np.take_along_axis(code, picks.at, axis=1), -1)
    score = np.where(verified, np.take_along_axis(score, picks.at, axis=1), np.nan)
    before = np.concatenate([np.zeros_like(generation[:, :1]), generation], axis=1)
    costs = np.take_along_axis(before, picks.generated[..., None], axis=1)
    paid = _verification_costs(scores, np.take_along_axis(place, picks.at, axis=1), code >= 0, listwise)
    costs[:, 1:] += paid
    missing = np.minimum(_first_missing(code, score, scores), picks.unread)
    return Trajectory(
        walk=walk, pool=pool, place=place, generated=generated,
        limit=picks.count + (1 if settings.mode == "lazy" else 0), costs=costs, generation=generation,
        missing=missing, code=code, score=score, at=picks.at, first_place=first_place, listwise=listwise, picks=picks,
    )  # fmt: skip


def gather_features(pool: Pool, names: tuple[str, ...], place: np.ndarray) -> np.ndarray:
    """Features (F, E, T) in the order of generation."""
    if not names:
        return np.zeros((0, *place.shape))
    return np.stack([np.take_along_axis(pool.features[name], place, axis=1) for name in names])


def _generation_places(pool: Pool, keys: np.ndarray | None, cap: int) -> np.ndarray:
    """Sample index at each place of the order of generation: int32 (E, min(cap, T))."""
    steps = min(cap, pool.code.shape[1])
    if keys is None:
        return np.broadcast_to(np.arange(steps, dtype=np.int32), (len(pool.size), steps))
    return random_permutation(keys, pool.size)[:, :steps]


def _generation_costs(pool: Pool, place: np.ndarray, there: np.ndarray, width: int) -> np.ndarray:
    """Cumulative costs of generating (E, S, C), the verification columns zero."""
    costs = np.zeros((*place.shape, len(COSTS)))
    costs[..., _AT["traces"]] = np.arange(1, place.shape[1] + 1)
    valid = there & (np.take_along_axis(pool.code, place, axis=1) >= 0)
    costs[..., _AT["valid_traces"]] = np.cumsum(valid, axis=1)
    for name, values in pool.costs.items():
        column = _AT["generation_s" if name == "latency_s" else name]
        costs[..., column] = np.cumsum(np.take_along_axis(values, place, axis=1), axis=1)
    seconds = np.take_along_axis(pool.costs["latency_s"], place, axis=1)
    costs[..., _AT["latency_s"]] = _elapsed(seconds, width)
    return costs


def _elapsed(seconds: np.ndarray, width: int) -> np.ndarray:
    """Seconds until each trace's block is done, `width` at a time and each block as long as its slowest."""
    if width == 1:
        return np.cumsum(seconds, axis=1)
    elapsed = np.empty_like(seconds)
    before = np.zeros(len(seconds))
    for start in range(0, seconds.shape[1], width):
        block = np.maximum.accumulate(seconds[:, start : start + width], axis=1) + before[:, None]
        elapsed[:, start : start + width] = block
        before = block[:, -1]
    return elapsed


def _verification_costs(scores: Scores, place: np.ndarray, verified: np.ndarray, listwise: np.ndarray) -> np.ndarray:
    """Cumulative costs of verifying (E, S, C). A listwise verifier's are charged at the end, not by step."""
    costs = np.zeros((*place.shape, len(COSTS)))
    on = verified & ~listwise[:, None]
    costs[..., _AT["verifications"]] = np.cumsum(on, axis=1)
    for name, columns in _CHARGED.items():
        if name in scores.costs:
            paid = np.cumsum(np.where(on, np.take_along_axis(scores.costs[name], place, axis=1), 0.0), axis=1)
            for column in columns:
                costs[..., _AT[column]] = paid
    return costs


_CHARGED = {
    "verification_tokens": ("verification_tokens",),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
    "price": ("price",),
}


def listwise_costs(trajectory: Trajectory) -> np.ndarray:
    """Costs (E, C) of the one call of a listwise verifier, zero for the other examples."""
    costs = np.zeros((len(trajectory.limit), len(COSTS)))
    scores, on = trajectory.scores, trajectory.listwise
    if scores is None or not on.any():
        return costs
    costs[on, _AT["verifications"]] = 1
    for name, columns in _CHARGED.items():
        if name in scores.costs:
            for column in columns:
                costs[on, _AT[column]] = scores.costs[name][on].sum(axis=1)
    return costs


def listwise_fits(trajectory: Trajectory, count: np.ndarray) -> np.ndarray:
    """Examples (E,) whose listwise call saw exactly the first `count` traces, or exactly the valid ones of them."""
    scores, pool = trajectory.scores, trajectory.pool
    if scores is None:
        return np.ones(len(trajectory.limit), dtype=bool)
    scored = ~np.isnan(scores.score)
    generated = np.zeros(scored.shape, dtype=bool)
    there = np.arange(trajectory.place.shape[1]) < count[:, None]
    np.put_along_axis(generated, trajectory.place, there, axis=1)
    valid = generated & (pool.code >= 0)
    exact = (scored == generated).all(axis=1) | (scored == valid).all(axis=1)
    counted = (~scored | (scores.candidates == scored.sum(axis=1, keepdims=True))).all(axis=1)
    return exact & counted


def _first_places(code: np.ndarray, answers: int) -> np.ndarray:
    """Place at which each answer first appears in the order of generation: int32 (E, A)."""
    first = np.full((len(code), max(answers, 1)), np.iinfo(np.int32).max, dtype=np.int32)
    for step in range(code.shape[1] - 1, -1, -1):
        on = np.flatnonzero(code[:, step] >= 0)
        first[on, code[on, step]] = step
    return first


def _first_missing(code: np.ndarray, score: np.ndarray, scores: Scores | None) -> np.ndarray:
    """First step (from 1) whose verification the log lacks; NEVER_MISSING where it has all."""
    if scores is None:
        return np.full(len(code), NEVER_MISSING, dtype=np.int32)
    lacks: np.ndarray = (code >= 0) & np.isnan(score)
    return np.where(lacks.any(axis=1), lacks.argmax(axis=1) + 1, NEVER_MISSING).astype(np.int32)
