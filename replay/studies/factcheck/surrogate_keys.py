"""What the surrogate's own keys change: those that the thesis leaves open, and those that it names without a value.

The score of an answer that no verified trace has given, `unseen`, decides how soon the surrogate looks at another
answer. So its differences to the other orders are computed for several values of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl

from replay.analyses.budgets import ORDERS, Budgets, budgets
from replay.kinds.every_example import every_example
from replay.kinds.sample import Sample
from replay.runs.run import run
from replay.sampling.surrogate import LABEL_SCORES
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.kit.cells import warnings_of
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.show import ShownInterval

UNSEEN = (0.0, 0.5, 1.0)
RIDGES, FORGETTINGS = (0.1, 1.0, 10.0), (0.9, 1.0)
REFERENCES = {"generation": "generation order", "random, expected": "random, all orders"}
"""Orders that the surrogate is compared with, and what tables call them; of the random one the exact mean."""
BUDGETS = {15: (3, 5, 7, 10, 13), 50: (5, 10, 15, 20, 25, 30, 40, 45)}
USUAL = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 45)
"""Budgets of table B.4: the thesis's for its sizes of pool, and those below any other."""
SETTINGS = {"unseen": pl.Float64, "label_score": pl.String, "ridge": pl.Float64, "forgetting": pl.Float64}
MEASURED = ("macro_f1", "operations")


def shown_budgets(size: int) -> tuple[int, ...]:
    """The budgets of a pool of so many traces that table B.4 shows."""
    return BUDGETS.get(size) or (*(k for k in USUAL if k < size), size)


@dataclass(frozen=True)
class Gap:
    """The surrogate's macro-F1 less another order's at the same budget, in points, and its p-value."""

    points: ShownInterval
    p_value: float | None

    @property
    def sign(self) -> str:
        """`+` or `−`; in brackets where the interval does not exclude 0, `0` where there is no difference at all."""
        low, high = self.points.low, self.points.high
        mark = "0" if self.points.estimate == 0 else "+" if self.points.estimate > 0 else "−"
        clear = low is not None and high is not None and (low > 0 or high < 0)
        return mark if clear or mark == "0" else f"({mark})"


@dataclass(frozen=True)
class AtUnseen:
    """The surrogate on a pool of so many traces, with k verifications, for one `unseen` and one `label_score`.

    `gaps` to the orders of `REFERENCES`. What the log cannot serve is None.
    """

    traces: int
    k: int
    unseen: float
    label_score: str
    macro_f1: ShownInterval | None
    gaps: dict[str, Gap | None]


@dataclass(frozen=True)
class SurrogateKeys:
    """`lazy`: macro-F1 and operations of algorithm 3 for every combination of keys; null where it cannot be served.

    Its columns: unseen, label_score, ridge, forgetting, metric, estimate, low, high. `fixed`: of fixed budgets.
    `warnings`: what must be said above tables of `lazy`; `missing`: why its numbers are null.
    """

    lazy: pl.DataFrame
    fixed: tuple[AtUnseen, ...]
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def signs(fixed: Sequence[AtUnseen], traces: int, k: int, against: str) -> str | None:
    """Whether the sign of the difference depends on `unseen`, and the sign at each; None where one is unknown."""
    found = [x.gaps[against] for x in fixed if (x.traces, x.k, x.label_score) == (traces, k, "mean")]
    known = [gap.sign for gap in found if gap is not None]
    if not known or len(known) < len(found):
        return None
    depends = len({sign.strip("()") for sign in known}) > 1
    return f"{'yes' if depends else 'no'}: {', '.join(known)}"


def surrogate_keys(log: Log, setting: FactcheckSetting, sizes: Sequence[int]) -> SurrogateKeys:
    """Replay algorithm 3 with every combination of keys, and fixed budgets of pools of these sizes."""
    lazy, warnings, missing = _lazy(log, setting)
    fixed = tuple(at for size in sizes for at in fixed_by_keys(log, setting, size))
    return SurrogateKeys(lazy, fixed, warnings, missing)


def _lazy(log: Log, setting: FactcheckSetting) -> tuple[pl.DataFrame, tuple[str, ...], tuple[str, ...]]:
    rows, policies = [], []
    for values in product(UNSEEN, LABEL_SCORES, RIDGES, FORGETTINGS):
        own: dict[str, Any] = dict(zip(SETTINGS, values, strict=True))
        name = "surrogate with " + ", ".join(f"{key} {value}" for key, value in own.items())
        rows.append((name, *values))
        policies.append(
            Sample(
                name=name, pool=setting.pool, verifier=setting.verifier, max_traces=setting.cap, order="surrogate",
                features=setting.features, stop=setting.margin, **own,
            )
        )  # fmt: skip
    table = pl.DataFrame(rows, schema={"policy": pl.String, **SETTINGS}, orient="row").join(
        pl.DataFrame({"metric": MEASURED}), how="cross", maintain_order="left_right"
    )
    columns = (*SETTINGS, "metric", "estimate", "low", "high")
    try:
        result = run(log, [*policies, every_example(setting.pool)], **setting.asked)
    except ThinkbackError as error:
        null = {name: pl.lit(None, pl.Float64) for name in ("estimate", "low", "high")}
        return table.with_columns(**null).select(*columns), (), (str(error),)
    made = table.join(result.summary, on=["policy", "metric"], how="left", maintain_order="left").select(*columns)
    return made, warnings_of(result), tuple(dict.fromkeys(result.dropped.values()))


def fixed_by_keys(log: Log, setting: FactcheckSetting, size: int) -> Iterator[AtUnseen]:
    """The surrogate at the budgets of a pool of so many traces for each `unseen` and `label_score`.

    Nothing where the pool cannot be replayed, which table B.4 gives the reason of.
    """
    tried = {f"{kind}, {unseen:g}": (unseen, kind) for kind, unseen in product(LABEL_SCORES, UNSEEN)}
    orders = {name: ORDERS[name] for name in REFERENCES}
    orders |= {name: {**ORDERS["surrogate"], "unseen": u, "label_score": kind} for name, (u, kind) in tried.items()}
    try:
        made = budgets(
            log, verifier=setting.verifier, max_traces=size, pool=setting.pool, features=setting.features,
            orders=orders, budget=[k for k in shown_budgets(size) if k <= size], **setting.asked,
        )  # fmt: skip
    except ThinkbackError:
        return
    quality = made.by_k.filter(metric="macro_f1").select("order", "k", "estimate", "low", "high")
    found = {(order, k): ShownInterval.of(cell, 100) for order, k, *cell in quality.iter_rows()}
    for k, (name, (unseen, kind)) in product(shown_budgets(size), tried.items()):
        gaps = {reference: gap(made, k, reference, name) for reference in REFERENCES}
        yield AtUnseen(size, k, unseen, kind, found.get((name, k)), gaps)


def gap(made: Budgets, k: int, reference: str, name: str = "surrogate") -> Gap | None:
    """An order's macro-F1 less that of one that stands before it in `made`; None where either cannot be served."""
    found = made.pairs.filter(k=k, metric="macro_f1", order=reference, against=name)
    for difference, low, high, p_value in found.select("difference", "low", "high", "p_value").iter_rows():
        if difference is not None:
            ends = (None, None) if low is None else (-100 * high, -100 * low)
            return Gap(ShownInterval(-100 * difference, *ends), p_value)
    return None
