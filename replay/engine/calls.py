"""What a policy paid on a block, call by call in the order in which it made them, so that policies can be combined.

A `Realization` is one rollout or random order with its weight; its `CallSegment`s follow each other. The same call is
the same entry wherever it is paid, so that a combination pays it once. `compare_with_base` holds one against another:
fixes, flips, and the calls that only the first one made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.data.block import LogBlock, LoggedPool
from replay.engine.costs import AT, COSTS, GENERATED, CallKey, RowCalls, elapsed_seconds, weigh_by_probability
from replay.engine.outcome import BaseComparison, Outcome


@dataclass(frozen=True, eq=False)
class RandomDraw:
    """A random `count` (E,) of the traces `among` (E, T), drawn with all their calls."""

    among: np.ndarray
    count: np.ndarray


@dataclass(frozen=True)
class CallMask:
    """Calls of one kind: of the candidates in `among` (E, T), by sample index, each example pays a random `count` (E,).

    The count is all of them, except under `expected`, which verifies a random subset, or draws traces: `draw` is then
    what the calls come with, and `count` a mean.
    """

    among: np.ndarray
    count: np.ndarray
    draw: RandomDraw | None = None

    @property
    def probability(self) -> np.ndarray:
        """Probability (E, T) that each call was paid."""
        return self.among * (self.count / np.maximum(self.among.sum(axis=1), 1))[:, None]

    def restrict_to(self, on: np.ndarray) -> CallMask:
        """The calls on the examples in `on` (E,), none on the others."""
        return CallMask(self.among * on[:, None], self.count * on, self.draw)


Calls = Mapping[CallKey, CallMask]
"""Masks of calls by their kind: traces of a slice, its verifications, rows of a further table."""


GENERATION = "generation"
"""The order in which the traces of a slice were logged."""


@dataclass(frozen=True)
class AbandonedTraces:
    """The slice `slice` of traces that a policy abandoned, `abandoned` (E, T), and the verifier that decided on them
    and on those that went on, `checked` (E, T).
    """

    slice: str
    abandoned: np.ndarray
    checked: np.ndarray
    verifier: str


@dataclass(frozen=True)
class VerifierOfOrder:
    """The verifier whose calls an order of traces makes.

    `order`: a key that tells this order of verifications from others. `together` (E,): whether one call of a listwise
    verifier, at the end, scores all traces. `lowest`: the score that a trace without one counts with; None where it
    does not count.
    """

    order: Hashable
    verifier: str
    together: np.ndarray
    lowest: float | None


@dataclass(frozen=True)
class RevealedSteps:
    """The revealed part of an order: the first `steps` (E,) of `samples` (E, S), sample indices of a slice.

    `order`: what tells it from others, whatever ends it; `generation`: the same of the order in which the traces were
    generated. `empty` (E,): whether a last step revealed nothing. `generated` (E, S + 1): how many traces were by each
    step from 0 on; None: one a step. `cut`: which of them were abandoned, if some may be.
    """

    slice: str
    order: Hashable
    generation: Hashable
    rule: str
    samples: np.ndarray
    steps: np.ndarray
    empty: np.ndarray
    generated: np.ndarray | None = None
    verifying: VerifierOfOrder | None = None
    cut: AbandonedTraces | None = None


@dataclass(frozen=True)
class CallSegment:
    """Calls made one after the other. Traces come in the order of `place` (E, S) up to `count` (E,); those that run
    side by side are blocks, which end where `ends` says (see `replay.engine.costs.elapsed`).
    """

    calls: Calls
    ends: np.ndarray | None = None
    place: np.ndarray | None = None
    count: np.ndarray | None = None
    reveals: RevealedSteps | None = None

    @property
    def is_side_by_side(self) -> bool:
        """Whether several traces are generated at a time."""
        return self.ends is not None and self.place is not None and self.count is not None

    def restrict_to(self, on: np.ndarray) -> CallSegment:
        """The segment on the examples in `on` (E,) alone."""
        calls = {key: paid.restrict_to(on) for key, paid in self.calls.items()}
        count = None if self.count is None else self.count * on
        reveals = None if self.reveals is None else replace(self.reveals, steps=self.reveals.steps * on)
        return CallSegment(calls, self.ends, self.place, count, reveals)


@dataclass(frozen=True)
class Realization:
    """One way in which a policy may go on each example, such as one random order, and its weight (E,)."""

    weight: np.ndarray
    segments: tuple[CallSegment, ...]

    @property
    def calls_by_segment(self) -> list[Calls]:
        """Calls of each segment, on the examples where this realization has weight."""
        return [segment.restrict_to(self.weight > 0).calls for segment in self.segments]

    def restrict_to(self, on: np.ndarray) -> Realization:
        """The realization on the examples in `on` (E,), with no weight on the others."""
        return Realization(self.weight * on, tuple(s.restrict_to((self.weight > 0) & on) for s in self.segments))


@dataclass(frozen=True)
class ChosenTraces:
    """The chosen trace of each example: number of its slice in `slices` (E,), and its sample index there (E,)."""

    slices: tuple[str, ...]
    slice: np.ndarray
    sample: np.ndarray

    def read_column(self, block: LogBlock, of: Callable[[LoggedPool], np.ndarray | None]) -> np.ndarray:
        """One column of the chosen traces (E,), which `of` takes from a slice as (E, T); NaN where there is none."""
        out = np.full(len(self.sample), np.nan)
        for number, name in enumerate(self.slices):
            column = of(block.pools[name])
            on = np.flatnonzero((self.slice == number) & (self.sample < block.pools[name].size))
            if column is not None and len(on):
                out[on] = column[on, self.sample[on]]
        return out


@dataclass(frozen=True)
class PolicyPath:
    """A policy's outcome with the calls that it paid; `gate` holds those of its own and its base's gates alone."""

    outcome: Outcome
    realizations: tuple[Realization, ...]
    chosen: ChosenTraces | None
    gate: Calls
    orders: int | None = None  # realizations are this many random orders, which pair one to one with another's


def certain_calls(among: np.ndarray) -> CallMask:
    """The mask of calls `among` (E, T) that are all made."""
    return CallMask(among, among.sum(axis=1))


def single_trace_calls(pool: LoggedPool, number: int) -> CallMask:
    """The mask of one call an example: the one that writes trace `number`, on the examples that have such a trace."""
    return certain_calls(((np.arange(pool.code.shape[1]) == number) & pool.has_trace).astype(float))


def random_calls(among: np.ndarray, draw: RandomDraw) -> CallMask:
    """The mask of those calls `among` (E, T) that belong to randomly drawn traces."""
    share = draw.count / np.maximum(draw.among.sum(axis=1), 1)
    return CallMask(among.astype(float), among.sum(axis=1) * share, draw)


def path_of_rows(
    block: LogBlock, calls: RowCalls, is_paid: np.ndarray, reason: np.ndarray, reasons: tuple[str, ...],
    ending: np.ndarray, measured: Mapping[str, np.ndarray], words: np.ndarray | None = None,
    correct: np.ndarray | None = None,
) -> PolicyPath:  # fmt: skip
    """The path of a policy that pays those rows of a further table that `is_paid` (R,) on the covered examples.

    `ending` (E,); `measured`: columns of outcomes (E,) of its own, beside the calls and queries that the rows log and
    the number of rows, `rounds`. `words` (E,): the answers as numbers of the vocabulary, and `correct` (E,): whether
    they are right; None where the policy has none.
    """
    outcome = outcome_of_rows(block, calls, is_paid, reason, reasons, ending, measured, words, correct)
    return path_paying_rows(block, calls, is_paid, outcome)


def path_paying_rows(block: LogBlock, calls: RowCalls, is_paid: np.ndarray, outcome: Outcome) -> PolicyPath:
    """The path with this `outcome` that pays those rows of a further table that `is_paid` (R,) on the covered ones."""
    paid = block.tables[calls.table, calls.pool].values_by_place(is_paid.astype(float)) * (outcome.reason == 0)[:, None]
    path = Realization(np.ones(len(paid)), (CallSegment({calls: certain_calls(paid)}),))
    return PolicyPath(outcome, (path,), None, {})


def outcome_of_rows(
    block: LogBlock, calls: RowCalls, is_paid: np.ndarray, reason: np.ndarray, reasons: tuple[str, ...],
    ending: np.ndarray, measured: Mapping[str, np.ndarray], words: np.ndarray | None = None,
    correct: np.ndarray | None = None,
) -> Outcome:  # fmt: skip
    """The outcome of the path that `path_of_rows` gives for the same arguments."""
    rows, examples = block.tables[calls.table, calls.pool], len(reason)
    paid = (is_paid & (reason == 0)[rows.example]).astype(np.float64)
    logged = [name for name in ("calls", "queries") if rows.has(name)]
    counts = {name: rows.sum_by_example(np.where(paid > 0, rows.numbers(name), 0.0)) for name in logged}
    costs = np.zeros((examples, len(COSTS)))
    for column, total in calls.costs_of_rows(block, paid):
        costs[:, column] = total
    unknown = np.full(examples, np.nan)
    return Outcome(
        reason=reason,
        reasons=reasons,
        costs=costs,
        correct=unknown if correct is None else correct,
        credit=unknown,
        words=np.full((1, examples), -1, np.int32) if words is None else words[None, :].astype(np.int32),
        shares=None,
        rows=np.ones(examples, dtype=np.int64),
        ending=ending.astype(np.int8),
        measured=counts | {"rounds": rows.sum_by_example(paid)} | dict(measured),
    )


def union_of_calls(calls: Iterable[Calls]) -> Calls:
    """The union of several policies' calls; a call in several of them is paid once."""
    masks: dict[CallKey, CallMask] = {}
    for some in calls:
        for key, paid in some.items():
            other = masks.get(key)
            if other is None or not other.among.any():
                masks[key] = paid
            elif paid.among.any():
                either = 1 - (1 - other.probability) * (1 - paid.probability)
                masks[key] = CallMask(np.maximum(other.among, paid.among), either.sum(axis=1))
    return masks


