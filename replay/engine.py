"""Policies x block -> outcomes. Each distinct walk is made once and cut for every policy that shares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from replay import outcome as ends
from replay.conformal import measure_sets
from replay.expectation import expected_outcome
from replay.fixes import Calls, hold_against, paid_calls
from replay.oracles import any_outcome
from replay.outcome import Outcome, RowSums
from replay.policies import Oracle, Policy, Sample
from replay.pool import Block
from replay.stops import Never, Threshold, crossing_step, decisions, stopping_step
from replay.trajectory import COSTS, NEVER_MISSING, Trajectory, Walk, listwise_costs, listwise_fits, walk_block
from toolkit.errors import ThinkbackError

EMPTY_POOL, SHORT_POOL, WHOLE_POOL, UNSCORED, UNSEEN, UNREAD = 1, 2, 3, 4, 5, 6
"""Why an example is partial, as `reasons` numbers it; from UNREAD on one for each feature of a surrogate."""


def replay_block(block: Block, policies: Sequence[Policy], whole_pools: frozenset[str] = frozenset()) -> list[Outcome]:
    """Outcomes of the policies on one block, in their order.

    Every policy must have its pool resolved, and `against` must name one of them. `whole_pools` are
    replayed whole or not at all.
    """
    outcomes: list[Outcome | None] = [None] * len(policies)
    samples = {i: p for i, p in enumerate(policies) if isinstance(p, Sample) and not p.expected}
    held = frozenset(name for p in policies if p.against is not None for name in (p.name, p.against))
    for i, done in _replay_samples(block, samples, held, whole_pools).items():
        outcomes[i] = done
    for i, policy in enumerate(policies):
        if isinstance(policy, Oracle):
            outcomes[i] = any_outcome(block, policy, whole_pools)
        elif isinstance(policy, Sample) and policy.expected:
            trajectory = walk_block(block, replace(walks(policy)[0], order="generation"))
            called = np.zeros(len(trajectory.limit), dtype=bool)
            reason = _partial(trajectory, policy, trajectory.limit, called, whole_pools)
            outcomes[i] = expected_outcome(trajectory, policy, reason, reasons(policy))
    plain = [done for done in outcomes if done is not None]
    place = {policy.name: i for i, policy in enumerate(policies)}
    calls: dict[str, list[Calls]] = {}
    for name in held:
        calls[name] = paid_calls(block, plain[place[name]])
    return [
        done
        if p.against is None
        else replace(
            done, against=hold_against(block, (done, calls[p.name]), (plain[place[p.against]], calls[p.against]))
        )
        for p, done in zip(policies, plain, strict=True)
    ]


def walks(policy: Sample) -> list[Walk]:
    """The walks of a policy's rows: one, or one for each of its random orders."""
    if policy.pool is None:
        raise ThinkbackError(f"policy `{policy.name}` has no pool")
    return [
        Walk(
            pool=policy.pool,
            verifier=policy.verifier if policy.verifies else None,
            order=policy.order,
            seed=policy.seed if policy.orders or policy.order == "random" else 0,
            repetition=repetition,
            permuted=policy.orders is not None,
            cap=policy.max_traces,
            width=policy.width,
            surrogate=policy.surrogate,
            calibration=policy.calibration,
        )
        for repetition in range(policy.orders or 1)
    ]


def reasons(policy: Sample) -> tuple[str, ...]:
    """Why an example can be partial for the policy, numbered as in `Outcome.reason`."""
    return (
        "served",
        f"no trace in pool `{policy.pool}`",
        f"pool `{policy.pool}` has fewer than {policy.max_traces} traces",
        f"pool `{policy.pool}` is replayed whole, and has more than {policy.max_traces} traces or a gap",
        f"verifier `{policy.verifier}` did not score a trace that the policy verifies",
        f"listwise verifier `{policy.verifier}` did not see exactly the traces that the policy generates",
        *(f"feature `{name}` is null for a trace that the surrogate reads" for name in policy.features),
    )


