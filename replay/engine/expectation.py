"""Exact means over all orders of a pool: of what its first k traces give, and of verifying k of its traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.data.block import LoggedPool, correctness_unless_null
from replay.engine import outcome as ends
from replay.engine.calls import CallSegment, RandomDraw, random_calls
from replay.engine.costs import AT, CallKey, ScoreCalls, TraceCalls, mean_surplus_over_orders
from replay.engine.cuts import StopConditions, abandoned_traces, makes_listwise_call, partial_reason_numbers
from replay.engine.outcome import Outcome
from replay.engine.trajectory import Trajectory, listwise_costs
from replay.sampling.orders import by_falling_score
from replay.sampling.over_orders import ROUNDING, DrawnTraces, highest_value_probability
from replay.sampling.selects import Select


def expected_outcome(
    trajectory: Trajectory, verifications: int, how: StopConditions, reasons: tuple[str, ...]
) -> Outcome:
    """The exact mean over all choices of `verifications` traces to verify, when the whole walk is generated."""
    never_called = np.zeros(len(trajectory.steps.limit), dtype=bool)
    pool, example = trajectory.pool, np.arange(len(trajectory.steps.limit))
    sample, probability = winner_probabilities(trajectory, verifications)
    valid = _count_valid_traces(trajectory)
    verified = np.minimum(verifications, valid)
    return Outcome(
        reason=partial_reason_numbers(trajectory, how, trajectory.steps.limit, never_called),
        reasons=reasons,
        costs=_expected_costs(trajectory, verified, valid),
        correct=correctness_unless_null(_mean_over_winners(probability, pool.judged, sample, example), valid > 0),
        credit=_mean_over_winners(probability, pool.credit, sample, example),
        words=np.where(probability > 0, pool.word[example[:, None], sample], -1).T,
        shares=probability.T,
        rows=np.maximum((probability > 0).sum(axis=1), 1),
        ending=np.where(
            valid >= verifications,
            ends.RULE,
            np.where(trajectory.n_generated < trajectory.walk.cap, ends.EXHAUSTED, ends.CAP),
        ).astype(np.int8),
        runs=((trajectory.walk, trajectory.steps.limit),),
        random_subset=True,
    )


def drawn_traces(trajectory: Trajectory, cap: int) -> DrawnTraces:
    """The traces of a whole pool, generated in order, of which at most `cap` are drawn."""
    revealed, size = trajectory.revealed, trajectory.pool.size
    verified = trajectory.walk.unscored.verified_codes(revealed.code, revealed.score) >= 0
    return DrawnTraces(
        revealed.code, verified, revealed.score, size, np.minimum(size, cap), revealed.nulls, revealed.ranks
    )


def mean_over_orders(trajectory: Trajectory, select: Select, how: StopConditions, reasons: tuple[str, ...]) -> Outcome:
    """The exact mean outcome over all orders of a pool of what a policy's first traces give and cost."""
    if select.over_orders is None:
        raise ValueError(f"select `{select.name}` has no exact mean over all orders")
    pool, traces = trajectory.pool, drawn_traces(trajectory, how.cap)
    chance = select.over_orders(traces)
    nothing = traces.spread_null_probability(chance)
    example, size = np.arange(len(pool.size)), np.maximum(pool.size, 1)
    called = makes_listwise_call(trajectory, how)
    costs = trajectory.costs[example, trajectory.steps.limit] * traces.drawn[:, None] / size[:, None]
    costs += listwise_costs(trajectory) * called[:, None] + mean_surplus_over_orders(pool, traces.drawn)
    reason = partial_reason_numbers(trajectory, how, trajectory.steps.limit, called)
    outcome = outcome_of_random_choice(pool, chance, nothing, costs, reason, reasons)
    ending = np.where(pool.size < how.cap, ends.EXHAUSTED, ends.CAP).astype(np.int8)
    return replace(outcome, ending=ending, runs=((trajectory.walk, trajectory.steps.limit),))


