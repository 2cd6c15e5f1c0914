"""The policy `retrieve`: against a plain loop of its own, by hand, and cut short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import Sample, explain, load_policies, run
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.engine.outcome import ENDINGS
from replay.kinds.retrieve import Retrieve
from replay.policies.base import Evaluator, needs_of_policies
from replay.runs.passes.passes import outcome_values
from tests.errors import refuses
from tests.logs import tables
from tests.reference.retrieval import DEFAULTS, retrieve, walk_hop
from tests.retrieval.makers import (
    FOUR_ROUNDS,
    Row,
    one_round,
    random_policies,
    random_rounds,
    rounds_log,
    rounds_tables,
)
from tests.seeds import seeds
from toolkit.log import collect, open_log
from toolkit.notes import Severity

Golds = Mapping[str, list[str] | None]


def replayed(rounds: Sequence[Row], golds: Golds, *policies: Row) -> list[dict[str, Row | None]]:
    """The outcomes of policies by example; None where it is partial."""
    log = open_log(rounds_tables(rounds, golds))
    contents = read_contents(log)
    made = [Retrieve(name=f"p{number}", **policy).resolve(contents) for number, policy in enumerate(policies)]
    examples = collect(log.scan("examples", ["example_id", "labels", "gold_documents"]), log).sort("example_id")
    block = read_block(log, examples, BlockRequest(needs_of_policies(made, contents)))
    every = []
    for policy, outcome in zip(made, Evaluator(block, made).outcomes(), strict=True):
        values = outcome_values(outcome) | {"ending": [ENDINGS[one] for one in outcome.ending]}
        names = {*(column.name for column in policy.columns if not column.computed), *COSTS}
        rows = [{name: null_for_nan(values[name][e]) for name in names} for e in range(len(examples))]
        pairs = zip(examples["example_id"], rows, outcome.reason, strict=True)
        every.append({name: None if reason else row for name, row, reason in pairs})
    return every


COSTS = ("ending", "calls", "prompt_tokens", "completion_tokens", "latency_s")


def null_for_nan(value: Any) -> Any:
    return value if isinstance(value, str) else None if isnan(value) else float(value)


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=50, deadline=None)
@given(random_rounds(), st.lists(random_policies(), min_size=1, max_size=8))
def test_it_agrees_with_a_plain_loop(part: int, table: tuple[list[Row], Golds], policies: list[Row]) -> None:
    rows, golds = table
    negative = any(value < 0 for row in rows for value in row["relevance"])
    logged = {name for name in ("retrieval_rank", "answer_scores") if any(row[name] for row in rows)}
    ranked = "retrieval_rank" in logged and any(one is not None for row in rows for one in row["retrieval_rank"] or ())
    replayable = [
        policy
        for policy in policies
        if rows
        and (policy.get("weights") is None or "answer_scores" in logged)
        and (policy.get("order") != "retriever" or ranked)
    ]
    for policy, found in zip(replayable, replayed(rows, golds, *replayable) if replayable else (), strict=True):
        for name, gold in golds.items():
            mine = [row for row in rows if row["example_id"] == name]
            expected = retrieve(mine, gold, policy, negative)
            if expected is None:
                assert found[name] is None, (name, policy)
            else:
                assert found[name] == pytest.approx(expected), (name, policy)


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=25, deadline=None)
@given(random_rounds(), random_policies())
def test_no_round_after_the_stop_is_used(part: int, table: tuple[list[Row], Golds], policy: Row) -> None:
    """Cutting off what each hop does not read changes nothing, but for what would have been spared."""
    rows, golds = table
    policy = {**policy, "relevance": "raw", "weights": None, "order": "relevance"}
    read = []
    for hop in {(row["example_id"], row["hop"]) for row in rows}:
        mine = sorted((row for row in rows if (row["example_id"], row["hop"]) == hop), key=lambda row: row["round"])
        walk = walk_hop(mine, DEFAULTS | policy)
        assert walk is not None
        read += mine[: len(walk[0])]
    if not rows:
        return
    (whole,), (cut,) = replayed(rows, golds, policy), replayed(read, golds, policy)
    spared = ("calls_saved", "tokens_saved")
    for name, one in whole.items():
        mine = cut[name]
        assert (one is None) == (mine is None)
        if one is not None and mine is not None:
            assert {key: value for key, value in mine.items() if key not in spared} == {
                key: value for key, value in one.items() if key not in spared
            }


@pytest.mark.parametrize(
    ("keys", "frontier", "rewarded"),
    [
        ({}, ["0: 3, 1: 1", "0: 4, 2: 3", "2: 7, 0: 4", "2: 7, 0: 4"], []),
        ({"reward": "aligned"}, ["0: 3, 1: 1", "0: 4, 2: 3", "2: 7, 0: 4", "2: 7, 0: 4"], [0, 2]),
        ({"reward": "aligned", "support": "last"}, ["0: 3, 1: 1", "2: 3, 0: 1", "2: 4, 0: 1", "2: 4, 0: 1"], [0, 1, 2]),
        ({"frontier_of": "round"}, ["0: 3, 1: 1", "2: 3, 0: 1", "2: 4", "2: 4"], [2]),
        ({"reward": {"entropy": 0.5}}, ["0: 3, 1: 1", "0: 4, 2: 3", "2: 7, 0: 4", "2: 7, 0: 4"], [2]),
        ({"reward": {"entropy": 0.563}}, ["0: 3, 1: 1", "0: 4, 2: 3", "2: 7, 0: 4", "2: 7, 0: 4"], [0, 1, 2]),
        ({"frontier": 1}, ["0: 3", "0: 3", "2: 4", "2: 4"], [0, 1, 2]),
        ({"reward": "first"}, ["0: 3, 1: 1", "0: 4, 2: 3", "2: 7, 0: 4", "2: 7, 0: 4"], [0]),
    ],
)
def test_the_frontier_of_the_manual_by_hand(keys: Row, frontier: list[str], rewarded: list[int]) -> None:
    """Round 1 brings Rome three times and Paris once. Rome takes the place of Lyon, whose support of 1 is the least;
    then Paris has 3 + 1. The entropy of 3 to 1 is 0.5623.
    """
    policy = Retrieve(name="p", rounds=4, **keys)
    stage = explain(rounds_tables(FOUR_ROUNDS, {"q": ["d4", "d5"]}), policy, "p", "q").stages[0]
    assert stage.rows["frontier"].to_list() == frontier
    assert [n for n, one in enumerate(stage.rows["rewarded"]) if one] == rewarded


@pytest.mark.parametrize(
    ("keys", "ranking", "recall"),
    [
        ({"multiplier": 1.0}, "d1 d3 d6 d2 d4 d5", (0.0, 0.0, 0.5)),
        ({"frontier_of": "round"}, "d1 d4 d3 d6 d2 d5", (0.0, 0.5, 0.5)),  # 0.9, 2 × 0.45, 0.8, 0.7, 0.6, 2 × 0.3
        ({"frontier_of": "round", "multiplier": 4.0}, "d4 d5 d1 d3 d6 d2", (0.5, 1.0, 1.0)),
        ({"reward": "aligned"}, "d1 d2 d4 d3 d6 d5", (0.0, 0.0, 0.5)),  # d2 keeps its place of round 0, 2 × 0.5
        ({"penalty": "sunar"}, "d1 d3 d2 d4 d6 d5", (0.0, 0.0, 0.5)),  # at most one pair disagrees: all doubled but d6
        ({"stable": 2}, "d1 d3 d2", (0.0, 0.0, 0.0)),
    ],
)
def test_the_ranking_of_the_manual_by_hand(keys: Row, ranking: str, recall: tuple[float, ...]) -> None:
    policy = Retrieve(name="p", rounds=4, at=(1, 2, 5, 9), **keys)
    told = explain(rounds_tables(FOUR_ROUNDS, {"q": ["d4", "d5"]}), policy, "p", "q")
    assert told.stages[-1].rows["document"].to_list() == ranking.split()
    row = told.outcomes.row(0, named=True)
    assert tuple(row[f"recall_{k}"] for k in (1, 2, 5)) == recall
    assert tuple(row[f"hit_{k}"] for k in (1, 2, 5)) == tuple(float(one > 0) for one in recall)
    assert (row["rounds"], row["calls"], row["total_tokens"]) == ((2, 4, 30) if "stable" in keys else (4, 8, 60))
    assert row["ending"] == ("rule" if "stable" in keys else "cap")


def test_hops_are_merged_by_place() -> None:
    """Hop 0 ranks a, b, c, hop 1 d, a, e: merged a, d, b, e after a's repeat is dropped, c and so on."""
    rows = [
        one_round("q", 0, {"a": 0.9, "b": 0.8, "c": 0.7}, [0]),
        one_round("q", 0, {"d": 0.6, "a": 0.5, "e": 0.4}, [0], hop=1),
    ]
    told = explain(rounds_tables(rows, {"q": ["e"]}), Retrieve(name="p", rounds=1, at=(4, 5)), "p", "q")
    assert told.stages[-1].rows["document"].to_list() == ["a", "d", "b", "c", "e"]
    row = told.outcomes.row(0, named=True)
    assert (row["hit_4"], row["hit_5"]) == (0.0, 1.0)


