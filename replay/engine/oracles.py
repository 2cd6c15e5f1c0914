"""Diagnostics that see gold: how good a policy could be if it knew which trace is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from replay.data.block import Block, slice_name
from replay.engine import outcome as ends
from replay.engine.calls import Chosen, Paid, Part, Row, Segment, certain, extra_cost
from replay.engine.leaves import mean_of, revision
from replay.engine.outcome import Outcome
from replay.engine.trajectory import COSTS, judged_unless_null
from replay.policies.base import Oracle


def slice_names(policy: Oracle, pools: frozenset[str]) -> tuple[str, ...]:
    """The block's slices behind `of`, in its order: a pool's own name, or an action's with its base."""
    return tuple(name if name in pools else slice_name(name, str(policy.base)) for name in policy.of)


def any_part(block: Block, policy: Oracle, whole_pools: frozenset[str]) -> Part:
    """Rule `any`: the first right trace of `of` in its order, then by sample index, else the first of all.

    With a graded measure in place of correctness, the first trace with the highest value.

    Pays every trace of `of`, the base's sample 0 and those that a revision read, each once.
    """
    examples = len(block.examples)
    rows = np.arange(examples)
    names = slice_names(policy, frozenset(block.pools))
    judged = np.full(examples, np.nan)
    credit, word = np.full(examples, np.nan), np.full(examples, -1, dtype=np.int32)
    highest, reason = np.full(examples, -np.inf), np.zeros(examples, dtype=np.int16)
    slice_number, sample = np.zeros(examples, dtype=np.int64), np.zeros(examples, dtype=np.int64)
    costs = np.zeros((examples, len(COSTS)))
    calls: dict[tuple[str, str | None], Paid] = {}
    bills = bill(block, policy, names)
    for number, (name, needed) in enumerate(bills.items()):
        pool = block.pools[name]
        lacks = (pool.size < needed) | (pool.behind_gap > 0 if name in whole_pools else False)
        reason = np.where(lacks & (reason == 0), number + 1, reason).astype(np.int16)
        paid = np.where(name in names, pool.size, needed)
        costs += _paid(pool.code, pool.costs, paid)
        calls[name, None] = certain((np.arange(pool.code.shape[1]) < paid[:, None]).astype(float))
        if name not in names:
            continue
        there = np.arange(pool.judged.shape[1]) < pool.size[:, None]
        judgement = judged_unless_null(pool.judged, pool.code >= 0)
        value = np.where(there & ~np.isnan(judgement), judgement, -1.0)
        first = value.argmax(axis=1)
        take = value[rows, first] > highest
        highest = np.where(take, value[rows, first], highest)
        judged = np.where(take, judgement[rows, first], judged)
        credit = np.where(take, pool.credit[rows, first], credit)
        word = np.where(take, pool.word[rows, first], word).astype(np.int32)
        slice_number = np.where(take, names.index(name), slice_number)
        sample = np.where(take, first, sample)
    outcome = Outcome(
        reason=reason,
        reasons=("served", *(f"`{name}` has no trace, fewer than a revision read, or a gap" for name in bills)),
        costs=costs,
        correct=judged,
        credit=credit,
        words=word[None, :],
        shares=None,
        rows=np.ones(examples, dtype=np.int64),
        ending=np.full(examples, ends.CAP, dtype=np.int8),
    )
    return Part(outcome, (Row(np.ones(examples), (Segment(calls),)),), Chosen(names, slice_number, sample), {})


@dataclass(frozen=True)
class _Candidate:
    """Rows of equal weight that an oracle may choose together, and what their mean would be worth and cost."""

    slices: list[str]
    samples: list[int]
    rows: list[Row]
    value: np.ndarray  # (E,) mean correctness, -1 where there is none
    tokens: np.ndarray  # (E,) mean total tokens, infinite where not logged


