"""The study's figures: one function each, from a data set's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from replay.studies.kit.frontiers import frontier_points
from replay.studies.recovery.study import DatasetStudy
from replay.studies.recovery.tables import headline, means
from toolkit.show import PlottedBand, bands_figure, frontier, outcomes_figure, reliability_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def cost_accuracy(study: DatasetStudy) -> Figure | None:
    """Accuracy against realised tokens, every policy of the main table and the oracles; None without tokens."""
    diagnostic = {policy.name for policy in study.result.policies if policy.diagnostic}
    names = [name for name, _, _ in headline(study)] + [n for n in study.named.oracles if n in study.policies]
    known = {name: means(study, name) for name in names}
    placed = {name: (cells.get("total_tokens"), cells.get("accuracy")) for name, cells in known.items()}
    points = list(frontier_points(placed, study.named.base, diagnostic).values())
    if not points:
        return None
    level = study.result.provenance["level"]
    title = f"Cost and accuracy, {study.dataset}"
    return frontier(points, title=title, level=level, simulated=study.result.simulated)


def fixes_and_flips(study: DatasetStudy) -> Figure | None:
    """Fixes and flips of every policy that revises."""
    shown = [*study.named.always.values(), *study.named.selective.values(), *study.named.samples]
    bars = []
    for name in (name for name in shown if name in study.policies):
        cells = means(study, name)
        fix, flip = cells.get("fix_rate"), cells.get("flip_rate")
        if fix is not None and flip is not None:
            bars.append((name, fix, flip))
    if not bars:
        return None
    return outcomes_figure(bars, title=f"Fixes and flips, {study.dataset}", simulated=study.result.simulated)


def threshold_sweep(study: DatasetStudy) -> Figure | None:
    """Accuracy, flips and tokens over the rate of the primary gate, in bands that hold the whole curve."""
    shown = (("accuracy", "accuracy, %", 100.0), ("flip_rate", "flips, %", 100.0), ("total_tokens", "tokens", 1.0))
    panels = [panel for one in shown if (panel := _panel(study, *one)) is not None]
    if not panels:
        return None
    title = f"Sweep of the gate's threshold, {study.dataset}"
    return bands_figure(panels, title=title, x="acts on, %", simulated=study.result.simulated)


def _panel(study: DatasetStudy, metric: str, label: str, scale: float) -> PlottedBand | None:
    """A metric over the share of examples that the primary gate acts on; None where it is not known."""
    if study.band is None:
        return None
    rate = study.band.filter(pl.col("metric") == "intervention_rate")
    place = dict(zip(rate["threshold"], rate["estimate"], strict=True))
    own = study.band.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())
    rows = sorted(own.iter_rows(named=True), key=lambda row: place[row["threshold"]])
    if not rows:
        return None
    x = tuple(100 * place[row["threshold"]] for row in rows)

    def column(name: str) -> tuple[float | None, ...]:
        return tuple(None if row[name] is None else scale * row[name] for row in rows)

    estimate = tuple(scale * float(row["estimate"]) for row in rows)
    return PlottedBand(label, x, estimate, column("band_low"), column("band_high"), rate=scale == 100.0)


def flips_among(study: DatasetStudy) -> Figure | None:
    """Flips among the top share of examples that the primary gate would verify (the paper's equation 19), banded."""
    panel = _panel(study, "flips_among", "flips among those acted on, %", 100.0)
    if panel is None:
        return None
    high = [high for high in panel.high if high is not None]
    panel = replace(panel, top=min(1.05 * max([*high, *panel.estimate]), 100.0) or None)
    title = f"Flips among the examples acted on, {study.dataset}"
    return bands_figure([panel], title=title, x="acts on the top, %", simulated=study.result.simulated)


def calibration(study: DatasetStudy) -> Figure | None:
    """Reliability of every gate's scores."""
    if not study.reports:
        return None
    curves = {
        name: [(one.score, one.label, one.n) for one in report.calibration.bins]
        for name, report in study.reports.items()
    }
    return reliability_figure(curves, title=f"Calibration, {study.dataset}", simulated=study.result.simulated)


FIGURES: Mapping[str, Callable[[DatasetStudy], Figure | None]] = {
    "cost_accuracy": cost_accuracy,
    "fixes_and_flips": fixes_and_flips,
    "threshold_sweep": threshold_sweep,
    "flips_among": flips_among,
    "calibration": calibration,
}
