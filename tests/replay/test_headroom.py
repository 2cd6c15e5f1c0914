"""What lies between policies and an oracle: by hand on a tiny log, and on a simulated one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from generate.simulation.grid import simulate
from replay import Oracle, Result, Sample
from replay.runs.compare.headroom import GAP, GENERATION, MEASURES, REGRET, SELECTION, SHARE, STOPPING
from tests.errors import quotes, refuses
from tests.logs import GOLDS, POOL, log
from toolkit.log import Log, open_log

FIRST = Sample(name="first", pool="n", max_traces=1, select="first")
VOTE = Sample(name="vote", pool="n", max_traces=3, select="majority")
ORDERS = Sample(name="orders", pool="n", max_traces=1, select="majority", orders=20)
ANY = Oracle(name="any", of=["n"])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Gold A, B, A, A, A against A B A, B – B, B B A, B B B, and an unjudged example."""
    pool = {**POOL, "e4": [("B", 0.1)] * 3, "e5": [("A", 0.1)] * 3}
    return log(tmp_path_factory.mktemp("small"), {"n": pool}, {**GOLDS, "e4": "A", "e5": None})


def estimates(result: Result) -> dict[tuple[str, str], float]:
    frame = result.headroom().frame
    return {(policy, measure): value for policy, measure, value, *_ in frame.iter_rows()}


def test_the_parts_of_the_gap_by_hand(small: Log) -> None:
    """The first trace is wrong on e3, whose third is right (stopping), and on e4 (generation). The vote of three pays
    for the right one on e3 and loses it (selection).
    """
    result = replay.run(small, [FIRST, VOTE, ANY], baseline="first", resamples=50)
    found = estimates(result)
    quarters = {
        "first": {GENERATION: 1, STOPPING: 1, SELECTION: 0, REGRET: 1},
        "vote": {GENERATION: 1, STOPPING: 0, SELECTION: 1, REGRET: 1},
        "any": {GENERATION: 1, STOPPING: 0, SELECTION: 0},
    }
    for policy, parts in quarters.items():
        for measure, count in parts.items():
            assert found[policy, measure] == count / 4
    assert ("any", REGRET) not in found
    frame = result.headroom().frame
    assert frame.filter(pl.col("measure").is_in(GAP))["n"].unique().to_list() == [4]
    # four examples do not tell the oracle from the first trace
    assert frame.filter(pl.col("measure") == SHARE)["estimate"].null_count() == 3


def test_a_mean_over_orders_has_the_mean_of_the_parts(small: Log) -> None:
    """One of three traces, in random orders: what is not right on e1, e2 and e3 was there, but not looked at."""
    result = replay.run(small, [ORDERS, FIRST, ANY], resamples=50)
    found = estimates(result)
    accuracy = result.summary.filter(policy="orders", metric="accuracy")["estimate"].item()
    assert found["orders", GENERATION] == 1 / 4
    assert found["orders", STOPPING] == pytest.approx(1 - accuracy - 1 / 4)
    assert found["orders", SELECTION] == pytest.approx(0)


def test_one_drawn_trace_loses_by_stopping_and_never_by_selection(small: Log) -> None:
    """The exact mean of one of three: right on 2/3, 2/3, 1/3 and 0 of its draws, and e4 has no right trace at all."""
    drawn = Sample(name="mean", pool="n", max_traces=1, select="first", expected=True)
    result = replay.run(small, [drawn, ANY], resamples=50)
    found = estimates(result)
    assert found["mean", GENERATION] == pytest.approx(1 / 4)
    assert found["mean", STOPPING] == pytest.approx((1 / 3 + 1 / 3 + 2 / 3) / 4)
    assert found["mean", SELECTION] == 0
    limits = result.headroom().frame.filter(policy="mean").select("measure", "low").rows()
    assert [measure for measure, low in limits if low is None and measure in GAP] == [SELECTION]


POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "early"
kind = "sample"
pool = "n8"
max_traces = 8
select = "majority"
stop = { rule = "agreement", confidence = 0.8 }
orders = 2

