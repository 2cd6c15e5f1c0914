"""What holds for every policy that thinks again, on any log: identities, costs, one example set; and published sums."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replay
from generate.simulation.recovery import RecoveryModel, _recovery_tables, simulate_recovery
from replay.studies.recovery.published import (
    published_action,
    published_budget,
    published_comparison,
    published_gate,
    published_policy,
    published_price,
    published_requests,
    published_rule,
    published_state,
)
from tests.logs import drawn
from toolkit.imports import import_table
from toolkit.log import write_log

FIRST = '{ kind = "sample", pool = "short", max_traces = 1, select = "first" }'
POLICIES = f"""
[[policy]]
name = "base"
kind = "sample"
pool = "short"
max_traces = 1
select = "first"

[[policy]]
name = "long"
kind = "sample"
pool = "long"
max_traces = 1
select = "first"
against = "base"

[[policy]]
name = "vote"
kind = "sample"
pool = "votes"
max_traces = 8
select = "majority"
against = "base"

[[policy]]
name = "always"
kind = "act"
action = "ACTION"
base = "short"

[[policy]]
name = "selective"
kind = "when"
base = {FIRST}
gate = {{ GATE }}
then = {{ kind = "act", action = "ACTION", base = "short" }}

[[policy]]
name = "oracle"
kind = "oracle"
rule = "expected_action"
base = "short"
of = ["ACTION"]
against = "base"
"""
GATES = ['feature = "difficulty", at_least', 'feature = "verification_need", below', 'signal = "truncated", at_least']


log = drawn(simulate_recovery, examples=120, seed=2)


@given(
    gate=st.sampled_from(GATES),
    threshold=st.floats(0, 1.01),
    action=st.sampled_from(["continue", "active_verify", "self_correct"]),
)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_invariants(log: Path, gate: str, threshold: float, action: str) -> None:
    text = POLICIES.replace("GATE", f"{gate} = {threshold!r}").replace("ACTION", action)
    result = replay.run(log, text, resamples=20)
    rows = result.outcomes.collect()
    sets = rows.group_by("policy").agg(pl.col("example_id").sort())["example_id"].to_list()
    assert all(ids == sets[0] for ids in sets)  # all on one example set
    assert len(rows.unique(["policy", "example_id"])) == len(rows)  # one answer per example
    told = {(r["policy"], r["metric"]): r["estimate"] for r in result.summary.iter_rows(named=True)}
    for policy in ("long", "vote", "always", "selective", "oracle"):
        gained = told[policy, "accuracy"] - told["base", "accuracy"]
        assert told[policy, "fix_rate"] - told[policy, "flip_rate"] == pytest.approx(gained, abs=1e-12)
    names = ("base", "always", "selective")
    base, always, selective = (rows.filter(policy=name).sort("example_id") for name in names)
    fired = selective["intervened"] == 1
    for column in ("correct", "total_tokens", "calls", "latency_s"):
        assert selective.filter(fired)[column].equals(always.filter(fired)[column])
        assert selective.filter(~fired)[column].equals(base.filter(~fired)[column])
    assert (selective.filter(~fired)["action_tokens"] == 0).all()
    assert (selective.filter(fired)["action_tokens"] > 0).all()
    assert np.allclose(always["total_tokens"] - base["total_tokens"], always["action_tokens"])


def test_examples_that_lack_the_action_are_left_out_and_named(tmp_path: Path) -> None:
    tables = _recovery_tables(40, 5, RecoveryModel())
    gone = (pl.col("example_id") == "q000007") & (pl.col("action") == "active_verify")
    tables["traces"] = tables["traces"].filter(~gone)
    write_log(tmp_path / "log", name="holes", tables=tables)
    text = POLICIES.replace("GATE", 'signal = "truncated", at_least = 1').replace("ACTION", "active_verify")
    result = replay.run(tmp_path / "log", text, resamples=20)
    assert list(result.excluded) == ["q000007"]
    assert "active_verify" in result.excluded["q000007"]
    assert result.outcomes.collect()["example_id"].n_unique() == 39


def test_the_arithmetic_of_the_published_tables() -> None:
    """Total tokens are base plus action; savings and prices follow; final accuracy is base plus fixes minus flips."""
    base = published_policy("MATH500", "base", "")
    verify, gated = (published_policy("math-500", part, "active_verify") for part in ("always", "selective"))
    long = published_policy("math500", "budget", "8192")
    spent, used = verify["total_tokens"] - base["total_tokens"], gated["total_tokens"] - base["total_tokens"]
    saved = published_comparison("MATH500", "action tokens saved, selective verify against always verify")
    assert 100 * (1 - used / spent) == pytest.approx(saved["difference"], abs=0.05)
    assert 100 * (1 - long["total_tokens"] / gated["total_tokens"]) == pytest.approx(28, abs=0.5)
    price = published_price("MATH500", "always", "active_verify")
    assert verify["total_tokens"] * 0.5 / 1000 == pytest.approx(price["usd_per_1000_requests"], abs=0.006)
    assert verify["total_tokens"] / base["total_tokens"] == pytest.approx(price["relative_cost"], abs=0.006)
    asked = published_requests("MATH500", "selective verify against always verify")
    assert 1000 * (spent - used) == pytest.approx(asked["tokens_saved"], rel=0.005)
    assert 10 * (verify["flips_pct"] - gated["flips_pct"]) == pytest.approx(asked["flips_avoided"])
    accept = published_action("MATH", "accept")["final_accuracy_pct"]
    for action in ("continue", "active_verify", "critique_and_repair"):
        row = published_action("MATH", action)
        assert accept + row["fix_pct"] - row["flip_pct"] == pytest.approx(row["final_accuracy_pct"], abs=0.02)
    states = [published_state("MATH500", state) for state in ("completed", "truncated")]
    right = sum(state["examples"] * state["base_accuracy_pct"] for state in states) / 500
    assert right == pytest.approx(base["accuracy_pct"], abs=0.02)
    assert published_budget("MATH500", "8192")["accuracy_pct"] == long["accuracy_pct"]
    assert published_gate("GSM8K", "active_verify") == {"accuracy_pct": 94.47, "verify_pct": 2.8}
    assert published_rule("MATH500", "cheap features")["action_tokens"] == 2719


def test_other_data_sets_have_no_published_numbers() -> None:
    assert published_policy("sim-a", "base", "") == {}
    assert published_gate("sim-a", "active_verify") == published_gate("MATH500", "continue") == {}
    assert published_action("MATH500", "accept") == {}
    assert published_budget("MATH500", "long") == {}


def test_routellm_replays_through_route(tmp_path: Path) -> None:
    folder = os.environ.get("THINKBACK_LOGS")
    if not folder:
        pytest.skip("THINKBACK_LOGS names no folder of real logs")
    import_table([str(Path(folder) / "routellm" / "samples.parquet")], "routellm", tmp_path / "log")
    text = """
