"""Exact means: of verifying k traces in random order and taking the best, over all orders; of one sample."""

from __future__ import annotations

from math import comb

import numpy as np

from replay.data.block import LoggedPool, judged_unless_null
from replay.engine import outcome as ends
from replay.engine.costs import AT, COSTS, GENERATED, charged
from replay.engine.cuts import UNCHECKED, UNCOUNTED, Cut, why_partial
from replay.engine.outcome import Outcome
from replay.engine.trajectory import Trajectory
from replay.sampling.orders import by_falling_score


def winner_probabilities(verified: np.ndarray, valid: np.ndarray, steps: int) -> np.ndarray:
    """Probability that the r-th best of `valid` traces wins when a random `verified` of them are seen: (E, steps).

    C(valid - 1 - r, verified - 1) / C(valid, verified), each rounded once from the exact value.
    """
    pairs, number = np.unique(np.stack([verified, valid], axis=1), axis=0, return_inverse=True)
    return np.array([_probabilities(int(k), int(n), steps) for k, n in pairs])[number.reshape(-1)]


def _probabilities(k: int, n: int, steps: int) -> list[float]:
    if k == 0:
        return [0.0] * steps
    ways = comb(n, k)
    return [comb(n - 1 - r, k - 1) / ways if r < n else 0.0 for r in range(steps)]


def expected_outcome(trajectory: Trajectory, verifications: int, how: Cut, reasons: tuple[str, ...]) -> Outcome:
    """Mean over all orders of verifying so many traces at random, from the walk in order of generation."""
    never_called = np.zeros(len(trajectory.steps.limit), dtype=bool)
    pool, example = trajectory.pool, np.arange(len(trajectory.steps.limit))
    sample, probability = possible_winners(trajectory, verifications)
    valid = _valid(trajectory)
    verified = np.minimum(verifications, valid)
    return Outcome(
        reason=why_partial(trajectory, how, trajectory.steps.limit, never_called),
        reasons=reasons,
        costs=_expected_costs(trajectory, verified, valid),
        correct=judged_unless_null(_mean(probability, pool.judged, sample, example), valid > 0),
        credit=_mean(probability, pool.credit, sample, example),
        words=np.where(probability > 0, pool.word[example[:, None], sample], -1).T,
        shares=probability.T,
        rows=np.maximum((probability > 0).sum(axis=1), 1),
        ending=np.where(
            valid >= verifications,
            ends.RULE,
            np.where(trajectory.generated < trajectory.walk.cap, ends.EXHAUSTED, ends.CAP),
        ).astype(np.int8),
        runs=((trajectory.walk, trajectory.steps.limit),),
        random_subset=True,
    )


def mean_of_one(trajectory: Trajectory, how: Cut, reasons: tuple[str, ...]) -> Outcome:
    """Mean over all traces of the pool, each as the only one, from the walk of one trace."""
    pool, abandonment = trajectory.pool, trajectory.fates
    size = np.maximum(pool.size, 1)
    costs = np.zeros((len(size), len(COSTS)))
    costs[:, AT["traces"]] = pool.size > 0
    costs[:, AT["valid_traces"]] = (pool.code >= 0).sum(axis=1) / size
    for name, values in pool.costs.items():
        for column in {name, GENERATED.get(name, name)}:
            costs[:, AT[column]] = _mean_there(pool, values)
    reason = why_partial(trajectory, how, trajectory.steps.limit, None)
    if abandonment is not None and trajectory.walk.abandon is not None:
        checks = pool.scores[trajectory.walk.abandon.verifier]
        costs[:, AT["verifications"]] = abandonment.checked.sum(axis=1) / size
        for paid, values in charged(checks.costs):
            costs[:, paid] += np.where(abandonment.checked, values, 0.0).sum(axis=1) / size
        lacks = np.where(abandonment.uncounted.any(axis=1), UNCOUNTED, UNCHECKED * abandonment.unchecked.any(axis=1))
        reason = np.where((lacks > 0) & np.isin(reason, (0, UNCOUNTED, UNCHECKED)), lacks, reason).astype(np.int16)
    return Outcome(
        reason=reason,
        reasons=reasons,
        costs=costs,
        correct=_mean_there(pool, pool.judgement),
        credit=_mean_there(pool, pool.credit),
        words=pool.word.T,
        shares=(pool.there / size[:, None]).T,
        rows=size,
        ending=np.where(pool.size > 0, ends.CAP, ends.EXHAUSTED).astype(np.int8),
        runs=((trajectory.walk, trajectory.steps.limit),),
    )


def _mean_there(pool: LoggedPool, values: np.ndarray) -> np.ndarray:
    """Mean (E,) of (E, T) over an example's traces; 0 where there is none."""
    return np.asarray(np.where(pool.there, values, 0.0).sum(axis=1) / np.maximum(pool.size, 1))


def possible_winners(trajectory: Trajectory, verifications: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample indices by falling score, and the probability that each wins, (E, T) each; of a walk as generated."""
    ranked, valid = by_falling_score(trajectory.revealed.verified_code, trajectory.revealed.score)
    probability = winner_probabilities(np.minimum(verifications, valid), valid, ranked.shape[1])
    return np.take_along_axis(trajectory.place, ranked, axis=1), probability


def _valid(trajectory: Trajectory) -> np.ndarray:
    """The traces that may be verified (E,)."""
    return np.asarray((trajectory.revealed.verified_code >= 0).sum(axis=1))


def _expected_costs(trajectory: Trajectory, verified: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Everything generated is paid, and each verification with probability verified / valid: (E, C)."""
    limit = trajectory.steps.limit
    example = np.arange(len(limit))
    paid = trajectory.costs[example, limit]
    share = np.where(valid > 0, verified / np.maximum(valid, 1), 0.0)
    plain = trajectory.generation[example, np.maximum(limit, 1) - 1]
    plain = np.where((limit > 0)[:, None], plain, 0.0)
    expected = plain + (paid - plain) * share[:, None]
    expected[:, AT["verifications"]] = plain[:, AT["verifications"]] + verified
    return expected


def _mean(probability: np.ndarray, values: np.ndarray, sample: np.ndarray, example: np.ndarray) -> np.ndarray:
    """Mean over the possible winners (E,); where there is none, the first trace's value."""
    won = values[example[:, None], sample]
    mean = np.where(probability > 0, probability * won, 0.0).sum(axis=1)
    return np.where(probability.any(axis=1), mean, values[example, sample[:, 0]])
