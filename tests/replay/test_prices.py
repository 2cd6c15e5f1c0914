"""Money as the cost: of a small and a large model whose confidence decides, worked by hand."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import thinkback as tb
from replay.analyses.report.report import report
from replay.analyses.tune.tuning import tune
from replay.data.prices import Prices, load_prices
from replay.policies.suite import NO_TEST_SPLIT, suite
from replay.policies.toml import load_policies
from replay.runs.result.run import check_policies
from replay.runs.saved.display import ranked_input, table_of_columns
from tests.errors import noted, refuses
from thinkback.app import app
from toolkit.columns import COLUMNS, cost_names_for_users
from toolkit.log import Log, write_log

PRICES = """
[prices]
currency = "$"
source = "a price list"
date = "2026-11-01"
small = { prompt = 1, completion = 2 }
large = 10
"""
N = 20


def two_models(folder: Path, prompts: bool = True, completions: bool = True) -> Log:
    """Twenty questions, each answered once by a small model (right on the even ones, of which it is sure) and a large
    one (right on all but the last); 100 tokens read, and 50 or 200 written.
    """
    traces = [
        {
            "trace_id": f"{model}-{i}", "example_id": f"q{i:02}", "pool": model, "action": "solve", "sample_index": 0,
            "model": model, "answer": "A" if right else "B", "correct": right,
            "prompt_tokens": 100 if prompts else None, "completion_tokens": written if completions else None,
            "latency_s": seconds,
        }
        for i in range(N)
        for model, right, written, seconds in (
            ("small", i % 2 == 0, 50, float(i + 1)), ("large", i < N - 1, 200, 2.0 * (i + 1)),
        )
    ]  # fmt: skip
    scores = [
        {
            "trace_id": f"small-{i}",
            "example_id": f"q{i:02}",
            "verifier": "sure",
            "score": (i + 1) / 100 + (0.5 if i % 2 == 0 else 0.0),
        }
        for i in range(N)
    ]
    examples = [
        {"example_id": f"q{i:02}", "dataset": "d", "split": "test", "question": f"{i}?", "gold": "A"} for i in range(N)
    ]
    tables = {"examples": examples, "traces": traces, "verifications": scores}
    whole = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()}
    return write_log(folder / "log", name="two", tables=whole)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return two_models(tmp_path_factory.mktemp("two"))


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def replayed(log: Log, prices: Path) -> tuple[tb.Result, dict[str, float]]:
    """The usual policies of a log, and what each costs for 1,000 examples."""
    result = tb.run(log, prices=prices, resamples=50)
    return result, dict(result.summary.filter(metric="cost_per_1000").select("policy", "estimate").iter_rows())


def test_a_file_of_prices(prices: Path) -> None:
    read = load_prices(prices)
    assert read.per_million == {"small": (1.0, 2.0), "large": (10.0, 10.0)}
    assert (read.currency, read.source, read.date) == ("$", "a price list", "2026-11-01")
    prices.write_text("[prices]\nsmall = 0\n")
    assert load_prices(prices).per_million == {"small": (0.0, 0.0)}
    prices.write_text("[prices]\nsmall = true\n")
    with refuses("invalid", "`prices.small`"):
        load_prices(prices)
    prices.write_text("currency = '€'\n[prices]\nsmall = 1\n")
    with refuses("invalid", "`currency`"):
        load_prices(prices)


def test_prices_of_a_log_without_a_column_of_tokens_read(tmp_path: Path, prices: Path) -> None:
    rows = [(f"q{n % 4}", str(n % 3), 10 + n) for n in range(8)]
    frame = pl.DataFrame(rows, schema=["id", "answer", "tokens"], orient="row")
    frame = frame.with_columns(question="Say " + pl.col("id"), gold=pl.lit("1"), model=pl.lit("small"))
    log = tb.log(frame)
    assert "prompt_tokens" not in log.columns("traces")
    assert tomllib.loads(suite(log, prices=prices).text)["prices"]["small"] == {"prompt": 1, "completion": 2}
    result = tb.run(log, prices=prices, resamples=50)
    assert result.summary.filter(metric="cost_per_1000")["estimate"].is_null().all()


def test_prices_without_tokens_read(tmp_path: Path, prices: Path) -> None:
    """Prompts at the price 0 need no count: 50 x 2 / 1e6 a question. At another one a note says what is lacking."""
    log = two_models(tmp_path, prompts=False)
    prices.write_text("[prices]\nsmall = { prompt = 0, completion = 2 }\nlarge = { prompt = 0, completion = 10 }\n")
    free, paid = replayed(log, prices)
    assert (paid["small"], paid["large"]) == (pytest.approx(0.1), pytest.approx(2.0))
    assert not [one for one in free.notes if one.code in ("unlike_tokens", "unused_prices")]
    prices.write_text("[prices]\nsmall = 1\nlarge = 2\n")
    whole = tb.run(log, prices=prices, resamples=50)
    noted(whole.notes, "unused_prices", "`prompt_tokens`", "`large`", "`small`")
    (unlike,) = [one for one in whole.notes if one.code == "unlike_tokens"]
    assert "`--prices`" not in unlike.text
    file = tmp_path / "policies.toml"
    file.write_text('[[policy]]\nname = "a"\nkind = "sample"\npool = "small"\nmax_traces = 1\nselect = "majority"\n')
    for policies in (None, file):
        with refuses("unknown", "`price`", "`prompt_tokens`", "`small`"):
            tb.run(log, policies=policies, prices=prices, cost="price", resamples=50)


def test_prices_without_tokens_written(tmp_path: Path, prices: Path) -> None:
    """Completions at the price 0 need no count: 100 x 3 / 1e6 a question of the large model."""
    log = two_models(tmp_path, completions=False)
    prices.write_text("[prices]\nsmall = { prompt = 1, completion = 0 }\nlarge = { prompt = 3, completion = 0 }\n")
    free, paid = replayed(log, prices)
    assert (paid["small"], paid["large"]) == (pytest.approx(0.1), pytest.approx(0.3))
    assert not [one for one in free.notes if one.code == "unused_prices"]
    prices.write_text("[prices]\nsmall = { prompt = 1, completion = 2 }\nlarge = 3\n")
    noted(tb.run(log, prices=prices, resamples=50).notes, "unused_prices", "`completion_tokens`")


def test_another_measure_has_its_name() -> None:
    rows = [(f"q{n % 12}", n / 24, n % 3 == 0) for n in range(24)]
    frame = pl.DataFrame(rows, schema=["id", "credit", "correct"], orient="row").with_columns(
        question="Say " + pl.col("id"), answer=pl.lit("1"), gold=pl.lit("1")
    )
    report = tb.report(tb.log(frame, credit="credit"), measure="credit", resamples=50)
    table = ranked_input(report.result)
    assert (table.quality_column.heading, table.quality_column.axis_label[:6]) == ("credit %", "credit")
    assert report.room is not None
    assert "credit %" in str(report.room.table())
    assert not any("accuracy" in line for section in report.sections for line in section.sentences)
    names = report.result.summary["policy"].unique(maintain_order=True)[:2]
    pair = report.result.compare(*names, questions="fixed").table()
    assert any("credit: `" in str(line) for line in pair.below)
    assert not any("accuracy" in str(line) for line in pair.below)


def test_money_is_the_cost(made: Log, prices: Path) -> None:
    result = tb.run(made, prices=prices, resamples=50)
    results = ranked_input(result)
    assert (results.cost_column.metric, results.cost_column.heading) == ("cost_per_1000", "$/1,000")
    paid = {row.policy.name: row.cost.estimate for row in results.ranked_policies if row.cost is not None}
    # small: (100 x 1 + 50 x 2) / 1e6 = 0.0002 a question; large: (100 + 200) x 10 / 1e6 = 0.003
    assert paid["small"] == pytest.approx(0.2)
    assert paid["large"] == pytest.approx(3.0)
    # a half goes on: every question pays for the small model, ten of twenty for the large one, too
    half = next(name for name in paid if result_acts(result, name) == 0.5)
    assert paid[half] == pytest.approx(0.2 + 0.5 * 3.0)
    assert not [note for note in result.notes if note.code == "unlike_tokens"]
    assert results.cost_column.remark == "prices of a price list, 2026-11-01"
    assert ranked_input(tb.run(made, prices=prices, cost="tokens", resamples=50)).cost_column.metric == "total_tokens"
    assert ranked_input(tb.run(made, prices=prices, cost="$", resamples=50)).cost_column.metric == "cost_per_1000"


def result_acts(result: tb.Result, policy: str) -> float | None:
    rows = result.summary.filter(policy=policy, metric="intervention_rate")
    return rows["estimate"].item() if len(rows) else None


def test_tokens_of_unlike_models_are_no_currency(made: Log) -> None:
    result = tb.run(made, resamples=50)
    noted(result.notes, "unlike_tokens", "`large`", "`small`", "`--prices`")
    assert not ranked_input(result).has_comparable_costs
    alone = tb.run(made, cost="traces", resamples=50)
    assert not [note for note in alone.notes if note.code == "unlike_tokens"]


def test_a_verifier_without_tokens_needs_no_price(made: Log) -> None:
    prices = Prices({"small": (1.0, 1.0), "large": (1.0, 1.0)})
    assert tb.run(made, prices=prices, resamples=20).statistics.n == N
    with refuses("required", "`large`"):
        tb.run(made, prices=replace(prices, per_million={"small": (1.0, 1.0)}), resamples=20)


def test_the_suite_goes_on_where_the_first_is_unsure(made: Log, prices: Path) -> None:
    """Scores of the odd questions are 0.02 … 0.20, of the even ones 0.51 … 0.69: five quantiles of the twenty."""
    suite = tb.suite(made, prices=prices)
    document = tomllib.loads(suite.text)
    cascades = [one for one in document["policy"] if one["kind"] == "when"]
    assert [one["name"] for one in cascades] == ["small, then large where sure is low"]
    scores = np.sort([(i + 1) / 100 + (0.5 if i % 2 == 0 else 0.0) for i in range(N)])
    wanted = [float(np.quantile(scores, share, method="higher")) for share in (0.1, 0.25, 0.5, 0.75, 0.9)]
    assert cascades[0]["gate"]["below"] == pytest.approx(wanted, abs=1e-3)
    assert document["prices"]["large"] == {"prompt": 10.0, "completion": 10.0}
    assert NO_TEST_SPLIT not in suite.text
    result = tb.run(made, suite, resamples=50)
    # at the median the ten that it is unsure of go on: 10 right of its own, and 9 of the large one's ten
    assert {row.policy.name: row.quality.estimate for row in ranked_input(result).ranked_policies if row.quality}[
        next(one.name for one in result.policies if result_acts(result, one.name) == 0.5)
    ] == pytest.approx(0.95)


def test_the_baseline_is_the_dearest_model_and_the_cheapest_budget(made: Log, prices: Path, tmp_path: Path) -> None:
    assert report(made, prices=prices, resamples=50).result.baseline == "large"
    frames = {name: made.scan(name).collect() for name in ("examples", "traces")}
    frames["traces"] = frames["traces"].with_columns(
        model=pl.lit("one"), pool=pl.col("pool").replace({"small": "b512", "large": "a2048"})
    )
    budgets = write_log(tmp_path / "budgets", name="budgets", tables=frames)
    assert report(budgets, resamples=50).result.baseline == "b512"


def test_goals_are_in_money(made: Log, prices: Path) -> None:
    given = {"prices": prices, "on": "example_id < 'q10'", "report": "example_id >= 'q10'", "resamples": 50}
    tuned = tune(made, goal="min price subject to accuracy >= 0.4", **given)
    assert (tuned.goal.metric, tuned.best) == ("cost_per_1000", "small")
    # half of the first ten are right by the small model, at 0.2 $ a thousand; 1 $ buys no more than a part of them
    tuned = tune(made, goal="most accurate within 0.5 $", **given)
    assert tuned.goal.limits[0].metric == "cost_per_1000"
    paid = tuned.development.summary.filter(policy=tuned.best, metric="cost_per_1000")["estimate"].item()
    assert paid <= 0.5
    assert tune(made, goal="cheapest within 50 points of large", **given).goal.metric == "cost_per_1000"


def test_a_limit_in_money_has_the_word_of_the_cost(
    made: Log, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ("--on", "example_id < 'q10'", "--report", "example_id >= 'q10'")
    goal = ("--goal", "max accuracy subject to price <= 0.5", *rows)
    done = CliRunner().invoke(app, ["tune", made.address, *goal, "--prices", str(prices), "--resamples", "50"])
    assert done.exit_code == 0, done.output
    assert "cost_per_1000" not in done.output
    assert "`$/1,000` <= 0.5" in done.output


def test_tokens_name_those_that_are_logged(tmp_path: Path) -> None:
    log = two_models(tmp_path, prompts=False)
    result = tb.run(log, cost="tokens", resamples=50)
    results = ranked_input(result)
    assert results.cost_column.metric == "completion_tokens"
    keys = [column.key for column in table_of_columns(results, ["accuracy", "tokens"]).columns]
    assert keys[1:3] == ["accuracy", "completion_tokens"]


def test_costs_on_offer_are_those_that_rank() -> None:
    assert {"tokens", "seconds", "calls"} < {*cost_names_for_users(COLUMNS)}
    assert not {"p50 s", "p95 s", "p99 s"} & {*cost_names_for_users(COLUMNS)}


def test_percentiles_of_seconds_are_columns(made: Log) -> None:
    """Seconds of the small model are 1 … 20: the median is 10.5, the 95th percentile 1 + 0.95 x 19 = 19.05."""
    result = tb.run(made, resamples=50)
    table = table_of_columns(ranked_input(result), ["accuracy", "p50", "p95", "p99"])
    assert [column.key for column in table.columns if (column.key or "").endswith("_s")] == ["p50_s", "p95_s", "p99_s"]
    row = next(row for row in table.rows if row[0] == "small")
    assert [cell for cell in row if isinstance(cell, float)] == pytest.approx([10.5, 19.05, 19.81])


def test_the_suite_goes_by_the_cost(made: Log, prices: Path) -> None:
    """Prices by which the small model costs more, 0.015 $ to 0.0003 $; in seconds the large one does, 21 to 10.5."""
    prices.write_text('[prices]\ncurrency = "$"\nsmall = 100\nlarge = 1\n')
    money, seconds = (tomllib.loads(tb.suite(made, prices=prices, cost=cost).text) for cost in ("$", "seconds"))
    assert (money["cost"], seconds["cost"]) == ("price", "seconds")
    assert [one["pool"] for one in money["policy"] if one["kind"] == "sample"] == ["large", "small"]
    assert [one["pool"] for one in seconds["policy"] if one["kind"] == "sample"] == ["small", "large"]
    assert [one["kind"] for one in money["policy"]].count("when") == 0  # the large one, which is cheap, has no score
    assert [one["kind"] for one in seconds["policy"]].count("when") == 1
    assert "cost" not in tomllib.loads(tb.suite(made, prices=prices).text)
    baselines = [report(made, prices=prices, cost=cost, resamples=20).result.baseline for cost in (None, "seconds")]
    assert baselines == ["small", "large"]


def test_a_policy_file_names_its_cost(made: Log, prices: Path) -> None:
    standard = tb.suite(made, prices=prices, cost="seconds")
    assert ranked_input(tb.run(made, standard, resamples=20)).cost_column.metric == "latency_s"
    assert ranked_input(tb.run(made, standard, cost="price", resamples=20)).cost_column.metric == "cost_per_1000"
    on = {"on": "example_id < 'q10'", "report": "example_id >= 'q10'", "resamples": 20}
    tuned = tune(made, standard.text, goal="cheapest within 50 points of large", **on)
    assert [ranked_input(one).cost_column.metric for one in (tuned.development, tuned.report)] == ["latency_s"] * 2
    with refuses("unknown", "`hours`"):
        tb.suite(made, cost="hours")
    with refuses("unknown", "`price`"):
        tb.suite(made, cost="price")
    with refuses("unknown", "`secnds`"):
        check_policies(standard.text.replace('"seconds"', '"secnds"'))
    with refuses("invalid", "`cost`"):
        load_policies(standard.text.replace('"seconds"', "3"))


def test_the_suite_counts_what_a_log_was_billed(made: Log, tmp_path: Path) -> None:
    frames = {name: made.scan(name).collect() for name in ("examples", "traces", "verifications")}
    for folder, paid in (("dear", 0.5), ("cheap", 0.1)):
        cost = pl.when(pl.col("pool") == "small").then(paid).otherwise(0.2)
        log = write_log(
            tmp_path / folder, name="billed", tables=frames | {"traces": frames["traces"].with_columns(cost=cost)}
        )
        document = tomllib.loads(suite(log).text)
        assert [one["kind"] for one in document["policy"]].count("when") == (folder == "cheap")
        assert report(log, resamples=20).result.baseline == {"dear": "small", "cheap": "large"}[folder]
        assert "prices" not in document


def test_pairs_have_the_difference_in_cost(made: Log, prices: Path) -> None:
    """The large model costs 3.0 $ a thousand and the small one 0.2; their seconds are 21 and 10.5 on average."""
    result = tb.run(made, prices=prices, resamples=20)
    for cost, difference in (("$", 2.8), ("seconds", 10.5)):
        pairs = result.compare(cost=cost)
        row = pairs.pairs.filter(first="large", second="small")
        assert row["cost"].to_list() == pytest.approx([difference])
        assert "cost" in [column.key for column in pairs.table().columns]
    assert "cost" not in result.compare().pairs.columns
    named = result.compare("large", "small", cost="$").table()
    assert [row[0] for row in named.rows[:2]] == ["accuracy %", "$/1,000"]
    with refuses("unknown", "`hours`"):
        result.compare(cost="hours")


@pytest.mark.slow
def test_the_whole_command_line(made: Log, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = ("--prices", "prices.toml", "--resamples", "50")
    for words in (
        ("replay", made.address, "--out", "r", "--columns", "accuracy,p95", *few),
        ("report", made.address, "--out", "p", *few),
        ("tune", made.address, "--goal", "cheapest within 50 points of large", "--cost", "price", *few),
        ("suite", made.address, "--prices", "prices.toml", "--cost", "seconds"),
        ("figure", "r", "frontier", "--cost", "$", "--out", "f.svg"),
        ("compare", "r", "--cost", "$"),
    ):
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
    assert "cost_per_1000" in (tmp_path / "p" / "tables" / "policies.csv").read_text()
    assert "p95_s" in (tmp_path / "p" / "tables" / "policies.csv").read_text()
