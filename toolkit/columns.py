"""The columns of outcomes, one row each: what they mean, how their means are taken, and what tables call them.

The engine, the files that it writes, the statistics, the tables and the manual read this table and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class OutcomeColumn:
    """A numeric column of `outcomes`, and the metric that is its mean over examples.

    `name`: the column, and `metric` what its mean is called, which by default is the same; None where it has no mean.
    `unit`: of one example. `whole`: one null takes a policy's mean away, as for a cost, which would else be a mean over
    other questions; without it nulls are left out. `share`: means lie in 0 to 1. `rate`: examples with 0 and 1 only and
    few of either get a score interval. `cost`: less is better, and reductions are reported. `quality`: more is better,
    so policies can be ranked by it. `needs`: a column without which a policy has no such mean. `sparse`: a policy that
    has no value at all gives no row. `per`: what values are multiplied with before they are shown, as 1,000 requests.
    `header`: the heading in the ranked table, where it has one; `decimals` and `scale` how it shows numbers, and
    `place` where: a narrow terminal drops the last ones first.
    """

    name: str
    metric: str | None = ""
    unit: str = ""
    whole: bool = False
    share: bool = False
    rate: bool = False
    cost: bool = False
    quality: bool = False
    needs: str | None = None
    sparse: bool = False
    per: float = 1.0
    header: str = ""
    decimals: int = 0
    scale: float = 1.0
    place: int = 0
    family: bool = False
    """Whether `name` begins the names of many columns, such as `recall_10`."""
    stored: bool = True
    """Whether outcomes have it; else it is computed from others by the statistics."""
    always: bool = True
    """Whether outcomes have it whatever is replayed; else only where something gives it."""

    def __post_init__(self) -> None:
        if self.metric == "":
            object.__setattr__(self, "metric", self.name)


def _quality(name: str, metric: str = "", **more: object) -> OutcomeColumn:
    return OutcomeColumn(name, metric, unit="share", share=True, rate=True, quality=True, **more)  # type: ignore[arg-type]


def _cost(name: str, unit: str, **more: object) -> OutcomeColumn:
    return OutcomeColumn(name, unit=unit, whole=True, cost=True, **more)  # type: ignore[arg-type]


def _percent(header: str, place: int) -> dict[str, object]:
    return {"header": f"{header} %", "decimals": 1, "scale": 100.0, "place": place}


COLUMNS: tuple[OutcomeColumn, ...] = (
    _quality("correct", "accuracy"),
    _quality("credit"),
    OutcomeColumn("base_correct", None, unit="share", share=True),
    OutcomeColumn("fix", "fix_rate", unit="share", share=True, rate=True, **_percent("fixes", 9)),  # type: ignore[arg-type]
    OutcomeColumn("flip", "flip_rate", unit="share", share=True, rate=True, **_percent("flips", 9)),  # type: ignore[arg-type]
    OutcomeColumn("intervened", "intervention_rate", unit="share", share=True, rate=True, needs="base_correct"),
    _quality("found", always=False),
    _quality("recall_", family=True, always=False),
    _quality("covered", "coverage", always=False, **_percent("coverage", 9)),
    _quality("answered", "answer_rate", always=False, **_percent("answered", 9)),
    _quality("answered_correct", "accuracy_answered", always=False, **_percent("right of answered", 9)),
    OutcomeColumn("set_size", unit="labels", header="set size", decimals=2, place=9, always=False),
    OutcomeColumn("position", unit="words", always=False),
    OutcomeColumn("deviation", unit="words", always=False),
    _cost("traces", "traces"),
    _cost("valid_traces", "traces"),
    _cost("finalizers", "calls", rate=True, share=True),
    _cost("truncated", "traces", rate=True, share=True),
    _cost("verifications", "verifications", header="verified", decimals=2, place=6),
    _cost("operations", "operations", header="operations", decimals=2, place=3),
    _cost("calls", "calls", header="calls", decimals=2, place=2),
    _cost("queries", "searches"),
    _cost("rounds", "rounds", always=False),
    _cost("prompt_tokens", "tokens"),
    _cost("completion_tokens", "tokens"),
    _cost("verification_tokens", "tokens"),
    _cost("total_tokens", "tokens", header="tokens", place=1),
    _cost("action_tokens", "tokens", sparse=True),
    _cost("generation_s", "s"),
    _cost("verification_s", "s"),
    _cost("latency_s", "s", header="seconds", decimals=1, place=7),
    _cost("device_s", "s"),
    _cost("cost_eur", "€", header="€/1,000", decimals=3, scale=1000.0, place=8, stored=False),
    replace(
        _cost("price", "currency", header="price/1,000", decimals=3, place=8, always=False),
        metric="cost_per_1000", per=1000.0,
    ),
)  # fmt: skip
"""In the order of the summary and of the ranked table's places."""

LABELLED = ("macro_f1", "weighted_f1", "f1:")
"""Metrics of a confusion matrix, which no one column gives: shares, and qualities."""


def with_columns(extra: Iterable[OutcomeColumn]) -> tuple[OutcomeColumn, ...]:
    """The table and further columns, each name once."""
    known = {column.name for column in COLUMNS}
    return COLUMNS + tuple({column.name: column for column in extra if column.name not in known}.values())


def find(name: str, columns: Sequence[OutcomeColumn] = COLUMNS) -> OutcomeColumn:
    """The row of a column of outcomes; one that the table does not know is a cost."""
    for column in columns:
        if column.name == name:
            return column
        if column.family and name.startswith(column.name):
            return replace(column, name=name, metric=name, family=False)
    return _cost(name, "")


def by_metric(columns: Sequence[OutcomeColumn] = COLUMNS) -> Mapping[str, OutcomeColumn]:
    """The rows by the names of their metrics."""
    return {column.metric: column for column in columns if column.metric is not None}


def metric_column(metric: str, columns: Sequence[OutcomeColumn] = COLUMNS) -> OutcomeColumn:
    """The row of a metric; those of a confusion matrix have one too."""
    if metric.startswith(LABELLED):
        return _quality(metric, stored=False)
    return by_metric(columns).get(metric) or find(metric, columns)