[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { verifier = "strong", below = 0.5 }
then = { kind = "sample", pool = "n8", max_traces = 8, verifier = "strong" }

[[policy]]
name = "matched"
kind = "oracle"
rule = "matched_rate"
base = "probe"
rate = 0.3
then = { kind = "sample", pool = "n8", max_traces = 8, select = "majority" }

[[policy]]
name = "any"
kind = "oracle"
rule = "any"
of = ["n8", "probe"]
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("headroom") / "log"
    simulate(folder, examples=300, traces=8, labels=3, seed=5)
    return replay.run(folder, POLICIES, baseline="first", resamples=100)


def test_the_parts_add_up_to_the_gap_and_shares_to_the_headroom(result: Result) -> None:
    found, accuracy = (
        estimates(result),
        dict(result.summary.filter(metric="accuracy").select("policy", "estimate").rows()),
    )
    room = accuracy["any"] - accuracy["first"]
    for policy, value in accuracy.items():
        parts = [found[policy, part] for part in GAP]
        assert sum(parts) == pytest.approx(1 - value)
        assert min(parts) >= 0
        assert found[policy, SHARE] == pytest.approx((value - accuracy["first"]) / room)
        if policy != "any":
            assert found[policy, REGRET] == pytest.approx(accuracy["any"] - value)
    assert found["first", SELECTION] == 0
    assert found["any", STOPPING] == found["any", SELECTION] == 0
    made = result.headroom()
    assert (made.oracle, made.baseline) == ("any", "first")
    told = made.frame.filter(~pl.col("policy").is_in(["any", "first"]))
    assert told.filter(~(pl.col("low") <= pl.col("estimate")) | ~(pl.col("estimate") <= pl.col("high"))).is_empty()
    assert told.select("low", "high").null_count().row(0) == (0, 0)


def test_a_column_of_a_paper_has_three_columns_and_at_most_four_notes(result: Result) -> None:
    made = result.headroom()
    narrow = made.one_column()
    assert [column.key for column in narrow.columns][1:] == ["accuracy", SHARE]
    assert [note[0] for note in narrow.below] == ["¹", "²", "³", "⁴"][: len(narrow.below)]
    assert narrow.columns[1].name.endswith("¹")
    assert narrow.columns[2].name.endswith("²")
    assert "Left out" not in narrow.latex("tab:headroom", 3.3)
    alone = replace(made, baseline=None, frame=made.frame.filter(pl.col("measure") != SHARE))
    assert alone.one_column().columns[2].key == REGRET
    assert "3 of 5 policies" in made.one_column(3).below[0]


def test_the_table_and_what_is_saved(result: Result, tmp_path: Path) -> None:
    made = result.headroom()
    text = made.table().markdown()
    assert "| of headroom % | regret | generation | stopping | selection |" in text
    assert repr(made) == str(made.table())
    result.save(tmp_path / "with", headroom=True)
    again = replay.load(tmp_path / "with")
    assert_frame_equal(again.headroom().frame, made.frame)
    again.save(tmp_path / "copy", headroom=True)
    assert_frame_equal(replay.load(tmp_path / "copy").headroom().frame, made.frame)
    result.save(tmp_path / "without")
    lacking = replay.load(tmp_path / "without")
    assert set(lacking.headroom().frame["measure"]) == {SHARE, REGRET}
    assert lacking.headroom().table().below != result.headroom().table().below
    with refuses("unsuitable", "`headroom=True`"):
        lacking.save(tmp_path / "no", headroom=True)


def test_another_oracle_and_baseline(result: Result) -> None:
    made = result.headroom(oracle="gated", baseline="early")
    assert (made.oracle, made.baseline) == ("gated", "early")
    assert made.frame.filter(policy="early", measure=SHARE)["estimate"].item() in (0.0, None)
    with refuses("unknown", "`anny`", "`any`"):
        result.headroom(oracle="anny")
    plain = replay.run(result.provenance["log"]["address"], POLICIES.split("\n\n")[0], resamples=20)
    with refuses("required", '`kind = "oracle"`', "`oracle`"):
        plain.headroom()


def test_a_policy_may_be_called_like_a_measure(small: Log) -> None:
    named = [Sample(name=REGRET, pool="n", max_traces=1, select="first"), ANY]
    frame = replay.run(small, named, resamples=20).headroom().frame
    assert frame["policy"].unique(maintain_order=True).to_list() == [REGRET, "any"]
    places = [MEASURES.index(measure) for measure in frame.filter(policy=REGRET)["measure"]]
    assert places == sorted(places)


def test_parts_that_cannot_be_other_than_none_have_no_interval(small: Log) -> None:
    """The first trace alone is no selection, three of three stop nothing; what is seen rarely is marked."""
    made = replay.run(small, [FIRST, VOTE, ANY], baseline="first", resamples=50).headroom()
    cells = {(policy, measure): (low, method) for policy, measure, _, low, _, _, method in made.frame.iter_rows()}
    nothing = [("first", SELECTION), ("vote", STOPPING), ("any", STOPPING), ("any", SELECTION)]
    assert [cells[one] for one in nothing] == [(None, None)] * 4
    for one in (("first", STOPPING), ("vote", SELECTION), ("any", GENERATION)):
        assert cells[one][1] == "wilson"
    assert cells["first", REGRET][1] == "tango"
    text = made.table().markdown()
    quotes(text, "†: ", "Wilson's interval")
    assert "25.0 [4.6, 69.9]†" in text


def test_few_clusters_are_warned_of_and_marked(tmp_path: Path) -> None:
    """Four hundred examples of five templates: the headroom rests on five."""
    simulate(tmp_path / "log", examples=400, traces=3, labels=2, seed=1)
    opened = open_log(tmp_path / "log")
    frames = {name: opened.scan(name).collect() for name in ("examples", "traces", "verifications")}
    template = (pl.int_range(pl.len()) % 5).cast(pl.String)
    frames["examples"] = frames["examples"].with_columns(cluster=template)
    pool = frames["traces"]["pool"][0]
    policies = [Sample(name="first", pool=pool, max_traces=1, select="first"), Oracle(name="any", of=[pool])]
    policies.append(Sample(name="vote", pool=pool, max_traces=3, select="majority"))
    made = replay.run(frames, policies, baseline="first", resamples=50).headroom()
    text = made.table().markdown()
    assert "only 5 clusters of 400 examples" in text
    assert "†: " in text
    assert set(made.frame.filter(measure=SHARE)["method"].drop_nulls()) <= {"headroom_few", "tango"}


def test_headroom_begins_at_one_sample_of_what_the_baseline_draws_from(small: Log) -> None:
    one = Sample(name="mean", pool="n", max_traces=1, select="first", expected=True)
    result = replay.run(small, [FIRST, one, VOTE, ANY], baseline="vote", resamples=50)
    assert result.headroom().baseline == "mean"  # the exact mean, before the first trace alone
    assert replay.run(small, [FIRST, VOTE, ANY], baseline="first", resamples=50).headroom().baseline == "first"
    assert replay.run(small, [VOTE, ANY], baseline="vote", resamples=50).headroom().baseline == "vote"
    assert replay.run(small, [one, VOTE, ANY], resamples=50).headroom().baseline is None
    assert result.headroom(baseline="vote").baseline == "vote"