def calls_not_yet_paid(calls: Calls, known: Calls) -> Calls:
    """The `calls` that are not among the `known` ones. Both hold only calls that are certainly made."""
    return {
        key: certain_calls(paid.among * (1 - known[key].among)) if key in known else paid for key, paid in calls.items()
    }


def cost_not_yet_paid(block: LogBlock, segments: Sequence[CallSegment], known: Sequence[Calls]) -> np.ndarray:
    """Costs (E, C) of a path's segments beyond the calls that are `known` already, each paid once."""
    total = np.zeros((len(block.examples), len(COSTS)))
    before = list(known)
    for segment in segments:
        total += _segment_cost(block, segment, union_of_calls(before))
        before.append(segment.calls)
    return total


def _extra_tokens(block: LogBlock, calls: Calls, known: Calls) -> np.ndarray:
    """Expected tokens (E,) of the `calls` that are not `known`."""
    tokens = np.zeros(len(block.examples))
    for key, paid in calls.items():
        new, shared = _probability_not_paid_before(key, paid, known), key.shared_reply_costs(block)
        tokens += weigh_by_probability(new, key.call_tokens(block)).sum(axis=1)
        if shared is not None:
            repeats = shared.probability_of_repeated_reply(new, known[key].probability if key in known else None)
            tokens -= weigh_by_probability(repeats, shared.costs["prompt_tokens"]).sum(axis=1)
    return tokens


