"""Tuning: goals are read as written, the best feasible setting is chosen on development rows and frozen."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.simulation.claims import simulate_claims
from generate.simulation.recovery import simulate_recovery
from replay.analyses.tune.goals import CHEAPEST, Goal, read_goal
from replay.analyses.tune.tuned import tuning_answer
from replay.analyses.tune.tuning import _development_and_test_condition, tune
from replay.data.conditions import ids_where
from replay.gatefit.fit import fit_gate
from replay.runs.saved.promise import MetricLimit
from tests.errors import quotes, refuses
from tests.logs import drawn, tables
from toolkit.log import Log, collect, write_log

DEV, TEST = "split = 'dev'", "split = 'test'"
POLICIES = """
[[policy]]
name = "best"
kind = "sample"
max_traces = 8
verifier = "lora"

[[policy]]
name = "adaptive"
kind = "sample"
max_traces = [2, 4, 8]
verifier = "lora"
stop = { rule = "margin", margin = [0.1, 0.3] }

[[policy]]
name = "seen"
kind = "sample"
max_traces = 8
verifier = "lora"
order = "score"
stop = { rule = "budget", verifications = [1, 2] }
"""


log = drawn(simulate_claims, "claimdecomp", traces=8, dev=100, opened=True)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("min total_tokens", ()),
        ("MIN total_tokens subject to accuracy >= 0.5", (MetricLimit("accuracy", ">=", 0.5),)),
        ("min total_tokens subject to accuracy >= baseline", (MetricLimit("accuracy", ">=", 0.0, "+"),)),
        ("min total_tokens subject to accuracy >= baseline - 0.01", (MetricLimit("accuracy", ">=", -0.01, "+"),)),
        ("min total_tokens subject to accuracy>=baseline*0.98", (MetricLimit("accuracy", ">=", 0.98, "*"),)),
        (
            "min total_tokens subject to macro_f1 >= baseline - 1% and traces <= 4",
            (MetricLimit("macro_f1", ">=", 0.99, "*"), MetricLimit("traces", "<=", 4.0)),
        ),
        ("min total_tokens subject to accuracy >= baseline - 1e-2", (MetricLimit("accuracy", ">=", -0.01, "+"),)),
        ("min total_tokens subject to accuracy >= .5e0", (MetricLimit("accuracy", ">=", 0.5),)),
        (
            'min total_tokens subject to "f1:this and that" >= 0.5 and traces <= 4',
            (MetricLimit("f1:this and that", ">=", 0.5), MetricLimit("traces", "<=", 4.0)),
        ),
    ],
)
def test_goals_are_read(text: str, limits: tuple[MetricLimit, ...]) -> None:
    assert read_goal(text) == Goal("total_tokens", True, limits)


@pytest.mark.parametrize(
    "text",
    [
        "total_tokens", "min", "min a subject to b", "min a subject to b > 1", "best a",
        "min a subject to b >= 0.4.1", "min a subject to b >= .", "min a subject to b >= baseline - 0.0.1",
        'min a subject to "b >= 1', 'min "a b subject to b >= 1',
    ],
)  # fmt: skip
def test_goals_that_cannot_be_read(text: str) -> None:
    with refuses("invalid", "`goal`"):
        read_goal(text)


def test_the_cheapest_feasible_setting_is_frozen(log: Log) -> None:
    goal = "min traces subject to accuracy >= baseline - 10 %"
    tuned = tune(log, POLICIES, on=DEV, report=TEST, goal=goal, baseline="best", resamples=20)
    value = {(p, m): e for p, m, e in tuned.development.summary.select("policy", "metric", "estimate").iter_rows()}
    sweep = [p.name for p in tuned.development.policies if p.sweep == "adaptive"]
    allowed = [p for p in sweep if value[p, "accuracy"] >= 0.9 * value["best", "accuracy"] - 1e-12]
    row = tuned.chosen.filter(pl.col("family") == "adaptive").row(0, named=True)
    assert row["tried"] == 6
    assert row["feasible"] == len(allowed)
    assert row["policy"] == min(allowed, key=lambda p: value[p, "traces"])
    assert {p.name for p in tuned.report.policies} == {"best", row["policy"]}
    assert tuned.report.statistics.n == 200
    assert tuned.development.statistics.n == 100
    assert tuned.tried == 7
    assert "seen" not in tuned.chosen["family"].to_list()  # a diagnostic is no setting for use


def test_a_goal_may_be_to_maximise(log: Log) -> None:
    tuned = tune(log, POLICIES, on=DEV, report=TEST, goal="max traces", resamples=5)
    assert tuned.chosen.filter(pl.col("family") == "best")["value"][0] == 8.0
    adaptive = tuned.chosen.filter(pl.col("family") == "adaptive").row(0, named=True)
    assert adaptive["policy"] == "adaptive[max_traces=8, stop.margin=0.3]"


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"report": "split in ('dev', 'test')"}, ("leakage", "100")),
        ({"goal": "min tokn"}, ("unknown", "`tokn`", "`goal`")),
        ({"goal": "min traces subject to accuracy >= baseline"}, ("required", "`baseline`", "`goal`")),
        ({"goal": "min traces subject to accuracy >= 2"}, ("empty",)),
        ({"on": "split = 'x'"}, ("empty", "`on`", "`dev`")),
        ({"report": "nothing = 1"}, ("invalid", "`report`")),
        ({"baseline": "bst"}, ("unknown", "`best`")),
    ],
)
def test_bad_input(log: Log, keys: dict, refusal: tuple[str, ...]) -> None:
    settings = {"on": DEV, "report": TEST, "goal": "min traces", "resamples": 5} | keys
    with refuses(*refusal):
        tune(log, POLICIES, **settings)


def test_a_label_with_a_space_is_named_in_quotation_marks() -> None:
    assert read_goal('max "f1:not enough"') == Goal("f1:not enough", False)


def test_what_is_held_against_what_is_held_against_is_kept(log: Log) -> None:
    common = {"pool": "n8", "verifier": "lora"}
    chain = [
        replay.Sample(name=f"p{k}", max_traces=k, against=f"p{k - 1}" if k > 1 else None, **common) for k in (1, 2, 3)
    ]
    goal = "max traces subject to traces >= 3"
    tuned = tune(log, chain, on=DEV, report=TEST, goal=goal, resamples=5)
    assert [p.name for p in tuned.report.policies] == ["p1", "p2", "p3"]
    assert tuned.chosen["policy"].to_list() == [None, None, "p3"]


def test_a_cost_that_is_not_logged_is_told_apart_from_a_misspelt_one(log: Log, tmp_path: Path) -> None:
    tables = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications")}
    tables["traces"] = tables["traces"].drop("prompt_tokens", "completion_tokens")
    bare = write_log(tmp_path / "log", name="bare", tables=tables)
    one = replay.Sample(name="one", pool="n8", max_traces=1, select="first")
    with refuses("unsuitable", "`goal`", "`total_tokens`"):
        tune(bare, one, on=DEV, report=TEST, goal="min total_tokens", resamples=5)
    with refuses("conflict", "`on`", "`report`"):
        tune(log, one, on=DEV, report=TEST, goal="min traces", where="true", resamples=5)


def test_a_policy_that_learns_needs_rows_of_its_own(log: Log) -> None:
    common = {"pool": "n8", "verifier": "lora", "max_traces": 8, "order": "surrogate", "features": ("length",)}
    policy = replay.Sample(name="lazy", prior=replay.Prior("linear", DEV), **common)
    with refuses("leakage", "`lazy`", "`prior.on`", "100", "`on`", "`report`"):
        tune(log, policy, on=DEV, report=TEST, goal="max accuracy", resamples=5)


def test_rows_that_a_sweep_learns_from_are_read_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three settings of one prior: `on`, `report` and the prior's rows are matched, each once."""
    asked: list[str] = []

    def counted(log: Log, condition: str, key: str) -> pl.Series:
        asked.append(key)
        return ids_where(log, condition, key)

    monkeypatch.setattr(import_module("replay.analyses.tune.tuning"), "ids_where", counted)
    ids = ids_where(log, DEV, "on")
    learn, choose = (f"{DEV} AND example_id {sign} '{ids[50]}'" for sign in ("<", ">="))
    common = {"pool": "n8", "verifier": "lora", "order": "surrogate", "features": ("length",)}
    prior = replay.Prior("linear", learn)
    policies = [replay.Sample(name=f"lazy {n}", max_traces=n, prior=prior, **common) for n in (2, 4, 8)]
    assert tune(log, policies, on=choose, report=TEST, goal="max accuracy", resamples=5).tried == 3
    assert sorted(asked) == ["on", "prior.on", "report"]


