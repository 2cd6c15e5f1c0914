"""Policies x block -> outcomes. Each distinct walk is made once and cut for every policy that shares it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl

from replay.data.block import Block
from replay.engine import outcome as ends
from replay.engine.calls import Part
from replay.engine.composites import Gated, gated, matched_part, route_part, when_outcome, when_part
from replay.engine.expectation import expected_outcome
from replay.engine.flips import hold_against
from replay.engine.leaves import act_part, sample_part
from replay.engine.oracles import any_part, best_part
from replay.engine.outcome import Outcome, RowSums
from replay.engine.sets import measure_sets
from replay.engine.signals import shape
from replay.engine.trajectory import COSTS, NEVER_MISSING, Trajectory, Walk, listwise_costs, listwise_fits, walk_block
from replay.policies.base import Oracle, Policy, Sample, nested
from replay.policies.interventions import Act, Route, When
from replay.sampling.stops import Never, Threshold, crossing_step, decisions, stopping_step
from toolkit.errors import ThinkbackError

NO_CHOICES: Mapping[str, frozenset[str]] = MappingProxyType({})
EMPTY_POOL, SHORT_POOL, WHOLE_POOL, UNSCORED, UNSEEN, UNREAD = 1, 2, 3, 4, 5, 6
"""Why an example is partial, as `reasons` numbers it; from UNREAD on one for each feature of a surrogate."""


def replay_block(
    block: Block,
    policies: Sequence[Policy],
    whole_pools: frozenset[str] = frozenset(),
    choices: Mapping[str, frozenset[str]] = NO_CHOICES,
) -> list[Outcome]:
    """Outcomes of the policies on one block, in their order.

    Every policy must have its pool resolved, and `against` must name one of them. `whole_pools` are
    replayed whole or not at all. `choices`: the examples on which each oracle of rule `matched_rate` intervenes.
    """
    evaluator = Evaluator(block, policies, whole_pools, choices)
    by_name = {policy.name: policy for policy in policies}
    done = []
    for policy in policies:
        outcome = evaluator.outcome(policy)
        if policy.against is not None:
            pair = (evaluator.part(policy), evaluator.part(by_name[policy.against]))
            outcome = replace(outcome, against=hold_against(block, *pair))
        done.append(outcome)
    return done


class Evaluator:
    """Evaluates policies on one block; what several of them share is done once."""

    def __init__(
        self,
        block: Block,
        policies: Sequence[Policy],
        whole_pools: frozenset[str] = frozenset(),
        choices: Mapping[str, frozenset[str]] = NO_CHOICES,
    ) -> None:
        self.block, self.whole_pools, self.choices = block, whole_pools, choices
        self._parts: dict[Hashable, Part] = {}
        self._gated: dict[Hashable, Gated] = {}
        names = {name for p in policies if p.against is not None for name in (p.name, p.against)}
        leaves = {p.essence: p for policy in policies for p in nested(policy) if _walked(p)}
        kept = {p.essence for q in policies for p in nested(q) if p is not q or q.name in names}
        self._samples = _replay_samples(block, leaves, kept, whole_pools)

    def outcome(self, policy: Policy) -> Outcome:
        """Outcome of a policy by itself."""
        if _walked(policy):
            return self._samples[policy.essence]
        if isinstance(policy, When):
            return when_outcome(policy, self.gated(policy))[0]
        return self.part(policy).outcome

    def part(self, policy: Policy) -> Part:
        """Outcome of a policy, and what it paid."""
        key = (policy.essence, policy.name if isinstance(policy, Oracle) and policy.rule == "matched_rate" else "")
        if key not in self._parts:
            self._parts[key] = self._evaluate(policy)
        return self._parts[key]

    def gated(self, policy: When) -> Gated:
        """What a `when` shares with others that differ in thresholds alone."""
        key = (policy.base.essence, shape(policy.gate), policy.then.essence)
        if key not in self._gated:
            self._gated[key] = gated(self.block, policy, self.part(policy.base), self.part(policy.then))
        return self._gated[key]

    def _evaluate(self, policy: Policy) -> Part:
        if isinstance(policy, Sample):
            outcome = _expected(self.block, policy, self.whole_pools) if policy.expected else self.outcome(policy)
            return sample_part(self.block, policy, outcome)
        if isinstance(policy, Act):
            return act_part(self.block, policy, self.whole_pools)
        if isinstance(policy, When):
            return when_part(policy, self.gated(policy))
        if isinstance(policy, Route):
            values = self.block.examples[policy.route.column].cast(pl.Float64).to_numpy().astype(float)
            return route_part(policy, values, self.part(policy.then), self.part(policy.else_))
        if isinstance(policy, Oracle) and policy.parts:
            base, then = (self.part(part) for part in policy.parts)
            return matched_part(policy, base, then, self._intervened(policy))
        if isinstance(policy, Oracle):
            return (any_part if policy.rule == "any" else best_part)(self.block, policy, self.whole_pools)
        raise TypeError(f"no policy: {policy!r}")

    def _intervened(self, policy: Oracle) -> np.ndarray | None:
        if policy.name not in self.choices:
            return None
        return self.block.examples["example_id"].is_in(list(self.choices[policy.name])).to_numpy()


def _walked(policy: Policy) -> bool:
    """Whether a policy's rows are walks that end where it stops."""
    return isinstance(policy, Sample) and not policy.expected