def expected_tokens(block: LogBlock, realizations: Iterable[Realization], known: Calls) -> np.ndarray:
    """Expected tokens (E,) of the calls that realizations make and that are not `known`, by their weights."""
    tokens = np.zeros(len(block.examples))
    for realization in realizations:
        extra = _extra_tokens(block, union_of_calls(segment.calls for segment in realization.segments), known)
        tokens += np.where(realization.weight > 0, realization.weight * extra, 0.0)
    return tokens


def _probability_not_paid_before(key: CallKey, paid: CallMask, known: Calls) -> np.ndarray:
    """Probability (E, T) that a call is paid and was not known."""
    other = known.get(key)
    return paid.probability if other is None else paid.probability * (1 - other.probability)


def _segment_cost(block: LogBlock, segment: CallSegment, known: Calls) -> np.ndarray:
    """Costs (E, C) of a segment's calls that are not `known` already."""
    costs = np.zeros((len(block.examples), len(COSTS)))
    waited: np.ndarray | float = 0.0  # seconds of traces that were generated side by side, whatever slice they are in
    for key, paid in segment.calls.items():
        new = _probability_not_paid_before(key, paid, known)
        if not new.any():
            continue
        for column, values in key.expected_costs(block, new):
            costs[:, column] += values
        shared, apart = key.shared_reply_costs(block), new
        if shared is not None:
            repeats = shared.probability_of_repeated_reply(new, known[key].probability if key in known else None)
            apart = new - repeats
            for cost, part in shared.costs.items():
                costs[:, AT[GENERATED.get(cost, cost)]] -= weigh_by_probability(repeats, part).sum(axis=1)
        if (waits := key.side_by_side_seconds(block)) is not None:
            seconds = weigh_by_probability(apart, waits)
            if segment.is_side_by_side:
                waited = waited + seconds
            else:
                costs[:, AT["latency_s"]] += seconds.sum(axis=1)
    if isinstance(waited, np.ndarray):
        costs[:, AT["latency_s"]] += _segment_seconds(segment, waited)
    return costs