def test_a_gate_is_not_tuned_on_what_it_has_seen(tmp_path: Path) -> None:
    made = simulate_recovery(tmp_path / "log", examples=300, seed=11)
    gate = fit_gate(
        made, action="active_verify", on=None, tune="split <> 'test'", kind="score", features=["completion_tokens"]
    )
    first = replay.Sample(name="first", pool="short", max_traces=1, select="first")
    act = replay.Act(name="act", action="active_verify", base="short")
    policy = replay.When(name="gated", base=first, gate=replay.Threshold(file=gate.gate, at_least=0.0), then=act)
    with refuses("leakage", "`on`", "60"):
        tune(made, policy, on=DEV, report=TEST, goal="max accuracy", resamples=5)


def test_tune_is_there_from_python() -> None:
    assert replay.tune is tune


def test_a_threshold_of_all_is_frozen_as_a_number(log: Log) -> None:
    policies = """
[[policy]]
name = "one"
kind = "sample"
max_traces = 1
select = "first"

[[policy]]
name = "again"
kind = "when"
base = { kind = "sample", max_traces = 1, select = "first" }
gate = { verifier = "lora", below = "all" }
then = { kind = "sample", max_traces = 8, verifier = "lora" }
"""
    tuned = tune(log, policies, on=DEV, report=TEST, goal="max accuracy", baseline="one", resamples=5)
    frozen = tuned.chosen.filter(pl.col("family") == "again")["policy"].item()
    assert frozen.startswith("again[gate.below=")
    assert [p.name for p in tuned.report.policies] == ["one", frozen]
    assert tuned.report.thresholds is None