def _replay_samples(
    block: Block, samples: dict[int, Sample], held: frozenset[str], whole_pools: frozenset[str]
) -> dict[int, Outcome]:
    """Outcomes by index; those of the policies named in `held` tell the calls they paid."""
    caps: dict[Walk, int] = {}
    users: dict[Walk, list[int]] = {}
    for i, policy in samples.items():
        for walk in walks(policy):
            # A walk in order of generation does not depend on where it is cut: the longest cap serves all.
            shared = replace(walk, cap=0) if walk.order == "generation" else walk
            caps[shared] = max(caps.get(shared, 0), walk.cap)
            users.setdefault(shared, []).append(i)
    size = len(block.examples)
    sums = {i: RowSums(policy.orders or 1, policy.name in held) for i, policy in samples.items()}
    reason = {i: np.zeros(size, dtype=np.int8) for i in samples}
    with_sets: dict[int, Outcome] = {}
    for shared, indices in users.items():
        trajectory = walk_block(block, replace(shared, cap=caps[shared]))
        at_end = listwise_costs(trajectory) if trajectory.listwise.any() else None
        for i in indices:
            policy = samples[i]
            step, ending = _stop(trajectory, policy)
            called = listwise_called(trajectory, policy) if at_end is not None else None
            extra = at_end * called[:, None] if at_end is not None and called is not None else None
            sums[i].add(trajectory, step, policy.select, ending, extra)
            reason[i] = np.maximum(reason[i], _partial(trajectory, policy, step, called, whole_pools))
            if policy.conformal is not None:
                plain = sums[i].outcome(reason[i], reasons(policy))
                columns, correct, words = measure_sets(block, policy, trajectory, step, plain.correct, plain.words[0])
                with_sets[i] = replace(plain, correct=correct, words=words[None], measured=columns)
    return {i: with_sets.get(i) or sums[i].outcome(reason[i], reasons(p)) for i, p in samples.items()}


def stopped(block: Block, policy: Sample) -> tuple[Trajectory, np.ndarray, np.ndarray]:
    """The walk of a policy with a single row, the step (E,) at which it stops, and where (E,) the log serves it."""
    trajectory = walk_block(block, walks(policy)[0])
    step = _stop(trajectory, policy)[0]
    called = listwise_called(trajectory, policy) if trajectory.listwise.any() else None
    return trajectory, step, _partial(trajectory, policy, step, called, frozenset()) == 0


def listwise_called(trajectory: Trajectory, policy: Sample) -> np.ndarray:
    """Examples (E,) on which the policy makes the logged call of a listwise verifier."""
    if policy.order != "generation" or not isinstance(policy.stop, Never):
        return np.zeros(len(trajectory.listwise), dtype=bool)
    exact = listwise_fits(trajectory, np.minimum(trajectory.generated, policy.max_traces))
    return trajectory.listwise & exact


def _stop(trajectory: Trajectory, policy: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Step at which the policy stops on each example (E,), and its ending (E,)."""
    generated = np.minimum(trajectory.generated, policy.max_traces)
    limit = generated if policy.order == "generation" else trajectory.limit
    if isinstance(policy.stop, Never):
        step, ruled = limit, np.zeros(len(limit), dtype=bool)
    elif isinstance(policy.stop, Threshold) and (policy.width == 1 or policy.order != "generation"):
        step, ruled = crossing_step(trajectory.highest(policy.stop), policy.stop.threshold, limit)
    else:
        width = policy.width if policy.order == "generation" else 1
        step, ruled = stopping_step(decisions(policy.stop, trajectory.prefix), limit, width)
    capped = np.where(generated < policy.max_traces, ends.EXHAUSTED, ends.CAP)
    capped = np.where(trajectory.ran_empty, ends.EMPTY, capped)
    return step, np.where(ruled, ends.RULE, capped).astype(np.int8)


def _partial(
    trajectory: Trajectory, policy: Sample, step: np.ndarray, called: np.ndarray | None, whole_pools: frozenset[str]
) -> np.ndarray:
    """Why each example (E,) is partial; 0 where it is served. Without a valid trace nothing is verified."""
    size = trajectory.pool.size
    reason = np.zeros(len(size), dtype=np.int8)
    unscored = trajectory.missing <= (NEVER_MISSING - 1 if policy.order == "score" or policy.expected else step)
    if unscored.any():
        reason[unscored & ~trajectory.listwise] = UNSCORED
    if trajectory.picks is not None:
        unread = trajectory.picks.unread <= step
        for number, name in reversed(list(enumerate(policy.features))):
            null = (np.isnan(trajectory.pool.features[name]) & (trajectory.pool.code >= 0)).any(axis=1)
            reason[unread & null] = UNREAD + number
    if called is not None:
        generated = np.minimum(trajectory.generated, policy.max_traces)
        valid = trajectory.generation[np.arange(len(size)), np.maximum(generated, 1) - 1, COSTS.index("valid_traces")]
        reason[trajectory.listwise & ~called & (valid > 0)] = UNSEEN
    if policy.pool in whole_pools:
        reason[(size > policy.max_traces) | (trajectory.pool.behind_gap > 0)] = WHOLE_POOL
    if policy.on_missing == "partial":
        reason[size < policy.max_traces] = SHORT_POOL
    reason[size == 0] = EMPTY_POOL
    return reason
