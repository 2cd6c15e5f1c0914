"""Verdicts from intervals, and those of the study of fact checking on planted orders."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from generate.simulation.claims import simulate_claims
from replay.studies.factcheck.report import study_factcheck
from replay.studies.kit.verdicts import Answer, answer_of_several, answer_on_loss, finding_on_any, is_above
from toolkit.show import IntervalCell

YES, NO, UNDECIDED = Answer.YES, Answer.NO, Answer.UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "above", "loss"),
    [
        (0.001, 0.02, YES, NO), (-0.009, 0.02, UNDECIDED, NO), (-0.02, 0.02, UNDECIDED, UNDECIDED),
        (-0.009, -0.001, NO, NO), (-0.05, -0.02, NO, YES), (None, None, UNDECIDED, UNDECIDED),
    ],
)  # fmt: skip
def test_an_interval_answers_of_gains_and_of_losses_of_a_point(
    low: float | None, high: float | None, above: Answer, loss: Answer
) -> None:
    middle = 0.0 if low is None or high is None else (low + high) / 2
    assert is_above(IntervalCell(middle, low, high)) is above
    assert answer_on_loss(IntervalCell(middle, low, high), 0.01, 1_000) is loss


def test_a_few_examples_rule_out_no_loss() -> None:
    """460 examples have not met a total loss of one in a hundred: 461 do."""
    assert answer_on_loss(IntervalCell(0.0, 0.0, 0.0), 0.01, 460) is UNDECIDED
    assert answer_on_loss(IntervalCell(0.0, 0.0, 0.0), 0.01, 461) is NO
    assert answer_on_loss(IntervalCell(0.2, 0.1, 0.3), 0.01, 80) is NO  # a gain


def test_what_decides_among_several_places_is_shown() -> None:
    above, level, below = IntervalCell(3.0, 1.0, 5.0), IntervalCell(4.0, -1.0, 9.0), IntervalCell(-3.0, -5.0, -1.0)
    found = finding_on_any("is it above", {"k = 1": above, "k = 2": level}, "F1")
    assert (found.answer, found.difference, found.decided_by) == (YES, above, "F1, k = 1; above at k = 1")
    assert finding_on_any("is it above", {"k = 1": level, "k = 2": below}, "F1").difference == below
    assert finding_on_any("is it above", {"k = 1": level}, "F1").answer is UNDECIDED
    assert finding_on_any("is it above", {}, "F1").answer is Answer.UNASKED
    assert answer_of_several([YES, NO, UNDECIDED]) is Answer.PARTLY


@pytest.mark.slow
def test_the_study_answers_the_questions_of_the_thesis(tmp_path: Path) -> None:
    """On simulated claims stopping saves operations; what is within a point of 200 claims is not decided."""
    log = simulate_claims(tmp_path / "log", "claimdecomp", traces=8)
    report = study_factcheck(log, cap=8, caps=(4, 8), orders=2, resamples=300)
    report.save(tmp_path / "out")
    with (tmp_path / "out" / "verdicts.csv").open(encoding="utf-8") as file:
        rows = {row["Question"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    lost = rows["does adaptive stopping lose more than 1 point of macro-F1 to verifying everything?"]
    saved = rows["does it save operations?"]
    assert lost["verdict"] == "not decided"  # 200 claims rule out no loss of a point
    assert (saved["verdict"], saved["unit"]) == ("yes", "%")
    assert sum("(8 traces)" in question and "beat" in question for question in rows) == 4
    assert any(re.search(r"\bsurrogate's .*`unseen`", question) for question in rows)
    with (tmp_path / "out" / "table_4_1.csv").open(encoding="utf-8") as file:
        (split,) = csv.DictReader(line for line in file if not line.startswith("#"))
    (study,) = report.parts
    assert sorted(int(float(split[key])) for key in study.labels) == [49, 60, 91]
    assert int(float(split["claims"])) == 200
    change = study.main.change("adaptive stopping", "operations", "exhaustive best-of-n")
    assert float(saved["difference"]) == pytest.approx(-change.estimate)
    assert len(
        report.record["datasets"]["claimdecomp"]["verdicts"]
        if "datasets" in report.record
        else report.record["verdicts"]
    ) == len(rows)