def test_a_third_set_of_rows_is_enough_for_a_policy_that_learns(log: Log) -> None:
    ids = collect(log.scan("examples", ["example_id", "split"]), log).filter(pl.col("split") == "dev")["example_id"]
    middle = ids.sort()[50]
    conformal = replay.Conformal(0.2, f"{DEV} AND example_id < '{middle}'")
    learnt = replay.Sample(name="sets", pool="n8", verifier="lora", max_traces=8, conformal=conformal)
    on = f"{DEV} AND example_id >= '{middle}'"
    assert tune(log, learnt, on=on, report=TEST, goal="min traces", resamples=5).tried == 1


def test_a_condition_that_matches_nothing_is_told_the_splits(log: Log) -> None:
    with refuses("empty", "`on`", "`dev`", "`test`"):
        tune(log, POLICIES, on="split = 'dve'", report=TEST, goal="min traces", resamples=5)


def test_goals_in_plain_words() -> None:
    within = Goal(None, True, (MetricLimit("accuracy", ">=", -0.01, "+"),), "majority@16", in_words=True)
    assert read_goal(CHEAPEST) == within
    assert read_goal('Cheapest within 1.0 points of "majority@16"') == within
    tokens = Goal("accuracy", False, (MetricLimit("total_tokens", "<=", 2000.0),), in_words=True)
    assert read_goal("most accurate within 2,000 tokens") == tokens
    with refuses("unknown", "`apples`"):
        read_goal("most accurate within 3 apples")


def test_one_answer_without_a_file(log: Log) -> None:
    """Chosen on dev and reported on test; the sentence is that of the reported comparison."""
    tuned = tune(log, goal="cheapest within 5 points of majority@8", resamples=200)
    assert (tuned.choice.chosen.where, tuned.choice.reported.where) == (DEV, TEST)
    value = {(p, m): e for p, m, e in tuned.development.summary.select("policy", "metric", "estimate").iter_rows()}
    least = value["majority@8", "accuracy"] - 0.05
    real = [policy.name for policy in tuned.development.policies if not policy.diagnostic]
    feasible = [name for name in real if value[name, "accuracy"] >= least - 1e-12]
    cheapest = min(feasible, key=lambda name: value[name, "total_tokens"])
    assert tuned.estimated is not None
    assert tuned.estimated.policy == cheapest  # by estimates alone, which promise nothing
    low = tuned.development.comparisons.filter(policy=tuned.best, baseline="majority@8", metric="accuracy")[
        "low"
    ].item()
    assert low >= -0.05
    said = tuning_answer(tuned)
    found = tuned.report.summary.filter(policy=tuned.best, metric="accuracy")["estimate"].item()
    quotes(said, f"`{tuned.best}`", f"{tuned.development.statistics.n:,} examples")
    assert f"{100 * found:.1f} [" in said
    low, high = tuned.report.comparisons.filter(
        policy=tuned.best, baseline="majority@8", metric="accuracy"
    ).select("low", "high").row(0)  # fmt: skip
    assert ("interval keeps" in said, "interval misses" in said) == (low >= -0.05, high < -0.05)


