"""Simulated worlds of rounds and checks: what was planted comes out, in both directions, by the whole command."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import replay
import thinkback as tb
from generate.simulation.checks import CheckingModel, TextModel, simulate_checks
from generate.simulation.rounds import RoundsModel, simulate_rounds
from replay.kinds.buzz import Buzz
from replay.kinds.retrieve import Retrieve
from tests.errors import refuses
from thinkback.app import app
from toolkit.log import collect, open_log, validate_log

SEEDS = range(20)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "log"
    simulate_checks(folder, examples=80, seed=1, texts=TextModel(length=40))
    return folder


def test_logs_are_valid_marked_and_the_same_again(tmp_path: Path, texts: Path) -> None:
    rounds = simulate_rounds(tmp_path / "rounds", examples=30, seed=2, model=RoundsModel(hops=3))
    checks = simulate_checks(tmp_path / "checks", examples=80, seed=1, texts=TextModel(length=40))
    for log in (rounds, checks):
        assert validate_log(log).ok
        assert log.simulated
    assert checks.digest() == open_log(texts).digest()
    fewer = simulate_rounds(tmp_path / "fewer", examples=10, seed=2, model=RoundsModel(hops=3))
    first = collect(rounds.scan("rounds").filter(pl.col("example_id") < "q000010"), rounds)
    assert (
        collect(fewer.scan("rounds"), fewer)
        .sort("example_id", "hop", "round")
        .equals(first.sort("example_id", "hop", "round"))
    )


def test_what_is_planted_in_texts(tmp_path: Path) -> None:
    """A checker that errs less finds more, one that refutes by mistake raises more alarms."""
    plain = CheckingModel(every=8, extraction=1.0, checking=1.0, spurious=0.0, decides=1.0)
    pools = {"sure": plain, "wild": CheckingModel(every=8, extraction=1.0, checking=1.0, spurious=0.3, decides=1.0)}
    pools["blind"] = CheckingModel(every=8, extraction=0.0, checking=1.0, spurious=0.0, decides=1.0)
    log = simulate_checks(tmp_path / "log", examples=300, seed=3, pools=pools)
    result = replay.run(log, [Buzz(name=pool, pool=pool) for pool in pools], resamples=50)
    value = {
        (policy, metric): estimate
        for policy, metric, estimate in result.summary.select("policy", "metric", "estimate").rows()
    }
    assert (value["sure", "found"], value["sure", "false_alarm"], value["sure", "accuracy"]) == (1, 0, 1)
    assert value["sure", "deviation"] >= 0  # an error is named once its claim is complete
    assert value["sure", "premature"] == 0
    assert value["wild", "false_alarm"] > 0.5
    assert value["blind", "found"] == 0


def test_confidence_is_as_often_right_as_it_says(tmp_path: Path) -> None:
    """With a calibration of 1 a verdict of confidence c is right with probability c; with 0 it tells nothing."""
    pools = {
        "calibrated": CheckingModel(checking=0.7, spurious=0.3, calibration=1.0),
        "blind": CheckingModel(checking=0.7, spurious=0.3, calibration=0.0),
    }
    log = simulate_checks(tmp_path / "log", examples=600, seed=6, pools=pools)
    rows = log.scan("checks").filter(pl.col("verdict").is_in(["supported", "refuted"]))
    low = pl.col("confidence") < 0.6
    table = collect(
        rows.group_by("pool", low=low).agg(
            (pl.col("verdict") == pl.col("gold_verdict")).mean().alias("right"), pl.col("confidence").mean()
        ),
        log,
    )
    value = {(pool, below): (right, confidence) for pool, below, right, confidence in table.iter_rows()}
    for below in (True, False):
        assert value["calibrated", below][0] == pytest.approx(value["calibrated", below][1], abs=0.03)
        assert value["blind", below][0] == pytest.approx(0.7, abs=0.03)


def test_texts_dense_and_sparse_and_with_hops(tmp_path: Path) -> None:
    """Dense texts have about twice the claims of sparse ones; more passages take more rounds; `sees` is recorded."""
    pools = {"plain": CheckingModel(), "other": CheckingModel(sees="verdicts")}
    log = simulate_checks(tmp_path / "log", examples=200, seed=7, texts=TextModel(hops=2), pools=pools)
    first = log.scan("checks").filter((pl.col("round") == 0) & (pl.col("verdict") != "none"), pool="plain")
    claims = dict(
        first.join(log.scan("examples"), on="example_id").group_by("density")
        .agg(pl.len() / pl.col("example_id").n_unique()).collect().iter_rows()
    )  # fmt: skip
    assert 1.6 < (claims["dense"] - 1) / (claims["sparse"] - 1) < 2.1  # less the claim of the revision
    rounds = log.scan("checks").join(log.scan("examples"), on="example_id").group_by("hops")
    mean = dict(rounds.agg(pl.col("round").mean()).collect().iter_rows())
    assert mean[2] > mean[1]
    assert log.manifest.pools == {"plain": {"sees": "claims"}, "other": {"sees": "verdicts"}}


@pytest.mark.slow
@pytest.mark.parametrize(("tie", "sign"), [(1.0, 1), (-1.0, -1), (0.0, 0)])
def test_agreement_that_tells_of_gold(tmp_path: Path, tie: float, sign: int) -> None:
    """Rewarding raises recall@10 where agreement tells of gold, lowers it where it tells the reverse, and does nothing
    where it tells nothing: each in 18 of 20 seeds by its interval (16 hold 0). A fifth of the rounds are rewarded.
    """
    ways = [
        Retrieve(name="plain", rounds=6, multiplier=1.0),
        Retrieve(name="rewarded", rounds=6, multiplier=2.0, frontier=1, frontier_of="hop", reward="aligned"),
    ]
    outcomes = []
    for seed in SEEDS:
        model = RoundsModel(tie=tie, documents=6, quality=0.5)
        log = simulate_rounds(tmp_path / f"{seed}", examples=150, seed=seed, model=model)
        result = replay.run(log, ways, baseline="plain", resamples=200, metric="recall_10")
        row = result.comparisons.filter(policy="rewarded", baseline="plain", metric="recall_10").row(0, named=True)
        share = result.summary.filter(policy="rewarded", metric="rewarded_share")["estimate"].item()
        assert share > 0.2
        outcomes.append(1 if row["low"] > 0 else -1 if row["high"] < 0 else 0)
    assert sum(one == sign for one in outcomes) >= (16 if sign == 0 else 18)


def test_the_suite_sweeps_thresholds_caps_and_patience(texts: Path) -> None:
    """Caps below the most claims of a text, and of a unit, that the log has."""
    swept: dict[str, set[str]] = {}
    for policy in replay.load_policies(tb.suite(texts)).policies:
        for key, value in policy.swept:
            swept.setdefault(key, set()).add(str(value))
    named = open_log(texts).scan("checks").filter(pl.col("verdict") != "none", stage="stream").collect()
    most = named.group_by("example_id").agg(pl.col("claim").n_unique())["claim"].max()
    of_unit = named.group_by("example_id", "unit").agg(pl.col("claim").n_unique())["claim"].max()
    assert isinstance(most, int)
    assert isinstance(of_unit, int)
    caps = {str(2**k) for k in range(most.bit_length()) if 2**k < most}
    assert caps >= {"1", "2"}
    assert swept["max_claims"] == caps | {str({"per_unit": cap}) for cap in range(1, min(of_unit, 4))}
    assert {"confidence", "max_rounds", "max_claims"} <= set(swept)


def test_where_the_text_does_not_wait_an_explanation_says_when_it_acts(texts: Path) -> None:
    policies = [Buzz(name=name, words_per_second=speed, on_missing="use_available") for name, speed in
                (("waits", None), ("speech", 3.0))]  # fmt: skip
    result = replay.run(texts, policies, resamples=20)
    rows = result.outcomes.collect().filter(policy="speech").drop_nulls("position").sort("example_id")
    example, position = rows.select("example_id", "position").row(0)
    title = {policy.name: tb.explain(texts, policies, policy.name, example).stages[0].title for policy in policies}
    assert f"{position:.0f}" in title["speech"].split()
    assert title["waits"] != title["speech"].replace("speech", "waits")
    gold = "refuted" if rows["answer"][0] == "refuted" and rows["correct"][0] else "supported"
    assert any(line.split() == ["gold", gold] for line in tb.explain(texts, policies, "waits", example).header)


@pytest.mark.slow
def test_the_whole_command(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """suite, check, replay, report, explain, compare and tune on a log of checks alone."""
    monkeypatch.chdir(tmp_path)
    policies = (
        '[[policy]]\nname = "p"\nkind = "buzz"\nconfidence = [0.5, 0.8]\n[[policy]]\nname = "b"\nkind = "best buzz"\n'
    )
    Path("p.toml").write_text(policies, encoding="utf-8")
    run = CliRunner().invoke
    for command in (
        ["suite", str(texts)], ["check", "p.toml", "--log", str(texts)], ["describe", str(texts)],
        ["replay", str(texts), "--policies", "p.toml", "--out", "r", "--resamples", "50", "--traces"],
        ["explain", str(texts), "--policies", "p.toml", "--policy", "p[confidence=0.5]", "--example", "t000001"],
        ["compare", "r"], ["report", str(texts), "--out", "report", "--resamples", "50"],
        ["tune", str(texts), "--goal", "most accurate within 100 calls", "--resamples", "50"],
    ):  # fmt: skip
        done = run(app, command)
        assert done.exit_code == 0, (command, done.output, done.exception)
    lines = run(app, ["suite", str(texts)]).output.lower()
    assert not [word for word in ("vote", "traces", "best-of") if word in lines]
    report = Path("report/report.md").read_text(encoding="utf-8")
    assert "other samples" not in report
    assert "traces" not in report.partition("Not drawn")[0]  # what other policies would draw is named there
    again = replay.load("r")
    known, paid = (explain.ending for explain in (
        tb.explain(texts, "p.toml", "p[confidence=0.5]", "t000001"), again.explain("p[confidence=0.5]", "t000001")
    ))  # fmt: skip
    assert known.rpartition(";")[2] == paid.rpartition(";")[2]
    assert set(again.outcomes.collect()["answer"].drop_nulls()) <= {"supported", "refuted"}


@pytest.mark.parametrize("part", ["buzz", "best buzz"])
@pytest.mark.parametrize(
    "kind",
    [
        'kind = "when"\nbase = PART\ngate = { signal = "invalid", at_least = 1 }\nthen = PART',
        'kind = "route"\nroute = { column = "length", below = 1 }\nthen = PART\nelse = PART',
        'kind = "oracle"\nrule = "matched_rate"\nrate = 0.5\nbase = PART\nthen = PART',
    ],
)
def test_a_part_of_another_policy_is_refused(kind: str, part: str) -> None:
    table = kind.replace("PART", f'{{ kind = "{part}" }}')
    with refuses("unsuitable", f"`{part}`"):
        replay.load_policies(f'[[policy]]\nname = "p"\n{table}\n')


def test_parameters_of_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke
    made = ["simulate", "checks", "--examples", "20", "--out", str(tmp_path / "log")]
    done = run(app, [*made, "--set", "length=30", "--set", "spurious=0.2", "--set", "other.spurious=0.0"])
    assert done.exit_code == 0, done.output
    for wrong in ("tie=1", "length", "every=0", "other.nothing=1"):
        assert run(app, [*made, "--force", "--set", wrong]).exit_code == 2
    assert run(app, ["simulate", "rounds", "--traces", "3", "--out", str(tmp_path / "x")]).exit_code == 2
    assert run(app, ["simulate", "--set", "tie=1", "--out", str(tmp_path / "x")]).exit_code == 2
