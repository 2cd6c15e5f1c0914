"""The standard suite: every log gets the policies that it can answer, and none that it cannot."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import thinkback as tb
from replay.policies.suite import NO_TEST_SPLIT
from tests.errors import numbers, quotes, refuses
from tests.logs import log, tables
from tests.reference.random_logs import random_log
from tests.seeds import seeds
from toolkit.log import write_log

POOL = {name: [("A", 0.4), ("B", 0.6), ("A", 0.5), (None, None)] for name in ("e1", "e2", "e3")}
GOLDS: dict[str, str | None] = {"e1": "A", "e2": "B", "e3": "A"}


def policies_of(suite: tb.Suite) -> dict[str, Any]:
    return {policy["name"]: policy for policy in tomllib.loads(suite.text).get("policy", ())}


def test_a_pool_and_a_verifier(tmp_path: Path) -> None:
    suite = tb.suite(log(tmp_path, {"n4": POOL}, GOLDS))
    assert list(policies_of(suite)) == [
        "one sample (mean)",
        "majority@2", "majority@4", "adaptive consistency 0.8", "adaptive consistency 0.95", "window of 2",
        "best of 2 by v", "best of 4 by v", "weighted vote of 4 by v", "margin by v",
        "any of 4",
    ]  # fmt: skip
    assert policies_of(suite)["one sample (mean)"]["expected"]
    assert (suite.where, suite.by) == (None, ())
    assert NO_TEST_SPLIT not in suite.text  # all examples are of the split `test`


def weighted(suite: tb.Suite) -> list[dict[str, Any]]:
    return [one for one in policies_of(suite).values() if one.get("select") == "weighted"]


def test_a_weighted_vote_of_all_traces_is_exact(tmp_path: Path) -> None:
    """Of four traces each, and of pools of three to five by example, where that of five is of what each has."""
    (even,) = weighted(tb.suite(log(tmp_path / "even", {"n4": POOL}, GOLDS)))
    assert even["expected"]
    assert "orders" not in even
    rows = [("A", 0.9), ("B", 0.4), ("B", 0.3), ("A", 0.1), ("B", 0.8)]
    sizes = {f"e{i:02}": 4 + (i % 2) for i in range(20)}
    made = log(
        tmp_path / "uneven", {"p": {name: rows[:size] for name, size in sizes.items()}}, dict.fromkeys(sizes, "B")
    )
    suite = tb.suite(made)
    some, whole = weighted(suite)
    assert (some["orders"], some["max_traces"]) == (20, 4)
    assert (whole["expected"], whole["max_traces"], whole["on_missing"]) == (True, 5, "use_available")
    outcomes = tb.run(made, suite, resamples=20).outcomes.filter(policy=whole["name"]).collect()
    assert dict(outcomes.select("example_id", "traces").iter_rows()) == sizes
    # A has 1.0 of 1.7 where there are four, of 2.5 where there are five
    assert dict(outcomes.select("example_id", "correct").iter_rows()) == {name: sizes[name] - 4 for name in sizes}


def test_a_vote_of_all_traces_needs_all_scores(tmp_path: Path) -> None:
    """The fifth trace, which half of the examples have, is not scored."""
    rows = [("A", 0.9), ("B", 0.4), ("B", 0.3), ("A", 0.1), ("B", None)]
    pool = {f"e{i:02}": rows[: 4 + i % 2] for i in range(20)}
    assert [one["max_traces"] for one in weighted(tb.suite(log(tmp_path, {"p": pool}, dict.fromkeys(pool, "B"))))] == [
        4
    ]


def test_what_the_log_can_serve_is_kept_and_the_rest_is_told(tmp_path: Path) -> None:
    """A verifier that scored one example of three, and a pool that most examples have with three traces."""
    part = {"e1": POOL["e1"], "e2": [(a, None) for a, _ in POOL["e2"]], "e3": [(a, None) for a, _ in POOL["e3"][:3]]}
    suite = tb.suite(log(tmp_path, {"n4": part}, GOLDS))
    assert "majority@3" in policies_of(suite)
    assert not [name for name in policies_of(suite) if "by v" in name]
    oracles = [one for one in policies_of(suite).values() if one["kind"] == "oracle"]
    assert [one.get("max_traces") for one in oracles] == [None]  # of all traces: two examples have a fourth
    (line,) = (line for line in suite.text.splitlines() if line.startswith("# Left out: verifier `v`"))
    quotes(line, "1 of 3 examples", "`n4`", '`on_unscored = "skip"`')
    short = suite.left_out[0]
    assert numbers(short) == ["3", "1", "3", "3"]
    assert "`n4`" in short
    assert f"# Left out: {short}." in suite.text


def test_a_verifier_with_few_gaps_is_used_without_these(tmp_path: Path) -> None:
    """Three of 80 scores are missing, on three of 20 examples: 85 % of these are whole, 96 % of the answers scored."""
    pool = {
        f"e{i:02d}": [("A", None if (i, k) in ((0, 1), (7, 3), (9, 0)) else 0.5) for k in range(4)] for i in range(20)
    }
    made = log(tmp_path, {"n4": pool}, dict.fromkeys(pool, "A"))
    suite = tb.suite(made)
    read = {name: policy for name, policy in policies_of(suite).items() if "verifier" in policy}
    assert {"best of 4 by v", "margin by v"} <= set(read)
    assert {policy["on_unscored"] for policy in read.values()} == {"skip"}
    assert suite.left_out == ()
    (line,) = suite.skipped
    quotes(line, "3 of 80", "`n4`", "`v`")
    result = tb.run(made, suite, resamples=20)
    assert result.statistics.n == 20
    assert "on_unscored" not in tb.suite(log(tmp_path / "whole", {"n4": POOL}, GOLDS)).text


def test_two_pools_are_told_apart_by_name(tmp_path: Path) -> None:
    suite = tb.suite(log(tmp_path, {"n4": POOL, "hot": POOL, "greedy": {e: POOL[e][:1] for e in POOL}}, GOLDS))
    named = set(policies_of(suite))
    assert {"greedy", "n4: one sample (mean)", "hot: majority@4", "n4: any of 4"} <= named


def test_pools_of_one_trace_each_have_an_oracle_together(tmp_path: Path) -> None:
    one = {e: POOL[e][:1] for e in POOL}
    found = policies_of(tb.suite(log(tmp_path, {"small": one, "large": one}, GOLDS)))
    assert [*found] == ["large", "small", "any of 2 pools"]
    assert found["any of 2 pools"]["of"] == ["large", "small"]


def test_a_data_set_with_more_samples_has_a_suite_of_its_own(tmp_path: Path) -> None:
    """One task was sampled four times and the other once: all share one trace, and the condition is named."""
    pool = {"e1": POOL["e1"][:1], "e2": POOL["e2"], "e3": POOL["e3"][:1]}
    made = tables({"n4": pool}, GOLDS)
    made["examples"] = made["examples"].with_columns(dataset=pl.Series(["sums", "it's", "sums"]))
    path = tmp_path / "log"
    write_log(path, name="small", tables=made)
    suite = tb.suite(path)
    assert list(policies_of(suite)) == ["n4"]
    quotes(suite.left_out[0], "2 of 3 examples", "`it's`", "`dataset = 'it''s'`")
    own = tb.suite(path, "dataset = 'it''s'")
    assert "majority@4" in policies_of(own)
    assert own.where == "dataset = 'it''s'"


def test_the_test_split_alone_is_reported_and_looked_at(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    made["examples"] = made["examples"].with_columns(split=pl.Series(["dev", "test", "test"]))
    made["verifications"] = made["verifications"].filter(pl.col("example_id") != "e1")
    suite = tb.suite(write_log(tmp_path / "log", name="small", tables=made))
    assert suite.where == "split = 'test'"
    assert """--where "split = 'test'"`.""" in suite.text
    assert "best of 4 by v" in policies_of(suite)


def test_rows_outside_the_test_split_are_marked_where_a_policy_verifies(tmp_path: Path) -> None:
    """The suite as a file, replayed without its condition: verifiers may have been trained on the dev examples."""
    made = tables({"n4": POOL}, GOLDS)
    made["examples"] = made["examples"].with_columns(split=pl.Series(["dev", "test", "test"]))
    path = tmp_path / "log"
    write_log(path, name="small", tables=made)
    text = tb.suite(path).text
    (said,) = (one for one in tb.check_policies(text, path).notes if one.code == "training_rows")
    quotes(said, "1 of 3 examples", "`split = 'test'`")
    assert "best of 4 by v" in said.policies
    assert "majority@4" not in said.policies
    assert "training_rows" in {one.code for one in tb.run(path, text, resamples=20).notes}
    for where in ("split = 'test'", "split = 'dev'"):
        assert "training_rows" not in {one.code for one in tb.check_policies(text, path, where=where).notes}
    voting = tb.check_policies([tb.Sample(name="vote", max_traces=4, select="majority")], path)
    assert not voting.notes


def test_a_pool_that_cannot_be_cut_short_is_taken_whole(tmp_path: Path) -> None:
    """Of a beam's four traces, and of beams of three or four: no policy cuts them, and none is dropped."""
    whole = ["majority@4", "best of 4 by v", "weighted vote of 4 by v"]
    sizes = {f"e{i:02}": 3 + (i % 4 > 0) for i in range(20)}
    beams = {"even": POOL, "uneven": {name: POOL["e1"][4 - size :] for name, size in sizes.items()}}
    for name, pool in beams.items():
        pools = {"beam": pool, "one": {example: [("A", None)] for example in pool}}
        made = log(tmp_path / name, pools, dict.fromkeys(pool, "A"), pools={"beam": {"prefix": False}})
        suite = tb.suite(made)
        assert [one for one in policies_of(suite) if one in whole] == whole
        assert not suite.left_out
        beam = {policy: keys for policy, keys in policies_of(suite).items() if keys.get("pool") == "beam"}
        assert {keys["max_traces"] for keys in beam.values()} == {4}
        result = tb.run(made, suite, resamples=20)
        assert {policy.name for policy in result.policies} == set(policies_of(suite))


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_it_replays_on_any_log(seed: int, tmp_path: Path) -> None:
    """Nothing is refused; what is dropped has fewer than the 95 % of examples that the suite asks for."""
    random_log(seed).write(tmp_path / "log")
    suite = tb.suite(tmp_path / "log")
    if names := list(policies_of(suite)):
        assert len(set(names)) == len(names)
        tb.check_policies(suite.text, tmp_path / "log", where=suite.where)


def test_check_names_a_misspelt_key() -> None:
    with refuses("unknown", "`max_traces`"):
        tb.check_policies('[[policy]]\nname = "a"\nkind = "sample"\nmax_trace = 1\n')
