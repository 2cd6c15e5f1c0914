"""Every metric as sums over resampling units and a small function of the sums.

A metric names its statistics: numbers of one example that are added over examples, units and resamples. It then turns
arrays of such sums into values. So a bootstrap needs to know nothing but statistics and functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolkit.columns import COLUMNS, OutcomeColumn, column_or_metric, cost_named, find, ranking_costs
from toolkit.stats.metrics.outcomes import Chunk
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.spill import Floats, Ints

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of an example. `policy` and `label` are indices, -1 where it has none; of pairs `label` is the other
    policy.

    Kinds: `sum` the value, 0 where null; `has` 1 where there is a value; of pairs `shared` and `both`, the same where
    the other policy has a value, too, and `other` that one's value there; `size` 1 for every example; `judged` 1 where
    any policy has a value in one of the columns that `key` names, apart by spaces; `used` 1 where the policy's F1
    counts the example; `tp`, `pred`, `support` the share of a label predicted where it is gold, predicted at all, and
    gold, over these; `gold` the label's gold over those judged for any policy.
    """

    kind: str
    key: str = ""
    policy: int = -1
    label: int = -1


def _counted_examples(chunk: Chunk, policies: Ints) -> np.ndarray:
    """Whether each policy's F1 counts each example (policies, E): its gold is known and the outcome judged."""
    known = np.broadcast_to(_gold_labels(chunk) >= 0, (len(policies), len(chunk)))
    return known & ~np.isnan(chunk.values("correct", policies)) if chunk.has("correct") else known


def _judged_examples(chunk: Chunk, columns: Sequence[str]) -> np.ndarray:
    """Whether each example has a value of some policy in `columns` (E,); without columns every one counts as judged."""
    values = [chunk.values(name, np.arange(chunk.policies)) for name in columns]
    return np.any([~np.isnan(column).all(axis=0) for column in values] or [np.ones(len(chunk), bool)], axis=0)


def _gold_labels(chunk: Chunk) -> Ints:
    """The gold label of each example (E,); −1 where it has none."""
    return np.full(len(chunk), -1) if chunk.gold is None else chunk.gold


def _predicted_shares(chunk: Chunk, policies: Ints, label: int, where: np.ndarray) -> Floats:
    return np.where(where, chunk.values(label, policies), 0.0)


def _zero_where_null(values: Floats) -> Floats:
    return np.where(np.isnan(values), 0.0, values)


ROWS: dict[str, Callable[[Chunk, str, int, Ints], np.ndarray]] = {
    "sum": lambda chunk, key, label, who: _zero_where_null(chunk.values(key, who)),
    "has": lambda chunk, key, label, who: ~np.isnan(chunk.values(key, who)),
    "shared": lambda chunk, key, label, who: np.where(
        np.isnan(chunk.values_of(key, label)), 0.0, _zero_where_null(chunk.values(key, who))
    ),
    "other": lambda chunk, key, label, who: np.where(
        np.isnan(chunk.values(key, who)), 0.0, _zero_where_null(chunk.values_of(key, label))
    ),
    "both": lambda chunk, key, label, who: ~np.isnan(chunk.values(key, who) + chunk.values_of(key, label)),
    "size": lambda chunk, key, label, who: np.ones((1, len(chunk))),
    "judged": lambda chunk, key, label, who: _judged_examples(chunk, key.split())[None],
    "used": lambda chunk, key, label, who: _counted_examples(chunk, who),
    "tp": lambda chunk, key, label, who: _predicted_shares(
        chunk, who, label, _counted_examples(chunk, who) & (_gold_labels(chunk) == label)
    ),
    "pred": lambda chunk, key, label, who: _predicted_shares(chunk, who, label, _counted_examples(chunk, who)),
    "support": lambda chunk, key, label, who: _counted_examples(chunk, who) & (_gold_labels(chunk) == label),
    "gold": lambda chunk, key, label, who: (chunk.is_judged & (_gold_labels(chunk) == label))[None],
}


BY_POLICY = ("sum", "has", "shared", "other", "both", "used", "tp", "pred", "support")
"""The kinds of statistics that policies share on the examples on which they share an outcome."""

Likeness = tuple[str, str, int]
"""What statistics of several policies have in common: kind, key, label."""


def group_by_policy(statistics: Sequence[Statistic]) -> dict[Likeness, list[tuple[int, int]]]:
    """The statistics that differ in the policy alone, each as (policy, place among those given), by policy."""
    alike: dict[Likeness, list[tuple[int, int]]] = {}
    for place, one in enumerate(statistics):
        alike.setdefault((one.kind, one.key, one.label), []).append((one.policy, place))
    return {likeness: sorted(cells) for likeness, cells in alike.items()}


def shared_rows(chunk: Chunk, alike: Sequence[Likeness]) -> Floats:
    """The values of statistics `BY_POLICY` on each shared outcome of a chunk, (statistics, W) float64."""
    out = np.empty((len(alike), len(chunk.shared_outcomes_as_chunk)))
    for row, (kind, key, label) in enumerate(alike):
        out[row] = ROWS[kind](chunk.shared_outcomes_as_chunk, key, label, np.zeros(1, np.int64))[0]
    out += 0.0  # no −0
    return out


