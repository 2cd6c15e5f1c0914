"""Policies made of policies: `when`, `route` and the matched oracles, from the outcomes of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from replay.data.block import Block
from replay.engine.calls import Calls, Chosen, Part, Row, Segment, beyond, extra_cost, extra_tokens, union
from replay.engine.outcome import MIXED, Outcome, against
from replay.engine.signals import Signal, fires, gate_signals
from replay.policies.base import Oracle
from replay.policies.gates import Reading, readings
from replay.policies.interventions import Route, When


@dataclass(frozen=True)
class Gated:
    """Everything about a `when` that does not depend on its thresholds."""

    base: Part
    then: Part
    signals: Mapping[Reading, Signal]
    gate: Calls  # made by the gate, beyond those of the base
    kept: np.ndarray  # (E, C) costs where the gate does not fire
    fired: np.ndarray  # (E, C) costs where it does
    action_tokens: np.ndarray  # (E,)

    @property
    def null_answer(self) -> np.ndarray:
        """Where the base predicts nothing (E,)."""
        return _predicted(self.base.outcome) < 0


def _predicted(outcome: Outcome) -> np.ndarray:
    """The word (E,) of a single-row outcome, -1 where it is null."""
    if outcome.shares is None:
        return outcome.words[0]
    return outcome.words[outcome.shares.argmax(axis=0), np.arange(outcome.words.shape[1])]


def gated(block: Block, policy: When, base: Part, then: Part) -> Gated:
    """Read the gate's signals and add up what each branch costs."""
    signals = gate_signals(block, policy.gate, policy.base, base)
    paid = union([calls for row in base.rows for calls in row_calls(row)])
    gate = beyond(union(signal.calls for signal in signals.values()), paid)
    known = [paid, gate]
    kept = base.outcome.costs + extra_cost(block, [Segment(gate)], [])
    fired, tokens = np.zeros_like(kept), np.zeros(len(kept))
    apart = not set(union(known)) & {key for row in then.rows for segment in row.segments for key in segment.calls}
    for row in then.rows:
        on = row.weight > 0
        tokens += np.where(on, row.weight * extra_tokens(block, union(row.segments), union(known)), 0.0)
        if not apart:
            extra = extra_cost(block, row.segments, known)
            fired += np.where(on[:, None], row.weight[:, None] * extra, 0.0)
    return Gated(base, then, signals, gate, kept, kept + (then.outcome.costs if apart else fired), tokens)


def row_calls(row: Row) -> list[Calls]:
    """Calls of a row's segments, on the examples where the row has weight."""
    return [segment.where(row.weight > 0).calls for segment in row.segments]


def when_outcome(policy: When, parts: Gated) -> tuple[Outcome, np.ndarray]:
    """Outcome, and where the gate fires (E,)."""
    base, then = parts.base.outcome, parts.then.outcome
    on, unread = fires(policy.gate, dict(parts.signals), parts.null_answer)
    what = ", ".join(reading.describe() for reading in readings(policy.gate))
    reasons = (*base.reasons, f"the gate reads {what}, which is not logged", *then.reasons[1:])
    offset = len(base.reasons)
    reason = np.where(unread, offset, np.where(on & (then.reason > 0), then.reason + offset, 0))
    reason = np.where(base.reason > 0, base.reason, reason).astype(np.int16)
    done = pick(on, then, base)
    done = replace(
        done,
        reason=reason,
        reasons=reasons,
        costs=np.where(on[:, None], parts.fired, parts.kept),
        against=against(base.correct, done.correct, on.astype(float), np.where(on, parts.action_tokens, 0.0)),
    )
    return done, on


def when_part(policy: When, parts: Gated) -> Part:
    """The part, for policies that are made of it or held against it."""
    outcome, on = when_outcome(policy, parts)
    base, then, gate = parts.base, parts.then, Segment(parts.gate)
    rows = [
        Row(row.weight * ~on, tuple(s.where((row.weight > 0) & ~on) for s in (*row.segments, gate)))
        for row in base.rows
    ]
    for first in base.rows:
        for row in then.rows:
            weight = first.weight * row.weight * on
            rows.append(Row(weight, tuple(s.where(weight > 0) for s in (*first.segments, gate, *row.segments))))
    chosen = _either(on, then.chosen, base.chosen)
    return Part(outcome, tuple(row for row in rows if row.weight.any()), chosen, union([base.gate, parts.gate]))


def route_part(policy: Route, values: np.ndarray, then: Part, other: Part) -> Part:
    """`then` where the column (E,) says so, else `else`; only the chosen one is paid."""
    choice = policy.route
    with np.errstate(invalid="ignore"):
        on = values >= choice.at_least if choice.at_least is not None else values < choice.below
    part = _one_of(on, then, other)
    reasons = (*part.outcome.reasons, f"column `{choice.column}` of examples is null")
    reason = np.where(np.isnan(values), len(reasons) - 1, part.outcome.reason).astype(np.int16)
    return replace(part, outcome=replace(part.outcome, reason=reason, reasons=reasons))


