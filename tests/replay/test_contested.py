"""Equal answers that are judged differently, and verdicts beside answers: what still counts, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from replay import Agreement, Budget, Margin, Oracle, Sample, When, Window
from replay.gatefit.data import _available_inputs, gate_setting, parse_features, read_data
from replay.policies.gates import Threshold
from replay.runs.compare.curves import curve_pairs, curves, curves_table, measure_pool_curves
from tests.errors import noted, quotes, refuses
from tests.logs import FIRST, GOLDS, POOL, tables
from toolkit.log import Log, write_log
from toolkit.stats import Settings

PATTERN = [("A", 0.1), ("A", 0.9), ("B", 0.5)]
EXAMPLES = [f"e{i:02}" for i in range(20)]
THREE: dict[str, Any] = {"max_traces": 3, "verifier": "v"}
VOTES = [
    Sample(name="majority", max_traces=3, select="majority"),
    Sample(name="weighted", select="weighted", **THREE),
    Sample(name="margin", stop=Margin(0.9), **THREE),
    Sample(name="agreement", stop=Agreement(0.99), **THREE),
    Sample(name="window", stop=Window(3), **THREE),
    Sample(name="surrogate", order="surrogate", **THREE),
]
OWN_VERDICTS = [
    FIRST,
    Sample(name="best", **THREE),
    Sample(name="two", stop=Budget(traces=2), **THREE),
    Sample(name="score", order="score", **THREE),
    Sample(name="random", order="random", stop=Budget(verifications=1), expected=True, **THREE),
    Oracle(name="any", of=("n3",)),
]
OTHERS = "example_id NOT IN (SELECT example_id FROM traces WHERE contested AND pool = 'n3')"
CONTESTED = ("`n3`", "contested", f"`{OTHERS}`")
WHY = {"contested": CONTESTED, "opaque": ("`n3`", "opaque")}
"""What a reason names."""


def marked(how: str) -> dict[str, pl.DataFrame]:
    """Twenty examples A, A, B with gold A. In e00 the second trace is wrong and the third right: contested are the two
    As, or the second is opaque.
    """
    made = tables({"n3": dict.fromkeys(EXAMPLES, PATTERN)}, dict.fromkeys(EXAMPLES, "A"))
    second, third = pl.col("trace_id") == "e00/n3/1", pl.col("trace_id") == "e00/n3/2"
    traces = made["traces"].with_columns(correct=(pl.col("correct") & ~second) | third)
    if how == "contested":
        traces = traces.with_columns(contested=(pl.col("example_id") == "e00") & (pl.col("answer") == "A"))
    else:
        traces = traces.with_columns(opaque=second, answer=pl.when(second).then("trace_id").otherwise("answer"))
    return made | {"traces": traces}


@pytest.fixture(scope="module", params=["contested", "opaque"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Log]:
    folder = tmp_path_factory.mktemp(request.param) / "log"
    return request.param, write_log(folder, name=request.param, tables=marked(request.param))


@pytest.mark.parametrize("policy", VOTES, ids=lambda policy: policy.name)
def test_for_what_compares_answers_the_example_is_partial(found: tuple[str, Log], policy: Sample) -> None:
    how, made = found
    result = replay.run(made, policy, resamples=5)
    assert result.excluded.keys() == {"e00"}
    quotes(result.excluded["e00"], f"{policy.name}: ", *WHY[how])
    assert result.outcomes.collect()["example_id"].to_list() == EXAMPLES[1:]
    noted(result.notes, "left_out", "1 example", result.excluded["e00"])


def test_all_else_takes_each_traces_own_verdict(found: tuple[str, Log]) -> None:
    """In e00 A (.1) is right, A or its like (.9) wrong, B (.5) right: the first is right, the best of three is not, the
    best of two is not, one of three at random is right in 2 of 3, and any of them is right.
    """
    _, made = found
    result = replay.run(made, OWN_VERDICTS, resamples=5)
    assert result.excluded == {}
    rows = result.outcomes.collect().filter(pl.col("example_id") == "e00")
    values = dict(rows.select("policy", "correct").iter_rows())
    assert values == pytest.approx({"first": 1, "best": 0, "two": 0, "score": 0, "random": 2 / 3, "any": 1})


def test_beside_a_vote_the_others_lose_the_example_too_and_that_is_said(found: tuple[str, Log]) -> None:
    """`best` is right on 19 of 20, as it is wrong on e00: 95.0 %, and 100.0 % of the 19."""
    _, made = found
    result = replay.run(made, [VOTES[0], OWN_VERDICTS[1]], baseline="best", resamples=5)
    noted(result.notes, "baseline_set", "20 examples", "`best`", " 19", "(`majority`: 1)", "95.0%", "100.0%")


@pytest.mark.parametrize(("signal", "base"), [("vote_share", VOTES[0]), ("margin", OWN_VERDICTS[1])])
def test_gates_that_compare_answers_are_not_known_there(found: tuple[str, Log], signal: str, base: Sample) -> None:
    how, made = found
    gate = Threshold(signal=signal, below=0.1)
    result = replay.run(made, When(name="w", base=base, gate=gate, then=FIRST), resamples=5)
    assert result.excluded.keys() == {"e00"}
    # A base that votes is partial itself.
    quotes(result.excluded["e00"], "w: ", *(WHY[how] if base is VOTES[0] else (gate.describe(), "opaque", "contested")))


def test_curves_leave_it_out_where_few_are(found: tuple[str, Log]) -> None:
    """One of twenty, 5 %: majority@k is over the other nineteen. Of ten it is 10 %: no votes."""
    _, made = found
    drawn = curves(made, resamples=5)
    assert set(drawn["metric"]) == {"avg", "pass", "majority", "best"}
    votes = pl.col("metric") == "majority"
    assert set(drawn.filter(votes)["n"]) == {19}
    assert set(drawn.filter(~votes)["n"]) == {20}
    drawn = curves(made, resamples=5, where="example_id < 'e10'")
    assert set(drawn["metric"]) == {"avg", "pass", "best"}
    assert set(drawn["n"]) == {10}
    # Of e00 two of three are right, as of the others: pass@1 is 2 / 3 on all ten.
    one = drawn.filter((pl.col("metric") == "pass") & (pl.col("k") == 1))
    assert one["estimate"].item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("where", "counts"), [(None, "1 of 20 "), ("example_id < 'e10'", "1 of 10 "), ("example_id > 'e00'", None)]
)
def test_a_line_says_how_many_examples_the_votes_leave_out(
    where: str | None, counts: str | None, tmp_path: Path
) -> None:
    made = write_log(tmp_path / "log", name="contested", tables=marked("contested"))
    (drawn,) = measure_pool_curves(made, Settings(resamples=5), where=where)
    assert [one.code for one in drawn.notes()] == ["incomparable"] * (counts is not None)
    for note in drawn.notes():
        quotes(note.text, "majority@k", "`n3`", counts or "")


def test_pairs_with_a_vote_are_on_its_examples_and_the_others_on_all(tmp_path: Path) -> None:
    made = write_log(tmp_path / "log", name="contested", tables=marked("contested"))
    settings = Settings(resamples=50)
    found = measure_pool_curves(made, settings)
    pairs = curve_pairs([*found, *measure_pool_curves(made, settings)], settings)
    votes = (pl.col("first_metric") == "majority") | (pl.col("second_metric") == "majority")
    assert set(pairs.filter(votes)["n"]) == {19}
    assert set(pairs.filter(~votes)["n"]) == {20}
    # On e00 the vote has no verdict, and on the others it is right where best-of-3 is.
    end = pairs.filter(k=3, first_metric="best", second_metric="majority")
    assert set(end["difference"]) == {0}


def test_of_a_pool_without_contested_verdicts_nothing_changes_beside_one_that_has_them(tmp_path: Path) -> None:
    made = marked("contested")
    rest = {name: table.filter(pl.col("example_id") > "e00") for name, table in made.items()}
    settings = Settings(resamples=50)
    first, second = (
        pl.concat([curves_table(one, settings) for one in measure_pool_curves(log, settings, where=where)])
        for log, where in (
            (write_log(tmp_path / "a", name="a", tables=made), "example_id > 'e00'"),
            (write_log(tmp_path / "b", name="b", tables=rest), None),
        )
    )
    assert first.equals(second)


def test_a_gate_reads_lengths_of_answers_by_itself_where_all_are_readable(tmp_path: Path) -> None:
    """Where one is opaque they are read if they are asked for, and that example is left out."""
    made = marked("opaque")
    first = made["traces"].filter(pl.col("sample_index") == 0)
    fix = first.with_columns(
        action=pl.lit("fix"), parent_id=pl.col("trace_id"), trace_id=pl.col("trace_id") + "/fix", pool=pl.lit("fix"),
        opaque=pl.lit(False),
    ).select(made["traces"].columns)  # fmt: skip
    veiled = pl.col("trace_id") == "e00/n3/0"
    traces = pl.concat([made["traces"], fix]).with_columns(
        opaque=pl.col("opaque") | veiled, answer=pl.when(veiled).then("trace_id").otherwise("answer")
    )
    for name, table in (("veiled", traces), ("plain", traces.filter(pl.col("example_id") > "e00"))):
        address = write_log(tmp_path / name, name=name, tables={"examples": made["examples"], "traces": table})
        at = gate_setting(address, "fix", None, None)
        assert ("answer_length" in [one.name for one in _available_inputs(at)]) == (name == "plain")
        data = read_data(at, None, parse_features(["answer_length"], at))
        assert len(data.repair) == 19


def test_a_pool_with_opaque_answers_only_is_refused_as_before(tmp_path: Path) -> None:
    made = tables({"n3": POOL}, GOLDS)
    veiled = pl.col("answer").is_not_null()
    answer = pl.when(veiled).then("trace_id").otherwise("answer")
    made["traces"] = made["traces"].with_columns(opaque=veiled, answer=answer)
    address = write_log(tmp_path / "log", name="veiled", tables=made)
    for policy in VOTES:
        with refuses("unsuitable", "`n3`"):
            replay.run(address, policy, resamples=5)


def test_another_pools_marks_do_not_matter(tmp_path: Path) -> None:
    """e1 answers A in two pools, right in one and wrong in the other. Either pool agrees with itself, yet both are
    marked, and both are left out; a pool without the answer is not.
    """
    pools = {name: {"e1": [(answer, None)]} for name, answer in (("a", "A"), ("b", "A"), ("c", "C"))}
    pools = {name: {**of, "e2": [("A", None)]} for name, of in pools.items()}
    made = tables(pools, {"e1": "A", "e2": "A"})
    other = (pl.col("pool") == "b") & (pl.col("example_id") == "e1")
    disputed = (pl.col("answer") == "A") & (pl.col("example_id") == "e1")
    made["traces"] = made["traces"].with_columns(correct=pl.col("correct") & ~other, contested=disputed)
    address = write_log(tmp_path / "log", name="pools", tables=made)
    left = {
        name: set(
            replay.run(address, Sample(name="m", pool=name, max_traces=1, select="majority"), resamples=5).excluded
        )
        for name in pools
    }
    assert left == {"a": {"e1"}, "b": {"e1"}, "c": set()}


def test_where_too_many_are_contested_the_vote_is_dropped_for_that_reason(tmp_path: Path) -> None:
    made = tables({"n3": dict.fromkeys(EXAMPLES, PATTERN)}, dict.fromkeys(EXAMPLES, "A"))
    mark = (pl.col("example_id") < "e05") & (pl.col("answer") == "A")
    made["traces"] = made["traces"].with_columns(contested=mark)
    address = write_log(tmp_path / "log", name="many", tables=made)
    result = replay.run(address, [FIRST, VOTES[0]], resamples=5)
    assert result.dropped.keys() == {"majority"}
    quotes(result.dropped["majority"], " 15 of the 20 examples", "(5 examples: ", *CONTESTED)
    others = replay.run(address, [FIRST, VOTES[0]], where=OTHERS, resamples=5)
    assert not others.dropped
    assert others.outcomes.collect().filter(policy="majority").height == 15
