"""The study's figures: what each shows of a data set, and how it is drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from replay.studies.kit.report import NO_FIGURE, Figures, StudyFigure, undrawn_reasons
from replay.studies.recovery.study import LACKING, DatasetStudy
from replay.studies.recovery.tables import RATE, StudyPolicy, main_policies
from toolkit import show
from toolkit.errors import listed
from toolkit.show import remark


def _band_panels(
    band: pl.DataFrame | None,
    metrics: Sequence[tuple[str, str, float]],
    mark: float | None,
    from_zero: bool = False,
    least: float = 0.0,
) -> list[show.PlottedBand]:
    """Returns one panel per metric (name, label, scale) over the share of examples that a gate acts on; unknown
    metrics and metrics that are 0 everywhere are left out.
    """
    panels = [_band_panel(band, *metric, mark, from_zero, least) for metric in metrics] if band is not None else []
    return [panel for panel in panels if panel is not None and any(panel.estimate)]


def _band_panel(
    band: pl.DataFrame,
    metric: str,
    label: str,
    scale: float,
    mark: float | None = None,
    from_zero: bool = False,
    least: float = 0.0,
) -> show.PlottedBand | None:
    """Returns a metric over the share of examples that a gate acts on; None where the metric is unknown. `mark` is the
    gate's own share.

    `from_zero`: up to the highest band, or 100. The line begins where the gate acts on the share `least`.
    """
    rate = band.filter(pl.col("metric") == RATE)
    place = dict(zip(rate["threshold"], rate["estimate"], strict=True))
    metric_rows = band.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())
    far = (row for row in metric_rows.iter_rows(named=True) if place[row["threshold"]] >= least)
    rows = sorted(far, key=lambda row: place[row["threshold"]])
    if not rows:
        return None

    def scaled_column(name: str) -> tuple[float | None, ...]:
        return tuple(None if row[name] is None else scale * row[name] for row in rows)

    estimate = tuple(scale * float(row["estimate"]) for row in rows)
    high = scaled_column("band_high")
    top = min(1.05 * max([*(one for one in high if one is not None), *estimate]), 100.0) if from_zero else None
    return show.PlottedBand(
        label, tuple(100 * place[row["threshold"]] for row in rows), estimate, scaled_column("band_low"), high,
        top=top or None, rate=scale == 100.0, mark=None if mark is None else 100 * mark,
    )  # fmt: skip


def _cost_points(study: DatasetStudy) -> Collection[Any]:
    """Returns tokens and accuracy of every policy of the main table and of the oracles."""
    diagnostic = {policy.name for policy in study.result.policies if policy.diagnostic}
    rows = [*main_policies(study), *(StudyPolicy(study, name) for name in study.replayed(study.names.oracles))]
    cells = {row.policy: (row.cell("total_tokens"), row.cell("accuracy")) for row in rows}
    return list(_frontier_points(cells, study.names.base, diagnostic).values())


def _fix_and_flip_bars(study: DatasetStudy) -> Collection[Any]:
    named = study.names
    names = study.replayed(
        [*named.always.values(), *named.selective.values(), *named.policies_not_fitted, *named.samples]
    )
    cells = [(name, *(study.cell(name, metric) for metric in ("fix_rate", "flip_rate"))) for name in names]
    return [bar for bar in cells if None not in bar]


FEWEST = 20
"""Examples acted on from which on flips among them are drawn: the band of fewer would set the scale."""
NO_GATE = "no gate was fitted for the primary action"
JOINED = "bins of few examples are taken together"


def _sweep_panels(study: DatasetStudy) -> list[show.PlottedBand]:
    """Returns accuracy, flips and tokens over the rate of the primary gate; flips are left out where there are none."""
    metrics = (("accuracy", "accuracy, %", 100.0), ("flip_rate", "flips, %", 100.0), ("total_tokens", "tokens", 1.0))
    return _band_panels(study.band, metrics, study.acting_rate)


def _flip_panels(study: DatasetStudy) -> list[show.PlottedBand]:
    """Returns the share of flips among the examples that the primary gate acts on first."""
    metrics = (("flips_among", f"flips among those acted on, % ({FEWEST} or more)", 100.0),)
    least = FEWEST / study.result.statistics.n
    return _band_panels(study.band, metrics, study.acting_rate, from_zero=True, least=least)


def _reliability_panels(study: DatasetStudy) -> list[show.ReliabilityPanel]:
    """Returns reliability bins of the gates that predict repairs: the cheap gate of each action, and all gates of the
    primary action.
    """
    panels = []
    for gate in (one for one in study.gates if one.predicts_probability):
        if gate.action != study.roles.action and gate.policy != study.roles.cheap_gate(gate.action):
            continue
        bins = study.calibration[gate.policy]
        points = tuple((one.score, one.label.estimate or 0.0, one.label.low, one.label.high) for one in bins)
        panels += [show.ReliabilityPanel(gate.label, points, gate.action, gate.file.threshold)] if points else []
    return panels


def _no_flips_reason(study: DatasetStudy) -> str:
    return NO_GATE if study.band is None else "the primary gate flips nothing at any threshold"


FIGURES: Figures = {
    "cost_accuracy": StudyFigure(
        "Cost and accuracy", _cost_points, show.frontier, "no policy's tokens are logged throughout"
    ),
    "fixes_and_flips": StudyFigure(
        "Fixes and flips", _fix_and_flip_bars, show.outcomes_figure, "no policy with revisions could be replayed"
    ),
    "threshold_sweep": StudyFigure("Sweep of the gate's threshold", _sweep_panels, show.bands_figure, NO_GATE),
    "flips_among": StudyFigure("Flips among the examples acted on", _flip_panels, show.bands_figure, _no_flips_reason),
    "calibration": StudyFigure(
        "Calibration", _reliability_panels, partial(show.reliability_figure, y="repaired", note=JOINED),
        "no gate was fitted whose scores are probabilities",
    ),
}  # fmt: skip


def missing_figures(study: DatasetStudy, drawn: Collection[str]) -> Iterator[str]:
    """Lists the figures of a data set that are not drawn, and what others lack, with the reason."""
    yield from undrawn_reasons(FIGURES, study, drawn)
    named = study.names
    names = {named.base, *named.budgets.values(), *named.always.values(), *named.selective.values()}
    names |= {*named.policies_not_fitted, *named.samples, *named.oracles}
    without = [policy for policy in LACKING["tokens"].policies_without_metric(study.result) if policy in names]
    lacks = [
        (bool(without), "cost_accuracy", f"{listed(without)}: their tokens are not logged throughout"),
        (bool({named.base, named.primary} & {*without}), "threshold_sweep",
         "tokens, which are not logged throughout"),
        ("flips_among" not in drawn, "threshold_sweep", "flips: there are none at any threshold"),
    ]  # fmt: skip
    for lacking, figure, what in lacks:
        if lacking and figure in drawn:
            yield remark(NO_FIGURE, f"{study.dataset}: figure `{figure}` is without {what}")


def _frontier_points(
    cells: Mapping[str, tuple[show.IntervalCell | None, show.IntervalCell | None]],
    baseline: str,
    diagnostic: Collection[str] = (),
) -> dict[str, show.FrontierPoint]:
    """Returns each policy's point from its cost and quality; policies without one of the two are left out.

    `diagnostic` policies are never on the Pareto front.
    """
    known = {
        name: (cost, quality) for name, (cost, quality) in cells.items() if cost is not None and quality is not None
    }
    front = show.pareto_front({n: (c.estimate, q.estimate) for n, (c, q) in known.items() if n not in diagnostic})
    return {
        name: show.FrontierPoint(
            name=name, cost=cost.estimate, cost_low=cost.low, cost_high=cost.high, accuracy=quality.estimate,
            low=quality.low, high=quality.high, on_front=name in front, diagnostic=name in diagnostic,
            baseline=name == baseline,
        )
        for name, (cost, quality) in known.items()
    }  # fmt: skip