def test_moved_up_and_places() -> None:
    policy = Retrieve(name="p", rounds=4, frontier_of="round")
    told = explain(rounds_tables(FOUR_ROUNDS, {"q": ["d4", "d5"]}), policy, "p", "q")
    assert told.stages[0].rows["moved up"].to_list() == ["", "", "d4 5→2", ""]


@pytest.mark.parametrize(
    ("ending", "number", "keys"),
    [
        ("rule", [2, 2], {"rounds": 3, "stable": 2}),
        ("cap", [2, 3], {"rounds": 2, "stable": 3}),
        ("exhausted", [2, 3], {"rounds": 3}),
        ("exhausted", [1, 9], {"rounds": 9, "stable": 2}),
    ],
)
def test_endings_over_hops(ending: str, number: list[int], keys: Row) -> None:
    rows = [
        one_round("q", n, {f"d{hop}{n}": 0.5}, [0], hop=hop) for hop, count in enumerate(number) for n in range(count)
    ]
    (found,) = replayed(rows, {"q": ["d00"]}, keys)
    assert found["q"] is not None
    assert found["q"]["ending"] == ending


@pytest.mark.parametrize(
    ("keys", "code", "quoted"),
    [
        ({"pool": "s"}, "unknown", ("`rounds`", "`s`", "r")),
        ({"order": "retriever"}, "unsuitable", ("`r`", "`retrieval_rank`", "`order`")),
        ({"weights": "answer_scores"}, "unsuitable", ("`r`", "`answer_scores`", "`weights`")),
        ({"penalty": "sunar", "multiplier": 2.0}, "conflict", ("`penalty`", "`multiplier`")),
        ({"penalty": "sunar", "reward": "single"}, "conflict", ("`penalty`", "`reward`")),
        ({"at": [2, 2]}, "invalid", ("`at`",)),
        ({"at": []}, "invalid", ("`at`",)),
        ({"reward": "alined"}, "invalid", ("`reward`", "alined")),
        ({"reward": {"entropy": -1}}, "invalid", ("entropy", "-1")),
        ({"multiplier": 0}, "invalid", ("multiplier", "0")),
        ({"rounds": 0}, "invalid", ("rounds", "0")),
    ],
)
def test_refusals(keys: Row, code: str, quoted: tuple[str, ...]) -> None:
    with refuses(code, *quoted):
        replayed(FOUR_ROUNDS, {"q": ["d4"]}, {"rounds": 4} | keys)


