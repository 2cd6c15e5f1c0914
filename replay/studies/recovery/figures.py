"""The study's figures: what each shows of a data set, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.studies.kit.frontiers import frontier_points
from replay.studies.recovery.gates import RULE
from replay.studies.recovery.rows import StudyPolicy, headline
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import PlottedBand, ReliabilityPanel, bands_figure, frontier, outcomes_figure, reliability_figure
from toolkit.show.page import WIDTH
from toolkit.stats.calibration import wide_bins

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FEWEST = 20
"""Examples acted on from which on flips among them are drawn, as many as a bin of the calibration needs."""


@dataclass(frozen=True)
class StudyFigure:
    """A figure: what it shows of a data set, nothing where that is not known, and how that is drawn."""

    title: str
    shows: Callable[[DatasetStudy], Collection[Any]]
    draw: Callable[..., Figure]

    def of(self, study: DatasetStudy, width: float = WIDTH) -> Figure | None:
        """The figure of a data set; None where there is nothing to show."""
        shown, title = self.shows(study), f"{self.title}, {study.dataset}"
        simulated = study.result.simulated
        return self.draw(shown, title=title, simulated=simulated, width=width) if shown else None


def _costs(study: DatasetStudy) -> Collection[Any]:
    """Every policy of the main table and the oracles, in tokens and accuracy."""
    diagnostic = {policy.name for policy in study.result.policies if policy.diagnostic}
    shown = [*headline(study), *(StudyPolicy(study, name) for name in study.named.oracles if name in study.policies)]
    cells = {one.policy: (one.cell("total_tokens"), one.cell("accuracy")) for one in shown}
    return list(frontier_points(cells, study.named.base, diagnostic).values())


def _outcomes(study: DatasetStudy) -> Collection[Any]:
    """Fixes and flips of every policy that revises."""
    named = study.named
    shown = [n for n in (*named.always.values(), *named.selective.values(), *named.samples) if n in study.policies]
    cells = [(name, *(StudyPolicy(study, name).cell(metric) for metric in ("fix_rate", "flip_rate"))) for name in shown]
    return [bar for bar in cells if None not in bar]


def _sweep(study: DatasetStudy) -> list[PlottedBand]:
    """Accuracy, flips and tokens over the rate of the primary gate; no flips where there is none at any threshold."""
    shown = (("accuracy", "accuracy, %", 100.0), ("flip_rate", "flips, %", 100.0), ("total_tokens", "tokens", 1.0))
    panels = [panel for one in shown if (panel := _panel(study, *one)) is not None]
    return [panel for panel in panels if any(panel.estimate)]


def _flips_among(study: DatasetStudy) -> list[PlottedBand]:
    """Flips among the top share of examples that the primary gate would verify (the paper's equation 19).

    Of few examples the share says nothing, and its band would set the scale.
    """
    label = f"flips among those acted on, % ({FEWEST} or more)"
    panel = _panel(study, "flips_among", label, 100.0, from_zero=True, fewest=FEWEST)
    return [panel] if panel is not None and any(panel.estimate) else []


def _panel(
    study: DatasetStudy, metric: str, label: str, scale: float, from_zero: bool = False, fewest: int = 0
) -> PlottedBand | None:
    """A metric over the share of examples that the primary gate acts on, with its threshold; None where unknown.

    The line begins where it acts on `fewest` examples.
    """
    if study.band is None:
        return None
    rate = study.band.filter(pl.col("metric") == "intervention_rate")
    place = dict(zip(rate["threshold"], rate["estimate"], strict=True))
    own = study.band.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())
    rows = sorted(own.iter_rows(named=True), key=lambda row: place[row["threshold"]])
    rows = [row for row in rows if place[row["threshold"]] * study.result.statistics.n >= fewest]
    if not rows:
        return None

    def column(name: str) -> tuple[float | None, ...]:
        return tuple(None if row[name] is None else scale * row[name] for row in rows)

    estimate = tuple(scale * float(row["estimate"]) for row in rows)
    high = column("band_high")
    top = min(1.05 * max([*(one for one in high if one is not None), *estimate]), 100.0) if from_zero else None
    acts = StudyPolicy(study, study.named.primary).number("intervention_rate")
    return PlottedBand(
        label, tuple(100 * place[row["threshold"]] for row in rows), estimate, column("band_low"), high,
        top=top or None, rate=scale == 100.0, mark=None if acts is None else 100 * acts,
    )  # fmt: skip


def _calibration(study: DatasetStudy) -> list[ReliabilityPanel]:
    """The bins of the gates that predict repairs: every action's cheap one, and the others of the primary action."""
    found = []
    for gate in (one for one in study.gates if one.part != RULE):
        if gate.action != study.roles.action and gate.policy != study.roles.cheap(gate.action):
            continue
        report = study.reports[gate.policy]
        bins = wide_bins(report.scores, report.repairs, report.unit, study.settings)
        points = tuple((one.score, one.label.estimate or 0.0, one.label.low, one.label.high) for one in bins)
        found += [ReliabilityPanel(gate.shown, points, gate.action, gate.file.threshold)] if points else []
    return found


JOINED = "bins of few examples are taken together"
FIGURES: Mapping[str, StudyFigure] = {
    "cost_accuracy": StudyFigure("Cost and accuracy", _costs, frontier),
    "fixes_and_flips": StudyFigure("Fixes and flips", _outcomes, outcomes_figure),
    "threshold_sweep": StudyFigure("Sweep of the gate's threshold", _sweep, bands_figure),
    "flips_among": StudyFigure("Flips among the examples acted on", _flips_among, bands_figure),
    "calibration": StudyFigure("Calibration", _calibration, partial(reliability_figure, y="repaired", note=JOINED)),
}


def drawable(study: DatasetStudy) -> list[str]:
    """The names of the figures that a data set has."""
    return [key for key, figure in FIGURES.items() if figure.shows(study)]


def figures(study: DatasetStudy, width: float = WIDTH) -> dict[str, Figure]:
    """Every figure of a data set, `width` inches wide."""
    made = {key: figure.of(study, width) for key, figure in FIGURES.items()}
    return {key: figure for key, figure in made.items() if figure is not None}
