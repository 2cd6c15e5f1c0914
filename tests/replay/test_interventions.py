"""Policies that think again, worked by hand; the arithmetic stands beside each case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from tests.errors import noted, numbers, refuses
from tests.logs import log_tables, sealed
from toolkit.log import Log, write_log
from toolkit.notes import Severity

FIRST = '{ kind = "sample", pool = "base", max_traces = 1, select = "first" }'
ACT = '{ kind = "act", action = "verify", base = "base" }'

# example -> base (correct, tokens, finish, score), revisions (correct, tokens); gold is "A"
WORLD: dict[str, tuple[Any, list[Any]]] = {
    "a": ((True, 100, "stop", 0.2), [(True, 40), (False, 60)]),
    "b": ((False, 200, "length", 1.0), [(True, 80), (True, 20)]),
    "c": ((False, 100, "stop", 0.5), [(False, 10), (True, 30)]),
    "d": ((True, 300, "stop", 0.5), [(True, 50), (True, 50)]),
}


def trace(example: str, pool: str, action: str, index: int, right: bool, tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "trace_id": f"{example}/{pool}/{index}", "example_id": example, "pool": pool, "action": action,
        "parent_id": None if action == "solve" else f"{example}/base/0", "sample_index": index, "model": "m",
        "answer": "A" if right else "B", "correct": right, "prompt_tokens": 0, "completion_tokens": tokens,
        "latency_s": tokens / 10, "finish_reason": "stop", "finalizer_used": False, "max_tokens": 200, **more,
    }  # fmt: skip


def world_tables() -> dict[str, pl.DataFrame]:
    traces, scores = [], []
    for name, (base, revisions) in WORLD.items():
        traces.append(trace(name, "base", "solve", 0, base[0], base[1], finish_reason=base[2]))
        traces.append(trace(name, "long", "solve", 0, True, 400))
        traces += [trace(name, "v", "verify", i, right, tokens) for i, (right, tokens) in enumerate(revisions)]
        scores.append({"trace_id": f"{name}/base/0", "verifier": "gate", "example_id": name, "score": base[3],
                       "prompt_tokens": 5, "completion_tokens": 0, "latency_s": 0.5})  # fmt: skip
    examples = pl.DataFrame({"example_id": list(WORLD)}).with_columns(
        dataset=pl.lit("d"), split=pl.lit("test"), question=pl.col("example_id"), gold=pl.lit("A"),
        router=pl.Series([0.1, 0.9, 0.5, 0.5]),
    )  # fmt: skip
    tables = {"examples": examples, "traces": pl.DataFrame(traces, infer_schema_length=None)}
    return tables | {"verifications": pl.DataFrame(scores)}


log = sealed(world_tables)


def outcome(log: Log, *policies: str, name: str | None = None) -> dict[str, dict[str, Any]]:
    text = "\n".join(f"[[policy]]\n{policy}\n" for policy in policies)
    rows = replay.run(log, text, resamples=20).outcomes.collect()
    wanted = name or rows["policy"][0]
    return {row["example_id"]: row for row in rows.filter(policy=wanted).iter_rows(named=True)}


def test_act_averages_its_rollouts_within_the_example(log: Log) -> None:
    rows = outcome(log, f'name = "x"\n{_body(ACT)}')
    a, b = rows["a"], rows["b"]
    assert (a["correct"], a["fix"], a["flip"], a["base_correct"]) == (
        0.5,
        0.0,
        0.5,
        1.0,
    )  # one of two rollouts spoils it
    assert (a["action_tokens"], a["total_tokens"]) == (50.0, 150.0)  # (40 + 60) / 2, and the base's 100
    assert (b["correct"], b["fix"], b["flip"], b["action_tokens"]) == (1.0, 1.0, 0.0, 50.0)
    assert (a["answer"], b["answer"]) == (None, None)  # a mean of two rows names its answers with their shares
    assert a["answers"] == [{"answer": "A", "share": 0.5}, {"answer": "B", "share": 0.5}]
    assert all(row["intervened"] == 1.0 and row["ending"] == "cap" for row in rows.values())


def _body(table: str) -> str:
    inner = table.strip("{} ")
    return "\n".join(part.strip() for part in inner.split(", "))


def test_a_threshold_of_one_fires_on_a_score_of_exactly_one(log: Log) -> None:
    gate = 'gate = { verifier = "gate", at_least = 1.0 }'
    rows = outcome(log, f'name = "x"\nkind = "when"\nbase = {FIRST}\n{gate}\nthen = {ACT}')
    assert [row["intervened"] for row in rows.values()] == [0.0, 1.0, 0.0, 0.0]


def test_who_accepts_spends_no_action_tokens_and_the_gates_own_are_none(log: Log) -> None:
    gate = 'gate = { verifier = "gate", at_least = 0.5 }'
    rows = outcome(log, f'name = "x"\nkind = "when"\nbase = {FIRST}\n{gate}\nthen = {ACT}')
    a, c = rows["a"], rows["c"]
    assert (a["intervened"], a["action_tokens"], a["total_tokens"]) == (0.0, 0.0, 105.0)  # 100 and the gate's 5
    assert (c["intervened"], c["action_tokens"], c["total_tokens"]) == (1.0, 20.0, 125.0)  # 100 + 5 + (10 + 30) / 2
    assert (c["correct"], c["fix"]) == (0.5, 0.5)
    assert a["latency_s"] == pytest.approx(10.5)
    assert c["latency_s"] == pytest.approx(12.5)


def test_fixes_minus_flips_is_the_difference_in_accuracy(log: Log) -> None:
    when = f'name = "x"\nkind = "when"\nbase = {FIRST}\ngate = {{ signal = "truncated", at_least = 1 }}\nthen = {ACT}'
    policies = replay.load_policies(f'[[policy]]\nname = "b"\n{_body(FIRST)}\n[[policy]]\n{when}\n')
    summary = replay.run(log, policies, resamples=20).summary
    found = {(r["policy"], r["metric"]): r["estimate"] for r in summary.iter_rows(named=True)}
    assert found["x", "accuracy"] - found["b", "accuracy"] == found["x", "fix_rate"] - found["x", "flip_rate"] == 0.25


def nested(threshold: float) -> str:
    once = ACT.replace(" }", ", rollouts = 0 }")
    gate = f'{{ verifier = "gate", at_least = {threshold} }}'
    inner = f'{{ kind = "when", base = {FIRST}, gate = {gate}, then = {once} }}'
    long = '{ kind = "sample", pool = "long", max_traces = 1, select = "first" }'
    outer = '{ any = [{ verifier = "gate", at_least = 0.5 }, { signal = "completion_tokens", at_least = 90 }] }'
    return f'name = "x"\nkind = "when"\nbase = {inner}\ngate = {outer}\nthen = {long}'


def test_a_nested_when_pays_every_call_once(log: Log) -> None:
    rows = outcome(log, nested(2.0))
    assert rows["a"]["total_tokens"] == 100 + 5 + 400  # the score is read by both gates and paid once
    assert (rows["a"]["verifications"], rows["a"]["traces"]) == (1, 2)


def test_a_gate_that_cannot_be_read_makes_an_example_partial(log: Log) -> None:
    # The verifier did not score the revisions, so where the inner gate fires (b, c, d) the outer one can't be read.
    assert list(outcome(log, nested(0.5))) == ["a"]


def test_then_that_samples_on_from_the_base_pays_only_what_is_new(log: Log) -> None:
    same = '{ kind = "sample", pool = "base", max_traces = 1, select = "majority" }'
    gate = 'gate = { signal = "invalid", at_least = 0 }'
    rows = outcome(log, f'name = "x"\nkind = "when"\nbase = {FIRST}\n{gate}\nthen = {same}')
    assert [(r["intervened"], r["action_tokens"], r["traces"]) for r in rows.values()] == [(1.0, 0.0, 1.0)] * 4


def test_a_route_pays_only_the_chosen_branch(log: Log) -> None:
    long = '{ kind = "sample", pool = "long", max_traces = 1, select = "first" }'
    route = (
        f'name = "x"\nkind = "route"\nroute = {{ column = "router", at_least = 0.5 }}\nthen = {long}\nelse = {FIRST}'
    )
    rows = outcome(log, route)
    assert [row["total_tokens"] for row in rows.values()] == [100, 400, 400, 400]
    assert all(row["intervened"] == 0 and row["fix"] is None and row["action_tokens"] is None for row in rows.values())


def test_oracles_choose_and_pay_what_they_choose(log: Log) -> None:
    best = outcome(log, 'name = "x"\nkind = "oracle"\nrule = "action"\nbase = "base"\nof = ["verify", "long"]')
    # a, d: the base is right, and first. b: of the right ones long costs 400, verify 200 + 20 with its second rollout.
    assert [row["total_tokens"] for row in best.values()] == [100, 220, 130, 300]
    mean = outcome(log, 'name = "x"\nkind = "oracle"\nrule = "expected_action"\nbase = "base"\nof = ["verify"]')
    assert [row["correct"] for row in mean.values()] == [1, 1, 0.5, 1]
    assert [row["total_tokens"] for row in mean.values()] == [100, 250, 120, 300]


def test_matched_rate_takes_the_largest_gains_and_random_the_mean(log: Log) -> None:
    # Gains of verifying: a -0.5, b 1, c 0.5, d 0. floor(0.5 * 4 + 0.5) = 2: b and c.
    oracle = f'name = "x"\nkind = "oracle"\nrule = "matched_rate"\nbase = "base"\nthen = {ACT}\nrate = 0.5'
    rows = outcome(log, oracle)
    assert [row["correct"] for row in rows.values()] == [1, 1, 0.5, 1]
    assert [row["total_tokens"] for row in rows.values()] == [100, 250, 120, 300]
    coin = f'name = "x"\nkind = "oracle"\nrule = "matched_random"\nbase = "base"\nthen = {ACT}\nrate = 0.25'
    rows = outcome(log, coin)
    assert rows["a"]["correct"] == 0.875  # 0.75 * 1 + 0.25 * 0.5
    assert rows["b"]["total_tokens"] == 0.75 * 200 + 0.25 * 250


def test_near_limit_reads_the_share_of_the_limit(log: Log) -> None:
    gate = 'gate = { signal = "near_limit", fraction = 1.0, at_least = 1 }'
    rows = outcome(log, f'name = "x"\nkind = "when"\nbase = {FIRST}\n{gate}\nthen = {ACT}')
    assert [row["intervened"] for row in rows.values()] == [0, 1, 0, 1]  # 100, 200, 100, 300 of 200


BRANCHES = f"then = {FIRST}\nelse = {FIRST}"
ROUTE = f'[[policy]]\nname = "x"\nkind = "route"\n{BRANCHES}\nroute = {{ column = "COLUMN", below = 1 }}'
WHEN = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\n'


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (WHEN + 'gate = { verifier = "gate" }', ("required", "`below`", "`at_least`")),
        (WHEN + 'gate = { verifier = "gate", below = 1, at_least = 1 }', ("required", "`below`", "`at_least`")),
        (WHEN + 'gate = { verifier = "gate", feature = "f", below = 1 }', ("conflict", "`verifier`", "`feature`")),
        (WHEN + 'gate = { signal = "truncatd", below = 1 }', ("unknown", "`truncated`")),
        (WHEN + 'gate = { signal = "near_limit", below = 1 }', ("required", "`fraction`")),
        (WHEN + 'gate = { signal = "truncated", fraction = 0.5, below = 1 }', ("conflict", "`near_limit`")),
        (WHEN + 'gate = { verifier = "gat", below = 1 }', ("unknown", "`gate`")),
        (WHEN + 'gate = { feature = "x", below = 1 }', ("unknown", "`x`")),
        (WHEN + 'gate = { signal = "suffix_logprob", tokens = 3, below = 0 }', ("unsuitable", "3")),
        (WHEN + 'gate = { signal = "margin", below = 0 }', ("unsuitable", "`base`", "`margin`")),
        (WHEN + 'gate = { any = [{ verifier = "gate", below = "all" }] }', ("unsuitable",)),
        (WHEN + 'gate = { any = [] }', ("invalid", "`any`")),
        (WHEN.replace(FIRST, ACT) + 'gate = { signal = "truncated", at_least = 1 }', ("unsuitable", "`rollouts = 0`")),
        (f'[[policy]]\nname = "x"\n{_body(ACT)}'.replace('"verify"', '"verfy"'), ("unknown", "`verify`")),
        (f'[[policy]]\nname = "x"\n{_body(ACT)}'.replace('"base"', '"long"'), ("unknown", "0")),
        (f'[[policy]]\nname = "x"\n{_body(ACT)}\nrollouts = -1', ("unsuitable", "`rollouts`", "-1")),
        ('[[policy]]\nname = "x"\nkind = "oracle"\nrule = "action"\nof = ["long"]', ("unsuitable", "`base`")),
        (f'[[policy]]\nname = "x"\nkind = "oracle"\nrule = "matched_rate"\nbase = "base"\nthen = {ACT}', ("unsuitable", "`rate`")),  # noqa: E501
        (ROUTE.replace("COLUMN", "nope"), ("unknown", "`nope`")),
        (ROUTE.replace("COLUMN", "dataset"), ("unsuitable", "`dataset`")),
    ],
)  # fmt: skip
def test_mistakes_are_named(log: Log, text: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.run(log, text + "\n", resamples=20)


def test_several_pools_of_one_action_must_be_told_apart(log: Log, tmp_path: Path) -> None:
    examples, traces = (log_tables(log)[name] for name in ("examples", "traces"))
    other = traces.filter(pl.col("action") == "verify").with_columns(
        trace_id=pl.col("trace_id") + "x", pool=pl.lit("v2")
    )
    tables = {"examples": examples, "traces": pl.concat([traces, other])}
    write_log(tmp_path / "two", name="two", tables=tables)
    text = f'[[policy]]\nname = "x"\n{_body(ACT)}\n'
    with refuses("ambiguous", "`v`", "`v2`"):
        replay.run(tmp_path / "two", text, resamples=20)
    named = replay.run(tmp_path / "two", text + 'pool = "v2"\n', resamples=20)
    assert named.outcomes.collect()["action_tokens"].to_list() == [50.0, 50.0, 20.0, 50.0]


def test_the_seconds_of_a_score_that_a_gate_may_read_count_as_free(log: Log, tmp_path: Path) -> None:
    tables = log_tables(log)
    seconds = pl.when(pl.col("example_id") != "c").then("latency_s")
    tables["verifications"] = tables["verifications"].with_columns(latency_s=seconds)
    write_log(tmp_path / "less", name="less", tables=tables)
    text = f'{WHEN}gate = {{ verifier = "gate", below = 0.5 }}\n'
    free = [replay.run(path, text, resamples=20).provenance["verifications_free"] for path in (log, tmp_path / "less")]
    assert [row["gate"] for row in free] == [["device_s"], ["device_s", "latency_s"]]


def test_a_revision_counts_once_in_whatever_it_is_read_for(log: Log, tmp_path: Path) -> None:
    """Eight revisions of pool `v` and eight of `v2` say `Z`; an oracle reads all of them and an `act` those of `v2`."""
    examples, traces = (log_tables(log)[name] for name in ("examples", "traces"))
    revised = pl.col("action") == "verify"
    traces = traces.with_columns(
        answer=pl.when(revised).then(pl.lit("Z")).otherwise("answer"), correct=pl.col("correct") & ~revised
    )
    other = traces.filter(revised).with_columns(trace_id=pl.col("trace_id") + "x", pool=pl.lit("v2"))
    closed = examples.with_columns(labels=pl.lit(["A", "B"], pl.List(pl.String)))
    write_log(tmp_path / "two", name="two", tables={"examples": closed, "traces": pl.concat([traces, other])})
    act = f'[[policy]]\nname = "x"\n{_body(ACT)}\npool = "v2"\n'
    oracle = '[[policy]]\nname = "o"\nkind = "oracle"\nrule = "any"\nbase = "base"\nof = ["verify"]\n'

    for text, outside, settings in ((act, 8, {}), (act + oracle, 16, {}), (act + oracle, 16, {"block_examples": 1})):
        notes = replay.run(tmp_path / "two", text, resamples=20, **settings).notes
        empty = noted(notes, "no_valid_answer", "`base`", "`verify`")
        assert empty.severity is Severity.WARNING
        assert ("`v2`" in empty.text) == (text == act)
        assert numbers(noted(notes, "outside_labels", "`Z`")) == [str(outside)]
