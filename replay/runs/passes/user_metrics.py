"""A user's own metrics: the mean of a column of outcomes, or one mean divided by another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from toolkit.columns import OutcomeColumn
from toolkit.errors import (
    ConflictError,
    EmptyError,
    InvalidError,
    RequiredError,
    error_prefix,
    listed,
    quote,
    require_known,
)
from toolkit.notes import note
from toolkit.settings import check, setting
from toolkit.stats import Settings, Summary
from toolkit.stats.metrics.metrics import metrics_of_run

REDUCTION = "reduction:"
"""Prefix of the names of reductions in `comparisons`."""
F1 = "f1:"
"""Prefix of the names of the F1s of single labels."""
TABLE_WORDS = (
    "#", "place", "policy", "corrected", "corrected %", "corrected_low", "corrected_high", "Δ", "Δ points",
    "difference", "difference_low", "difference_high", "p", "p_adjusted", "not worse", "not_worse", "Pareto",
    "on_front", "front_share", "rank", "rank_low", "rank_high", "leader", "remark", "simulated", "answer", "answers",
    "ending", "example_id",
)  # fmt: skip
"""Names that no metric may have: headings of the ranked table, names in its CSV, and columns of outcomes."""
SECONDS = "latency_s"
"""The column of seconds, from which euros may follow."""
PLACE = "__place"


@dataclass(frozen=True)
class Metric:
    """A user's metric: the mean of the column `of` of outcomes, divided by the mean of the column `over` if given.

    `of` and `over` are columns of outcomes, or metrics. `times`: what the value is multiplied with. `better` says which
    policies rank first. `unit`, `header` and `decimals` are of tables; a `share` is shown in per cent.
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
        with error_prefix(f"metric `{self.name}`: "):
            check(self)
        if not self.name.strip():
            raise RequiredError("a metric needs a `name`")


def user_metrics(given: Metric | Iterable[Metric]) -> tuple[Metric, ...]:
    """A user's metrics, given as one or several. Raises ThinkbackError for other values, or two of one name."""
    metrics = (given,) if isinstance(given, Metric) else tuple(given)
    for number, metric in enumerate(metrics):
        if not isinstance(metric, Metric):
            raise InvalidError(f"`metrics` holds {quote(metric)}; it takes a `Metric`, or a list of them")
        if metric.name in {one.name for one in metrics[:number]}:
            raise ConflictError(f"two metrics are named `{metric.name}`; give each a name of its own")
    return metrics


def user_columns(metrics: Sequence[Metric], columns: Sequence[OutcomeColumn]) -> tuple[OutcomeColumn, ...]:
    """A user's metrics as rows of the table of columns; `columns`: the rows that the run has without them.

    Raises ThinkbackError for names that are taken or not known.
    """
    metric_columns = tuple(_metric_outcome_column(metric, columns) for metric in metrics)
    families = [column.name for column in columns if column.family and column.metric is not None and column.name]
    reserved = {word for column in columns if not column.family for word in _column_names(column)} | {*TABLE_WORDS}
    for column in metric_columns:
        start = f"metric `{column.name}`: "
        if column.name in reserved:
            raise ConflictError(f"{start}runs have one of this name; give yours another")
        for begin in (REDUCTION, *families):
            if column.name.startswith(begin):
                raise ConflictError(f"{start}runs have names that begin with `{begin}`; give yours another")
        for word in _column_names(column):
            if word in reserved:
                raise ConflictError(f"{start}tables have `{word}` already; give yours another name or `header`")
        reserved |= {*_column_names(column)}
    return metric_columns


def check_labels(metrics: Sequence[Metric], labels: Sequence[str] | None) -> None:
    """Raise ThinkbackError where a metric is the F1 of a label that is no example's gold."""
    for metric in metrics:
        for name in (metric.of, metric.over or ""):
            if labels is not None and name.startswith(F1):
                label = name.removeprefix(F1)
                require_known(label, labels, f"metric `{metric.name}`: no example has the gold label `{label}`")


