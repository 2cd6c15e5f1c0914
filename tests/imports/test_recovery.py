"""SeVRA's rows in and out: what they mean, which are left out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from generate.simulation.recovery import RecoveryModel, _recovery_tables, simulate_recovery
from tests.errors import quotes, refuses
from toolkit.exports import export_recovery, export_replay
from toolkit.imports import import_recovery, import_replay
from toolkit.log import collect, open_log, validate_log, write_log

Row = dict[str, Any]
COLUMNS = (
    "example_id", "answer", "correct", "fix", "flip", "intervened", "action_tokens", "total_tokens", "finalizers",
    "calls", "prompt_tokens", "completion_tokens", "truncated",
)  # fmt: skip
FIRST = '{ kind = "sample", pool = "base", max_traces = 1, select = "first" }'
GATED = f"""
[[policy]]
name = "accept"
kind = "sample"
pool = "base"
max_traces = 1
select = "first"

[[policy]]
name = "always"
kind = "act"
action = "active_verify"
base = "base"

[[policy]]
name = "gated"
kind = "when"
base = {FIRST}
gate = {{ GATE }}
then = {{ kind = "act", action = "active_verify", base = "base" }}
"""


def row(example: str, action: str, base: bool, final: bool, tokens: int = 0, **more: Any) -> Row:
    return {
        "example_id": example, "task_type": "math", "query": f"Question {example}", "base_response": "text",
        "action": action, "base_correct": base, "final_correct": final, "helpful_fix": final and not base,
        "harmful_flip": base and not final, "action_actual_tokens": tokens, "base_actual_tokens": 100,
        "base_finalizer_used": False, "base_usage": {"done_reason": "stop"}, "features": {"difficulty": 0.5}, **more,
    }  # fmt: skip


def rows() -> list[Row]:
    """Two examples: `a` is fixed by one of two rollouts, `b` is right and stays so."""
    return [
        row("a", "accept", False, False), row("a", "active_verify", False, True, 40, sample_index=0),
        row("a", "active_verify", False, False, 60, sample_index=1), row("b", "accept", True, True),
        row("b", "active_verify", True, True, 20, sample_index=0),
    ]  # fmt: skip


def write(path: Path, lines: list[Row]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def outcomes(log: Path, policy: str, gate: str = "signal = 'truncated', at_least = 1") -> list[Row]:
    found = replay.run(log, GATED.replace("GATE", gate), resamples=20).outcomes.collect()
    return found.filter(policy=policy).sort("example_id").to_dicts()


def test_rows_become_a_base_pool_and_revisions(tmp_path: Path) -> None:
    report = import_recovery([write(tmp_path / "rows.jsonl", rows())], tmp_path / "log")
    assert (report.examples, report.traces) == (2, 5)
    assert validate_log(open_log(tmp_path / "log")).ok
    a, b = outcomes(tmp_path / "log", "always")
    assert (a["correct"], a["fix"], a["action_tokens"], a["total_tokens"]) == (0.5, 0.5, 50.0, 150.0)
    assert (b["correct"], b["flip"], b["total_tokens"]) == (1.0, 0.0, 120.0)


def test_a_repeated_row_counts_once_and_the_first_wins(tmp_path: Path) -> None:
    again = row("b", "active_verify", True, False, 999, sample_index=0)
    report = import_recovery([write(tmp_path / "rows.jsonl", [*rows(), again])], tmp_path / "log")
    assert "dropped 1 rows" in report.notes[0]
    assert outcomes(tmp_path / "log", "always")[1]["correct"] == 1.0


def test_rows_without_an_index_are_rollouts_unless_repeats_are_dropped(tmp_path: Path) -> None:
    """`a` is fixed by two equal rollouts of three: 2/3, and 1/2 once repeats are dropped."""
    bare = [{k: v for k, v in one.items() if k != "sample_index"} for one in rows()]
    source = write(tmp_path / "rows.jsonl", [*bare, bare[1]])
    report = import_recovery([source], tmp_path / "log")
    assert report.traces == 6
    quotes(report.notes[0], "1 rows", "(`a`): kept")
    assert outcomes(tmp_path / "log", "always")[0]["correct"] == pytest.approx(2 / 3)
    dropped = import_recovery([source], tmp_path / "fewer", drop_repeats=True)
    assert dropped.traces == 5
    quotes(dropped.notes[0], "dropped 1 rows")
    assert outcomes(tmp_path / "fewer", "always")[0]["correct"] == 0.5


def test_rows_whose_index_is_null_are_rollouts(tmp_path: Path) -> None:
    null = [{**one, "sample_index": None} for one in rows()]
    report = import_recovery([write(tmp_path / "rows.jsonl", null)], tmp_path / "log")
    assert report.traces == 5
    assert outcomes(tmp_path / "log", "always")[0]["correct"] == 0.5


def test_objects_without_fields_tell_nothing(tmp_path: Path) -> None:
    empty = [{**one, "features": {}, "base_usage": {}} for one in rows()]
    report = import_recovery([write(tmp_path / "rows.jsonl", empty)], tmp_path / "log")
    assert report.traces == 5
    assert not open_log(tmp_path / "log").has("features")


def test_answers_in_numbers_are_taken_as_they_are_written(tmp_path: Path) -> None:
    """`18` beside `18.50` stays `18`, as it is where all answers are whole."""
    answers = ("18", "18.50", "18", "7", "7")
    lines = [{**one, "base_answer": "x", "final_answer": "y"} for one in rows()]
    text = "".join(json.dumps(line).replace('"y"', a) + "\n" for line, a in zip(lines, answers, strict=True))
    (tmp_path / "rows.jsonl").write_text(text)
    import_recovery([str(tmp_path / "rows.jsonl")], tmp_path / "log")
    log = open_log(tmp_path / "log")
    own = collect(log.scan("traces", ["example_id", "action", "sample_index", "answer"]), log)
    revised = own.filter(pl.col("action") != "solve").sort("example_id", "sample_index")
    assert revised["answer"].to_list() == ["18.50", "18", "7"]


def test_a_second_accept_row_is_dropped_and_counted(tmp_path: Path) -> None:
    """One with another sample index, and one without any; the example `a` has one base attempt all the same."""
    lines = [{**rows()[0], "sample_index": 0}, *rows()[1:], {**rows()[0], "sample_index": 1}, rows()[3]]
    report = import_recovery([write(tmp_path / "rows.jsonl", lines)], tmp_path / "log")
    assert [note for note in report.notes if note.startswith("dropped 2 accept rows") and "(`a`, `b`)" in note]
    assert (report.examples, report.traces) == (2, 5)


def test_rows_that_name_no_split_are_said_to_be_in_one(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", rows())
    told = import_recovery([source], tmp_path / "log").notes
    assert [note for note in told if note.startswith("2 of 2 examples") and "`test`" in note]
    asked = import_recovery([source], tmp_path / "asked", split="dev").notes
    named = [{**one, "split": "dev"} for one in rows()]
    split = import_recovery([write(tmp_path / "named.jsonl", named)], tmp_path / "named").notes
    assert not any("`test`" in note for note in (*asked, *split))


def test_the_pool_of_the_base_attempts_keeps_its_name(tmp_path: Path) -> None:
    simulate_recovery(tmp_path / "sim", examples=20, seed=4)
    export_recovery(open_log(tmp_path / "sim"), "short", tmp_path / "rows.jsonl")
    source = str(tmp_path / "rows.jsonl")
    for name, base, pool in (("kept", None, "short"), ("named", "first", "first")):
        import_recovery([source], tmp_path / name, base=base)
        log = open_log(tmp_path / name)
        solves = collect(log.scan("traces", ["pool", "action"]).filter(pl.col("action") == "solve"), log)
        assert set(solves["pool"]) == {pool}
    import_recovery([write(tmp_path / "bare.jsonl", rows())], tmp_path / "bare")
    assert outcomes(tmp_path / "bare", "accept")[0]["correct"] == 0.0  # of the pool `base`


def test_the_mark_of_a_simulated_log_goes_out_and_comes_back(tmp_path: Path) -> None:
    simulate_recovery(tmp_path / "sim", examples=20, seed=4)
    export_recovery(open_log(tmp_path / "sim"), "short", tmp_path / "rows.jsonl")
    report = import_recovery([str(tmp_path / "rows.jsonl")], tmp_path / "back")
    assert open_log(tmp_path / "back").simulated
    assert "simulated" in report.notes[0]
    import_recovery([write(tmp_path / "real.jsonl", rows())], tmp_path / "real")
    assert not open_log(tmp_path / "real").simulated
    line = {"base_correct": True, "verified_correct": True, "gate_score": 0.1, "verification_tokens": 4}
    import_replay([write(tmp_path / "replay.jsonl", [{**line, "simulated": True}])], tmp_path / "replay")
    export_replay(open_log(tmp_path / "replay"), None, "active_verify", "gate", tmp_path / "again.jsonl")
    assert json.loads((tmp_path / "again.jsonl").read_text()) == {**line, "simulated": True}


def test_incomplete_examples_are_left_out_by_name_when_asked(tmp_path: Path) -> None:
    lacking = [*rows(), row("c", "accept", True, True), row("d", "active_verify", True, True, 5)]
    report = import_recovery([write(tmp_path / "rows.jsonl", lacking)], tmp_path / "log", exclude_incomplete=True)
    told = " ".join(report.notes)
    assert [text for text in ("`accept` (`d`)", "`active_verify` (`c`)") if text not in told] == []
    assert report.examples == 2


def changed(place: int, **values: Any) -> list[Row]:
    """The rows with other values in one of them."""
    return [{**one, **values} if number == place else one for number, one in enumerate(rows())]


BAD = {
    "no accept row": ([*rows(), row("c", "active_verify", False, True, 4)], ("incomplete", "`accept`", "`c`", "1")),
    "no accept row at all": ([row("a", "active_verify", False, True, 4)], ("empty", "`accept`")),
    "another verdict on the base": (changed(2, base_correct=True), ("conflict", "`a`", "`base_correct`")),
    "an action missing": ([*rows(), row("c", "accept", True, True)], ("incomplete", "`active_verify`", "`c`")),
    "several base samples": (
        [*rows(), row("a", "continue", True, True), row("b", "continue", True, True)],
        ("conflict", "`a`", "`base_correct`", "1"),
    ),
    "no action": ([row("a", "accept", False, False)], ("empty", "`accept`")),
    "no column": (
        [{k: v for k, v in r.items() if k != "final_correct"} for r in rows()],
        ("required", "`final_correct`"),
    ),
    "a verdict in words": (changed(3, base_correct="yes"), ("invalid", "`base_correct`", "`yes`", "row 4")),
    "a verdict of two": (changed(0, final_correct=2), ("invalid", "`final_correct`", "`2`")),
    "tokens in words": (
        changed(1, action_actual_tokens="n/a"),
        ("invalid", "`action_actual_tokens`", "`n/a`", "row 2"),
    ),
    "part of a token": (
        changed(2, action_actual_tokens=20.7),
        ("invalid", "`action_actual_tokens`", "`20.7`", "row 3"),
    ),
    "tokens below zero": (changed(2, action_actual_tokens=-1), ("invalid", "0")),
    "a feature in words": (
        changed(4, features={"difficulty": "hard"}),
        ("invalid", "`features.difficulty`", "`hard`", "row 5"),
    ),
    "actions by number": ([{**one, "action": 1} for one in rows()], ("empty", "`accept`")),
    "an accept row that changes": (
        changed(0, final_correct=True, helpful_fix=True),
        ("invalid", "`a`", "`accept`", "row 1"),
    ),
    "an accept row that spends": (changed(3, action_actual_tokens=5), ("invalid", "`b`", "`accept`", "row 4")),
    "base attempts of two pools": (
        [{**one, "base_pool": one["example_id"]} for one in rows()],
        ("ambiguous", "`a`", "`b`", "2"),
    ),
    "an action called as the base": (
        [{**one, "action": "base" if one["action"] != "accept" else "accept"} for one in rows()],
        ("conflict", "`base`"),
    ),
    "a fix that is none": (changed(2, helpful_fix=True), ("invalid", "`a`", "`active_verify`", "row 3")),
    "a flip that is none": (changed(4, harmful_flip=True), ("invalid", "`harmful_flip`")),
    "accept rows of two questions": (
        [*rows(), row("a", "accept", False, False, query="Another")],
        ("conflict", "`a`", "`query`"),
    ),
    "accept rows of two difficulties": (
        [*rows(), row("a", "accept", False, False, features={"difficulty": 0.9})],
        ("conflict", "`features`"),
    ),
    "endings in lists": (
        [{**one, "base_usage": {"done_reason": ["x"]}} for one in rows()],
        ("invalid", "`base_usage.done_reason`", "row 1"),
    ),
    "tokens in an object": (
        changed(1, action_usage={"prompt_tokens": {"a": 1}}),
        ("invalid", "`action_usage.prompt_tokens`", "row 2", "'a'"),
    ),
    "tokens of the usage below zero": (
        changed(2, base_usage={"prompt_tokens": -3, "completion_tokens": 103}),
        ("invalid", "`base_usage.prompt_tokens`", "`-3`", "row 3"),
    ),
    "usage in words": (
        [{**one, "base_usage": None if i < 3 else "none"} for i, one in enumerate(rows())],
        ("invalid", "`base_usage`", "`none`", "row 4"),
    ),
    "features in words": (
        [{**one, "features": "hard"} for one in rows()],
        ("invalid", "`features`", "`hard`", "row 1"),
    ),
    "a feature called as an id": (changed(0, features={"trace_id": 1}), ("conflict", "`features`", "`trace_id`")),
    "seconds below zero": (changed(0, base_latency_s=-0.5), ("invalid", "`base_latency_s`", "`-0.5`", "row 1")),
    "labels that are no list": (changed(3, labels="A"), ("invalid", "`labels`", "`A`", "row 4")),
    "a label twice": (changed(3, labels=["A", "A"]), ("invalid", "`labels`", "row 4")),
    "a gold answer outside the labels": (
        [{**one, "labels": ["A", "B"], "gold": "C"} for one in rows()],
        ("invalid", "`a`", "`accept`", "`gold`", "`labels`", "row 1"),
    ),
    "a verdict that is not by the gold answer": (
        [
            {
                **one,
                "labels": ["A", "B"],
                "gold": "A",
                "base_answer": "A" if one["base_correct"] else "B",
                "final_answer": "A" if one["final_correct"] or i == 2 else "B",
            }
            for i, one in enumerate(rows())
        ],
        ("invalid", "`a`", "`active_verify`", "`labels`", "row 3"),
    ),
    "rows of two gold answers": (changed(0, gold="A")[:1] + changed(1, gold="B")[1:], ("conflict", "`gold`")),
    "first attempts as an action": (changed(1, action="solve"), ("conflict", "`solve`")),
    "a null": ([*rows(), {**row("c", "accept", True, True), "base_correct": None}], ("invalid", "row 6")),
}


def refused_in_one_line(lines: list[Row], refusal: tuple[str, ...], tmp_path: Path) -> None:
    """Importing the rows is refused and writes nothing."""
    with refuses(*refusal):
        import_recovery([write(tmp_path / "rows.jsonl", lines)], tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_one_line_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    refused_in_one_line(*BAD[name], tmp_path)


def test_recovery_rows_go_out_and_come_back(tmp_path: Path) -> None:
    simulate_recovery(tmp_path / "sim", examples=80, seed=4)
    count = export_recovery(open_log(tmp_path / "sim"), "short", tmp_path / "rows.jsonl")
    assert count == 80 * (1 + 3 * 2)
    import_recovery([str(tmp_path / "rows.jsonl")], tmp_path / "back")
    gate = 'feature = "difficulty", at_least = 0.5'
    text = GATED.replace("GATE", gate).replace('"base"', '"short"')
    own, back = (
        replay.run(tmp_path / name, text, resamples=20).outcomes.collect().filter(policy="gated").sort("example_id")
        for name in ("sim", "back")
    )
    for one, other in zip(own.iter_rows(named=True), back.iter_rows(named=True), strict=True):
        for key in COLUMNS:
            assert one[key] == other[key], key


def test_replay_rows_in_and_out(tmp_path: Path) -> None:
    lines = [
        {"base_correct": True, "verified_correct": True, "gate_score": 0.1, "verification_tokens": 420},
        {"base_correct": False, "verified_correct": True, "gate_score": 1.0, "verification_tokens": 300},
        {"base_correct": True, "verified_correct": False, "gate_score": 0.6, "verification_tokens": 100},
    ]
    report = import_replay([write(tmp_path / "rows.jsonl", lines)], tmp_path / "log")
    assert "by line" in report.notes[0]
    # A threshold of 1.0 still fires on a score of exactly 1.0, and only there.
    fired = [one["intervened"] for one in outcomes(tmp_path / "log", "gated", 'verifier = "gate", at_least = 1.0')]
    assert fired == [0.0, 1.0, 0.0]
    assert export_replay(open_log(tmp_path / "log"), None, "active_verify", "gate", tmp_path / "out.jsonl") == 3
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == lines


BAD_REPLAY = {
    "base_correct": ("x", ("invalid", "`base_correct`", "`x`", "row 2")),
    "gate_score": ("hi", ("invalid", "`gate_score`", "`hi`", "row 2")),
    "verification_tokens": (3.5, ("invalid", "`verification_tokens`", "`3.5`", "row 2")),
}


@pytest.mark.parametrize("name", BAD_REPLAY)
def test_bad_replay_rows_are_one_line(name: str, tmp_path: Path) -> None:
    good = {"base_correct": True, "verified_correct": True, "gate_score": 0.1, "verification_tokens": 420}
    value, refusal = BAD_REPLAY[name]
    with refuses(*refusal):
        import_replay([write(tmp_path / "rows.jsonl", [good, {**good, name: value}])], tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    import_recovery([write(tmp_path / "rows.jsonl", rows())], tmp_path / "log")
    log = open_log(tmp_path / "log")
    with refuses("unknown", "`gate`"):
        export_replay(log, None, "active_verify", "gate", tmp_path / "out.jsonl")
    with refuses("unknown", "`bse`", "`base`"):
        export_recovery(log, "bse", tmp_path / "out.jsonl")


def test_of_two_pools_of_revisions_one_goes_out(tmp_path: Path) -> None:
    tables = _recovery_tables(20, 4, RecoveryModel())
    own = tables["traces"].filter(pl.col("action") == "active_verify")
    again = own.with_columns(trace_id=pl.col("trace_id") + " again", pool=pl.lit("again"))
    write_log(tmp_path / "log", name="two", tables={**tables, "traces": pl.concat([tables["traces"], again])})
    log = open_log(tmp_path / "log")
    with refuses("ambiguous", "`active_verify`", "`pool`"):
        export_recovery(log, "short", tmp_path / "rows.jsonl")
    with refuses("unknown", "`again`"):
        export_recovery(log, "short", tmp_path / "rows.jsonl", pool="agan")
    assert not (tmp_path / "rows.jsonl").exists()
    assert export_recovery(log, "short", tmp_path / "rows.jsonl", pool="again") == 20 * (1 + 3 * 2)


def test_rows_hold_verdicts_and_no_answers(tmp_path: Path) -> None:
    import_recovery([write(tmp_path / "rows.jsonl", rows())], tmp_path / "log")
    log = open_log(tmp_path / "log")
    assert collect(log.scan("traces", ["opaque"]), log)["opaque"].all()
    vote = '[[policy]]\nname = "vote"\nkind = "sample"\npool = "base"\nmax_traces = 1\nselect = "majority"\n'
    with refuses("unsuitable", "`base`", "`vote`"):
        replay.run(log, vote, resamples=20)
