"""What users have for traces works on a log of rounds alone."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import thinkback as tb
from tests.errors import refuses
from tests.retrieval.makers import Row, one_round, rounds_log
from thinkback.app import app

EXAMPLES = 24


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 questions of two rounds. Where the second agrees it has the gold document, behind three of higher relevance;
    where it does not (every fourth) it has none.
    """
    folder, rows, golds = tmp_path_factory.mktemp("rounds"), list[Row](), dict[str, list[str] | None]()
    for number in range(EXAMPLES):
        name, agrees = f"q{number:02d}", number % 4 > 0
        golds[name] = [f"g{number}"]
        last = {f"g{number}" if agrees else "x": 0.45, "y": 0.1}
        rows.append(one_round(name, 0, {"a": 0.8, "b": 0.7, "c": 0.6}, [0, 1], retrieval_rank=[2, 3, 4]))
        rows.append(one_round(name, 1, last, [0, 0] if agrees else [0, 1], retrieval_rank=[0, 1]))
        rows.append(one_round(name, 2, {"z": 0.05}, [0, 0], retrieval_rank=[9]))
    rounds_log(folder, rows, golds, pools={"r": {"explore": "relevance"}})
    (folder / "suite.toml").write_text(thinkback(folder, "suite", "log"), encoding="utf-8")
    thinkback(folder, "replay", "log", "--resamples", "100", "--traces", "--out", "o")
    return folder


def thinkback(folder: Path, *words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "220")
        done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.output


def estimates(home: Path, metric: str) -> dict[str, float]:
    rows = pl.read_parquet(home / "o" / "summary.parquet").filter(metric=metric)
    return dict(rows.select("policy", "estimate").iter_rows())


def test_the_suite_has_every_ranking(home: Path) -> None:
    """By relevance gold is fourth of a, b, c, so within ten; the document that a doubled round moves is second."""
    record = json.loads((home / "o" / "run.json").read_text())
    assert (record["baseline"], record["metric"]) == ("plain re-ranking", "recall_10")
    assert set(estimates(home, "recall_10")) == {
        "first-stage order", "plain re-ranking", "frontier of each hop", "frontier of each round", "SUNAR's penalty",
        "stable leader[stable=2]", "stable leader[stable=3]",
    }  # fmt: skip
    hits = estimates(home, "hit_1")
    assert hits["first-stage order"] == 0.75
    assert hits["frontier of each round"] == 0.75  # 2 × 0.45 is above 0.8
    assert hits["plain re-ranking"] == hits["frontier of each hop"] == 0.0
    # of three rounds with answers the last two, or where the second disagrees the last, hold one cluster
    assert estimates(home, "rewarded_share")["frontier of each round"] == pytest.approx((0.75 * 2 + 0.25) / 3)
    # the leader of rounds 0 and 1 is the same, so the third round of 2 calls and 15 tokens is spared
    assert estimates(home, "calls_saved")["stable leader[stable=2]"] == 2.0
    assert estimates(home, "tokens_saved")["stable leader[stable=2]"] == 15.0
    assert estimates(home, "rounds")["stable leader[stable=3]"] == 3.0


def test_differences_have_intervals(home: Path) -> None:
    rows = pl.read_parquet(home / "o" / "comparisons.parquet")
    row = rows.filter(policy="frontier of each round", baseline="plain re-ranking", metric="hit_1").row(0, named=True)
    assert row["difference"] == 0.75
    assert row["low"] > 0
    assert {"correct", "fix_rate"}.isdisjoint(rows["metric"])


def test_against_compares_qualities(home: Path) -> None:
    text = """
    [[policy]]
    name = "first"
    kind = "retrieve"
    rounds = 3
    order = "retriever"

    [[policy]]
    name = "plain"
    kind = "retrieve"
    rounds = 3
    multiplier = 1

    [[policy]]
    name = "frontier"
    kind = "retrieve"
    rounds = 3
    frontier_of = "round"
    against = "plain"
    """
    result = tb.run(home / "log", text, baseline="first", resamples=50)
    rows = result.comparisons.filter(policy="frontier", baseline="plain", metric="hit_1")
    assert rows["difference"].to_list() == [0.75]
    outcomes = result.outcomes.filter(pl.col("policy") == "frontier").collect()
    assert outcomes.select("fix", "flip", "base_correct").null_count().row(0) == (EXAMPLES,) * 3
    assert outcomes["action_tokens"].to_list() == [0.0] * EXAMPLES  # both read the same rounds


