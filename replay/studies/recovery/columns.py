"""Columns that tables of policies share: shares are fractions until they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from replay.studies.kit.sheet import Cells, Column, intervals, numbers
from toolkit.columns import metric_column
from toolkit.show import Number


def _heading(metric: str) -> str:
    """What a metric's column is headed by everywhere."""
    return metric_column(metric).heading


ACCURACY = intervals(_heading("accuracy"), "accuracy", 1, metric="accuracy", shown=100)
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
TOTAL_TOKENS = intervals("total tokens", "total_tokens", 0, metric="total_tokens")
PLAIN_TOTAL_TOKENS = replace(TOTAL_TOKENS, form=Number(0))
ACTS_ON = numbers("acts on %", "intervention_rate", 1, metric="intervention_rate", shown=100)
CALLS = numbers(_heading("calls"), "calls", metric="calls", drop=4)
ACTION_TOKENS = numbers("action tokens", "action_tokens", 0, metric="action_tokens", drop=3)
FINALIZERS = numbers("finalizers", "finalizers", metric="finalizers", drop=5)
FIXES = numbers(_heading("fix_rate"), "fix_rate", metric="fix_rate", shown=100)
FLIPS = numbers(_heading("flip_rate"), "flip_rate", metric="flip_rate", shown=100)
SECONDS = tuple(numbers(name, name) for name in ("mean", "p50", "p95", "p99"))


def priced(prices: Sequence[float]) -> dict[float, Column]:
    """Cost of 1,000 requests at prices per million tokens, by the price."""

    def cost(price: float, row: Cells) -> float | None:
        tokens = row.cell("total_tokens")
        return None if tokens is None or tokens.estimate is None else tokens.estimate * price / 1000

    return {
        price: numbers(f"at {price:g} per million", f"per_1000_at_{price:g}", value=partial(cost, price), drop=2)
        for price in prices
    }
