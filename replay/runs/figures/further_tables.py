"""Figures of policies on retrieval rounds and on unfolding texts: recall over rounds, and when policies act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from replay.runs.figures.figure_data import (
    PANELS,
    FigureData,
    FigureRequest,
    figure_rows,
    fitting_rows_drawer,
    requested_policies,
)  # fmt: skip
from replay.runs.saved.display import policy_row
from replay.runs.saved.provenance import PolicyRecord
from toolkit.columns import metric_column
from toolkit.errors import EmptyError
from toolkit.log import collect
from toolkit.show.drawing.page import draw_what_fits
from toolkit.show.figures.buzzes import Buzzes, buzzes_figure
from toolkit.show.figures.curves import PlottedCurve, curves_figure
from toolkit.show.ranking.ranking import short_names

PAID = "rounds"
QUALITIES = ("recall", "hit")


def recall_data(request: FigureRequest) -> FigureData:
    """Recall and hits at every k over the mean rounds paid: a line for each sweep, a point for each other policy."""
    result = request.result
    policies = [policy for policy in result.policies if not policy.diagnostic]
    if request.policies:
        rows = [policy_row(policy) for policy in result.policies]
        names = requested_policies(request, rows)
        policies = [policy for policy in result.policies if policy.name in names]
    summary = result.summary.filter(pl.col("policy").is_in([policy.name for policy in policies]))
    estimates = {(policy, metric): rest for policy, metric, *rest in summary.iter_rows()}
    metrics = [metric for metric in dict.fromkeys(summary["metric"]) if metric.rpartition("_")[0] in QUALITIES]
    points = pl.DataFrame(
        [
            (policy.name, policy.sweep, metric, estimates[policy.name, PAID][0], *estimates[policy.name, metric][:3])
            for metric in metrics
            for policy in policies
            if (policy.name, PAID) in estimates and estimates.get((policy.name, metric), [None])[0] is not None
        ],
        schema={
            "policy": pl.String, "sweep": pl.String, "metric": pl.String,
            **dict.fromkeys((PAID, "estimate", "low", "high"), pl.Float64),
        }, orient="row",
    )  # fmt: skip
    if points.is_empty():
        raise EmptyError('no policy of the result ranks documents: replay a policy of `kind = "retrieve"`')
    labels = _labels(policies)
    panels = []
    for metric in metrics:
        curves = [
            PlottedCurve(
                labels[str(sweep)], tuple(rows[PAID]), tuple(rows["estimate"]), tuple(rows["low"]), tuple(rows["high"])
            )
            for (sweep,), rows in points.filter(metric=metric)
            .sort(PAID, maintain_order=True)
            .partition_by("sweep", as_dict=True)
            .items()
        ]
        order = list(labels.values())
        curves.sort(key=lambda curve: order.index(curve.name))
        panels.append((metric_column(metric, result.columns).label, curves))

    def draw(*, width: float, title: str) -> object:
        look: dict[str, Any] = {"x": "rounds paid", "y": "measure, %", "doubling": False, "simulated": result.simulated}
        level = result.summariser.settings.level
        return draw_what_fits(
            lambda n: curves_figure(panels[:n], title=title, width=width, level=level, **look), len(panels)
        )

    return FigureData(points.drop("sweep"), draw)  # type: ignore[arg-type]


def _labels(policies: Sequence[PolicyRecord]) -> dict[str, str]:
    """What the figure calls sweeps and policies that are of none, in their order."""
    short = short_names([policy_row(policy) for policy in policies], always=True)
    alone = {policy.sweep: policy.label or policy.sweep for policy in policies}
    return {sweep: short.get(sweep, label) for sweep, label in alone.items()}


NEEDED = ("gold_position", "length")


def buzzes_data(request: FigureRequest) -> FigureData:
    """Panels of the best policies: the word at which each acts against the word that first shows a text's error."""
    result = request.result
    if set(NEEDED) - set(result.examples.columns) or "found" not in result.outcomes.collect_schema():
        raise EmptyError('no policy of the result acts on unfolding text: replay a policy of `kind = "buzz"`')
    rows, left_out = figure_rows(request, PANELS)
    names = [row.policy.name for row in rows]
    texts = result.examples.filter(pl.col("gold_position").is_not_null() & (pl.col("length") > 0))
    frame = collect(
        result.outcomes.filter(pl.col("policy").is_in(names))
        .select("policy", "example_id", "position", "found")
        .join(texts.lazy().select("example_id", *NEEDED), on="example_id")
        .filter(pl.col("found").is_not_null())
        .sort("policy", "example_id")
    )
    labels = short_names([policy_row(policy) for policy in result.policies], always=True)
    panels = []
    for name in names:
        mine = frame.filter(policy=name)
        acted = mine.filter(pl.col("position").is_not_null())
        length = acted["length"].to_numpy().astype(float)
        if len(acted):
            panels.append(
                Buzzes(
                    labels[name], acted["gold_position"].to_numpy() / length, acted["position"].to_numpy() / length,
                    np.asarray(acted["found"].to_numpy() > 0), len(mine),
                )
            )  # fmt: skip
    if not panels:
        raise EmptyError("no policy of the result acted on a text whose error has a known position")
    remarks = ["below the diagonal: before the error could be seen"]
    draw = fitting_rows_drawer(buzzes_figure, panels, (), remarks, left_out, simulated=result.simulated)
    return FigureData(frame.drop_nulls("position"), draw)
