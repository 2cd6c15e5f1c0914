"""How keys of the surrogate change it under a fixed budget: its differences to other orders, by their values.

The score of an answer that no verified trace has given, `unseen`, decides how soon the surrogate looks at another
answer. So its differences to the other orders are computed for several values of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl

from replay.analyses.budgets.budgets import ORDERS, Budgets, budgets
from replay.sampling.surrogate import LABEL_SCORES
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.show import IntervalCell

UNSEEN = (0.0, 0.5, 1.0)
USUAL_UNSEEN = 0.5
"""The value that the surrogate has by default."""
REFERENCES = {"generation": "generation order", "random, expected": "random, all orders"}
"""The orders that the surrogate is compared with, and their names in tables; the random one is its exact mean."""


@dataclass(frozen=True)
class _MacroF1Gap:
    """The surrogate's macro-F1 minus another order's at the same budget, in points, with its p-value."""

    points: IntervalCell
    p_value: float | None

    @property
    def sign_text(self) -> str:
        """`+` or `−`; in brackets where the interval does not exclude 0, `0` where there is no difference at all."""
        low, high = self.points.low, self.points.high
        mark = "0" if self.points.estimate == 0 else "+" if self.points.estimate > 0 else "−"
        clear = low is not None and high is not None and (low > 0 or high < 0)
        return mark if clear or mark == "0" else f"({mark})"


@dataclass(frozen=True)
class SurrogateGapsAtSetting:
    """The surrogate's results on a pool of so many traces with k verifications, for one `unseen` and `label_score`.

    `gaps` to the orders of `REFERENCES`; `to_usual`: to the same surrogate with the default `unseen`. What the log
    cannot serve is None. The limits hold for all differences of a pool at once.
    """

    traces: int
    k: int
    unseen: float
    label_score: str
    macro_f1: IntervalCell | None
    gaps: dict[str, _MacroF1Gap | None]
    to_usual: _MacroF1Gap | None = None


def difference_sign_at_each_value(
    fixed: Sequence[SurrogateGapsAtSetting], traces: int, k: int, against: str
) -> str | None:
    """Whether the sign of a difference depends on `unseen`, and its sign at each value; None where one is unknown."""
    order_gaps = [x.gaps[against] for x in fixed if (x.traces, x.k, x.label_score) == (traces, k, "mean")]
    known = [gap.sign_text for gap in order_gaps if gap is not None]
    if not known or len(known) < len(order_gaps):
        return None
    depends = len({sign.strip("()") for sign in known}) > 1
    return f"{'yes' if depends else 'no'}: {', '.join(known)}"


def surrogate_gaps_by_setting(
    log: Log, pool: str, verifier: str, size: int, ks: Sequence[int], *, features: Sequence[str] = (), **options: Any
) -> Iterator[SurrogateGapsAtSetting]:
    """The surrogate's results at the budgets `ks` of a pool of so many traces, for each `unseen` and `label_score`.

    `options` goes to `replay.budgets`. Nothing where the pool cannot be replayed.
    """
    settings_by_name = {f"{kind}, {unseen:g}": (unseen, kind) for kind, unseen in product(LABEL_SCORES, UNSEEN)}
    orders = {name: ORDERS[name] for name in REFERENCES}
    orders |= {
        name: {**ORDERS["surrogate"], "unseen": u, "label_score": kind} for name, (u, kind) in settings_by_name.items()
    }
    try:
        pool_budgets = budgets(
            log, verifier=verifier, max_traces=size, pool=pool, features=features, orders=orders,
            budget=[k for k in ks if k <= size], **options,
        )  # fmt: skip
    except ThinkbackError:
        return
    quality = pool_budgets.by_k.filter(metric="macro_f1").select("order", "k", "estimate", "low", "high")
    cells = {(order, k): IntervalCell.of(cell, 100) for order, k, *cell in quality.iter_rows()}
    less = {
        (name, reference): macro_f1_gaps(pool_budgets, name, reference)
        for name, reference in product(settings_by_name, REFERENCES)
    }
    usual = {
        name: macro_f1_gaps(pool_budgets, name, f"{kind}, {USUAL_UNSEEN:g}")
        for name, (_, kind) in settings_by_name.items()
    }
    for k, (name, (unseen, kind)) in product(ks, settings_by_name.items()):
        order_gaps = {reference: less[name, reference].get(k) for reference in REFERENCES}
        yield SurrogateGapsAtSetting(size, k, unseen, kind, cells.get((name, k)), order_gaps, usual[name].get(k))


def macro_f1_gaps(pool_budgets: Budgets, first: str, second: str) -> dict[int, _MacroF1Gap]:
    """The difference of macro-F1 between two orders by budget, first minus second, where the log covers both."""
    frame = pool_budgets.pairs.filter(pl.col("metric") == "macro_f1", pl.col("difference").is_not_null()).sort("k")
    columns = ["k", "difference", "low", "high", "p_value"]
    straight = frame.filter(order=first, against=second).select(columns)
    turned = frame.filter(order=second, against=first).select(
        "k", -pl.col("difference"), low=-pl.col("high"), high=-pl.col("low"), p_value="p_value"
    )
    both = pl.concat([straight, turned]).iter_rows()
    return {k: _MacroF1Gap(IntervalCell(*ends).scaled(100), p_value) for k, *ends, p_value in both}