@pytest.mark.parametrize("key", ["orders = 3", "expected = true", "rollouts = 0"])
def test_keys_of_other_kinds_are_unknown(key: str) -> None:
    with refuses("unknown", key.split()[0]):
        load_policies(f'[[policy]]\nname = "p"\nkind = "retrieve"\nrounds = 2\n{key}\n')


@pytest.mark.parametrize(
    "kind",
    [
        'kind = "when"\nbase = PART\ngate = { signal = "invalid", at_least = 1 }\nthen = PART',
        'kind = "route"\nroute = { column = "c", below = 1 }\nthen = PART\nelse = PART',
        'kind = "oracle"\nrule = "matched_rate"\nrate = 0.5\nbase = PART\nthen = PART',
    ],
)
def test_it_is_no_part_of_another_policy(kind: str) -> None:
    part = '{ kind = "retrieve", rounds = 2 }'
    with refuses("unsuitable", "`retrieve`"):
        load_policies(f'[[policy]]\nname = "p"\n{kind.replace("PART", part)}\n')


def test_every_key_is_swept() -> None:
    values = {
        "pool": '["r", "s"]', "frontier": "[1, 2]",
        "multiplier": "[1, 2.5]", "rounds": "[1, 2]", "frontier_of": '["hop", "round"]',
        "support": '["sum", "last"]', "reward": '["single", { entropy = 0.5 }]', "stable": "[2, 3]",
        "relevance": '["raw", "logistic"]', "order": '["relevance", "retriever"]', "at": "[[1], [1, 5]]",
    }  # fmt: skip
    for key, value in values.items():
        rest = "" if key == "rounds" else "rounds = 2\n"
        file = load_policies(f'[[policy]]\nname = "p"\nkind = "retrieve"\n{rest}{key} = {value}\n')
        assert len({getattr(policy, key) for policy in file.policies}) == 2, key
    file = load_policies('[[policy]]\nname = "p"\nkind = "retrieve"\nrounds = 2\nreward = { entropy = [0, 1] }\n')
    assert [policy.swept for policy in file.policies] == [(("reward.entropy", 0),), (("reward.entropy", 1),)]


