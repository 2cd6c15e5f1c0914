import pytest

import replay
from replay import Margin, Oracle, Sample
from replay.runs.explain import explain
from tests.replay.small import log
from toolkit.errors import ThinkbackError

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
    assert told.ending == ("rule: the stopping rule held; answer B (wrong); 3 traces, 2 verifications, 53 tokens")
    assert told.header[2] == "gold      A"


def test_it_agrees_with_the_run(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    row = replay.run(made, POLICIES[:1]).outcomes.collect().to_dicts()[0]
    assert explain(made, POLICIES, "margin", "e1").steps["total_tokens"][-1] == row["total_tokens"]


def test_one_of_several_orders_is_shown(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    told = explain(made, POLICIES, "random", "e1", repetition=2)
    assert told.stages[0].title == "`random`, order 2 of 3"
    assert told.ending.startswith("mean over 3 rows")
    with pytest.raises(ThinkbackError, match="`repetition` is 3; the policy has 3"):
        explain(made, POLICIES, "random", "e1", repetition=3)


def test_an_oracle_shows_what_it_sees(tmp_path):
    told = explain(log(tmp_path, {"n4": POOL}, {"e1": "A"}), POLICIES, "any", "e1")
    assert told.steps["correct"].to_list() == [1.0, 0.0, 0.0, 1.0]
    assert "diagnostic: sees gold" in told.header[3]


def test_names_are_checked(tmp_path):
    made = log(tmp_path, {"n4": POOL}, {"e1": "A"})
    with pytest.raises(ThinkbackError, match="no policy is named `margni`; did you mean `margin`"):
        explain(made, POLICIES, "margni", "e1")
    with pytest.raises(ThinkbackError, match="no example `e2`; did you mean `e1`"):
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
    assert told["statistic"].to_list() == pytest.approx([None, 0.5, 0.5])
    assert told["threshold"].to_list() == pytest.approx([0.4] * 3)
    spent = replay.run(made, [one, three]).outcomes.collect()
    assert dict(spent.select("policy", "traces").iter_rows()) == {"one": 1.0, "three": 3.0}


def test_a_gate_tells_what_it_read_and_which_branch_was_taken(tmp_path):
    made = log(tmp_path, {"n4": POOL, "n1": {"e1": [("B", 0.2)]}}, {"e1": "A"})
    base = Sample(name="n1", pool="n1", max_traces=1, select="first")
    vote = Sample(name="n4", pool="n4", max_traces=4, select="majority")
    gate = replay.AnyOf([replay.Threshold(verifier="v", below=0.3), replay.Threshold(signal="invalid", at_least=1)])
    when = replay.When(name="w", base=base, gate=gate, then=vote)
    told = explain(made, [when], "w", "e1")
    assert [stage.title for stage in told.stages] == ["`n1`", "the gate", "`n4`"]
    assert told.stages[1].rows.select("value", "fires", "threshold", "holds").rows() == [
        (0.2, "below", 0.3, True), (0.0, "at least", 1.0, False),
    ]  # fmt: skip
    assert told.stages[1].ending == "it fires: the answer is that of `then`"
    assert "answer A (right); 5 traces, 1 verifications" in told.ending
    never = replay.When(name="w", base=base, gate=replay.Threshold(verifier="v", below=0.1), then=vote)
    told = explain(made, [never], "w", "e1")
    assert [stage.title for stage in told.stages] == ["`n1`", "the gate"]
    assert "answer B (wrong); 1 traces, 1 verifications" in told.ending