def test_halves_by_cluster_where_there_is_no_dev_split(log: Log, tmp_path: Path) -> None:
    made = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications")}
    groups = pl.Series([f"c{number // 4}" for number in range(made["examples"].height)])
    made["examples"] = made["examples"].with_columns(split=pl.lit("test"), cluster=groups)
    whole = write_log(tmp_path / "whole", name="whole", tables=made)
    on, report = _development_and_test_condition(whole, 0)
    first, second = ids_where(whole, on, "on"), ids_where(whole, report, "report")
    assert len(first) + len(second) == made["examples"].height
    assert 0.35 < len(first) / made["examples"].height < 0.65
    cluster = dict(made["examples"].select("example_id", "cluster").iter_rows())
    assert not {cluster[name] for name in first} & {cluster[name] for name in second}
    assert _development_and_test_condition(whole, 1) != (on, report)
    tuned = tune(whole, goal="cheapest within 5 points of majority@8", resamples=50)
    assert (tuned.choice.chosen.where, tuned.choice.reported.where) == (on, report)


def test_too_few_examples_for_two_halves_are_told_in_words(log: Log, tmp_path: Path) -> None:
    made = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications")}
    one = pl.col("example_id") == made["examples"]["example_id"][0]
    some = {name: frame.filter(one) for name, frame in made.items()}
    some["examples"] = some["examples"].with_columns(split=pl.lit("test"))
    tiny = write_log(tmp_path / "tiny", name="tiny", tables=some)
    with refuses("empty", "`on`", "`report`") as caught:
        tune(tiny, goal="cheapest within 5 points of majority@8", resamples=50)
    assert "md5" not in str(caught.value)


def test_the_baseline_as_choice_and_the_choice_by_limits_are_told(log: Log) -> None:
    """With nothing to give away only the baseline is sure to keep to the goal."""
    tuned = tune(log, goal="cheapest within 0 points of majority@8", resamples=50)
    said = tuning_answer(tuned)
    assert tuned.best == "majority@8"
    assert tuned.promised
    assert "baseline" in said
    assert tuned.estimated is not None
    assert f"`{tuned.estimated.policy}`" in said
    assert "more questions" not in said
    assert "more questions" in tuning_answer(replace(tuned, estimated=None))  # by estimates nothing cheaper keeps to it


def test_settings_that_differ_in_their_cap_alone_are_one_family(log: Log) -> None:
    tuned = tune(log, goal="cheapest within 5 points of majority@8", resamples=50)
    families = dict(tuned.chosen.select("family", "tried").iter_rows())
    assert families["majority@2 … majority@8"] == 3


def test_on_and_report_go_together(log: Log) -> None:
    with refuses("required", "`report`", "`on`"):
        tune(log, goal="min total_tokens", on=DEV)


def test_what_is_chosen_may_be_unknown_on_the_reported_examples(tmp_path: Path) -> None:
    """Its verifier scored the development examples alone."""
    names = [f"e{number}" for number in range(8)]
    pool = {name: [("A", 0.9), ("B", 0.1), ("A", 0.5)] for name in names}
    made = tables({"n3": pool}, dict.fromkeys(names, "A"))
    made["examples"] = made["examples"].with_columns(split=pl.Series(["dev"] * 4 + ["test"] * 4))
    made["verifications"] = made["verifications"].filter(pl.col("example_id").is_in(names[:4]))
    half = write_log(tmp_path / "half", name="half", tables=made)
    vote = replay.Sample(name="vote", max_traces=3, select="majority")
    best = replay.Sample(name="best", max_traces=2, verifier="v")
    tuned = tune(half, [vote, best], goal="min total_tokens subject to accuracy >= 0.5", resamples=20)
    assert "covers 0" in tuning_answer(tuned)
