"""A user's own metrics: in the summary, the comparisons and the table, with intervals, and as what ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from replay import Metric, Sample
from replay.runs.saved.display import ranked_input as _ranked
from tests.errors import numbers, quotes, refuses, remarked
from tests.logs import FIRST, GOLDS, POOL, log, tables
from toolkit.log import Log, write_log
from toolkit.show import frontier_figure, ranked_table

VOTE = Sample(name="vote", max_traces=3, select="majority")
POLICIES = [FIRST, VOTE]
TOKENS_PER_RIGHT = Metric("tokens per right answer", of="total_tokens", over="correct", better="lower", unit="tokens")
KILO = Metric("kilotokens", of="total_tokens", times=0.001, better="lower", decimals=4)
RIGHT_PER_KILO = Metric("right per kilotoken", of="accuracy", over="total_tokens", times=1000, header="right/kt")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """First traces A, B, B: two of three right for 15 tokens. Votes A, B, B: two right for 45 tokens."""
    return log(tmp_path_factory.mktemp("log"), {"n3": POOL}, GOLDS)


def estimates(result: replay.Result, metric: str) -> dict[str, float]:
    return dict(result.summary.filter(metric=metric).select("policy", "estimate").iter_rows())


def test_means_and_ratios_by_hand(made: Log) -> None:
    """15 / (2/3) = 22.5 and 45 / (2/3) = 67.5; 0.015 and 0.045; 1000 / 22.5 and 1000 / 67.5."""
    result = replay.run(
        made, POLICIES, metrics=[TOKENS_PER_RIGHT, KILO, RIGHT_PER_KILO], baseline="first", resamples=200
    )
    assert estimates(result, TOKENS_PER_RIGHT.name) == pytest.approx({"first": 22.5, "vote": 67.5})
    assert estimates(result, "kilotokens") == pytest.approx({"first": 0.015, "vote": 0.045})
    assert estimates(result, RIGHT_PER_KILO.name) == pytest.approx({"first": 1000 / 22.5, "vote": 1000 / 67.5})
    rows = result.comparisons.filter(policy="vote", baseline="first")
    differences = dict(rows.select("metric", "difference").iter_rows())
    assert differences[TOKENS_PER_RIGHT.name] == pytest.approx(45.0)
    assert differences[f"reduction:{TOKENS_PER_RIGHT.name}"] == pytest.approx(1 - 3)
    assert "reduction:right per kilotoken" not in differences
    drawn = result.summariser.resampled_values(RIGHT_PER_KILO.name)
    kept = drawn[0][~np.isnan(drawn[0])]
    low, high = result.summary.filter(policy="first", metric=RIGHT_PER_KILO.name).select("low", "high").row(0)
    assert (low, high) == pytest.approx(tuple(np.quantile(kept, [0.025, 0.975])), rel=0.05)


def test_they_rank(made: Log) -> None:
    """Equally accurate, so the order of the file decides unless a metric of one's own does, either way round."""
    for metric, leader in ((TOKENS_PER_RIGHT, "first"), (RIGHT_PER_KILO, "first")):
        result = replay.run(made, [VOTE, FIRST], metrics=metric, metric=metric.name, resamples=50)
        assert result.leader == leader
        assert result.provenance["metric"] == result.provenance["metrics"][0]["name"] == metric.name
    dear = Metric("dear", of="total_tokens")
    assert replay.run(made, POLICIES, metrics=[dear], metric="dear", resamples=50).leader == "vote"


@pytest.mark.parametrize(
    ("metric", "head", "first", "change"),
    [(TOKENS_PER_RIGHT, "tokens per right answer", "22.50", "+45.00"), (RIGHT_PER_KILO, "right/kt", "44.44", "−29.63")],
)
def test_the_table_shows_and_explains_them(made: Log, metric: Metric, head: str, first: str, change: str) -> None:
    result = replay.run(made, [VOTE, FIRST], metrics=[metric], metric=metric.name, baseline="first", resamples=50)
    ranked = _ranked(result, 1.0)
    text = ranked_table(ranked).markdown()
    rows = [line for line in text.splitlines() if line.startswith(("| 1", "| **1"))]
    assert first in rows[0]
    assert "first" in rows[0]
    assert change in text
    assert head in text
    assert "Δ points" not in text
    assert "percentage points" not in text
    assert ("at most this" in text) == (metric.better == "lower")
    rule = remarked(ranked_table(ranked).below, "not_worse")
    assert ("upper" in rule, numbers(rule)) == (metric.better == "lower", ["1" if metric.better == "lower" else "−1"])
    assert frontier_figure(ranked) is None  # its axis is of shares


def test_a_metric_that_does_not_rank_is_a_column(made: Log) -> None:
    text = ranked_table(_ranked(replay.run(made, POLICIES, metrics=[KILO], resamples=50), None)).markdown()
    assert "kilotokens" in text
    assert "0.0450" in text