def statistic_rows(chunk: Chunk, statistics: Sequence[Statistic]) -> Floats:
    """The values of the statistics on each example of a chunk, (statistics, E) float64."""
    out = np.empty((len(statistics), len(chunk)))
    for (kind, key, label), cells in group_by_policy(statistics).items():
        policies, rows = np.array(cells, np.int64).T
        if chunk.shared_outcomes is not None and kind in BY_POLICY:
            out[rows] = shared_rows(chunk, [(kind, key, label)])[0][
                chunk.shared_outcomes.outcome_of_each_example(policies)
            ]
        else:
            out[rows] = ROWS[kind](chunk, key, label, policies)
    out += 0.0  # no −0
    return out


@dataclass(frozen=True)
class _NamedMetric:
    column: OutcomeColumn

    @property
    def name(self) -> str:
        return str(self.column.metric)

    @property
    def component_metrics(self) -> tuple[Any, ...]:
        """The metrics that this one is computed from: only itself."""
        return (self,)

    @property
    def is_mean_cost(self) -> bool:
        """Whether this metric is the mean of a cost, times a constant."""
        return False

    @property
    def cost_ratio_parts(self) -> tuple[Any, Any] | None:
        """(numerator, denominator) where this metric is the mean of a cost over another mean; else None."""
        return None

    @property
    def never_negative(self) -> bool:
        """Whether this metric cannot be below 0: it is the mean of a cost, or one divided by another mean."""
        return self.is_mean_cost or self.cost_ratio_parts is not None


@dataclass(frozen=True)
class Mean(_NamedMetric):
    """The mean of an outcome column times `factor`, without nulls; a null cost leaves the policy without a value."""

    key: str
    factor: float

    @property
    def is_mean_cost(self) -> bool:
        return self.column.cost

    def statistics(self, policy: int) -> tuple[Statistic, ...]:
        """The two statistics of the mean: the sum of the values and the weight of the examples that have one."""
        weight = Statistic("size") if self.column.cost else Statistic("has", self.key, policy)
        return (Statistic("sum", self.key, policy), weight)

    def counts(self, policy: int) -> tuple[Statistic, ...]:
        return (Statistic("has", self.key, policy),)

    def value(self, sums: Sequence[Floats]) -> Floats:
        """The sum over the weight; NaN where nothing has weight."""
        total, weight = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / weight
        return mean if self.factor == 1.0 else mean * self.factor


@dataclass(frozen=True)
class F1(_NamedMetric):
    """The F1 of the label at index `which`. None: the mean F1 of all labels, plain or `weighted` by gold.

    2TP / (2TP + FP + FN) is 2TP / (predicted + gold support). A label without gold in the sample is left out.
    """

    labels: int
    which: int | None = None
    weighted: bool = False

    def statistics(self, policy: int) -> tuple[Statistic, ...]:
        """The statistics of each label: true positives, predictions, support and gold, label after label."""
        wanted = range(self.labels) if self.which is None else [self.which]
        kinds = {"tp": policy, "pred": policy, "support": policy, "gold": -1}
        return tuple(Statistic(kind, "", of, label) for label in wanted for kind, of in kinds.items())

    def counts(self, policy: int) -> tuple[Statistic, ...]:
        return (Statistic("used", "", policy),)

    def value(self, sums: Sequence[Floats]) -> Floats:
        """F1 from the sums; NaN where no wanted label has gold."""
        return _mean_f1(sums, self.weighted)


@dataclass(frozen=True)
class CountedF1(_NamedMetric):
    """Mean F1 of classes of which an outcome may have several, as the claims of a text, from the `counts` of its
    column. A class without gold in the sample is left out.
    """

    def statistics(self, policy: int) -> tuple[Statistic, ...]:
        """(tp, predicted, support, gold) for each class; its gold is that of the policy."""
        names = self.column.counts
        quads = ((names[i], names[i + 1], names[i + 2], names[i + 2]) for i in range(0, len(names), 3))
        return tuple(Statistic("sum", name, policy) for quad in quads for name in quad)

    def counts(self, policy: int) -> tuple[Statistic, ...]:
        return (Statistic("has", self.column.counts[0], policy),)

    def value(self, sums: Sequence[Floats]) -> Floats:
        """Mean F1 from the sums; NaN where no class has gold."""
        return _mean_f1(sums, weighted=False)


