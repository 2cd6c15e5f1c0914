"""Policies of saved results against each other: all pairs, two in detail, and those of two results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
import thinkback as tb
from generate.simulation.grid import simulate
from replay import Result, Sample
from replay.runs.compare import comparing
from replay.runs.compare.compared import FIX, FLIP, OTHER
from tests.errors import noted, numbers, refuses, remarked
from tests.logs import GOLDS, POOL, drawn
from tests.logs import log as small_log
from tests.seeds import seeds
from toolkit.log import Log, open_log, write_log
from toolkit.show import code_of
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "vote"
kind = "sample"
pool = "n6"
max_traces = [3, 6]
select = "majority"

[[policy]]
name = "best"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"

[[policy]]
name = "orders"
kind = "sample"
pool = "n6"
max_traces = 3
select = "majority"
orders = 3

[[policy]]
name = "any"
kind = "oracle"
rule = "any"
of = ["n6"]
"""
REAL = {"first", "vote[max_traces=3]", "vote[max_traces=6]", "best", "orders"}


log = drawn(simulate, examples=240, traces=6, labels=3, seed=5)


@pytest.fixture(scope="module")
def result(log: Path) -> Result:
    return replay.run(log, POLICIES, baseline="first", resamples=200)


@pytest.fixture(scope="module")
def part(log: Path) -> Result:
    """Some of the policies, on some of the examples."""
    only = "\n\n".join(POLICIES.strip().split("\n\n")[:3])
    return replay.run(log, only, where="example_id < 'sim5-000000200'", resamples=200)


def test_all_pairs(result: Result) -> None:
    """Ten pairs of five policies, the better first; their p-values to the leader are those of the ranked table."""
    made = result.compare()
    assert (made.compared, made.n, made.diagnostics, made.names) == (10, 240, True, ())
    assert set(made.pairs["first"]) | set(made.pairs["second"]) == REAL
    assert (made.pairs["difference"] >= 0).all()
    accuracy = dict(result.summary.filter(metric="accuracy").select("policy", "estimate").rows())
    for row in made.pairs.iter_rows(named=True):
        assert row["difference"] == pytest.approx(accuracy[row["first"]] - accuracy[row["second"]])
        assert row["low"] <= row["difference"] <= row["high"]
    ranks = dict(result.ranks.filter(metric="accuracy").drop_nulls("p_leader").select("policy", "p_leader").rows())
    led = made.pairs.filter(first=result.leader)
    assert {row["second"]: pytest.approx(row["p_value"]) for row in led.iter_rows(named=True)} == ranks
    outcomes = result.outcomes.collect()
    one, other = (outcomes.filter(policy=made.pairs[name][0])["correct"] for name in ("first", "second"))
    assert made.pairs.row(0, named=True)["fixes"] == (one > other).sum()
    assert made.pairs.row(0, named=True)["flips"] == (one < other).sum()


def test_a_metric_that_costs(result: Result) -> None:
    """The cheaper of two is the first, so that differences are not above 0."""
    pairs = result.compare(metric="total_tokens").pairs
    assert (pairs["difference"] <= 0).all()
    assert pairs["metric"].unique().to_list() == ["total_tokens"]
    assert set(pairs["method"]) == {"max-t_few"}
    assert "500 examples" in result.compare(metric="total_tokens").table().markdown()
    assert result.compare(metric="macro_f1").pairs["difference"].null_count() == 0
    with refuses("unknown", "`acuracy`", "`accuracy`"):
        result.compare(metric="acuracy")


def test_two_policies(result: Result) -> None:
    made = result.compare("first", "best")
    assert made.names == ("first", "best")
    plain = replay.run(
        result.provenance["log"]["address"], POLICIES, baseline="best", resamples=200
    ).comparisons.filter(policy="first", baseline="best")
    assert made.metrics is not None
    for row in made.metrics.iter_rows(named=True):
        told = plain.filter(metric=row["metric"]).row(0, named=True)
        assert {key: row[key] for key in ("difference", "low", "high", "p_value", "n", "method")} == {
            key: told[key] for key in ("difference", "low", "high", "p_value", "n", "method")
        }
        if row["first"] is not None and row["second"] is not None:
            assert row["difference"] == pytest.approx(row["first"] - row["second"])
    one, other = (result.policy(name).outcomes.collect() for name in made.names)
    assert made.examples is not None
    counts = {change: made.examples.filter(change=change).height for change in (FIX, FLIP, OTHER)}
    assert counts[FIX] == (one["correct"] > other["correct"]).sum() == made.pairs["fixes"].item()
    assert counts[FLIP] == (one["correct"] < other["correct"]).sum() == made.pairs["flips"].item()
    unlike = one["answer"].ne_missing(other["answer"]) & (one["correct"] == other["correct"])
    assert counts[OTHER] == unlike.sum()