EXPLORED = {"frontier_of": "round", "multiplier": 3.0}


@pytest.mark.parametrize(
    ("keys", "other"),
    [
        ({**EXPLORED}, None),
        ({**EXPLORED, "stable": 2, "at": [3], "rounds": 2}, None),
        ({"frontier_of": "round"}, "multiplier"),
        ({**EXPLORED, "frontier": 3}, "frontier"),
        ({**EXPLORED, "order": "retriever"}, "order"),
        ({"penalty": "sunar"}, "frontier_of"),
        ({**EXPLORED, "support": "last"}, "support"),
        ({**EXPLORED, "reward": "aligned"}, "reward"),
        ({**EXPLORED, "reward": {"entropy": 0.5}}, "reward"),
        ({**EXPLORED, "weights": "answer_scores"}, "weights"),
        ({**EXPLORED, "relevance": "logistic"}, "relevance"),
    ],
)
def test_a_pool_that_explored_by_rewards_takes_its_own_ranking(tmp_path: Path, keys: Row, other: str | None) -> None:
    more: Row = {"retrieval_rank": "documents", "answer_scores": "answers"}
    rows = [row | {name: [0] * len(row[lists]) for name, lists in more.items()} for row in FOUR_ROUNDS]
    log = rounds_log(tmp_path, rows, {"q": ["d4"]}, pools={"r": {"explore": EXPLORED}})
    policy = Retrieve(name="p", **{"rounds": 4, **keys})
    if other is None:
        result = run(log, [policy], resamples=2)
        assert "explore_unknown" not in {note.code for note in result.notes}
    else:
        with refuses("unsuitable", "`p`", "`r`", f"`{other}`"):
            run(log, [policy], resamples=2)


def test_auto_looks_at_all_rows_of_the_pool_whatever_is_replayed(tmp_path: Path) -> None:
    """A relevance below 0 on another example makes it logistic: 2 / (1 + e^−0.45) = 1.22 is above 1 / (1 + e^−0.9) =
    0.71, where 2 × 0.45 is not above 0.9. One in another pool does not.
    """
    negative = one_round("z", 0, {"e": -1.0}, [0])
    policies = [Retrieve(name=f"{how} {pool}", pool=pool, rounds=4, frontier_of="round", relevance=how, at=(1,))
                for how in ("auto", "raw", "logistic") for pool in ("r", "s")]  # fmt: skip
    rows = [*FOUR_ROUNDS, negative, *({**row, "pool": "s"} for row in FOUR_ROUNDS)]
    log = rounds_log(tmp_path, rows, {"q": ["d4", "d5"], "z": ["e"]})
    result = run(log, policies, where="example_id = 'q'", resamples=2)
    recall = dict(result.outcomes.select("policy", "recall_1").collect().rows())
    assert recall == {"auto r": 0.5, "auto s": 0, "raw r": 0, "raw s": 0, "logistic r": 0.5, "logistic s": 0.5}
    notes = {note.code: note.policies for note in result.notes}
    assert notes["negative_relevance"] == ("raw r",)
    plain = Retrieve(name="plain", pool="r", rounds=4, multiplier=1.0, relevance="raw", at=(1,))
    assert "negative_relevance" not in {note.code for note in run(log, [plain], resamples=2).notes}


