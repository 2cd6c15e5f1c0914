"""One policy against another: fixes, flips, and the calls that only the first one made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from replay.outcome import Against, Outcome
from replay.pool import Block
from replay.trajectory import COSTS, Trajectory, Walk, walk_block


@dataclass(frozen=True)
class Paid:
    """Calls of one kind that one row paid: a random `count` (E,) of those in `among` (E, T), by sample index.

    The count is all of them, except under `expected`, which verifies a random subset.
    """

    among: np.ndarray
    count: np.ndarray

    @property
    def chance(self) -> np.ndarray:
        """Chance (E, T) that each call was paid."""
        return self.among * (self.count / np.maximum(self.among.sum(axis=1), 1))[:, None]


Calls = Mapping[tuple[str, str | None], Paid]
"""By (pool, None) traces, by (pool, verifier) verifications. A listwise call counts on all rows that it scored."""


def hold_against(block: Block, held: tuple[Outcome, list[Calls]], against: tuple[Outcome, list[Calls]]) -> Against:
    """Fix, flip, action tokens and whether there was any call of the policy's own, by example.

    fix = (1 - b) c and flip = b (1 - c) for the (mean) correctness b of the base and c of the policy, so that
    accuracy(policy) - accuracy(base) = fix rate - flip rate. Rows that are random orders are paired one to
    one when both have the same number, else all with all.
    """
    (policy, mine), (base, theirs) = held, against
    if len(mine) == len(theirs):
        pairs = list(zip(mine, theirs, strict=True))
    else:
        pairs = [(a, b) for a in mine for b in theirs]
    action, own = np.zeros(len(policy.correct)), np.zeros(len(policy.correct))
    for a, b in pairs:
        tokens, any_call = _own_calls(block, a, b)
        action += tokens
        own += any_call
    return Against(
        base_correct=base.correct,
        intervened=own / len(pairs),
        fix=(1 - base.correct) * policy.correct,
        flip=base.correct * (1 - policy.correct),
        action_tokens=action / len(pairs),
    )


def _own_calls(block: Block, mine: Calls, theirs: Calls) -> tuple[np.ndarray, np.ndarray]:
    """Expected tokens (E,) of the calls in `mine` and not in `theirs`, and the chance (E,) that there is any."""
    tokens = np.zeros(len(block.examples))
    none = np.ones(len(block.examples))
    for call, paid in mine.items():
        pool, verifier = block.pools[call[0]], call[1]
        other = theirs.get(call, Paid(np.zeros_like(paid.among), np.zeros_like(paid.count)))
        only = paid.chance * (1 - other.chance)
        if verifier is None:
            cost = pool.costs["prompt_tokens"] + pool.costs["completion_tokens"]
        else:
            cost = pool.scores[verifier].costs["verification_tokens"]
        tokens += np.where(only > 0, only * cost, 0.0).sum(axis=1)
        none *= _chance_within(paid, other)
    return tokens, 1 - none


def _chance_within(mine: Paid, theirs: Paid) -> np.ndarray:
    """Chance (E,) that a random subset of the one lies within an independent random subset of the other.

    With k of n drawn here, K of N there and m of the n also among the N: each next draw must be one of the m,
    and be among the K.
    """
    both = (mine.among * theirs.among).sum(axis=1)
    here, there = mine.among.sum(axis=1), theirs.among.sum(axis=1)
    chance = np.ones(len(both))
    for draw in range(int(mine.count.max(initial=0))):
        common = np.maximum(both - draw, 0) / np.maximum(here - draw, 1)
        drawn = np.maximum(theirs.count - draw, 0) / np.maximum(there - draw, 1)
        chance *= np.where(draw < mine.count, common * drawn, 1.0)
    return chance


def paid_calls(block: Block, outcome: Outcome) -> list[Calls]:
    """The calls paid in each row of an outcome."""
    if outcome.bills:
        calls: dict[tuple[str, str | None], Paid] = {}
        for name, count in outcome.bills.items():
            steps = np.arange(block.pools[name].code.shape[1])
            calls[name, None] = Paid((steps < count[:, None]).astype(float), count)
        return [calls]
    return [_walked(block, walk, step, outcome) for walk, step in outcome.runs]


def _walked(block: Block, walk: Walk, step: np.ndarray, outcome: Outcome) -> Calls:
    trajectory = walk_block(block, walk)
    generated = trajectory.costs[np.arange(len(step)), step, COSTS.index("traces")]
    calls: dict[tuple[str, str | None], Paid] = {
        (walk.pool, None): _all(_until(trajectory, trajectory.place, generated))
    }
    if walk.verifier is not None and trajectory.scores is not None:
        calls[walk.pool, walk.verifier] = _verified(trajectory, step, outcome)
    return calls


def _verified(trajectory: Trajectory, step: np.ndarray, outcome: Outcome) -> Paid:
    """The verifications paid by the time the walk stopped."""
    at = np.take_along_axis(trajectory.place, trajectory.at, axis=1)
    verified = _until(trajectory, at, step) * (trajectory.pool.code >= 0)
    scores = trajectory.scores
    if scores is not None and trajectory.listwise.any():
        called = trajectory.listwise & (outcome.cost("verifications") > 0)
        verified = np.where(trajectory.listwise[:, None], ~np.isnan(scores.score) * called[:, None], verified)
    if outcome.random_subset:
        return Paid(verified, outcome.cost("verifications"))
    return _all(verified)


def _all(among: np.ndarray) -> Paid:
    return Paid(among, among.sum(axis=1))


def _until(trajectory: Trajectory, order: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """1.0 for the sample indices (E, T) among the first `steps` (E,) of an order (E, S)."""
    mask = np.zeros(trajectory.pool.code.shape)
    row, step = np.nonzero(np.arange(order.shape[1]) < steps[:, None])
    mask[row, order[row, step]] = 1.0
    return mask
