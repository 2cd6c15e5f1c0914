"""`thinkback fit-gate` and `thinkback transfer`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    from toolkit.stats.curves.calibration import CalibrationScores


@with_arguments_of("replay.gatefit.fit:fit_gate")
def fit_gate(
    log: str, out: Path, n_folds: int | None = None, scores: Path | None = None, *, force: bool = False, **given: Any
) -> None:
    """Fit a gate: when would this action repair the base attempt?

    Its threshold maximises accuracy on the examples of --tune; ties go to fewer action tokens, fewer flips, fewer
    interventions, the higher threshold. The JSON file is read by policies of kind `when`.
    """
    from replay.gatefit.fit import fit_gate as fit
    from thinkback import console
    from toolkit.errors import RequiredError
    from toolkit.files import check_replaceable, replacing_file

    if scores is not None and n_folds is None:
        raise RequiredError("`--scores` are out-of-fold scores: give `--folds` too")
    for path in (out, scores):
        if path is not None:
            check_replaceable(path, force, inputs=(log,))
    fitted = fit(log, n_folds=n_folds, **given)
    fitted.save(out, force=force)
    if scores is not None and fitted.out_of_fold is not None:
        with replacing_file(scores, force) as path:
            fitted.out_of_fold.write_csv(path)
    for note in fitted.notes:
        console.say(note)
    _show_calibration(fitted.calibration, "How its scores separate repairs, where its threshold was chosen")
    chosen = fitted.gate
    side, frozen = "below" if chosen.direction == "below" else "at least", chosen.content["threshold"]
    fires = frozen if isinstance(frozen, str) else f"where the score is {side} {frozen:.6g}"
    console.say(f"wrote {out}: {chosen.kind}, fires {fires}")


@with_arguments_of("replay.gatefit.report:transfer_report", without=("ids", "settings"))
def transfer(
    log: str, gate: Path, *, seed: int = 0, resamples: int = 10_000, level: float = 0.95, **given: Any
) -> None:
    """Report a frozen gate on another log or split.

    How often it fires, what that fixes and flips, how its scores hold, and which threshold the same rule would choose
    there.
    """
    from replay.gatefit.report import transfer_report
    from thinkback import console
    from toolkit.stats import Settings

    settings = Settings(seed=seed, resamples=resamples, level=level)
    report = transfer_report(log, gate, settings=settings, **given)
    console.show(report.table())
    console.say()
    _show_calibration(report.calibration, "How its scores separate repairs there")


def _show_calibration(scores: CalibrationScores, title: str) -> None:
    """Prints the reliability curve and its numbers. Scores that are no probabilities get areas only."""
    from thinkback import console
    from toolkit.show import Number, Table, TableColumn

    area, precision = ("–" if one != one else f"{one:.3f}" for one in (scores.auroc, scores.auprc))
    numbers = f"AUROC {area}, AUPRC {precision}"
    repaired = f"{100 * scores.rate:.1f} % of {scores.n:,} are repaired"
    if not scores.bins:
        console.say(f"{title}: {numbers}; {repaired}")
        console.say(
            "some scores lie outside 0 to 1, so they are not probabilities: no Brier score, no calibration error"
        )
        return
    rows = tuple((f"{one.low:.1f} to {one.high:.1f}", one.n, one.score, one.label) for one in scores.bins)
    columns = (
        TableColumn("scores"),
        TableColumn("examples", Number(0)),
        TableColumn("mean score", Number(3)),
        TableColumn("repaired", Number(3)),
    )
    numbers = f"{numbers}, Brier {scores.brier:.4f}, expected calibration error {scores.ece:.4f}; {repaired}."
    console.show(Table(title=title, columns=columns, rows=rows, below=(numbers,)))