def _mean_f1(sums: Sequence[Floats], weighted: bool) -> Floats:
    """The mean of the F1s of classes with gold, plain or `weighted` by support, from (tp, predicted, support, gold) of
    each class; NaN where none has gold.
    """
    shape = np.broadcast_shapes(*(s.shape for s in sums))
    total, weights = np.zeros(shape), np.zeros(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in range(0, len(sums), 4):
            tp, predicted, support, gold = sums[start : start + 4]
            present = gold > 0
            f1 = 2 * tp / (predicted + support)
            weight = np.where(present, support if weighted else 1.0, 0.0)
            total += np.where(present, f1 * weight, 0.0)
            weights += weight
        return total / weights


@dataclass(frozen=True)
class _RatioMetric(_NamedMetric):
    """One metric over another, if there is one, each on its own examples; no value where the second is 0."""

    over: Metric
    under: Metric | None

    @property
    def component_metrics(self) -> tuple[Metric, ...]:
        return (self.over,) if self.under is None else (self.over, self.under)

    @property
    def is_mean_cost(self) -> bool:
        """Whether this is a cost times a constant. A quotient of two metrics is not."""
        return self.under is None and self.over.is_mean_cost

    @property
    def cost_ratio_parts(self) -> tuple[Metric, Metric] | None:
        """(numerator, denominator) of the quotient; None where the denominator is missing or no plain mean."""
        if self.under is None or not self.over.is_mean_cost or len(self.under.statistics(0)) != 2:
            return None
        return self.over, self.under

    def statistics(self, policy: int) -> tuple[Statistic, ...]:
        return tuple(statistic for part in self.component_metrics for statistic in part.statistics(policy))

    def counts(self, policy: int) -> tuple[Statistic, ...]:
        return self.over.counts(policy)

    def value(self, sums: Sequence[Floats]) -> Floats:
        """The quotient times the column's `per`; NaN where it has no value."""
        split = len(self.over.statistics(0))
        over = self.over.value(sums[:split]) * self.column.per
        if self.under is None:
            return over
        under = self.under.value(sums[split:])
        shape = np.broadcast_shapes(over.shape, under.shape)
        return np.divide(over, under, out=np.full(shape, np.nan), where=under != 0)


Metric = Mean | F1 | CountedF1 | _RatioMetric
"""A metric: its `statistics`, those that count its examples, and the function of their sums."""


def metrics_of_run(
    keys: Iterable[str],
    labels: Sequence[str] | None,
    settings: Settings,
    seconds: str | None,
    columns: Sequence[OutcomeColumn] = COLUMNS,
) -> list[Metric]:
    """The metrics of a run that has the columns `keys`, in the order of the table of columns.

    Columns of one row, such as `recall_2` and `recall_10`, follow their numbers. `seconds`: the key euros come from.
    Ratios come last.
    """
    stored = [column for column in columns if not column.computed]
    by_row: dict[OutcomeColumn, list[str]] = {}
    for key in sorted(keys, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]):
        by_row.setdefault(column_or_metric(key, stored), []).append(key)
    metrics: list[Metric] = []
    keys_known = {name for names in by_row.values() for name in names}
    for column in columns:
        if column.computed == "labels":
            metrics += _f1_metrics(column, labels or ())
        elif column.computed == "counts":
            metrics += [CountedF1(column)] if keys_known.issuperset(column.counts) else []
        elif column.computed == "seconds" and seconds is not None:
            metrics.append(Mean(column, seconds, settings.kw * settings.eur_per_kwh / SECONDS_PER_HOUR))
        elif column.metric is not None:
            metrics += [Mean(find(key, stored), key, column.per) for key in by_row.get(column, ())]
    named = {metric.name: metric for metric in metrics}
    named_too: dict[str, Metric | None] = {"": None, **named}
    ratios = [column for column in columns if column.computed == "ratio" and named_too.keys() >= set(column.ratio)]
    return metrics + [_RatioMetric(column, named[column.ratio[0]], named_too[column.ratio[1]]) for column in ratios]


def _f1_metrics(column: OutcomeColumn, labels: Sequence[str]) -> list[F1]:
    """The F1 metrics of one column: one for each label, or one over all labels."""
    if not column.family:
        return [F1(column, len(labels), weighted=column.name == "weighted_f1")] if labels else []
    named = [replace(column, metric=f"{column.name}{label}", family=False) for label in labels]
    return [F1(one, len(labels), which) for which, one in enumerate(named)]


def cost_column(
    known: Callable[[str], bool],
    anywhere: Callable[[str], bool],
    columns: Sequence[OutcomeColumn],
    cost: str | None = None,
) -> OutcomeColumn:
    """The column of the cost that ranks: the one named, else the first of the ranking costs known, else the last.

    `known`: whether every policy but diagnostics has a value; `anywhere`: whether any policy has one. A column that
    stands for another ranks only where that one is known nowhere.
    """
    if cost is not None:
        return cost_named(cost, columns, anywhere)
    costs = ranking_costs(columns) or ranking_costs()
    able = (one for one in costs if known(str(one.metric)) and not (one.stands_for and anywhere(one.stands_for)))
    return next(able, costs[-1])


def rank_key(quality: float | None, cost: float | None, place: int) -> tuple[float, float, int]:
    """A sort key: higher quality first, then lower cost, then the earlier place; None (unknown) comes last.

    Rounded (costs to 12 digits, however small they are), so that what float addition leaves over decides nothing.
    """
    paid = math.inf if cost is None else float(f"{cost:.12g}")
    return (math.inf if quality is None else -round(quality, 12), paid, place)
