"""Every metric as sums over resampling units and a small function of the sums.

A metric names its columns: statistics of one example that are added over examples, units and resamples. It then
turns arrays of such sums into values. So a bootstrap needs to know nothing but columns and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from toolkit.stats.blocks import Floats, Ints
from toolkit.stats.store import Chunk

QUALITY = {
    "correct": "accuracy",
    "credit": "credit",
    "fix": "fix_rate",
    "flip": "flip_rate",
    "intervened": "intervention_rate",
    "covered": "coverage",
    "answered": "answer_rate",
    "answered_correct": "accuracy_answered",
}
"""Columns of outcomes whose mean has a name of its own."""

COST_ORDER = (
    "traces", "valid_traces", "finalizers", "truncated", "verifications", "operations", "calls", "queries", "rounds",
    "prompt_tokens", "completion_tokens", "verification_tokens", "total_tokens", "action_tokens",
    "generation_s", "verification_s", "latency_s", "device_s",
)  # fmt: skip

RATES = frozenset({"finalizers", "truncated"})
"""Counts that are events of an example when they are 0 and 1 only: rates then."""

NOT_METRICS = frozenset({"base_correct"})
"""Columns that only serve others: the base's accuracy is the base's own row."""

SECONDS_PER_HOUR = 3600.0


def is_share(metric: str) -> bool:
    """Whether a metric's values lie in 0 to 1 (accuracy, F1, rates, recalls)."""
    named = (*QUALITY.values(), *RATES, "macro_f1", "weighted_f1", "found")
    return metric in named or metric.startswith(("f1:", "recall_"))


@dataclass(frozen=True, slots=True)
class Column:
    """One statistic of an example. `policy` and `label` are indices, -1 where the column has none.

    Kinds: `sum` the value, 0 where null; `has` 1 where there is a value; `size` 1 for every example; `judged` 1 where
    any policy is judged; `tp`, `pred`, `support` the share of a label predicted where it is gold, predicted at all,
    and gold, over the examples that the policy's F1 counts; `gold` the label's gold over those judged for any policy.
    """

    kind: str
    key: str = ""
    policy: int = -1
    label: int = -1

    @property
    def scale_group(self) -> str:
        """Columns that are put on one grid when quantised, so that equal values stay equal across policies."""
        return self.key if self.kind == "sum" else ("share" if self.kind in ("tp", "pred") else "count")


def _used(chunk: Chunk, policies: Ints) -> np.ndarray:
    """Examples that each policy's F1 counts (policies, E): gold known and the outcome judged."""
    known = np.broadcast_to(_gold(chunk) >= 0, (len(policies), len(chunk)))
    return known & ~np.isnan(chunk.values("correct", policies)) if chunk.has("correct") else known


def _gold(chunk: Chunk) -> Ints:
    """Gold labels (E,); −1 where there is none."""
    return np.full(len(chunk), -1) if chunk.gold is None else chunk.gold


def _predicted(chunk: Chunk, policies: Ints, label: int, where: np.ndarray) -> Floats:
    return np.where(where, chunk.values(label, policies), 0.0)


def _zero_for_null(values: Floats) -> Floats:
    return np.where(np.isnan(values), 0.0, values)


ROWS: dict[str, Callable[[Chunk, str, int, Ints], np.ndarray]] = {
    "sum": lambda chunk, key, label, who: _zero_for_null(chunk.values(key, who)),
    "has": lambda chunk, key, label, who: ~np.isnan(chunk.values(key, who)),
    "size": lambda chunk, key, label, who: np.ones((1, len(chunk))),
    "judged": lambda chunk, key, label, who: chunk.judged[None],
    "tp": lambda chunk, key, label, who: _predicted(chunk, who, label, _used(chunk, who) & (_gold(chunk) == label)),
    "pred": lambda chunk, key, label, who: _predicted(chunk, who, label, _used(chunk, who)),
    "support": lambda chunk, key, label, who: _used(chunk, who) & (_gold(chunk) == label),
    "gold": lambda chunk, key, label, who: (chunk.judged & (_gold(chunk) == label))[None],
}


def column_rows(chunk: Chunk, columns: Sequence[Column]) -> Floats:
    """The columns' values on the examples of a chunk, (columns, E) float64."""
    out = np.empty((len(columns), len(chunk)))
    alike: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for row, column in enumerate(columns):
        alike.setdefault((column.kind, column.key, column.label), []).append((column.policy, row))
    for (kind, key, label), found in alike.items():
        policies, rows = np.array(sorted(found), np.int64).T
        out[rows] = ROWS[kind](chunk, key, label, policies)
    out += 0.0  # no −0
    return out