def outcome_of_random_choice(
    pool: LoggedPool, chance: np.ndarray, nothing: np.ndarray, costs: np.ndarray, reason: np.ndarray,
    reasons: tuple[str, ...],
) -> Outcome:  # fmt: skip
    """Outcome of choosing each trace of a pool with its answer with probability `chance` (E, T), and for a null
    prediction with probability `nothing` (E, T).
    """
    example = np.arange(len(pool.size))
    shares = np.zeros((pool.vocabulary_number_of_code.shape[1] + 1, len(example)))
    np.add.at(shares, (pool.code, example[:, None]), chance)
    shares[-1] += nothing.sum(axis=1)
    unpredicted = correctness_unless_null(pool.judged, np.zeros_like(pool.code, dtype=bool))
    values = np.concatenate([pool.judged, unpredicted], axis=1)
    return Outcome(
        reason=reason,
        reasons=reasons,
        costs=costs,
        correct=_weighted_mean(np.concatenate([chance, nothing], axis=1), values),
        credit=_weighted_mean(chance + nothing, pool.credit),
        words=np.concatenate(
            [pool.vocabulary_number_of_code, np.full((len(example), 1), -1, dtype=np.int32)], axis=1
        ).T,
        shares=shares,
        rows=np.maximum((shares > 0).sum(axis=0), 1),
        ending=np.full(len(example), ends.CAP, dtype=np.int8),
    )


def _weighted_mean(chance: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean (E,) of values (E, T) by the chance of each; a mean that is 0 or 1 but for rounding becomes exactly that."""
    mean = np.where(chance > 0, chance * values, 0.0).sum(axis=1)
    return np.where(np.abs(mean - np.rint(mean)) < ROUNDING, np.rint(mean), mean)


def paid_calls_over_orders(trajectory: Trajectory, how: StopConditions) -> CallSegment:
    """The calls of the traces that are drawn at random from the pool, each trace as likely as the others."""
    walk, traces = trajectory.walk, drawn_traces(trajectory, how.cap)
    draw = RandomDraw(traces.has_trace, traces.drawn)
    masks: dict[CallKey, np.ndarray] = {TraceCalls(walk.pool): traces.has_trace}
    if walk.abandon is not None and walk.abandoned_slice is not None and trajectory.abandonment is not None:
        masks = abandoned_traces(
            walk.pool, walk.abandoned_slice, walk.abandon.verifier, trajectory.abandonment, traces.has_trace
        )
    if walk.verifier is not None and trajectory.scores is not None:
        together = ~np.isnan(trajectory.scores.score) & makes_listwise_call(trajectory, how)[:, None]
        masks[ScoreCalls(walk.pool, walk.verifier)] = np.where(trajectory.listwise[:, None], together, traces.verified)
    return CallSegment({key: random_calls(among, draw) for key, among in masks.items()})


def winner_probabilities(trajectory: Trajectory, verifications: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample indices by falling score (E, T), and the probability (E, T) that each has the best score among those
    verified.

    Of equal scores the earliest wins, so by rank no two are equal.
    """
    ranked, valid = by_falling_score(trajectory.revealed.verified_code, trajectory.revealed.score)
    place = np.broadcast_to(np.arange(ranked.shape[1]), ranked.shape)
    chance = highest_value_probability(-place, place < valid[:, None], valid, np.minimum(verifications, valid))
    return np.take_along_axis(trajectory.place, ranked, axis=1), chance


def _count_valid_traces(trajectory: Trajectory) -> np.ndarray:
    """Counts the valid traces of each example, (E,): verifying more of them is impossible."""
    return np.asarray((trajectory.revealed.verified_code >= 0).sum(axis=1))


def _expected_costs(trajectory: Trajectory, verified: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Costs (E, C) when all generated traces are paid, and each verification with probability verified / valid."""
    limit = trajectory.steps.limit
    example = np.arange(len(limit))
    paid = trajectory.costs[example, limit]
    share = np.where(valid > 0, verified / np.maximum(valid, 1), 0.0)
    plain = trajectory.generation[example, np.maximum(limit, 1) - 1]
    plain = np.where((limit > 0)[:, None], plain, 0.0)
    expected = plain + (paid - plain) * share[:, None]
    expected[:, AT["verifications"]] = plain[:, AT["verifications"]] + verified
    return expected


def _mean_over_winners(
    probability: np.ndarray, values: np.ndarray, sample: np.ndarray, example: np.ndarray
) -> np.ndarray:
    """Mean (E,) of `values` over the traces that may win; where none may, the value of the first trace."""
    won = values[example[:, None], sample]
    mean = np.where(probability > 0, probability * won, 0.0).sum(axis=1)
    return np.where(probability.any(axis=1), mean, values[example, sample[:, 0]])
