"""Gates beside each other on a data set: their table, their calibration, the sweep of the primary one's threshold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from replay.analyses.recommend.gate_curve import at_rates, band_panels
from replay.gatefit.gate_set import CHEAP
from replay.studies.kit.figures import Figures, StudyFigure
from replay.studies.kit.layout import DATASET
from replay.studies.kit.published import FindRow
from replay.studies.kit.sheet import Column, Row, Sheet, intervals, numbers, words
from replay.studies.recovery import columns
from replay.studies.recovery.gated_run import GatedRun
from toolkit.show import (
    NumberWithInterval,
    PlottedBand,
    ReliabilityPanel,
    ShownInterval,
    TableColumn,
    bands_figure,
    reliability_figure,
)
from toolkit.stats.curves.calibration import LEAST_IN_BIN

FEWEST = 20
"""Examples acted on from which on flips among them are drawn: the band of fewer would set the scale."""
OF_PROBABILITIES = ("brier", "ece")
"""What only a score that is a probability has."""
POINTS = NumberWithInterval(2, 100, signed=True)
"""Paired differences in points."""


def gate_rows(study: GatedRun, find: FindRow = lambda dataset, action: {}) -> Iterator[Row]:
    """A row for each gate, paired with the action's own one on cheap features, which `find` finds published."""
    for gate in study.gates:
        cheap = study.roles.cheap(gate.action)
        compared = cheap != gate.policy and cheap in study.policies
        gained, p_value = study.paired(gate.policy, cheap) if compared else (None, None)
        dearer = study.paired(gate.policy, cheap, "action_tokens")[0] if compared else None
        values = {"fitted_on": gate.fitted_on, "minus_cheap": gained, "p_value": p_value}
        values |= {"action_tokens": study.mean(gate.policy, "action_tokens"), "action_tokens_minus_cheap": dearer}
        found = study.reports[gate.policy].numbers()
        values |= {key: one for key, one in found.items() if gate.predicts or key not in OF_PROBABILITIES}
        theirs = find(study.dataset, gate.action) if gate.part == CHEAP else {}
        yield Row((gate.action, gate.shown), values=values, published=theirs)


GATE_COLUMNS = (
    words("fitted on", "fitted_on", drop=3), numbers("threshold", "threshold", 4, drop=4), columns.PLAIN_ACCURACY,
    numbers("fires %", "intervention_rate", 1, metric="intervention_rate", shown=100), columns.ACTION_TOKENS,
    columns.FIXES, columns.FLIPS, Column("minus the cheap gate, points", "minus_cheap", POINTS),
    numbers("p", "p_value", 4),
    intervals("action tokens minus those of the cheap gate", "action_tokens_minus_cheap", 0, signed=True, drop=1),
    numbers("AUROC", "auroc", 3), numbers("AUPRC", "auprc", 3, drop=5), numbers("Brier", "brier", 4, drop=6),
    numbers("ECE", "ece", 4, drop=5), numbers("threshold chosen here", "diagnostic_threshold", 4, drop=8),
    numbers("its accuracy %", "diagnostic_accuracy", 1, shown=100, drop=7),
)  # fmt: skip
GATES = Sheet[GatedRun](
    "gates", "Gates", ("action", "gate"), GATE_COLUMNS, gate_rows,
    ("Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; that "
     "of another data set is frozen. Minus the cheap gate: paired differences. Brier and ECE: of scores that "
     "are probabilities. The threshold chosen here is a diagnostic: it sees the gold of the reported examples.",),
    DATASET,
)  # fmt: skip


def _bins(study: GatedRun) -> Iterator[Row]:
    for gate in (one for one in study.gates if one.predicts):
        for one in study.calibration[gate.policy]:
            label = ShownInterval.of((one.label.estimate, one.label.low, one.label.high))
            scored = {"examples": one.n, "score": one.score, "repaired": label}
            yield Row((gate.action, gate.shown, f"{one.low:.1f} to {one.high:.1f}"), values=scored)


GATE_CALIBRATION = Sheet[GatedRun](
    "calibration", "Calibration of the gates", ("action", "gate", TableColumn("scores", key="bin")),
    (
        numbers("examples", "examples", 0), numbers("mean score", "score", 3),
        intervals("repaired %", "repaired", 1, shown=100),
    ),
    _bins,
    (f"Ten bins of equal width; neighbours with fewer than {LEAST_IN_BIN} examples are taken together. Scores that are "
     "no probabilities have no row.",),
    DATASET,
)  # fmt: skip


def _steps(study: GatedRun) -> Iterator[Row]:
    if study.band is not None:
        metrics = ("accuracy", "flip_rate", "flips_among", "total_tokens")
        yield from (Row((), values=values) for values in at_rates(study.band, metrics))


THRESHOLD_SWEEP = Sheet[GatedRun](
    "threshold_sweep", "Threshold sweep of the primary gate", (),
    (
        columns.ACTS_ON, words("threshold", "threshold"), columns.ACCURACY,
        intervals("flips %", "flip_rate", shown=100), intervals("flips among those %", "flips_among", 1, shown=100),
        columns.TOTAL_TOKENS,
    ),
    _steps,
    ("In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
     "examples acted on (the paper's equation 19).",),
    DATASET,
)  # fmt: skip


def _sweep(study: GatedRun) -> list[PlottedBand]:
    """Accuracy, flips and tokens over the rate of the primary gate; no flips where there is none at any threshold."""
    shown = (("accuracy", "accuracy, %", 100.0), ("flip_rate", "flips, %", 100.0), ("total_tokens", "tokens", 1.0))
    return band_panels(study.band, shown, study.rate)


def _flips_among(study: GatedRun) -> list[PlottedBand]:
    """Flips among the top share of examples that the primary gate would act on."""
    shown = (("flips_among", f"flips among those acted on, % ({FEWEST} or more)", 100.0),)
    least = FEWEST / study.result.statistics.n
    return band_panels(study.band, shown, study.rate, from_zero=True, least=least)


def _panels(study: GatedRun) -> list[ReliabilityPanel]:
    """The bins of the gates that predict repairs: every action's cheap one, and the others of the primary action."""
    found = []
    for gate in (one for one in study.gates if one.predicts):
        if gate.action != study.roles.action and gate.policy != study.roles.cheap(gate.action):
            continue
        bins = study.calibration[gate.policy]
        points = tuple((one.score, one.label.estimate or 0.0, one.label.low, one.label.high) for one in bins)
        found += [ReliabilityPanel(gate.shown, points, gate.action, gate.file.threshold)] if points else []
    return found


def _no_flips(study: GatedRun) -> str:
    return NO_GATE if study.band is None else "the primary gate flips nothing at any threshold"


NO_GATE = "no gate was fitted for the primary action"
JOINED = "bins of few examples are taken together"
GATE_FIGURES: Figures = {
    "threshold_sweep": StudyFigure("Sweep of the gate's threshold", _sweep, bands_figure, NO_GATE),
    "flips_among": StudyFigure("Flips among the examples acted on", _flips_among, bands_figure, _no_flips),
    "calibration": StudyFigure(
        "Calibration", _panels, partial(reliability_figure, y="repaired", note=JOINED),
        "no gate was fitted whose scores are probabilities",
    ),
}  # fmt: skip
"""Figures of a data set's gates, by the names of their files."""
