"""The policy `buzz`: against a plain loop of its own, by hand, and cut short."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.engine.outcome import ENDINGS
from replay.kinds.buzz import BestBuzz, Buzz
from replay.policies.base import Evaluator, needs_of
from replay.runs.passes.passes import outcome_values
from tests.buzzing.makers import Row, checks_tables, one_check, random_checks, random_policies
from tests.errors import refuses
from tests.reference import buzzing
from tests.reference.buzzing import buzz
from toolkit.log import collect, open_log

COLUMNS = (
    "correct", "found", "false_alarm", "error_extracted", "position", "deviation", "rounds", "claims_judged",
    "claims_right", "latency_s", "serial_calls",
)  # fmt: skip


def replayed(
    texts: Sequence[Row], rows: Sequence[Row], sees: str | None, *policies: Row
) -> list[dict[str, Row | None]]:
    """The outcomes of policies by example; None where it is partial."""
    log = open_log(checks_tables(texts, rows))
    contents = read_contents(log)
    made = [
        (BestBuzz if policy.get("best") else Buzz)(name=f"p{n}", **{k: v for k, v in policy.items() if k != "best"})
        .resolve(contents)
        .filled(sees_verdicts=sees != "claims")
        for n, policy in enumerate(policies)
    ]
    names = ["example_id", "labels", "gold_error", "gold_position", "length"]
    examples = collect(log.scan("examples", names), log).sort("example_id")
    block = read_block(log, examples, BlockRequest(needs_of(made, contents)))
    every = []
    for outcome in Evaluator(block, made).outcomes():
        values = outcome_values(outcome) | {"ending": [ENDINGS[one] for one in outcome.ending]}
        found = [{name: null_for_nan(values[name][e]) for name in (*COLUMNS, "ending")} for e in range(len(examples))]
        pairs = zip(examples["example_id"], found, outcome.reason, strict=True)
        every.append({name: None if reason else row for name, row, reason in pairs})
    return every


def null_for_nan(value: Any) -> Any:
    return value if isinstance(value, str) else None if isnan(value) else float(value)


@settings(max_examples=300, deadline=None)
@given(random_checks(), st.lists(random_policies(), min_size=1, max_size=8), st.sampled_from([None, "claims"]))
def test_it_agrees_with_a_plain_loop(table: tuple[list[Row], list[Row]], policies: list[Row], sees: str | None) -> None:
    texts, rows = table
    if not rows:
        return
    for policy, found in zip(policies, replayed(texts, rows, sees, *policies), strict=True):
        for text in texts:
            mine = [row for row in rows if row["example_id"] == text["example_id"]]
            wanted = buzz(mine, text, policy, sees)
            outcome = found[text["example_id"]]
            assert (outcome is None) == wanted["partial"], (policy, text)
            if outcome is not None:
                assert outcome["rounds"] == wanted["rounds"], (policy, mine)
                for name in COLUMNS:
                    value = wanted[name]
                    assert outcome[name] == (value if value is None else pytest.approx(value)), (name, policy, mine)
                assert outcome["ending"] == wanted["ending"]


TEXT = {"example_id": "e", "length": 20, "gold_error": True, "gold_position": 6}


def test_by_hand() -> None:
    """Claim 0 (words 5, 8) is supported, claim 1 is refuted weakly at word 9, claim 2 for sure at word 10, of 20.

    From .5 on claim 2 is the buzz: (10 − 6) / 20 = .2 after the word that first shows the error. Claims 1 and 2 begin
    at one word, 9 and 9, side by side: 1.5 s of the one beside 3 s of the other; with the 3 s of claim 0 before, 6 s.
    """
    rows = [
        one_check("e", 0, 0, 5, "not_enough"), one_check("e", 0, 1, 8, "supported"),
        one_check("e", 1, 0, 9, "refuted", confidence=0.4, matches_error=False),
        one_check("e", 2, 0, 9, "not_enough", matches_error=True),
        one_check("e", 2, 1, 10, "refuted", confidence=0.9, matches_error=True),
        one_check("e", 3, 0, 15, "refuted", matches_error=False),
    ]  # fmt: skip
    sure, every, patient, slow, one = (
        found["e"]
        for found in replayed(
            [TEXT], rows, "claims", {"confidence": 0.5}, {}, {"patience": 2},
            {"confidence": 0.5, "words_per_second": 2}, {"max_claims": 1},
        )
    )  # fmt: skip
    assert sure is not None
    assert (sure["position"], sure["found"], sure["correct"], sure["ending"]) == (10, 1, 1, "rule")
    assert sure["deviation"] == pytest.approx((10 - 6) / 20)
    assert (sure["rounds"], sure["latency_s"], sure["serial_calls"]) == (5, 6.0, 8.0)
    assert every is not None
    assert (every["position"], every["found"], every["correct"]) == (9, 0, 1)  # right for the wrong reason
    assert patient is not None
    assert patient["position"] == 10
    assert slow is not None
    assert slow["position"] == 10 + 2 * 3  # claim 2 took two rounds of 1.5 s
    assert one is not None
    assert (one["position"], one["correct"], one["ending"], one["rounds"]) == (None, 0, "cap", 2)


def test_the_best_buzz_in_hindsight() -> None:
    """Of the rounds of the claim that names the error, at words 5, 8 and 12, 5 is nearest to 6."""
    rows = [
        one_check("e", 0, 0, 6, "not_enough", matches_error=False),
        one_check("e", 1, 0, 5, "not_enough", matches_error=True),
        one_check("e", 1, 1, 8, "not_enough", matches_error=True),
        one_check("e", 1, 2, 12, "refuted", matches_error=True),
    ]
    ((best,),) = ([found["e"]] for found in replayed([TEXT], rows, None, {"best": True}))
    assert best is not None
    assert (best["position"], best["found"], best["rounds"]) == (5, 1, 4)
    right = {**TEXT, "gold_error": False, "gold_position": None}
    unmatched = [{**row, "matches_error": False} for row in rows]
    ((silent,),) = ([found["e"]] for found in replayed([right], unmatched, None, {"best": True}))
    assert silent is not None
    assert (silent["position"], silent["correct"], silent["false_alarm"]) == (None, 1, 0)


@settings(max_examples=100, deadline=None)
@given(random_checks(), st.lists(random_policies(), min_size=1, max_size=6))
def test_no_policy_buzzes_better_than_the_best_in_hindsight(
    table: tuple[list[Row], list[Row]], policies: list[Row]
) -> None:
    texts, rows = table
    if not rows:
        return
    plain = [{key: value for key, value in policy.items() if key != "words_per_second"} for policy in policies]
    best, *others = replayed(texts, rows, "claims", {"best": True}, *plain)
    for found in others:
        for name, outcome in found.items():
            top = best[name]
            if outcome is not None and top is not None and outcome["found"] is not None:
                assert top["found"] >= outcome["found"]
                if outcome["deviation"] is not None:
                    assert abs(top["deviation"]) <= abs(outcome["deviation"]) + 1e-12


@settings(max_examples=100, deadline=None)
@given(random_checks(), random_policies())
def test_nothing_after_the_buzz_is_used(table: tuple[list[Row], list[Row]], policy: Row) -> None:
    """Without the claims that begin after the buzz, and the rounds behind it, the outcome is the same."""
    texts, rows = table
    policy = {**policy, "to_end": False, "on_missing": "use_available"}
    if not rows:
        return
    (before,) = replayed(texts, rows, None, policy)
    kept = []
    for row in rows:
        outcome = before[row["example_id"]]
        at = (
            None if outcome is None or outcome["ending"] != "rule" else buzz_row(rows, row["example_id"], policy, texts)
        )
        if at is None or order(row) <= order(at):
            kept.append(row)
    (after,) = replayed(texts, kept, None, policy)
    for name, outcome in before.items():
        if outcome is not None and outcome["ending"] == "rule":
            looked = ("error_extracted",)  # whether anybody looked is asked of all rows
            assert {k: v for k, v in (after[name] or {}).items() if k not in looked} == {
                k: v for k, v in outcome.items() if k not in looked
            }


def order(row: Row) -> tuple[Any, ...]:
    return row["stage"] != "stream", row["position"], row["claim"], row["round"]


def buzz_row(rows: Sequence[Row], example: str, policy: Row, texts: Sequence[Row]) -> Row:
    """The row at which the plain loop acts."""
    mine = [row for row in rows if row["example_id"] == example]
    text = next(text for text in texts if text["example_id"] == example)
    ordered = buzzing.in_time(mine)
    for number in range(1, len(ordered) + 1):
        some = ordered[:number]
        if buzz(some, text, policy, None).get("act"):
            return some[-1]
    raise AssertionError(example)


@settings(max_examples=60, deadline=None)
@given(random_checks())
def test_a_higher_confidence_never_pays_less(table: tuple[list[Row], list[Row]]) -> None:
    texts, rows = table
    if not rows:
        return
    found = replayed(texts, rows, "claims", *({"confidence": level} for level in (0.0, 0.3, 0.6, 1.0)))
    for lower, higher in pairwise(found):
        for name, outcome in lower.items():
            more = higher[name]
            assert outcome is None or more is None or outcome["rounds"] <= more["rounds"]


def test_what_is_refused() -> None:
    for key, value in (
        ("max_claims", {"per_unit": 1, "per_entity": 2}), ("max_claims", -1), ("revisions", {"discount": 1}),
        ("confidence", 1.5), ("patience", 0), ("words_per_second", 0), ("max_rounds", 0),
    ):  # fmt: skip
        with refuses("invalid", key):
            Buzz(name="p", **{key: value})
    log = open_log(checks_tables([TEXT], [one_check("e", 0, 0, 1, "refuted")]))
    with refuses("unsuitable", "unit"):
        Buzz(name="p", max_claims={"per_unit": 1}).resolve(read_contents(log))
    with refuses("conflict", "patience"):
        BestBuzz(name="p", patience=2)