def _segment_seconds(segment: CallSegment, seconds: np.ndarray) -> np.ndarray:
    """Wall-clock seconds (E,) of traces that take `seconds` (E, T); a block takes as long as its slowest trace."""
    if segment.place is None or segment.count is None:
        raise ValueError("traces side by side have their places")
    there = np.arange(segment.place.shape[1]) < segment.count[:, None]
    placed = np.where(there, np.take_along_axis(seconds, segment.place, axis=1), 0.0)
    return elapsed_seconds(placed, segment.ends)[:, -1] if placed.shape[1] else np.zeros(len(placed))


def compare_with_base(block: LogBlock, path: PolicyPath, base: PolicyPath) -> BaseComparison:
    """Compare a policy with its base on each example: fix, flip, action tokens, and whether the policy made any call of
    its own.

    fix = (1 - b) c and flip = b (1 - c) for the (mean) correctness b of the base and c of the policy, so that
    accuracy(policy) - accuracy(base) = fix rate - flip rate. Realizations that are random orders are paired one to one
    when both have the same number, else all with all. Calls of the policy's own gates are no action.
    """
    paired = path.orders is not None and path.orders == base.orders
    pairs = list(zip(path.realizations, base.realizations, strict=True)) if paired else []
    every = pairs or [(a, b) for a in path.realizations for b in base.realizations]
    action, acts = np.zeros(len(path.outcome.correct)), np.zeros(len(path.outcome.correct))
    for a, b in every:
        weight = a.weight if paired else a.weight * b.weight
        tokens, any_call = _extra_calls(block, a, b, path.gate)
        action += np.where(weight > 0, weight * tokens, 0.0)
        acts += weight * any_call
    return BaseComparison(base.outcome.correct, path.outcome.correct, acts, action)


def _extra_calls(
    block: LogBlock, realization: Realization, base: Realization, gate: Calls
) -> tuple[np.ndarray, np.ndarray]:
    """Expected tokens (E,) of the calls that `base` and gates did not make, and the probability (E,) of any."""
    calls, known = (
        union_of_calls(segment.calls for segment in realization.segments),
        union_of_calls([*(one.calls for one in base.segments), gate]),
    )
    none = np.ones(len(block.examples))
    by_draw: dict[tuple[RandomDraw | None, RandomDraw | None], list[tuple[CallMask, CallMask]]] = {}
    for call, paid in calls.items():
        other = known.get(call, certain_calls(np.zeros_like(paid.among)))
        if paid.draw is None and other.draw is None:
            none *= _probability_both_paid(paid, other)
        else:
            by_draw.setdefault((paid.draw, None if paid.draw else other.draw), []).append((paid, other))
    for pairs in by_draw.values():
        none *= _probability_all_paid(pairs)
    return _extra_tokens(block, calls, known), 1 - none


def _probability_all_paid(pairs: Sequence[tuple[CallMask, CallMask]]) -> np.ndarray:
    """Probability (E,) that every call of a random draw is known. A pair holds, for a kind of calls, the draw's and the
    known.

    Of the traces that are drawn here each must be one whose calls are all among the known, and be drawn there, too,
    where the known calls come with a draw of their own. Without a draw here, all traces with a call are.
    """
    draw = next((mask.draw for mask, _ in pairs if mask.draw is not None), None)
    other = next((known.draw for _, known in pairs if known.draw is not None), None)
    new = np.any([(mask.among > 0) & (known.among == 0) for mask, known in pairs], axis=0)
    any_call = np.any([mask.among > 0 for mask, _ in pairs], axis=0)
    among = any_call if draw is None else draw.among
    count = any_call.sum(axis=1) if draw is None else np.where(any_call.any(axis=1), draw.count, 0)
    inside = (
        certain_calls((among & ~new).astype(float))
        if other is None
        else CallMask(other.among & ~new, other.count, other)
    )
    return _probability_both_paid(CallMask(among.astype(float), count), inside)


def _probability_both_paid(mask: CallMask, other: CallMask) -> np.ndarray:
    """Probability (E,) that the random subset `mask` lies within the independent random subset `other`.

    With k of n drawn here, K of N there and m of the n also among the N: each next draw must be one of the m, and be
    among the K.
    """
    both = (mask.among * other.among).sum(axis=1)
    here, there = mask.among.sum(axis=1), (other.among if other.draw is None else other.draw.among).sum(axis=1)
    within = np.ones(len(both))
    for draw in range(int(np.ceil(mask.count.max(initial=0)))):
        common = np.maximum(both - draw, 0) / np.maximum(here - draw, 1)
        factors = np.maximum(other.count - draw, 0) / np.maximum(there - draw, 1)
        within *= np.where(draw < mask.count, common * factors, 1.0)
    return within