def matched_part(policy: Oracle, base: Part, then: Part, chosen: np.ndarray | None) -> Part:
    """`matched_random`: the mean of both; `matched_rate`: `then` on the examples `chosen` (E,), both being needed."""
    if policy.rule == "matched_random":
        return _mixture(float(policy.rate or 0.0), base, then)
    on = np.zeros(len(base.outcome.correct), dtype=bool) if chosen is None else chosen
    part = _one_of(on, then, base)
    reason, reasons = _both_reasons(base.outcome, then.outcome)
    return replace(part, outcome=replace(part.outcome, reason=reason, reasons=reasons))


def gain(base: Part, then: Part, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Gain in mean correctness (E,) of `then` over `base`, and its action tokens (E,)."""
    tokens = np.zeros(len(base.outcome.correct))
    known = union([calls for row in base.rows for calls in row_calls(row)])
    for row in then.rows:
        tokens += np.where(row.weight > 0, row.weight * extra_tokens(block, union(row.segments), known), 0.0)
    return then.outcome.correct - base.outcome.correct, tokens


def _both_reasons(base: Outcome, then: Outcome) -> tuple[np.ndarray, tuple[str, ...]]:
    later = np.where(then.reason > 0, then.reason + len(base.reasons) - 1, 0)
    reasons = (*base.reasons, *then.reasons[1:])
    return np.where(base.reason > 0, base.reason, later).astype(np.int16), reasons


def _one_of(on: np.ndarray, first: Part, second: Part) -> Part:
    """One part or the other, by example."""
    outcome = pick(on, first.outcome, second.outcome)
    later = second.outcome.reason + (len(first.outcome.reasons) - 1) * (second.outcome.reason > 0)
    reason = np.where(on, first.outcome.reason, later).astype(np.int16)
    reasons = (*first.outcome.reasons, *second.outcome.reasons[1:])
    rows = [
        Row(row.weight * side, tuple(s.where((row.weight > 0) & side) for s in row.segments))
        for part, side in ((first, on), (second, ~on))
        for row in part.rows
    ]
    gates = [{key: paid.where(side) for key, paid in part.gate.items()} for part, side in ((first, on), (second, ~on))]
    kept = tuple(row for row in rows if row.weight.any())
    chosen = _either(on, first.chosen, second.chosen)
    return Part(replace(outcome, reason=reason, reasons=reasons), kept, chosen, union(gates))


def pick(on: np.ndarray, first: Outcome, second: Outcome) -> Outcome:
    """The first outcome where `on` (E,), else the second; the reasons are left for the caller to set."""
    single = first.shares is None and second.shares is None
    if single:
        words, shares = np.where(on, first.words[0], second.words[0])[None], None
    else:
        words = np.concatenate([np.where(on, first.words, -1), np.where(on, -1, second.words)])
        shares = np.concatenate([_shares(first) * on, _shares(second) * ~on])
    return Outcome(
        reason=np.zeros(len(on), dtype=np.int16),
        reasons=("served",),
        costs=np.where(on[:, None], first.costs, second.costs),
        correct=np.where(on, first.correct, second.correct),
        credit=np.where(on, first.credit, second.credit),
        words=words.astype(np.int32),
        shares=shares,
        rows=np.where(on, first.rows, second.rows),
        ending=np.where(on, first.ending, second.ending).astype(np.int8),
    )


def _mixture(rate: float, base: Part, then: Part) -> Part:
    """(1 - rate) of the one and rate of the other on every example."""
    sides = [(1 - rate, base), (rate, then)]
    sides = [(weight, part) for weight, part in sides if weight > 0]
    if len(sides) == 1:
        reason, reasons = _both_reasons(base.outcome, then.outcome)
        only = sides[0][1]
        return replace(only, outcome=replace(only.outcome, reason=reason, reasons=reasons, against=None), chosen=None)
    one, two = base.outcome, then.outcome
    reason, reasons = _both_reasons(one, two)
    (words, shares), (more_words, more_shares) = _answers(one), _answers(two)
    outcome = Outcome(
        reason=reason,
        reasons=reasons,
        costs=(1 - rate) * one.costs + rate * two.costs,
        correct=(1 - rate) * one.correct + rate * two.correct,
        credit=(1 - rate) * one.credit + rate * two.credit,
        words=np.concatenate([words, more_words]),
        shares=np.concatenate([(1 - rate) * shares, rate * more_shares]),
        rows=one.rows + two.rows,
        ending=np.where(one.ending == two.ending, one.ending, MIXED).astype(np.int8),
    )
    rows = tuple(Row(row.weight * weight, row.segments) for weight, part in sides for row in part.rows)
    return Part(outcome, rows, None, {})


def _shares(outcome: Outcome) -> np.ndarray:
    return np.ones(outcome.words.shape) if outcome.shares is None else outcome.shares


def _answers(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Words and shares; what an outcome without any possible winner lacks is the share of the null answer."""
    shares = _shares(outcome)
    null = np.full((1, shares.shape[1]), -1, dtype=np.int32)
    rest = np.maximum(1 - shares.sum(axis=0, keepdims=True), 0.0).round(12)
    return np.concatenate([outcome.words, null]), np.concatenate([shares, rest])


def _either(on: np.ndarray, first: Chosen | None, second: Chosen | None) -> Chosen | None:
    if first is None or second is None:
        return None
    names = tuple(dict.fromkeys([*first.slices, *second.slices]))
    one, two = (np.array([names.index(name) for name in part.slices])[part.slice] for part in (first, second))
    return Chosen(names, np.where(on, one, two), np.where(on, first.sample, second.sample))
