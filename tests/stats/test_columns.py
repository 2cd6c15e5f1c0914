"""The one table of columns decides what is summed up, in which order, and by what policies may be ranked."""

from __future__ import annotations

import numpy as np
import pytest

from replay.engine.costs import COSTS, costs_by_name
from replay.engine.outcome import BaseComparison, Outcome
from replay.engine.sets import SET_COLUMNS
from replay.runs.passes.gate_sweep import BANDED, COMPARED, CURVE
from replay.runs.passes.passes import outcome_values
from replay.studies.factcheck.study import UNSHOWN
from tests.errors import numbers, refuses
from toolkit.columns import COLUMNS, METRICS, OTHERS, OutcomeColumn, column_or_metric, find, metric_column, with_columns
from toolkit.stats import Settings, resampled_metric, summarise

QUICK = Settings(resamples=200)


def test_names_are_given_once() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    metrics = [column.metric for column in COLUMNS if column.metric is not None]
    assert len(set(metrics)) == len(metrics)
    headings = [column.heading for column in COLUMNS if column.header]
    assert len(set(headings)) == len(headings)


def test_what_is_named_elsewhere_is_in_the_table() -> None:
    known = {column.name for column in COLUMNS}
    assert {*COSTS, *costs_by_name(np.zeros(len(COSTS))), *SET_COLUMNS, *CURVE, *BANDED} <= known
    assert COMPARED == ("correct", "fix", "flip", "intervened")
    assert {column.metric for column in COLUMNS} >= UNSHOWN


def test_what_a_comparison_finds_is_written_under_the_names_of_the_table() -> None:
    base, right, acts, tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [5.0, 7.0]])
    nothing = np.zeros(2)
    outcome = Outcome(
        reason=nothing, reasons=("served",), costs=np.zeros((2, len(COSTS))), correct=right, credit=nothing,
        words=nothing[None], shares=None, rows=nothing, ending=nothing,
        against=BaseComparison(base, right, acts, tokens),
    )  # fmt: skip
    values = outcome_values(outcome, np.array([True, True]))
    found = {name: values[name].tolist() for name in ("base_correct", "correct", "fix", "flip", "intervened")}
    expected = {"base_correct": [1, 0], "correct": [0, 1], "fix": [0, 1], "flip": [1, 0], "intervened": [1, 1]}
    assert found == expected
    assert values["action_tokens"].tolist() == [5, 7]


def test_further_metrics_are_found_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio = OutcomeColumn("tokens_per_right", "rightness", computed="ratio", ratio=("total_tokens", "accuracy"))
    assert find(ratio.name).cost
    monkeypatch.setitem(METRICS, ratio.name, ratio)
    assert find(ratio.name) == column_or_metric(ratio.name) == metric_column("rightness") == ratio
    assert (
        column_or_metric(ratio.name, COLUMNS)
        is OTHERS
        is column_or_metric("zebras")
        is column_or_metric("zebras", [ratio])
    )


def test_one_row_stands_for_a_family_of_columns() -> None:
    assert find("recall_10") == metric_column("recall_10")
    assert (find("recall_10").metric, find("recall_10").quality) == ("recall_10", True)
    assert metric_column("f1:True").share
    assert metric_column("accuracy").name == "correct"
    assert metric_column("cost_per_1000").name == "price"


def test_decimals_of_a_mean() -> None:
    """Of money those of a table in thousands: a cost of 1,000 requests has no more than other costs."""
    shown = {"accuracy": 4, "total_tokens": 2, "latency_s": 2, "cost_eur": 6, "cost_per_1000": 2}
    assert {metric: metric_column(metric).precision for metric in shown} == shown


def test_a_column_that_no_row_names_is_a_cost() -> None:
    assert (find("zebras").metric, find("zebras").cost, find("zebras").quality) == ("zebras", True, False)