def test_two_policies_the_other_way_round(result: Result) -> None:
    """All is turned over, the limits among all pairs too; p-values and limits are those of the frame of all pairs."""
    one, other = result.compare("first", "best").pairs, result.compare("best", "first").pairs
    for here, there in (("difference", "difference"), ("low", "high"), ("high", "low")):
        assert one[here].item() == pytest.approx(-other[there].item())
    assert (one["fixes"].item(), one["flips"].item()) == (other["flips"].item(), other["fixes"].item())
    assert one["p_value"].item() == other["p_value"].item()
    every = result.compare().pairs
    listed = every.filter(pl.col("first").is_in(["first", "best"]) & pl.col("second").is_in(["first", "best"]))
    assert_frame_equal(listed, one if listed["first"].item() == "first" else other)


def test_a_policy_that_sees_gold_is_in_no_family(result: Result) -> None:
    made = result.compare("any", "best")
    assert made.pairs.is_empty()
    assert made.metrics is not None
    assert made.metrics.filter(metric="accuracy")["difference"].item() > 0
    assert "Among all" not in made.table().markdown()


def test_a_loaded_result_compares_as_well(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    again = replay.load(tmp_path / "kept")
    assert_frame_equal(again.compare().pairs, result.compare().pairs)
    one, other = again.compare("vote[max_traces=3]", "orders"), result.compare("vote[max_traces=3]", "orders")
    assert_frame_equal(one.metrics, other.metrics)
    assert_frame_equal(one.examples, other.examples)
    assert one.table().markdown() == other.table().markdown()


def test_two_results(result: Result, part: Result, tmp_path: Path) -> None:
    """On the 200 examples that both have: as one run of both has it, and nothing where they did the same."""
    part.save(tmp_path / "part")
    made = replay.load(tmp_path / "part").compare(other=result)
    assert (made.n, made.left_out, made.compared) == (200, 40, 4 * 5)
    same = made.pairs.filter(pl.col("first") == pl.col("second"))
    assert same.height == 4
    assert same["difference"].to_list() == [0.0] * 4
    assert (same["high"] > 0).all()
    whole = replay.run(
        result.provenance["log"]["address"], POLICIES, where="example_id < 'sim5-000000200'", resamples=200
    )
    one = made.pairs.filter(first="first", second="best").row(0, named=True)
    told = whole.compare("first", "best").pairs.row(0, named=True)
    assert {key: one[key] for key in ("difference", "fixes", "flips", "n")} == {
        key: told[key] for key in ("difference", "fixes", "flips", "n")
    }


def test_one_policy_in_two_results(result: Result, part: Result) -> None:
    made = part.compare("best", other=result)
    assert made.names == ("best (first)", "best (second)")
    assert made.metrics is not None
    assert made.metrics["difference"].to_list() == [0.0] * made.metrics.height
    assert made.examples is not None
    assert made.examples.is_empty()
    assert made.identical
    assert made.table().below[0].startswith("Identical: ")
    shown = made.table().markdown()
    assert "best (first)" in shown
    assert "40 examples" in shown


def test_results_on_other_examples_are_refused(log: Path, result: Result, tmp_path: Path) -> None:
    source = open_log(log)
    tables = {name: source.scan(name).collect() for name in ("examples", "traces", "verifications")}
    turned = pl.col("gold").shift(1).fill_null(pl.col("gold").last())
    changed = tables["examples"].with_columns(gold=turned, labels=pl.lit(None, pl.List(pl.String)))
    other = write_log(tmp_path / "other", name="other", tables={**tables, "examples": changed})
    first = POLICIES.split("\n\n")[0]
    with refuses("mismatch", "`sim5-000000000`"):
        result.compare(other=replay.run(other, first, resamples=20))
    moved = {
        name: frame.with_columns(pl.col("example_id") + "x") if "example_id" in frame.columns else frame
        for name, frame in tables.items()
    }
    apart = write_log(tmp_path / "apart", name="apart", tables=moved)
    with refuses("mismatch", "in common"):
        result.compare(other=replay.run(apart, first, resamples=20))


def test_what_is_named_wrongly(result: Result) -> None:
    for given, refusal in {
        ("first",): ("required",),
        ("first", "first"): ("invalid", "`first`"),
        ("frist", "best"): ("unknown", "`frist`", "`first`"),
    }.items():
        with refuses(*refusal):
            result.compare(*given)
    with refuses("unknown", "`bset`", "`best`"):
        result.compare("first", "bset", other=result)


def test_more_policies_than_can_be_paired(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_PAIRED", 4)
    with refuses("limit", "6"):
        result.compare()
    made = result.compare("first", "best")
    assert made.pairs.is_empty()
    assert made.metrics is not None


def test_tables(result: Result) -> None:
    made = result.compare()
    below = made.table(limit=3).below
    remarked(below, "cut", "7 ", "`--out DIR`", "`.pairs`")
    assert numbers(remarked(below, "at_once"))[-1] == "10"
    remarked(below, "no_diagnostics")
    assert repr(made) == str(made.table(limit=10))
    assert made._repr_html_().startswith("<div>")
    assert made.examples_table() is None
    two = result.compare("first", "best")
    assert not two.identical
    assert "| metric | first | best | Δ | p | n |" in two.table().markdown()
    remarked(two.table().below, "all_pairs", " 10 ", "accuracy % ")
    listed = two.examples_table(2)
    assert listed is not None
    remarked(listed.below, "cut", "`--out DIR`", "`.examples`")


@pytest.mark.parametrize("clusters", seeds(1, [5, 2]))
def test_few_clusters_are_warned_of_above_all_pairs(log: Path, tmp_path: Path, clusters: int) -> None:
    """Below three nothing is told apart, by no metric."""
    source = open_log(log)
    tables = {name: source.scan(name).collect() for name in ("examples", "traces", "verifications")}
    number = pl.concat_str(pl.lit("c"), (pl.int_range(pl.len()) % clusters).cast(pl.String))
    tables["examples"] = tables["examples"].with_columns(cluster=number)
    result = replay.run(
        write_log(tmp_path / "log", name="log", tables=tables), POLICIES, baseline="first", resamples=50
    )
    shown = result.compare()
    assert f"{clusters} clusters of 240 examples" in "\n".join(shown.table().above)
    for name in ("rank_low", "ties", "p_leader", "p_baseline", "baseline_low"):
        assert result.ranks[name].is_null().all() == (clusters < 3), name
    assert shown.pairs["low"].is_null().all() == (clusters < 3)
    assert not (clusters < 3 and shown.pairs["differs"].any())


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log whose calls wait longer than they take of the device."""
    return small_log(tmp_path_factory.mktemp("timed"), {"n": POOL}, GOLDS)


ONE = Sample(name="one", pool="n", max_traces=1, select="first")
THREE = Sample(name="three", pool="n", max_traces=3, select="majority")


def test_sums_of_seconds_are_said_to_be_of_batches(timed: Log) -> None:
    result = replay.run(timed, [ONE, THREE], resamples=20)
    for made in (result.compare("one", "three"), result.compare(metric="latency_s")):
        remarked(made.table().below, BATCHED_SECONDS)
    assert BATCHED_SECONDS not in map(code_of, result.compare().table().below)


def test_results_that_measure_success_otherwise_are_refused(timed: Log) -> None:
    one, other = (replay.run(timed, [ONE], resamples=20) for _ in range(2))
    told = replace(other, provenance={**other.provenance, "measure": "graded"})
    with refuses("mismatch", "`correct`", "`graded`"):
        one.compare(other=told)


def test_whose_level_and_seed_are_taken(timed: Log) -> None:
    one, other = replay.run(timed, [ONE], resamples=20), replay.run(timed, [THREE], resamples=20, level=0.9, seed=3)
    for made in (one.compare(other=other), one.compare("one", "three", other=other)):
        noted(made.notes, "first_settings", "`level`", " 0.95; ", " 0.9")
        noted(made.notes, "first_settings", "`seed`", " 0; ", " 3")
        assert [code_of(line) for line in made.table().below].count("first_settings") == 2
        assert "`resamples`" not in made.table().markdown()


def test_no_table_of_examples_where_two_differ_on_none(timed: Log) -> None:
    again = replace(ONE, name="again")
    made = replay.run(timed, [ONE, again], resamples=20).compare("one", "again")
    assert made.examples is not None
    assert made.examples.is_empty()
    assert made.examples_table() is None


def test_small_p_values_are_not_zero() -> None:
    rows = [(f"q{i}", m, "AB"[(m == "large") == (i % 20 == 0)]) for i in range(400) for m in ("small", "large")]
    frame = pl.DataFrame(rows, schema=["id", "model", "answer"], orient="row")
    frame = frame.with_columns(question="Say " + pl.col("id"), gold=pl.lit("A"), pool=pl.col("model"))
    result = tb.run(tb.log(frame), baseline="small", resamples=100_000)
    pairs, named = result.compare().table(), result.compare("large", "small").table()
    shown = [column.form.show(row[at]) for table in (pairs, named) for at, column in enumerate(table.columns)
             if column.name == "p" for row in table.rows[:1]]  # fmt: skip
    assert shown == ["< .0001"] * 2