def _expected(block: Block, policy: Sample, whole_pools: frozenset[str]) -> Outcome:
    trajectory = walk_block(block, replace(walks(policy)[0], order="generation"))
    called = np.zeros(len(trajectory.limit), dtype=bool)
    reason = _partial(trajectory, policy, trajectory.limit, called, whole_pools)
    return expected_outcome(trajectory, policy, reason, reasons(policy))


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
    block: Block, samples: Mapping[Hashable, Policy], kept: Collection[Hashable], whole_pools: frozenset[str]
) -> dict[Hashable, Outcome]:
    """Outcomes by key; those in `kept` tell the calls they paid."""
    policies = {key: policy for key, policy in samples.items() if isinstance(policy, Sample)}
    caps: dict[Walk, int] = {}
    users: dict[Walk, list[Hashable]] = {}
    for key, policy in policies.items():
        for walk in walks(policy):
            # A walk in order of generation does not depend on where it is cut: the longest cap serves all.
            shared = replace(walk, cap=0) if walk.order == "generation" else walk
            caps[shared] = max(caps.get(shared, 0), walk.cap)
            users.setdefault(shared, []).append(key)
    sums = {key: RowSums(policy.orders or 1, key in kept) for key, policy in policies.items()}
    reason = {key: np.zeros(len(block.examples), dtype=np.int16) for key in policies}
    with_sets: dict[Hashable, Outcome] = {}
    for shared, keys in users.items():
        trajectory = walk_block(block, replace(shared, cap=caps[shared]))
        at_end = listwise_costs(trajectory) if trajectory.listwise.any() else None
        for key in keys:
            policy = policies[key]
            step, ending = _stop(trajectory, policy)
            called = listwise_called(trajectory, policy) if at_end is not None else None
            extra = at_end * called[:, None] if at_end is not None and called is not None else None
            sums[key].add(trajectory, step, policy.select, ending, extra)
            reason[key] = np.maximum(reason[key], _partial(trajectory, policy, step, called, whole_pools))
            if policy.conformal is not None:
                with_sets[key] = measure_sets(block, policy, trajectory, step, _made(sums[key], reason[key], policy))
    return {key: with_sets.get(key) or _made(sums[key], reason[key], policy) for key, policy in policies.items()}


def _made(sums: RowSums, reason: np.ndarray, policy: Sample) -> Outcome:
    return sums.outcome(reason, reasons(policy))


def stopped(block: Block, policy: Sample, whole_pools: frozenset[str]) -> tuple[Trajectory, np.ndarray, np.ndarray]:
    """The walk of a policy with a single row, the step (E,) at which it stops, and where (E,) the log serves it."""
    trajectory = walk_block(block, walks(policy)[0])
    step = _stop(trajectory, policy)[0]
    called = listwise_called(trajectory, policy) if trajectory.listwise.any() else None
    return trajectory, step, _partial(trajectory, policy, step, called, whole_pools) == 0


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
    reason = np.zeros(len(size), dtype=np.int16)
    unscored = trajectory.missing <= (NEVER_MISSING - 1 if policy.order == "score" or policy.expected else step)
    if unscored.any():
        reason[unscored & ~trajectory.listwise] = UNSCORED
    if trajectory.picks is not None and (unread := trajectory.picks.unread <= step).any():
        reason[unread] = UNREAD + trajectory.unread_features.argmax(axis=0)[unread]
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
