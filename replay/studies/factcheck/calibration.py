"""The verifiers' calibration in a study: a table of one line a verifier, its scores bin by bin, and their figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from replay.analyses.report.verifier_calibration import VerifierCalibration
from replay.studies.kit.cells import shown
from replay.studies.kit.gaps import Named
from replay.studies.kit.report import around
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, numbers
from toolkit.show import ReliabilityPanel, reliability_figure
from toolkit.stats.curves.calibration import LEAST, LEAST_CLUSTERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Calibrated(Named, Protocol):
    """What was found on a data set, the calibration of verifiers among it."""

    @property
    def calibration(self) -> Sequence[VerifierCalibration]:
        """Of each verifier."""
        ...


def verifiers(study: Calibrated) -> Iterator[Row]:
    """Brier score, ECE and AUROC of each verifier."""
    for one in study.calibration:
        found = one.found
        values: dict[str, Value] = {}
        if found is not None:
            values = {
                "traces": found.n,
                "claims": found.clusters,
                "right": 100 * found.rate,
                "score": found.score,
                "brier": shown(found.brier),
                "ece": shown(found.ece),
                "chance": found.chance,
                "auroc": None if found.auroc != found.auroc else found.auroc,
            }
        yield Row((one.verifier,), values=values)


def bins(study: Calibrated) -> Iterator[Row]:
    """Share of right traces by score, against the mean score."""
    for one in study.calibration:
        for part in one.found.bins if one.found is not None else ():
            values: dict[str, Value] = {
                "traces": part.n,
                "claims": part.clusters,
                "score": None if part.score is None else 100 * part.score,
                "right": shown(part.right, 100),
            }
            yield Row((one.verifier, f"{part.low:.1f}–{part.high:.1f}"), values=values)


def _missing(study: Calibrated) -> Iterator[str]:
    yield from (one.missing for one in study.calibration if one.missing)


def _has_bins(one: VerifierCalibration) -> bool:
    return one.found is not None and bool(one.found.bins)


def reliability_panels(studies: Sequence[Calibrated]) -> list[ReliabilityPanel]:
    """Share of right traces over the verifier's score: a panel a verifier and data set, where scores are chances."""
    panels = []
    for study in studies:
        for one in study.calibration:
            if one.found is None or one.found.ece is None or not one.found.bins:
                continue
            points = [(p.score, p.right) for p in one.found.bins if p.score is not None and p.right is not None]
            bins = tuple((score, right.estimate or 0.0, right.low, right.high) for score, right in points)
            told = f"ECE {one.found.ece.estimate:.3f}"
            panels.append(ReliabilityPanel(f"{one.verifier}, {study.dataset}", bins, told))
    return panels


def calibration_figure(studies: Sequence[Any], panels: Sequence[ReliabilityPanel], width: float) -> Figure:
    """These panels, with what they leave out."""
    return reliability_figure(
        panels,
        title="Calibration of the verifiers",
        x="mean score",
        y="right traces",
        note=LEFT_OUT,
        **around(studies, width),
    )


LEFT_OUT = f"without bins of fewer than {LEAST} traces or {LEAST_CLUSTERS} claims"
"""What figures say of the bins."""
COUNTED = (numbers("Traces", "traces", 0), numbers("Claims", "claims", 0))
CALIBRATION: tuple[Sheet[Any], ...] = (
    Sheet(
        "calibration",
        lambda studies: f"Calibration of the verifiers, first {studies[0].calibration[0].cap} traces", ("Verifier",), (
            *COUNTED, numbers("Right, %", "right", 1), numbers("Mean score", "score", 3),
            intervals("Brier", "brier", 4), intervals("ECE", "ece", 4), numbers("ECE by chance", "chance", 4),
            numbers("AUROC", "auroc", 3),
        ), verifiers, (
            "ECE: of ten bins of equal width; by chance: what calibrated scores would have on average",
            "intervals: resampled by claim; that of an ECE says nothing where it is hardly above chance", _missing,
        ),
    ),
    Sheet(
        "reliability", "Right traces by the verifier's score", ("Verifier", "Score"),
        (*COUNTED, numbers("Mean score, %", "score", 1), intervals("Right, %", "right", 1)), bins, (
            "intervals: Wilson's, with as many trials as the traces of a claim, which are alike, are worth together",
            f"a dash: fewer than {LEAST} traces, or of fewer than {LEAST_CLUSTERS} claims",
        ), needed=lambda studies: any(_has_bins(one) for study in studies for one in study.calibration),
    ),
)  # fmt: skip
"""Both tables."""