class Metric(Protocol):
    """What the bootstrap asks of a metric."""

    @property
    def name(self) -> str:
        """The name in the tables."""
        ...

    @property
    def reducible(self) -> bool:
        """Whether `reduction:<metric>` is reported."""
        ...

    @property
    def rate(self) -> bool:
        """Whether a column of 0 and 1 with few events gets a score interval."""
        ...

    def columns(self, policy: int) -> tuple[Column, ...]:
        """The columns that `value` wants sums of, in its order."""
        ...

    def value(self, sums: Sequence[Floats]) -> Floats:
        """Values (any shape) from one array of that shape (or one that broadcasts) a column; NaN: no value."""
        ...


@dataclass(frozen=True)
class Mean:
    """Mean of a numeric column of outcomes times `factor`.

    `whole`: any null takes the policy's value away (costs); otherwise nulls are left out (quality).
    """

    name: str
    key: str
    factor: float = 1.0
    whole: bool = False
    rate: bool = False
    reducible: bool = False

    def columns(self, policy: int) -> tuple[Column, ...]:
        """Sum and weight."""
        weight = Column("size") if self.whole else Column("has", self.key, policy)
        return (Column("sum", self.key, policy), weight)

    def value(self, sums: Sequence[Floats]) -> Floats:
        """Sum over weight; NaN where nothing has weight."""
        total, weight = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / weight
        return mean if self.factor == 1.0 else mean * self.factor


@dataclass(frozen=True)
class F1:
    """F1 of one label (`which` is its index), or over the labels: `macro` the plain mean, `weighted` by gold support.

    2TP / (2TP + FP + FN) is 2TP / (predicted + gold support). A label without gold in the sample is left out.
    """

    name: str
    labels: int
    which: int | str
    reducible: bool = False
    rate: bool = False

    def columns(self, policy: int) -> tuple[Column, ...]:
        """(tp, predicted, support, gold) for each label used, label after label."""
        wanted = [self.which] if isinstance(self.which, int) else range(self.labels)
        return tuple(
            column
            for label in wanted
            for column in (
                Column("tp", "", policy, label),
                Column("pred", "", policy, label),
                Column("support", "", policy, label),
                Column("gold", "", -1, label),
            )
        )

    def value(self, sums: Sequence[Floats]) -> Floats:
        """F1 from the sums; NaN where no wanted label has gold."""
        shape = np.broadcast_shapes(*(s.shape for s in sums))
        total, weights = np.zeros(shape), np.zeros(shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            for start in range(0, len(sums), 4):
                tp, predicted, support, gold = sums[start : start + 4]
                present = gold > 0
                f1 = 2 * tp / (predicted + support)
                weight = np.where(present, support if self.which == "weighted" else 1.0, 0.0)
                total += np.where(present, f1 * weight, 0.0)
                weights += weight
            return total / weights


def catalogue(keys: Iterable[str], labels: Sequence[str] | None, kw: float, eur_per_kwh: float, seconds: str | None
              ) -> list[Metric]:  # fmt: skip
    """The metrics of a run in the order of the tables.

    Accuracy, credit, F1s, fixes, flips, interventions, other measured columns (`found`, `recall_10`, `deviation`, …),
    counts, tokens, seconds, unknown columns, euros, price per 1,000 requests. `seconds`: the column euros come from.
    """
    present = set(keys) - NOT_METRICS
    found: list[Metric] = [Mean(QUALITY[k], k, rate=True) for k in ("correct", "credit") if k in present]
    if labels is not None:
        found += [F1("macro_f1", len(labels), "macro"), F1("weighted_f1", len(labels), "weighted")]
        found += [F1(f"f1:{label}", len(labels), index) for index, label in enumerate(labels)]
    found += [Mean(QUALITY[k], k, rate=True) for k in ("fix", "flip", "intervened") if k in present]
    recalls = sorted((k for k in present if k.startswith("recall_")), key=lambda k: (len(k), k))
    found += [Mean(k, k, rate=True) for k in ("found", *recalls) if k in present]
    found += [Mean(QUALITY[k], k, rate=True) for k in ("covered", "answered", "answered_correct") if k in present]
    found += [Mean(k, k) for k in ("set_size", "position", "deviation") if k in present]
    found += [Mean(k, k, whole=True, rate=k in RATES, reducible=True) for k in COST_ORDER if k in present]
    named = {*QUALITY, "found", *recalls, "set_size", "position", "deviation", *COST_ORDER, "price"}
    found += [Mean(k, k, whole=True, reducible=True) for k in sorted(present - named)]
    if seconds is not None:
        found.append(Mean("cost_eur", seconds, kw * eur_per_kwh / SECONDS_PER_HOUR, whole=True, reducible=True))
    if "price" in present:
        found.append(Mean("cost_per_1000", "price", 1000.0, whole=True, reducible=True))
    return found
