"""Sets of gates and what is computed of them: names, scores of classifiers, frontiers, curves over rates."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.analyses.recommend.attempts import (
    _attempt_and_revision_rows,
    completed_and_truncated_masks,
    revision_pools,
    token_limits,
)
from replay.analyses.recommend.rivals import best_policy_at_no_more_cost
from replay.data.choice import Choice, UsedRows
from replay.data.contents import read_contents
from replay.gatefit.gate_set import (
    CHEAP,
    CLASSIFIER,
    GIVEN,
    NEAR_LIMIT,
    TRUNCATION,
    GateFitting,
    NamedGate,
    fitting_scopes,
    gate_texts,
    load_given_gates,
    rule_gates,
)
from replay.studies.recovery.figures import _band_panel
from replay.studies.recovery.study import _shared_notes
from replay.studies.recovery.tables import _rows_at_rates
from tests.logs import sealed
from toolkit.log import Log

VERIFIER = "fix:active_verify:perfect"


def two_sets() -> dict[str, pl.DataFrame]:
    """400 examples of two data sets; a classifier scores each base attempt 1 where some revision repairs it."""
    tables = _recovery_tables(400, 11, RecoveryModel(votes=3))
    half = pl.when(pl.int_range(pl.len()) < 200).then(pl.lit("a")).otherwise(pl.lit("b"))
    split = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("dev")).otherwise(pl.lit("test"))
    right = tables["traces"].filter(action="active_verify").group_by("parent_id").agg(pl.col("correct").any())
    first = tables["traces"].filter((pl.col("pool") == "short") & (pl.col("sample_index") == 0))
    scores = right.join(first, left_on="parent_id", right_on="trace_id").select(
        trace_id="parent_id", example_id="example_id", verifier=pl.lit(VERIFIER),
        score=(pl.col("correct") & ~pl.col("correct_right")).cast(pl.Float32),
    )  # fmt: skip
    return tables | {"examples": tables["examples"].with_columns(dataset=half, split=split), "verifications": scores}


log = sealed(two_sets, simulated=True)


@pytest.fixture(scope="module")
def classifier(log: Log) -> NamedGate:
    """The classifier as a gate of data set `a`, fitted on its own examples alone."""
    contents = read_contents(log)
    scopes = fitting_scopes(log, Choice(UsedRows("split = 'dev'"), fitted=UsedRows("split = 'dev'")), "a")
    assert [names for names, _ in scopes] == ["a", "a, b"]
    fitting = GateFitting(log, "short", revision_pools(contents, "short", ()), scopes)
    found = fitting.named_gates("active_verify", "score", CLASSIFIER, "selective", (f"verifier:{VERIFIER}",), VERIFIER)
    assert fitting.notes == []
    return found[0]


def test_a_classifier_is_a_gate_of_its_data_set(classifier: NamedGate) -> None:
    assert (classifier.action, classifier.part, classifier.fitted_on) == ("active_verify", CLASSIFIER, "a")
    assert 0 < classifier.file.threshold <= 1


def test_the_first_given_file_of_an_action_acts(classifier: NamedGate) -> None:
    """The cheap gate and further files stand beside it, and files of one name are numbered."""
    cheap = replace(classifier, policy="selective active_verify", label=CHEAP, part=CHEAP)
    files = [replace(classifier.file, path=f"{folder}/gate.json") for folder in ("one", "two")]
    acting, beside = load_given_gates(files, {"active_verify": cheap})
    assert (acting["active_verify"].part, acting["active_verify"].label) == (GIVEN, "gate.json (1)")
    assert [gate.policy for gate in beside] == [
        "selective active_verify: cheap features", "selective active_verify: gate.json (2)"
    ]  # fmt: skip


def test_equal_gates_are_one_file(classifier: NamedGate) -> None:
    other = replace(classifier, file=replace(classifier.file, content={**classifier.file.content, "threshold": 0.5}))
    act = "active_verify"
    assert set(gate_texts({"a": {act: classifier}, "b": {act: classifier}})) == {"gate-active_verify.json"}
    assert set(gate_texts({"a": {act: classifier}, "b": {act: other}})) == {
        "gate-a-active_verify.json", "gate-b-active_verify.json"
    }  # fmt: skip


def test_rules_are_those_that_the_log_can_serve(log: Log, classifier: NamedGate) -> None:
    contents = read_contents(log)
    assert set(rule_gates(contents, None)) == {TRUNCATION, NEAR_LIMIT}
    ended = replace(contents, trace_columns={"finish_reason": pl.String()})
    assert list(rule_gates(ended, classifier.file)) == [TRUNCATION, "completed only"]


def test_states_and_limits_are_of_the_base_attempts(log: Log) -> None:
    ids = log.scan("examples", ["example_id"]).collect()["example_id"]
    found = completed_and_truncated_masks(log, "short", ids)
    calls = _attempt_and_revision_rows(log, ids, "short", {}, ["finish_reason"])
    cut = calls.filter((pl.col("call") == "accept") & (pl.col("finish_reason") == "length"))
    assert set(ids.filter(pl.Series(found["truncated"]))) == set(cut["example_id"])
    assert not (found["completed"] & found["truncated"]).any()
    assert token_limits(log)["short"] < token_limits(log)["long"]


def test_the_frontier_has_the_best_that_costs_no_more() -> None:
    points = {"dear": (0.8, 30.0), "cheap": (0.6, 10.0), "worse": (0.5, 20.0), "unknown": (0.9, None)}
    best = {"cheap": "cheap", "worse": "cheap", "dear": "dear", "unknown": None}
    assert list(best_policy_at_no_more_cost(points).items()) == list(best.items())


def test_a_curve_is_read_at_even_rates() -> None:
    rates = {0.9: 0.0, 0.6: 0.24, 0.5: 0.3, 0.1: 1.0}
    band = pl.DataFrame([
        {"threshold": threshold, "metric": metric, "estimate": value, "band_low": value, "band_high": value}
        for threshold, rate in rates.items()
        for metric, value in (("intervention_rate", rate), ("flip_rate", rate / 10))
    ])  # fmt: skip
    rows = list(_rows_at_rates(band, ["flip_rate"], shares=4))
    assert [row["threshold"] for row in rows] == ["0.9", "0.6", "0.5", "0.1"]
    panel = _band_panel(band, "flip_rate", "flips", 100.0, mark=0.3, from_zero=True)
    assert panel is not None
    assert panel.estimate == pytest.approx((0.0, 2.4, 3.0, 10.0))
    assert (panel.mark, panel.top) == pytest.approx((30.0, 10.5))
    assert _band_panel(band, "fix_rate", "fixes", 100.0) is None


def test_what_is_told_of_some_data_sets_names_them() -> None:
    assert _shared_notes({"a": ["x", "y"], "b": ["y"]}) == ("x (a)", "y")