def test_notes(tmp_path: Path) -> None:
    rows = [*FOUR_ROUNDS, one_round("q", 0, {"e": -1.0}, [0], hop=1)]
    log = rounds_log(tmp_path, rows, {"q": ["d4"]}, pools={"r": {"explore": "relevance"}})
    keys: list[Row] = [{"frontier": 1}, {"frontier_of": "round", "reward": "aligned"}, {"relevance": "raw"}, {}]
    policies = [Retrieve(name=f"p{n}", rounds=4, **one) for n, one in enumerate(keys)]
    notes = {note.code: (note.severity, note.policies) for note in run(log, policies, resamples=2).notes}
    assert notes["plain_ranking"] == (Severity.NOTE, ("p0", "p1"))
    assert notes["negative_relevance"] == (Severity.WARNING, ("p2",))
    assert {"later_hops"} <= notes.keys()
    assert "explore_unknown" not in notes
    tables = rounds_tables(FOUR_ROUNDS, {"q": ["d4"]})
    codes = {note.code for note in run(tables, policies[3:], resamples=2).notes}
    assert "explore_unknown" in codes
    assert not {"later_hops", "plain_ranking", "negative_relevance"} & codes


def test_a_log_without_gold_documents_ranks_nothing() -> None:
    with refuses("unknown", "`hit_10`"):
        run(rounds_tables(FOUR_ROUNDS, {"q": None}), [Retrieve(name="p", rounds=2)], resamples=2)


def test_beside_policies_with_answers_it_has_columns_of_its_own() -> None:
    """The vote has no recall and the ranking no accuracy; each keeps its costs."""
    made = tables({"n1": {"q": [("A", None)]}}, {"q": "A"})
    rounds = rounds_tables(FOUR_ROUNDS, {"q": ["d4"]})
    made["examples"] = made["examples"].with_columns(gold_documents=rounds["examples"]["gold_documents"])
    first = Sample(name="first", max_traces=1, select="first")
    result = run(made | {"rounds": rounds["rounds"]}, [first, Retrieve(name="p", rounds=4)], resamples=2)
    rows = result.outcomes.collect().rows_by_key("policy", named=True, unique=True)
    assert [rows[name]["correct"] for name in ("first", "p")] == [1.0, None]
    assert [rows[name]["recall_10"] for name in ("first", "p")] == [None, 1.0]
    assert [(rows[name]["traces"], rows[name]["calls"]) for name in ("first", "p")] == [(1.0, 1.0), (0.0, 8.0)]


def test_explained_weights_are_sums_of_scores() -> None:
    rows = [{**row, "answer_scores": [0.25] * len(row["clusters"])} for row in FOUR_ROUNDS]
    policy = Retrieve(name="p", rounds=1, weights="answer_scores")
    told = explain(rounds_tables(rows, {"q": ["d4"]}), policy, "p", "q")
    assert told.stages[0].rows.select("answers", "frontier").row(0) == (
        "a0 (0): 0.75, a1 (1): 0.25",
        "0: 0.75, 1: 0.25",
    )


@pytest.mark.parametrize(
    ("answers", "frontier"),
    [
        ([[0, 1], [2, 2]], "2: 2, 0: 1"),  # of two with least support the higher number leaves
        ([[0, 1], [2]], "0: 1, 1: 1"),  # 1 is not strictly greater than 1
        ([[3, 2, 1]], "1: 1, 2: 1"),  # of equal counts the lower numbers come first
        ([[0, 0, 1], [1, 2, 2]], "0: 2, 2: 2"),  # 2 comes first and replaces 1, which then finds no room
    ],
)
def test_ties_of_the_frontier(answers: list[list[int]], frontier: str) -> None:
    rows = [one_round("q", number, {f"d{number}": 0.5}, clusters) for number, clusters in enumerate(answers)]
    told = explain(rounds_tables(rows, {"q": ["d0"]}), Retrieve(name="p", rounds=2), "p", "q")
    assert told.stages[0].rows["frontier"].to_list()[-1] == frontier