@pytest.mark.slow
def test_a_report_says_nothing_of_other_samples(home: Path) -> None:
    thinkback(home, "report", "log", "--resamples", "50", "--out", "report")
    assert "other samples" not in (home / "report" / "report.md").read_text(encoding="utf-8")


def test_questions_are_planned_for_policies_that_answer(home: Path) -> None:
    with refuses("unsuitable", "plain re-ranking"):
        tb.plan(home / "log", "plain re-ranking", "first-stage order", policies=home / "suite.toml", detect=2)


def test_commands(home: Path) -> None:
    assert "7 retrieve" in thinkback(home, "check", "suite.toml", "--log", "log")
    compared = thinkback(home, "compare", "o", "--out", "pairs")
    assert "frontier of each round" in compared
    assert not {"fixes", "flips"} & set(compared.split())  # nothing is right or wrong, so nothing is fixed
    two = thinkback(home, "compare", "o", "frontier of each round", "plain re-ranking")
    assert {"calls", "rounds", "hit@1"} <= set(two.split())
    assert "traces" not in two.split()
    pairs = pl.read_csv(home / "pairs" / "pairs.csv")
    assert pairs.select("fixes", "flips").null_count().row(0) == (len(pairs),) * 2
    assert pairs["low"].null_count() == 0
    words = (
        "--on",
        "example_id < 'q12'",
        "--report",
        "example_id >= 'q12'",
        "--goal",
        "max hit_1",
        "--resamples",
        "50",
    )
    told = thinkback(home, "tune", "log", "--policies", "suite.toml", *words)
    assert "not known" not in told
    assert "hit@1" in told
    assert "accuracy" not in told
    thinkback(home, "figure", "o", "frontier", "--cost", "rounds", "--out", "rounds.svg")
    figure = dict(pl.read_csv(home / "rounds.csv").select("policy", "cost").iter_rows())
    assert figure == pytest.approx(estimates(home, "rounds"))
    thinkback(home, "dashboard", "o", "--out", "page.html")
    described = thinkback(home, "describe", "log")
    assert "retrieve" in described
    assert "judged" not in described  # there are no traces that could be


@pytest.mark.parametrize("what", ["cheapest", "best"])
def test_goals_in_words_are_of_what_ranks(home: Path, what: str) -> None:
    """Three rounds of 15 tokens each: only a leader that is stable for two rounds takes less than 39."""
    on, report = "example_id < 'q12'", "example_id >= 'q12'"
    file = home / "suite.toml"
    goal = {"cheapest": "cheapest within 1 point of plain re-ranking", "best": "best within 39 tokens"}[what]
    tuned = tb.tune(home / "log", file, goal=goal, on=on, report=report, metric="hit_1", resamples=50)
    limit = tuned.goal.limits[0].metric
    if what == "best":
        assert (tuned.goal.metric, limit, tuned.best) == ("hit_1", "total_tokens", "stable leader[stable=2]")
    else:
        assert (tuned.goal.metric, limit, tuned.report.baseline) == ("total_tokens", "hit_1", "plain re-ranking")
    assert tuned.quality == "hit_1"


def test_a_saved_result_explains_the_outcome(home: Path) -> None:
    result = tb.load(home / "o")
    told = str(result.explain("frontier of each round", "q01"))
    assert "recall@10 1" in told
    live = thinkback(
        home, "explain", "log", "--policies", "suite.toml", "--policy", "frontier of each round", "--example", "q01"
    )
    assert "g1 4→1" in live
    assert "gold documents: `g1`" in live
