"""Parts that are made of logged calls alone: `sample` policies, and revisions of a base attempt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.data.block import Block, Pool, slice_name
from replay.engine import outcome as ends
from replay.engine.calls import Calls, Chosen, Paid, Part, Row, Segment, certain, extra_cost, extra_tokens, union
from replay.engine.outcome import Outcome, against
from replay.engine.trajectory import COSTS, Trajectory, judged_unless_null, walk_block
from replay.policies.base import Sample
from replay.policies.interventions import Act


def sample_part(block: Block, policy: Sample, outcome: Outcome) -> Part:
    """The part of a `sample` policy whose outcome kept its runs."""
    rows, chosen = [], None
    for walk, step in outcome.runs:
        trajectory = walk_block(block, walk)
        rows.append(Row(np.full(len(step), 1 / len(outcome.runs)), (_walked(trajectory, step, outcome),)))
        if policy.single:
            place = trajectory.chosen(policy.select)[np.arange(len(step)), step]
            at = np.where(place >= 0, place, 0)[:, None]
            sample = np.take_along_axis(trajectory.place, at, axis=1)[:, 0]
            chosen = Chosen((walk.pool,), np.zeros(len(step), dtype=np.int64), sample)
    return Part(outcome, tuple(rows), chosen, {}, policy.orders)


def _walked(trajectory: Trajectory, step: np.ndarray, outcome: Outcome) -> Segment:
    walk, generated = trajectory.walk, trajectory.paid_traces(step)
    calls: dict[tuple[str, str | None], Paid] = {
        (walk.pool, None): certain(_until(trajectory, trajectory.place, generated))
    }
    if walk.verifier is not None and trajectory.scores is not None:
        calls[walk.pool, walk.verifier] = _verified(trajectory, step, outcome)
    return Segment(calls, walk.width, trajectory.place, generated)


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
    return certain(verified)


def _until(trajectory: Trajectory, order: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """1.0 for the sample indices (E, T) among the first `steps` (E,) of an order (E, S)."""
    mask = np.zeros(trajectory.pool.code.shape)
    row, step = np.nonzero(np.arange(order.shape[1]) < steps[:, None])
    mask[row, order[row, step]] = 1.0  # an order may repeat its last one beyond its end
    return mask


def act_part(block: Block, policy: Act, whole_pools: frozenset[str]) -> Part:
    """The part of an `act`: a row for each logged rollout, or for the one asked for."""
    base, name = block.pools[policy.base], slice_name(policy.action, policy.base, policy.pool)
    revised, examples = block.pools[name], len(block.examples)
    first, last = (0, int(revised.size.max(initial=1))) if policy.rollouts == "mean" else _one(policy.rollouts)
    rows = []
    for number in range(first, max(last, first + 1)):
        there = number < revised.size
        weight = there / np.maximum(revised.size, 1) if policy.rollouts == "mean" else there.astype(float)
        rows.append(Row(weight, (revision(block, policy.base, name, number),)))
    reason = _act_reason(base, revised, policy, policy.base in whole_pools)
    single = policy.single
    outcome = mean_of(
        block, [name] * len(rows), list(range(first, first + len(rows))), rows, reason,
        (
            "served",
            f"no trace in pool `{policy.base}`",
            f"no revision by `{policy.action}` of pool `{policy.base}`"
            + (f" with rollout {policy.rollouts}" if single else ""),
            f"pool `{policy.base}` has fewer traces than `{policy.action}` read, or is replayed whole",
        ),
    )  # fmt: skip
    chosen = Chosen((name,), np.zeros(examples, dtype=np.int64), np.full(examples, first)) if single else None
    own = np.zeros(base.code.shape)
    own[:, 0] = base.size > 0
    attempt: Calls = {(policy.base, None): certain(own)}
    tokens = np.zeros(examples)
    for row in rows:
        extra = extra_tokens(block, union(row.segments), attempt)
        tokens += np.where(row.weight > 0, row.weight * extra, 0.0)
    before = judged_unless_null(base.judged[:, 0], base.code[:, 0] >= 0)
    outcome = replace(outcome, against=against(before, outcome.correct, np.ones(examples), tokens))
    return Part(outcome, tuple(rows), chosen, {})


def _one(rollout: int | str) -> tuple[int, int]:
    return int(rollout), int(rollout) + 1


def revision(block: Block, base: str, name: str, number: int) -> Segment:
    """The calls of revision `number` of slice `name`: the base traces that it read, and itself."""
    pool, revised = block.pools[base], block.pools[name]
    inside = number < revised.code.shape[1]
    there = number < revised.size
    read = np.where(there, np.maximum(revised.reads[:, number], 1), 0) if inside else np.zeros(len(there), dtype=int)
    before = (np.arange(pool.code.shape[1]) < read[:, None]).astype(float)
    own = np.zeros(revised.code.shape)
    if inside:
        own[:, number] = there
    calls: Calls = {(base, None): certain(before), (name, None): certain(own)}
    return Segment(calls)


def _act_reason(base: Pool, revised: Pool, policy: Act, whole: bool) -> np.ndarray:
    used = np.arange(revised.code.shape[1]) < revised.size[:, None]
    if policy.rollouts != "mean":
        used = used & (np.arange(revised.code.shape[1]) == policy.rollouts)
    reads = np.where(used, np.maximum(revised.reads, 1), 0).max(axis=1, initial=0)
    reason = np.where(base.size < reads, 3, 0).astype(np.int16)
    if whole:
        reason[(base.size > reads) | (base.behind_gap > 0)] = 3
    reason[~used.any(axis=1)] = 2
    reason[base.size == 0] = 1
    return reason


def mean_of(
    block: Block, slices: list[str], samples: list[int], rows: list[Row], reason: np.ndarray, reasons: tuple[str, ...]
) -> Outcome:
    """The mean over the rows with weight; the j-th gives the answer of trace `samples[j]` of `slices[j]`."""
    examples = len(block.examples)
    costs, correct, credit = np.zeros((examples, len(COSTS))), np.zeros(examples), np.zeros(examples)
    words, count = [], np.maximum(np.sum([row.weight > 0 for row in rows], axis=0), 1)
    for name, sample, row in zip(slices, samples, rows, strict=True):
        pool, on = block.pools[name], row.weight > 0
        at = min(sample, pool.code.shape[1] - 1)
        judged = judged_unless_null(pool.judged[:, at], pool.code[:, at] >= 0)
        correct += np.where(on, judged, 0.0)
        credit += np.where(on, pool.credit[:, at], 0.0)
        costs += np.where(on[:, None], extra_cost(block, row.segments, []), 0.0)
        words.append(np.where(on, pool.word[:, at], -1))
    return Outcome(
        reason=reason,
        reasons=reasons,
        costs=costs / count[:, None],
        correct=correct / count,
        credit=credit / count,
        words=np.stack(words).astype(np.int32),
        shares=None if len(rows) == 1 else np.stack([row.weight for row in rows]),
        rows=count,
        ending=np.full(examples, ends.CAP, dtype=np.int8),
    )