def check_ranking(
    metric: str,
    outcomes: Collection[str],
    labels: Sequence[str] | None,
    columns: Sequence[OutcomeColumn],
    settings: Settings,
) -> None:
    """Raise ThinkbackError where the ranking metric is a ratio of columns that no policy has values of."""
    column = next((one for one in columns if one.computed == "ratio" and one.metric == metric), None)
    if column is None:
        return
    entries = metrics_of_run(list(outcomes), labels, settings, SECONDS, columns)
    lacking = _ratio_parts_without_values(column, {entry.name for entry in entries})
    if lacking:
        raise EmptyError(f"policies cannot be ranked by `{metric}`: no policy has {listed(lacking)}")


def with_missing_metrics(summary: Summary, columns: Sequence[OutcomeColumn]) -> Summary:
    """The summary with empty rows for ratios of columns that no policy has, and a note on them."""
    there = set(summary.summary["metric"].unique())
    lacking = [one for one in columns if one.computed == "ratio" and one.always and one.metric not in there]
    if not lacking:
        return summary
    names = [str(column.metric) for column in lacking]
    policies = summary.summary["policy"].unique(maintain_order=True).to_list()
    notes = (
        note(
            "no_ratio",
            f"{column.label}: no policy has {listed(_ratio_parts_without_values(column, there))}: no value",
            policies,
            [name],
        )
        for column, name in zip(lacking, names, strict=True)
    )
    return replace(
        summary,
        summary=_with_empty_rows(summary.summary, ["policy"], names),
        comparisons=_with_empty_rows(summary.comparisons, ["policy", "baseline"], names),
        notes=(*summary.notes, *notes),
    )


def _ratio_parts_without_values(column: OutcomeColumn, there: Collection[str]) -> list[str]:
    return [name for name in column.ratio if name and name not in there]


def _with_empty_rows(frame: pl.DataFrame, keys: list[str], metrics: list[str]) -> pl.DataFrame:
    """A frame of results with empty rows for further metrics, after the others with the same keys."""
    alike = [name for name in ("identical",) if name in frame.columns]
    each = frame.select(*keys, *alike).unique(keys, keep="first", maintain_order=True).with_row_index(PLACE)
    empty = each.join(pl.DataFrame({"metric": metrics}), how="cross").with_columns(n=pl.lit(0, pl.Int64))
    placed = frame.join(each.drop(alike), on=keys, how="left", maintain_order="left")
    return pl.concat([placed, empty], how="diagonal").sort(PLACE, maintain_order=True).select(frame.columns)


def _column_names(column: OutcomeColumn) -> Iterator[str]:
    """The names that a column has in outcomes, in results, and in the ranked table and its CSV."""
    for name in filter(None, dict.fromkeys((column.name, column.metric))):
        yield from (name, f"{name}_low", f"{name}_high")
    if column.heading not in (column.name, column.metric):
        yield column.heading


def _metric_outcome_column(metric: Metric, columns: Sequence[OutcomeColumn]) -> OutcomeColumn:
    return OutcomeColumn(
        metric.name,
        unit=metric.unit,
        per=metric.times,
        computed="ratio",
        ratio=(
            _mean_metric_name(metric, metric.of, columns),
            _mean_metric_name(metric, metric.over, columns) if metric.over else "",
        ),
        share=metric.share,
        quality=True,
        cost=metric.better == "lower",
        header=metric.header or metric.name,
        decimals=metric.decimals,
        place=9,
        display="always",
    )


def _mean_metric_name(metric: Metric, name: str, columns: Sequence[OutcomeColumn]) -> str:
    means = {column.name: str(column.metric) for column in columns if column.metric and not column.family}
    known = means | {mean: mean for mean in means.values()}
    if any(column.family and column.name and name.startswith(column.name) for column in columns):
        return name
    require_known(name, known, f"metric `{metric.name}`: outcomes have no column `{name}` with a mean")
    return known[name]