def test_a_share_is_in_per_cent_and_has_a_figure(made: Log) -> None:
    share = Metric("right", of="correct", share=True)
    result = replay.run(made, POLICIES, metrics=[share], metric="right", resamples=50)
    assert "right %" in ranked_table(_ranked(result, None)).markdown()
    assert frontier_figure(_ranked(result, None)) is not None


def test_what_is_not_logged_is_no_value(tmp_path: Path) -> None:
    """One trace without tokens: no mean, so no ratio, and a note; the vote takes it too."""
    plain = tables({"n3": POOL}, GOLDS)
    missing = plain["traces"]["trace_id"] == "e1/n3/0"
    tokens = plain["traces"]["prompt_tokens"].to_list()
    tokens[missing.to_list().index(True)] = None
    plain["traces"] = plain["traces"].with_columns(prompt_tokens=pl.Series(tokens))
    result = replay.run(
        write_log(tmp_path / "log", name="m", tables=plain), POLICIES, metrics=[RIGHT_PER_KILO], resamples=20
    )
    assert estimates(result, RIGHT_PER_KILO.name) == {"first": None, "vote": None}
    assert any(note.code == "no_ratio" and "right/kt" in note.text for note in result.notes)


def test_ratios_of_other_kinds_of_policies_are_no_gap(made: Log) -> None:
    """Rewarded rounds and claims of checks: metrics of every run, which these policies never had."""
    result = replay.run(made, POLICIES, resamples=20)
    assert not [note for note in result.notes if note.code == "no_ratio"]
    assert not {"rewarded_share", "claim_accuracy"} & set(result.summary["metric"])


def test_never_right_is_divided_by_nothing(tmp_path: Path) -> None:
    written = log(tmp_path, {"n3": POOL}, dict.fromkeys(GOLDS, "C"))
    result = replay.run(written, POLICIES, metrics=[TOKENS_PER_RIGHT], resamples=20)
    assert estimates(result, TOKENS_PER_RIGHT.name) == {"first": None, "vote": None}
    assert any(note.code == "no_ratio" for note in result.notes)


@pytest.mark.parametrize(
    ("metric", "lacking"),
    [
        (Metric("q", of="price"), "`cost_per_1000`"),
        (Metric("q", of="set_size"), "`set_size`"),
        (Metric("q", of="covered"), "`coverage`"),
        (Metric("q", of="found"), "`found`"),
        (Metric("q", of="recall_5"), "`recall_5`"),
        (Metric("q", of="f1:A"), "`f1:A`"),
        (Metric("q", of="correct", over="price"), "`cost_per_1000`"),
    ],
)
def test_what_no_policy_has_is_told(made: Log, metric: Metric, lacking: str) -> None:
    """No column of outcomes at all: rows without a value, and a note, which the table carries, too."""
    result = replay.run(made, POLICIES, metrics=[KILO, metric], baseline="first", by="dataset", resamples=20)
    assert estimates(result, "q") == {"first": None, "vote": None}
    assert result.summary["policy"].rle().len() == len(POLICIES)
    found = result.comparisons.filter(metric="q")
    plain = result.comparisons.filter(metric="kilotokens")
    assert found["difference"].null_count() == len(found)
    assert_frame_equal(found.select("policy", "baseline", "identical"), plain.select("policy", "baseline", "identical"))
    (told,) = [note for note in result.notes if "q" in note.metrics]
    assert told.code == "no_ratio"
    quotes(told, "q: ", lacking)
    assert told.text in " ".join(result.table().markdown().replace("\\_", "_").split())
    assert result.by_summary is not None
    assert result.by_summary.filter(metric="q")["estimate"].null_count() == 2
    with refuses("empty", "`q`"):
        replay.run(made, POLICIES, metrics=[metric], metric="q", resamples=20)


def test_a_goal_of_what_no_policy_has_is_refused(made: Log) -> None:
    rows = {"on": "example_id = 'e1'", "report": "example_id <> 'e1'"}
    for of in ("price", "fix"):
        with refuses("empty", "`goal`", "`q`"):
            replay.tune(made, POLICIES, goal="max q", metrics=[Metric("q", of=of)], resamples=5, **rows)


def test_what_tables_call_things_is_no_name_for_a_metric(made: Log) -> None:
    """Every heading and every name in CSV, with all columns that a table may have, is refused."""
    result = replay.run(made, POLICIES, baseline="first", resamples=20)
    table = result.table(margin=0.1)
    words = {column.name for column in table.columns} | {*table.csv().splitlines()[0].split(",")}
    for word in sorted(words):
        with refuses("conflict", f"`{word}`"):
            replay.run(made, POLICIES, metrics=[Metric(word, of="calls")], resamples=20)


