from dataclasses import replace

import polars as pl
import pytest

import replay
from replay import Margin, Oracle, Sample
from replay.runs.explain.explain import explain
from tests.errors import quotes, refuses
from tests.logs import log, tables
from toolkit.log import write_log

POOL = {"e1": [("A", 0.4), (None, None), ("B", 0.9), ("A", 0.1)]}
POLICIES = [
    Sample(name="margin", max_traces=4, verifier="v", stop=Margin(0.5, min_valid=2)),
    Sample(name="random", max_traces=4, verifier="v", order="random", orders=3),
    Oracle(name="any", of=("n4",)),
]


def test_every_step_up_to_the_stop(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    told = explain(made, POLICIES, "margin", "e1")
    assert told.steps.select("sample", "answer", "score", "holds", "answer_now", "total_tokens").rows() == [
        (0, "A", 0.4, False, "A", 19.0),
        (1, None, None, False, "A", 34.0),
        (2, "B", 0.9, True, "B", 53.0),
    ]
    quotes(told.ending, "rule: ", "; answer B (wrong); 3 traces, 2 verifications, 53 tokens")
    assert told.header[2] == "gold      A"


def test_sums_of_seconds_are_said_to_be_of_batches(tmp_path):
    """One, two and three seconds of waiting, where the device took half a second each."""
    told = explain(log(tmp_path, {"n4": POOL}, {"e1": "A"}), POLICIES, "margin", "e1")
    assert "latency_s" in told.steps.columns
    (note,) = told.notes
    quotes(note, "batches (6.5 s", "1.75 s")
    assert str(told).endswith(note)
    assert replace(told, stages=()).notes == ()


def test_it_agrees_with_the_run(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    row = replay.run(made, POLICIES[:1]).outcomes.collect().to_dicts()[0]
    assert explain(made, POLICIES, "margin", "e1").steps["total_tokens"][-1] == row["total_tokens"]


def test_one_of_several_orders_is_shown(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    told = explain(made, POLICIES, "random", "e1", repetition=2)
    assert [stage.title for stage in told.stages] == ["`random`, all 3 orders", "`random`, order 2 of 3"]
    every = told.stages[0].rows
    assert every.select("order", "steps", "ending", "answer", "correct", "verifications", "total_tokens").rows() == [
        (number, 3, "cap", "B", 0.0, 3.0, 72.0) for number in range(3)
    ]
    assert told.ending == "mean over 3 orders: wrong; answers B 100.0%; 4 traces, 3 verifications, 72 tokens"
    with refuses("invalid", "`repetition`", "3"):
        explain(made, POLICIES, "random", "e1", repetition=3)


def test_an_oracle_shows_what_it_sees(tmp_path):
    told = explain(log(tmp_path, {"n4": POOL}, {"e1": "A"}), POLICIES, "any", "e1")
    assert told.steps["correct"].to_list() == [1.0, 0.0, 0.0, 1.0]
    assert "diagnostic: sees gold" in told.header[3]


def test_names_are_checked(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    with refuses("unknown", "`margni`", "`margin`"):
        explain(made, POLICIES, "margni", "e1")
    with refuses("unknown", "`e2`", "`e1`"):
        explain(made, POLICIES, "margin", "e2")


def test_with_a_width_the_rule_is_looked_at_after_each_block(tmp_path):
    """Two at a time: the second trace makes a lead of .5, but only after the second block does anybody look."""
    pool = {"e1": [("A", 0.4), ("B", 0.9), ("A", 0.1), ("A", 0.2)]}
    made = log(tmp_path, {"n4": pool}, {"e1": "A"})
    rule = {"max_traces": 4, "verifier": "v", "stop": Margin(0.4, min_valid=1, single_label=1)}
    one, three = Sample(name="one", **rule), Sample(name="three", **rule, width=3)
    told = explain(made, [one, three], "one", "e1").steps
    assert told["holds"].to_list() == [True]  # a single label is enough
    told = explain(made, [one, three], "three", "e1").steps
    assert told["holds"].to_list() == [False, False, True]
    assert told["lead"].to_list()[1:] == pytest.approx([0.5, 0.5])
    assert told["compares"].to_list() == [None, None, "lead"]
    assert told["statistic"].to_list() == [None, None, pytest.approx(0.5)]
    assert told["threshold"].to_list() == [None, None, pytest.approx(0.4)]
    assert [name in str(explain(made, [three], "three", "e1")) for name in ("votes", "threshold", "answer_now")] == [
        True
    ] * 3
    printed = str(explain(made, [three], "three", "e1"))
    assert "hidden" not in printed
    assert all(name in printed for name in explain(made, [three], "three", "e1").steps.columns)
    spent = replay.run(made, [one, three]).outcomes.collect()
    assert dict(spent.select("policy", "traces").iter_rows()) == {"one": 1.0, "three": 3.0}


def test_a_gate_tells_what_it_read_and_which_branch_was_taken(tmp_path):
    made = log(tmp_path, {"n4": POOL, "n1": {"e1": [("B", 0.2)]}}, {"e1": "A"})
    base = Sample(name="n1", pool="n1", max_traces=1, select="first")
    vote = Sample(name="n4", pool="n4", max_traces=4, select="majority")
    gate = replay.AnyOf([replay.Threshold(verifier="v", below=0.3), replay.Threshold(signal="invalid", at_least=1)])
    when = replay.When(name="w", base=base, gate=gate, then=vote)
    told = explain(made, [when], "w", "e1")
    assert [stage.title for stage in told.stages] == ["`n1`", "the gate", "`n4`", "what `w` paid"]
    paid = told.stages[3].rows
    assert paid.select("part", "traces", "verifications", "total_tokens", "latency_s").rows() == [
        ("the base", 1.0, 0.0, 15.0, 1.0),
        ("the gate", 0.0, 1.0, 4.0, 0.25),
        (told.stages[3].rows["part"][2], 4.0, 0.0, 60.0, 10.0),
        ("in all", 5.0, 1.0, 79.0, 11.25),
    ]
    assert told.stages[1].rows.select("value", "fires", "threshold", "holds").rows() == [
        (0.2, "below", 0.3, True), (0.0, "at least", 1.0, False),
    ]  # fmt: skip
    quotes(told.stages[1].ending, "fires", "`then`")
    quotes(told.ending, "cap: ", "`then`", "4 traces", "; answer A (right); 5 traces, 1 verification, 79 tokens")
    never = replay.When(name="w", base=base, gate=replay.Threshold(verifier="v", below=0.1), then=vote)
    told = explain(made, [never], "w", "e1")
    assert [stage.title for stage in told.stages] == ["`n1`", "the gate", "what `w` paid"]
    quotes(told.ending, "cap: ", "not fire", "; answer B (wrong); 1 trace, 1 verification, 19 tokens")


def test_a_matched_oracle_tells_both_outcomes(tmp_path):
    made = log(tmp_path, {"n4": POOL, "n1": {"e1": [("B", 0.2)]}}, {"e1": "A"})
    vote = Sample(name="n4", pool="n4", max_traces=4, select="majority")
    told = explain(made, Oracle(name="m", rule="matched_rate", base="n1", then=vote, rate=0.5), "m", "e1")
    assert told.stages[-1].title == "both policies"
    assert told.stages[-1].rows.select("part", "correct", "total_tokens").rows() == [
        ("base", 0.0, 15.0), ("then", 1.0, 60.0),
    ]  # fmt: skip
    assert told.stages[-1].ending == "rate 0.5; gain of `then` over `base`: +1, action tokens: 60"
    acts, does_not = told.ending.split("where it does not")
    quotes(acts, ": answer A (right); 4 traces, 0 verifications, 60 tokens")
    quotes(does_not, ": answer B (wrong); 1 trace, 0 verifications, 15 tokens")
    assert told.outcomes["answer"].to_list() == ["A", "B"]


def test_what_can_win_over_all_orders(tmp_path):
    """Of three valid traces two are verified: the best wins 2/3, the next 1/3 of the time."""
    policy = Sample(
        name="e", max_traces=4, verifier="v", order="random", expected=True, stop=replay.Budget(verifications=2)
    )
    told = explain(log(tmp_path, {"n4": POOL}, {"e1": "A"}), policy, "e", "e1")
    assert told.stages[0].rows.rows() == [
        (2, "B", 0.9, 0.0, pytest.approx(2 / 3)), (0, "A", 0.4, 1.0, pytest.approx(1 / 3)),
    ]  # fmt: skip
    assert told.stages[1].rows["step"].to_list() == [0, 1, 2]
    assert told.ending == (
        "mean over 2 possible winners: right 33.3%; answers B 66.7%, A 33.3%; 4 traces, 2 verifications, 68 tokens"
    )


def test_what_is_generated_before_the_first_verification_is_step_0(tmp_path):
    policy = Sample(name="s", max_traces=4, verifier="v", order="score", stop=replay.Budget(verifications=1))
    steps = explain(log(tmp_path, {"n4": POOL}, {"e1": "A"}), policy, "s", "e1").steps
    assert steps.select("step", "sample", "holds", "answer_now", "traces", "total_tokens").rows() == [
        (0, None, False, None, 4.0, 60.0), (1, 2, True, "B", 4.0, 64.0),
    ]  # fmt: skip
    assert steps.select("compares", "statistic", "threshold").row(1) == ("verifications", 1.0, 1.0)


def test_a_window_compares_runs_at_the_ends_of_blocks(tmp_path):
    policy = Sample(name="w", max_traces=4, stop=replay.Window(size=2), select="majority")
    pool = {"e1": [("A", 0.4), ("B", 0.9), ("B", 0.1), ("B", 0.2)]}
    steps = explain(log(tmp_path, {"n4": pool}, {"e1": "A"}), policy, "w", "e1").steps
    assert steps.select("compares", "statistic", "threshold", "holds").rows() == [
        (None, None, None, False), ("run", 1.0, 2.0, False), (None, None, None, False), ("run", 3.0, 2.0, True),
    ]  # fmt: skip


def test_texts_are_those_of_the_traces_looked_at(tmp_path):
    made = tables({"n4": POOL}, {"e1": "A"})
    made["traces"] = made["traces"].with_columns(text=pl.Series(["one", "two\x1b[31m", None, "four"]))
    write_log(tmp_path / "log", name="texts", tables=made)
    assert explain(tmp_path / "log", POLICIES, "margin", "e1").texts is None
    told = explain(tmp_path / "log", POLICIES, "margin", "e1", texts=True).texts
    assert told.rows() == [
        ("n4", 0, "e1/n4/0", "one"), ("n4", 1, "e1/n4/1", "two\x1b[31m"), ("n4", 2, "e1/n4/2", None),
    ]  # fmt: skip


def test_completion_tokens_are_told_where_they_alone_are_logged(tmp_path):
    made = tables({"n4": POOL}, {"e1": "A"})
    made["traces"] = made["traces"].drop("prompt_tokens")
    write_log(tmp_path / "log", name="written", tables=made)
    told = explain(tmp_path / "log", POLICIES, "margin", "e1")
    quotes(told.ending, "3 traces, 2 verifications, 15 completion tokens", "not logged")


def test_the_name_of_a_sweep_is_told_its_settings(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    text = "[[policy]]\nname = 'v'\nkind = 'sample'\nmax_traces = [1, 2]\nselect = 'majority'"
    with refuses("ambiguous", "`v[max_traces=1]`", "`v[max_traces=2]`"):
        explain(made, text, "v", "e1")
