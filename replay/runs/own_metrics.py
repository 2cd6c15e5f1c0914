"""A user's own metrics: the mean of a column of outcomes, or one mean divided by another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolkit.columns import OutcomeColumn
from toolkit.errors import ThinkbackError, errors_begin, require_known, shown
from toolkit.settings import check, setting


@dataclass(frozen=True)
class Metric:
    """A metric of one's own: the mean of the column `of` of outcomes, or divided by the mean of the column `over`.

    `of` and `over` are columns of outcomes, or metrics. `times`: what the value is multiplied with. `better` says
    which policies rank first. `unit`, `header` and `decimals` are of tables; a `share` is shown in per cent.
    """

    name: str = setting(what="a name")
    of: str = setting(what="a column of outcomes")
    over: str | None = setting(None, what="a column of outcomes")
    times: float = setting(1.0, above=0)
    better: Literal["higher", "lower"] = setting("higher")
    unit: str = setting("")
    header: str = setting("")
    decimals: int = setting(2, low=0)
    share: bool = setting(False)

    def __post_init__(self) -> None:
        with errors_begin(f"metric `{self.name}`: "):
            check(self)
        if not self.name.strip():
            raise ThinkbackError("a metric needs a `name`")


def own_metrics(given: Metric | Iterable[Metric]) -> tuple[Metric, ...]:
    """Metrics of one's own, one or several. Raises ThinkbackError for what is none, or for two of one name."""
    metrics = (given,) if isinstance(given, Metric) else tuple(given)
    for number, metric in enumerate(metrics):
        if not isinstance(metric, Metric):
            raise ThinkbackError(f"`metrics` holds {shown(metric)}; it takes `replay.Metric`")
        if metric.name in {one.name for one in metrics[:number]}:
            raise ThinkbackError(f"two metrics are named `{metric.name}`; give each a name of its own")
    return metrics


def own_columns(metrics: Sequence[Metric], columns: Sequence[OutcomeColumn]) -> tuple[OutcomeColumn, ...]:
    """Metrics of one's own as rows of the table of columns; `columns`: the rows that the run has without them.

    Raises ThinkbackError for names that are taken or not known.
    """
    taken = {name for column in columns for name in (column.name, column.metric) if name and not column.family}
    for metric in metrics:
        if metric.name in taken:
            raise ThinkbackError(f"metric `{metric.name}`: runs have one of this name; give yours another")
    return tuple(_column(metric, columns) for metric in metrics)


def _column(metric: Metric, columns: Sequence[OutcomeColumn]) -> OutcomeColumn:
    return OutcomeColumn(
        metric.name,
        unit=metric.unit,
        per=metric.times,
        computed="ratio",
        ratio=(_metric_of(metric, metric.of, columns), _metric_of(metric, metric.over, columns) if metric.over else ""),
        share=metric.share,
        quality=True,
        cost=metric.better == "lower",
        header=metric.header or metric.name,
        decimals=metric.decimals,
        place=9,
    )


def _metric_of(metric: Metric, name: str, columns: Sequence[OutcomeColumn]) -> str:
    """The metric that is the mean of a column, by the column's name or its own."""
    means = {column.name: str(column.metric) for column in columns if column.metric and not column.family}
    known = means | {mean: mean for mean in means.values()}
    if any(column.family and column.name and name.startswith(column.name) for column in columns):
        return name
    require_known(name, known, f"metric `{metric.name}`: outcomes have no column `{name}` with a mean")
    return known[name]
