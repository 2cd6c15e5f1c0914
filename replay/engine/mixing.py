"""Outcomes of policies that are combined: one or the other by example, or a weighted mean of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from replay.data.block import LogBlock
from replay.engine.calls import Calls, ChosenTraces, PolicyPath, Realization, expected_tokens, union_of_calls
from replay.engine.outcome import MIXED, Outcome
from toolkit.columns import OutcomeColumn, find, with_columns

Columns = Sequence[OutcomeColumn]
"""Further columns of outcomes, which the parts of a policy have."""


def choose_path(on: np.ndarray, first: PolicyPath, second: PolicyPath, columns: Columns) -> PolicyPath:
    """The path of a policy that goes the first path where `on` (E,), else the second, and pays that one alone."""
    outcome = choose_outcome(on, first.outcome, second.outcome, columns)
    later = second.outcome.reason + (len(first.outcome.reasons) - 1) * (second.outcome.reason > 0)
    reason = np.where(on, first.outcome.reason, later).astype(np.int16)
    reasons = (*first.outcome.reasons, *second.outcome.reasons[1:])
    sides = ((first, on), (second, ~on))
    every = [realization.restrict_to(side) for path, side in sides for realization in path.realizations]
    gates: list[Calls] = [{key: paid.restrict_to(side) for key, paid in path.gate.items()} for path, side in sides]
    return PolicyPath(
        replace(outcome, reason=reason, reasons=reasons),
        tuple(one for one in every if one.weight.any()),
        combine_chosen_traces(on, first.chosen, second.chosen),
        union_of_calls(gates),
    )


def choose_outcome(
    on: np.ndarray, first: Outcome, second: Outcome, columns: Columns, second_paid: bool = False
) -> Outcome:
    """The first outcome on the examples in `on` (E,), else the second; the caller sets the reasons for partial
    examples.

    `second_paid`: what the second costs by `columns` is paid everywhere.
    """
    if first.shares is None and second.shares is None:
        words, shares = np.where(on, first.words[0], second.words[0])[None], None
    else:
        words = np.concatenate([np.where(on, first.words, -1), np.where(on, -1, second.words)])
        shares = np.concatenate([_row_shares(first) * on, _row_shares(second) * ~on])
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
        measured=combine_columns(columns, (first, on), (second, ~on), ~on | second_paid),
    )


def combine_columns(
    columns: Columns, first: tuple[Outcome, np.ndarray], second: tuple[Outcome, np.ndarray], second_paid: np.ndarray
) -> dict[str, np.ndarray]:
    """Further columns (E,) of two outcomes, added up by the weight (E,) of each; costs of the second by `second_paid`
    (E,).

    A column that one outcome lacks counts as 0 if it is a cost; else the sum is unknown where that outcome has weight.
    """
    sums = {}
    for name in {**first[0].measured, **second[0].measured}:
        cost = find(name, with_columns(columns)).cost
        sides = (first, (second[0], second_paid) if cost else second)
        values = ((one.measured.get(name, 0.0 if cost else np.nan), weight) for one, weight in sides)
        sums[name] = np.sum([np.where(weight > 0, value * weight, 0.0) for value, weight in values], axis=0)
    return sums


def combine_chosen_traces(
    on: np.ndarray, first: ChosenTraces | None, second: ChosenTraces | None
) -> ChosenTraces | None:
    """The chosen traces of `first` where `on` (E,), else of `second`; None where a policy chooses no trace."""
    if first is None or second is None:
        return None
    names = tuple(dict.fromkeys([*first.slices, *second.slices]))
    one, two = (np.array([names.index(name) for name in part.slices])[part.slice] for part in (first, second))
    return ChosenTraces(names, np.where(on, one, two), np.where(on, first.sample, second.sample))


def mix_paths(rate: float, base: PolicyPath, then: PolicyPath, columns: Columns) -> PolicyPath:
    """The mean of `then`, with weight `rate`, and `base` on every example; both must cover it."""
    reason, reasons = partial_on_either(base.outcome, then.outcome)
    weights = np.full((2, len(reason)), [[rate], [1 - rate]])
    further = combine_columns(columns, (then.outcome, weights[0]), (base.outcome, weights[1]), weights[1])
    sides = [(weight, path) for weight, path in ((1 - rate, base), (rate, then)) if weight > 0]
    if len(sides) == 1:
        only = replace(sides[0][1].outcome, reason=reason, reasons=reasons, against=None, measured=further)
        return replace(sides[0][1], outcome=only, chosen=None)
    one, two = base.outcome, then.outcome
    (words, shares), (more_words, more_shares) = _shares_of_answers(one), _shares_of_answers(two)
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
        measured=further,
    )
    every = (
        Realization(realization.weight * weight, realization.segments)
        for weight, path in sides
        for realization in path.realizations
    )
    return PolicyPath(outcome, tuple(every), None, {})


def partial_on_either(base: Outcome, then: Outcome) -> tuple[np.ndarray, tuple[str, ...]]:
    """Why an example is partial for a policy that needs both outcomes: numbers (E,), and their texts."""
    later = np.where(then.reason > 0, then.reason + len(base.reasons) - 1, 0)
    return np.where(base.reason > 0, base.reason, later).astype(np.int16), (*base.reasons, *then.reasons[1:])


def correctness_gain(block: LogBlock, base: PolicyPath, then: PolicyPath) -> tuple[np.ndarray, np.ndarray]:
    """Gain in mean correctness (E,) of `then` over `base`, and its action tokens (E,)."""
    return then.outcome.correct - base.outcome.correct, expected_tokens(block, then.realizations, all_paid_calls(base))


def all_paid_calls(path: PolicyPath) -> Calls:
    """All calls that a policy may have made, over all realizations of its path."""
    return union_of_calls(calls for realization in path.realizations for calls in realization.calls_by_segment)


def most_probable_answer(outcome: Outcome) -> np.ndarray:
    """The vocabulary number (E,) of the most probable prediction of an outcome, -1 where that is null."""
    if outcome.shares is None:
        return outcome.words[0]
    return outcome.words[outcome.shares.argmax(axis=0), np.arange(outcome.words.shape[1])]


def _row_shares(outcome: Outcome) -> np.ndarray:
    return np.ones(outcome.words.shape) if outcome.shares is None else outcome.shares


def _shares_of_answers(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of an outcome and their shares (W, E); what is missing to 1 is the share of the null answer."""
    shares = _row_shares(outcome)
    null = np.full((1, shares.shape[1]), -1, dtype=np.int32)
    rest = np.maximum(1 - shares.sum(axis=0, keepdims=True), 0.0).round(12)
    return np.concatenate([outcome.words, null]), np.concatenate([shares, rest])
