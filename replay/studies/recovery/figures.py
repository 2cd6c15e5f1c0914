"""The study's figures: what each shows of a data set, and how it is drawn."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from replay.analyses.gate_curve import band_panels
from replay.studies.kit.figures import Figures, StudyFigure
from replay.studies.kit.frontiers import frontier_points
from replay.studies.recovery.rows import StudyPolicy, headline
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import PlottedBand, ReliabilityPanel, bands_figure, frontier, outcomes_figure, reliability_figure

FEWEST = 20
"""Examples acted on from which on flips among them are drawn: the band of fewer would set the scale."""


def _costs(study: DatasetStudy) -> Collection[Any]:
    """Every policy of the main table and the oracles, in tokens and accuracy."""
    diagnostic = {policy.name for policy in study.result.policies if policy.diagnostic}
    shown = [*headline(study), *(StudyPolicy(study, name) for name in study.served(study.named.oracles))]
    cells = {one.policy: (one.cell("total_tokens"), one.cell("accuracy")) for one in shown}
    return list(frontier_points(cells, study.named.base, diagnostic).values())


def _outcomes(study: DatasetStudy) -> Collection[Any]:
    """Fixes and flips of every policy that revises."""
    named = study.named
    shown = study.served([*named.always.values(), *named.selective.values(), *named.unfitted, *named.samples])
    cells = [(name, *(StudyPolicy(study, name).cell(metric) for metric in ("fix_rate", "flip_rate"))) for name in shown]
    return [bar for bar in cells if None not in bar]


def _sweep(study: DatasetStudy) -> list[PlottedBand]:
    """Accuracy, flips and tokens over the rate of the primary gate; no flips where there is none at any threshold."""
    shown = (("accuracy", "accuracy, %", 100.0), ("flip_rate", "flips, %", 100.0), ("total_tokens", "tokens", 1.0))
    return band_panels(study.band, shown, _rate(study))


def _flips_among(study: DatasetStudy) -> list[PlottedBand]:
    """Flips among the top share of examples that the primary gate would verify (the paper's equation 19)."""
    shown = (("flips_among", f"flips among those acted on, % ({FEWEST} or more)", 100.0),)
    least = FEWEST / study.result.statistics.n
    return band_panels(study.band, shown, _rate(study), from_zero=True, least=least)


def _rate(study: DatasetStudy) -> float | None:
    return StudyPolicy(study, study.named.primary).number("intervention_rate")


def _calibration(study: DatasetStudy) -> list[ReliabilityPanel]:
    """The bins of the gates that predict repairs: every action's cheap one, and the others of the primary action."""
    found = []
    for gate in (one for one in study.gates if one.predicts):
        if gate.action != study.roles.action and gate.policy != study.roles.cheap(gate.action):
            continue
        bins = study.calibration[gate.policy]
        points = tuple((one.score, one.label.estimate or 0.0, one.label.low, one.label.high) for one in bins)
        found += [ReliabilityPanel(gate.shown, points, gate.action, gate.file.threshold)] if points else []
    return found


JOINED = "bins of few examples are taken together"
FIGURES: Figures = {
    "cost_accuracy": StudyFigure("Cost and accuracy", _costs, frontier),
    "fixes_and_flips": StudyFigure("Fixes and flips", _outcomes, outcomes_figure),
    "threshold_sweep": StudyFigure("Sweep of the gate's threshold", _sweep, bands_figure),
    "flips_among": StudyFigure("Flips among the examples acted on", _flips_among, bands_figure),
    "calibration": StudyFigure("Calibration", _calibration, partial(reliability_figure, y="repaired", note=JOINED)),
}