def test_a_label_that_no_example_has_is_refused(made: Log) -> None:
    plain = {name: made.scan(name).collect() for name in ("examples", "traces")}
    plain["examples"] = plain["examples"].with_columns(labels=pl.lit(["A", "B"], pl.List(pl.String)))
    metrics = [Metric("a", of="f1:A")]
    assert estimates(replay.run(plain, POLICIES, metrics=metrics, resamples=20), "a")["first"] is not None
    with refuses("unknown", "`z`", "`Zebra`", "`A`", "`B`"):
        replay.run(plain, POLICIES, metrics=[Metric("z", of="calls", over="f1:Zebra")], resamples=5)


def test_counts_of_traces_are_no_shares(made: Log) -> None:
    """Three finalizers for an example are 3 and not 300 %."""
    plain = {name: made.scan(name).collect() for name in ("examples", "traces")}
    plain["traces"] = plain["traces"].with_columns(finalizer_used=pl.lit(True), finish_reason=pl.lit("length"))
    for cost in ("finalizers", "truncated"):
        text = replay.run(plain, POLICIES, cost=cost, resamples=20).table().csv()
        assert [line.split(",")[1] for line in text.splitlines()[1:]] == ["first", "vote"]
        shown = replay.run(plain, POLICIES, cost=cost, resamples=20).table()
        (column,) = [column for column in shown.columns if column.key == cost]
        place = shown.columns.index(column)
        assert column.name == cost
        assert [column.form.show(row[place]) for row in shown.rows] == ["1.0000", "3.0000"]


def test_groups_and_tuning_take_them(made: Log) -> None:
    result = replay.run(made, POLICIES, metrics=[KILO], by="example_id", resamples=20)
    assert result.by_summary is not None
    assert len(result.by_summary.filter(metric="kilotokens")) == 6
    rows = {"on": "example_id = 'e1'", "report": "example_id <> 'e1'"}
    tuned = replay.tune(made, POLICIES, goal="min kilotokens", metrics=[KILO], resamples=20, **rows)
    assert sorted(tuned.chosen["policy"]) == ["first", "vote"]


@pytest.mark.parametrize(
    ("build", "refusal"),
    [
        (lambda: Metric("a", of="totl_tokens"), ("unknown", "`totl_tokens`", "`total_tokens`")),
        (lambda: Metric("a", of="calls", over="base_correct"), ("unknown", "`base_correct`")),
        (lambda: Metric("accuracy", of="calls"), ("conflict", "`accuracy`")),
        (lambda: Metric("a", of="calls", better="more"), ("unknown", "`a`", "`better`", "'more'")),
        (lambda: Metric("a", of="calls", times="x"), ("invalid", "`a`", "`times`", "'x'")),
        (lambda: Metric(" ", of="calls"), ("required", "`name`")),
        (lambda: "calls", ("invalid", "`metrics`", "`Metric`", "'calls'")),
        (lambda: [Metric("a", of="calls"), Metric("a", of="calls")], ("conflict", "`a`")),
        (lambda: ["calls"], ("invalid", "`metrics`", "`Metric`", "'calls'")),
        (lambda: Metric("f1:A", of="correct"), ("conflict", "`f1:A`", "`f1:`")),
        (lambda: Metric("recall_of", of="correct"), ("conflict", "`recall_`")),
        (lambda: Metric("reduction:calls", of="calls"), ("conflict", "`reduction:`")),
        (lambda: Metric("policy", of="correct"), ("conflict", "`policy`")),
        (lambda: Metric("accuracy_low", of="correct"), ("conflict", "`accuracy_low`")),
        (lambda: Metric("tokens", of="total_tokens"), ("conflict", "`tokens`")),
        (lambda: Metric("a", of="calls", header="rank"), ("conflict", "`rank`")),
        (lambda: Metric("a", of="calls", header="accuracy %"), ("conflict", "`accuracy %`")),
        (
            lambda: [Metric("a", of="calls", header="mine"), Metric("b", of="calls", header="mine")],
            ("conflict", "`b`", "`mine`"),
        ),
        (lambda: [Metric("a", of="calls"), Metric("a_high", of="calls")], ("conflict", "`a_high`")),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(made: Log, build: Any, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.run(made, POLICIES, metrics=build(), resamples=5)


def test_a_heading_with_a_slash_is_a_cost_of_its_own(made: Log) -> None:
    """It was taken for the cost before the slash, 5 and 15 tokens: 15 / (2/3) = 22.5 and 45 / (2/3) = 67.5."""
    slashed = Metric("tokens/right", of="total_tokens", over="correct", better="lower", unit="tokens")
    result = replay.run(made, POLICIES, metrics=[slashed], cost="tokens/right", resamples=20)
    frame = result.figure_data("frontier").frame
    assert dict(frame.select("policy", "cost").iter_rows()) == pytest.approx({"first": 22.5, "vote": 67.5})