def best_part(block: Block, policy: Oracle, whole_pools: frozenset[str]) -> Part:
    """Rules `action` (every logged trace a candidate) and `expected_action` (every pool or action, by its mean).

    The highest correctness; ties: base, then fewer total tokens, then name, then sample index. Pays what it chooses.
    """
    candidates = [_candidate(block, policy, str(policy.base), [0])]
    names = dict(zip(policy.of, slice_names(policy, frozenset(block.pools)), strict=True))
    reason, reasons = np.zeros(len(block.examples), dtype=np.int16), ["served"]
    for entry in (policy.base, *policy.of):
        name = names.get(str(entry), str(entry))
        pool = block.pools[name]
        short = block.pools[str(policy.base)].size < pool.reads.max(axis=1, initial=0) if name != entry else False
        lacks = (pool.size == 0) | short | (pool.behind_gap > 0 if name in whole_pools else False)
        reasons.append(f"`{name}` has no trace, fewer than a revision read, or a gap")
        reason = np.where(lacks & (reason == 0), len(reasons) - 1, reason).astype(np.int16)
    for entry in sorted(policy.of):
        samples = list(range(block.pools[names[entry]].code.shape[1]))
        groups = [samples] if policy.rule == "expected_action" else [[sample] for sample in samples]
        candidates += [_candidate(block, policy, names[entry], group) for group in groups]
    best = np.zeros(len(block.examples), dtype=np.int64)
    value, tokens = candidates[0].value, np.full(len(best), -np.inf)
    for number, candidate in enumerate(candidates[1:], 1):
        take = (candidate.value > value) | ((candidate.value == value) & (candidate.tokens < tokens))
        best = np.where(take, number, best)
        value, tokens = np.where(take, candidate.value, value), np.where(take, candidate.tokens, tokens)
    return _chosen_part(block, policy, candidates, best, reason, tuple(reasons))


def _chosen_part(
    block: Block, policy: Oracle, candidates: list[_Candidate], best: np.ndarray, reason: np.ndarray,
    reasons: tuple[str, ...],
) -> Part:  # fmt: skip
    slices, samples, rows = [], [], []
    for number, candidate in enumerate(candidates):
        on = best == number
        if on.any():
            slices += candidate.slices
            samples += candidate.samples
            rows += [Row(row.weight * on, tuple(s.where(on) for s in row.segments)) for row in candidate.rows]
    outcome = mean_of(block, slices, samples, rows, reason, reasons)
    chosen = None
    if policy.single:
        names = tuple(dict.fromkeys(slices))
        where, which = np.zeros(len(best), dtype=np.int64), np.zeros(len(best), dtype=np.int64)
        for name, index, row in zip(slices, samples, rows, strict=True):
            where[row.weight > 0], which[row.weight > 0] = names.index(name), index
        chosen = Chosen(names, where, which)
    return Part(outcome, tuple(rows), chosen, {})


def _candidate(block: Block, policy: Oracle, name: str, samples: list[int]) -> _Candidate:
    """The traces `samples` of a slice as one candidate."""
    pool, rows = block.pools[name], []
    value, tokens = np.zeros(len(block.examples)), np.zeros(len(block.examples))
    count = np.sum([pool.size > sample for sample in samples], axis=0)
    for sample in samples:
        on = pool.size > sample
        if name in (policy.base, *policy.of):
            own = np.zeros(pool.code.shape)
            own[:, sample] = on
            segment = Segment({(name, None): certain(own)})
        else:
            segment = revision(block, str(policy.base), name, sample)
        rows.append(Row(on / np.maximum(count, 1), (segment,)))
        costs = extra_cost(block, [segment], [])
        paid = costs[:, COSTS.index("prompt_tokens")] + costs[:, COSTS.index("completion_tokens")]
        tokens += np.where(on, paid, 0.0)
        judged = judged_unless_null(pool.judged[:, sample], pool.code[:, sample] >= 0)
        value += np.where(on, np.nan_to_num(judged, nan=-1.0), 0.0)
    known = count > 0
    mean = np.where(known, value / np.maximum(count, 1), -1.0)
    cost = np.where(known, tokens / np.maximum(count, 1), np.inf)
    return _Candidate([name] * len(samples), samples, rows, mean, np.nan_to_num(cost, nan=np.inf))


def bill(block: Block, policy: Oracle, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """How many traces (E,) each slice must have: one of each in `of`, and of the base what the revisions read."""
    needed = {name: np.ones(len(block.examples), dtype=np.int32) for name in names}
    if policy.base is not None:
        read = [block.pools[name].reads.max(axis=1, initial=0) for name in names if name not in policy.of]
        needed[str(policy.base)] = np.maximum.reduce([np.ones(len(block.examples), dtype=np.int32), *read])
    return needed


def _paid(code: np.ndarray, values: Mapping[str, np.ndarray], count: np.ndarray) -> np.ndarray:
    """Costs (E, C) of each example's first `count` traces, one after the other."""
    on = np.arange(code.shape[1]) < count[:, None]
    total = {name: np.where(on, column, 0.0).sum(axis=1) for name, column in values.items()}
    total |= {"traces": count, "valid_traces": (on & (code >= 0)).sum(axis=1)}
    total["generation_s"] = total["latency_s"]
    return np.stack([np.broadcast_to(total.get(name, 0.0), count.shape) for name in COSTS], axis=1)