def test_a_policy_may_bring_columns_of_its_own(made, factory) -> None:
    certain = OutcomeColumn("certain", "certainty", share=True, rate=True, quality=True)
    one = made({"correct": [[1, 0, 1], [1, 0, 1]], "certain": [[0, 1, 1], [1, 1, 1]], "total_tokens": [[1, 1, 1]] * 2})
    found = summarise(
        factory(one), ["a", "b"], metric="certainty", columns=with_columns([certain, certain]), settings=QUICK
    )
    assert found.summary["metric"].unique(maintain_order=True).to_list() == ["accuracy", "total_tokens", "certainty"]
    assert (found.metric, found.leader) == ("certainty", "b")
    assert set(found.comparisons["baseline"]) == {"b"}
    with refuses("unknown", "`certain`"):  # without its row it is a cost
        summarise(factory(one), ["a", "b"], metric="certain", settings=QUICK)


def test_a_run_without_judgements_is_ranked_by_what_it_found(made, factory) -> None:
    nothing = np.full(4, np.nan)
    values = {"correct": [nothing, nothing], "recall_5": [[0.5, 1, 1, 0], [1, 1, 1, 0.5]], "found": [[1, 1, 1, 0]] * 2}
    one = made({**values, "total_tokens": [[2] * 4, [9] * 4]})
    by_recall = summarise(factory(one), ["a", "b"], metric="recall_5", settings=QUICK)
    assert (by_recall.leader, by_recall.judged) == ("b", 0)
    assert (by_recall.notes[0].code, numbers(by_recall.notes[0])) == ("unjudged", ["4", "4"])
    by_found = summarise(factory(one), ["a", "b"], metric="found", settings=QUICK)
    assert by_found.leader == "a"  # both found the same, and it is cheaper
    assert summarise(factory(one), ["a", "b"], settings=QUICK).leader is None


@pytest.mark.parametrize("metric", ["macro_f1", "f1:x"])
def test_an_f1_ranks(made, factory, metric: str) -> None:
    predicted = [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]
    one = made({"correct": [[1, 0], [1, 1]]}, gold=[0, 1], predicted=predicted)
    assert summarise(factory(one), ["a", "b"], labels=["x", "y"], metric=metric, settings=QUICK).leader == "b"


@pytest.mark.parametrize("metric", ["total_tokens", "fix_rate", "recall_9", "nonsense"])
def test_only_a_quality_that_the_run_has_ranks(made, factory, metric: str) -> None:
    one = made({"correct": [[1, 0]], "recall_5": [[1, 1]], "fix": [[0, 1]], "total_tokens": [[1, 2]]})
    with refuses("unknown", f"`{metric}`", "`accuracy`", "`recall_5`"):
        summarise(factory(one), ["a"], metric=metric, settings=QUICK)


def test_the_metric_that_ranks_gives_every_policy_a_row(made, factory) -> None:
    one = made({"correct": [[1, 0]] * 2, "found": [[1, 1], [np.nan, np.nan]]})
    found = summarise(factory(one), ["a", "b"], metric="found", settings=QUICK).summary.filter(metric="found")
    assert found["policy"].to_list() == ["a", "b"]
    assert found["estimate"].to_list() == [1.0, None]


def test_draws_take_a_table_of_columns(made, factory) -> None:
    certain = OutcomeColumn("certain", share=True)
    one = made({"correct": [[1, 0, 1]], "certain": [[0.5, 0.25, np.nan]]})
    values = resampled_metric(factory(one), ["a"], "certain", columns=with_columns([certain]), settings=QUICK)
    assert np.nanmin(values) == 0.25  # a null is left out, where a cost would have no value


def test_a_ratio_of_two_metrics_is_resampled_with_them(made, factory) -> None:
    """12 tokens a request and 3 of 4 right: 16 tokens for a right answer; none where nothing is right."""
    ratio = OutcomeColumn("tokens_per_right", computed="ratio", ratio=("total_tokens", "accuracy"), unit="tokens")
    one = made({"correct": [[1, 0, 1, 1], [0, 0, 0, 0]], "total_tokens": [[10, 20, 8, 10], [1, 1, 1, 1]]})
    columns = with_columns([ratio])
    found = summarise(factory(one), ["a", "b"], columns=columns, settings=QUICK).summary
    assert found.filter(metric="tokens_per_right")["estimate"].to_list() == [16.0, None]
    top, bottom, both = (
        resampled_metric(factory(one), ["a", "b"], name, columns=columns, settings=QUICK)
        for name in ("total_tokens", "accuracy", "tokens_per_right")
    )
    np.testing.assert_allclose(both, np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0))