[[policy]]
name = "strong"
kind = "sample"
pool = "gpt-4"
max_traces = 1
select = "first"

[[policy]]
name = "weak"
kind = "sample"
pool = "mixtral"
max_traces = 1
select = "first"

[[policy]]
name = "routed"
kind = "route"
route = { column = "question_length", at_least = 200 }
then = { kind = "sample", pool = "gpt-4", max_traces = 1, select = "first" }
else = { kind = "sample", pool = "mixtral", max_traces = 1, select = "first" }
against = "weak"
"""
    result = replay.run(tmp_path / "log", text, resamples=20)
    length = dict(replay_lengths(tmp_path / "log"))
    right = {(r["policy"], r["example_id"]): r["correct"] for r in result.outcomes.collect().iter_rows(named=True)}
    ids = {example for _, example in right}
    expected = [right["strong" if length[e] >= 200 else "weak", e] for e in sorted(ids)]
    assert [right["routed", e] for e in sorted(ids)] == expected
    assert 0 < sum(length[e] >= 200 for e in ids) < len(ids)


def replay_lengths(log: Path) -> list[tuple[str, int]]:
    frame = pl.read_parquet(log / "examples" / "*.parquet", columns=["example_id", "question_length"])
    return list(frame.iter_rows())


def test_the_shipped_numbers_are_the_published_ones() -> None:
    text = (Path(replay.__file__).parent / "studies" / "data" / "sevra.json").read_text(encoding="utf-8")
    tables = {table["id"]: table for table in json.loads(text)["tables"]}
    assert {"2", "3", "4", "10", "11", "12", "20", "21", "22", "28"} <= set(tables)
    assert all(len(row) == len(table["columns"]) for table in tables.values() for row in table["rows"])
