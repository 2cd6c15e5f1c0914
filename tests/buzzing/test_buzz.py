"""The policy `buzz`: against a plain loop of its own, by hand, and cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import load_policies, run
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.engine.outcome import ENDINGS
from replay.kinds.buzz import BestBuzz, Buzz
from replay.policies.base import NAMING, Evaluator, needs_of_policies
from replay.runs.passes.passes import outcome_values
from tests.buzzing.makers import Row, checks_tables, one_check, random_checks, random_policies
from tests.errors import refuses
from tests.reference.buzzing import buzz, walk
from tests.seeds import seeds
from toolkit.columns import CLAIM_COUNTS
from toolkit.log import collect, open_log, write_log

COLUMNS = (
    "correct", "found", "false_alarm", "error_extracted", "position", "deviation", "premature", "within_20",
    "within_40", "by_20", "by_40", "rounds", "claims_judged", "claims_right", *CLAIM_COUNTS, "latency_s",
    "serial_calls", "busy_s", "calls", "queries", "prompt_tokens", "completion_tokens",
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
    block = read_block(log, examples, BlockRequest(needs_of_policies(made, contents)))
    every = []
    for outcome in Evaluator(block, made).outcomes():
        values = outcome_values(outcome) | {"ending": [ENDINGS[one] for one in outcome.ending]}
        found = [{name: null_for_nan(values[name][e]) for name in (*COLUMNS, "ending")} for e in range(len(examples))]
        pairs = zip(examples["example_id"], found, outcome.reason, strict=True)
        every.append({name: None if reason else row for name, row, reason in pairs})
    return every


def null_for_nan(value: Any) -> Any:
    return value if isinstance(value, str) else None if isnan(value) else float(value)


@pytest.mark.parametrize("part", seeds(1, 5))
@settings(max_examples=60, deadline=None)
@given(random_checks(), st.lists(random_policies(), min_size=1, max_size=8), st.sampled_from([None, "claims"]))
def test_it_agrees_with_a_plain_loop(
    part: int, table: tuple[list[Row], list[Row]], policies: list[Row], sees: str | None
) -> None:
    agree_with_a_plain_loop(table, policies, sees)


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=20, deadline=None)
@given(random_checks(), random_policies(), st.sampled_from([None, "claims"]))
def test_a_sweep_of_confidence_agrees_with_a_plain_loop(
    part: int, table: tuple[list[Row], list[Row]], policy: Row, sees: str | None
) -> None:
    agree_with_a_plain_loop(table, [policy | {"confidence": one} for one in (0.9, 0.0, 0.3, 1.0, 0.6, 0.75)], sees)


def agree_with_a_plain_loop(table: tuple[list[Row], list[Row]], policies: list[Row], sees: str | None) -> None:
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
    assert slow["position"] == 9 + 2 * 3  # claim 2 of word 9 took two rounds of 1.5 s
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


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=25, deadline=None)
@given(random_checks(), st.lists(random_policies(), min_size=1, max_size=6))
def test_no_policy_buzzes_better_than_the_best_in_hindsight(
    part: int, table: tuple[list[Row], list[Row]], policies: list[Row]
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


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=25, deadline=None)
@given(random_checks(), random_policies())
def test_nothing_after_the_buzz_is_used(part: int, table: tuple[list[Row], list[Row]], policy: Row) -> None:
    """Without the claims that begin after the buzz, and the rounds behind it, the outcome is the same."""
    texts, rows = table
    policy = {**policy, "to_end": False, "on_missing": "use_available"}
    if not rows:
        return
    (before,) = replayed(texts, rows, None, policy)
    kept = []
    for text in texts:
        mine = [row for row in rows if row["example_id"] == text["example_id"]]
        way = walk(mine, text, policy)
        kept += [row for row in mine if way.is_begun(row)]
    (after,) = replayed(texts, kept, None, policy)
    looked = {"error_extracted", "claims_judged", "claims_right", *CLAIM_COUNTS}  # null where no row of the text has it
    for name, outcome in before.items():
        if outcome is not None and outcome["ending"] == "rule":
            cut = after[name]
            assert cut is not None
            assert cut == outcome | {key: None for key in looked if cut[key] is None}


@pytest.mark.parametrize("part", seeds(1, 4))
@settings(max_examples=15, deadline=None)
@given(random_checks(), random_policies(), st.sampled_from([None, "claims"]))
def test_a_higher_confidence_never_pays_less(
    part: int, table: tuple[list[Row], list[Row]], policy: Row, sees: str | None
) -> None:
    """Whatever the other keys, on texts that no threshold finds partial."""
    texts, rows = table
    if not rows:
        return
    others = {**policy, "to_end": False}
    found = replayed(texts, rows, sees, *({**others, "confidence": level} for level in (0.0, 0.3, 0.6, 1.0)))
    for name in found[0]:
        outcomes = [outcome for one in found if (outcome := one[name]) is not None]
        if len(outcomes) == len(found):
            for lower, higher in pairwise(outcomes):
                assert lower["rounds"] <= higher["rounds"]
                if lower["calls"] is not None and higher["calls"] is not None:
                    assert lower["calls"] <= higher["calls"]


def none(claim: int, position: int, **more: Any) -> Row:
    return one_check("e", claim, 0, position, "none", queries=0, **more)


OPEN = [one_check("e", 0, 0, 5, "not_enough")]
WEAK = [one_check("e", 0, 0, 5, "refuted", confidence=0.4)]
LATER = one_check("e", 9, 0, 20, "supported", stage="revision")
TWO = [one_check("e", 0, 0, 5, "supported"), one_check("e", 1, 0, 7, "supported"), none(2, 9)]
SLOW = [one_check("e", 0, 0, 5, "not_enough"), one_check("e", 0, 1, 6, "supported")]
UNITS = [one_check("e", 0, 0, 3, "supported", unit=0, unit_words=6, unit_entities=1),
         one_check("e", 1, 0, 9, "refuted", unit=1, unit_words=3, unit_entities=0)]  # fmt: skip
UNIT_ENDS = [*UNITS, none(2, 4, unit=0, unit_words=6, unit_entities=1)]
BUZZES = one_check("e", 5, 0, 9, "refuted")


@pytest.mark.parametrize(
    ("rows", "policy", "sees", "partial", "ending"),
    [
        (OPEN, {}, None, False, "cap"),  # without a cap the logged end counts
        (OPEN, {"max_rounds": 1}, None, False, "cap"),
        (OPEN, {"max_rounds": 2}, None, True, "exhausted"),  # (1)
        ([*OPEN, BUZZES], {"max_rounds": 2}, None, True, "rule"),  # its rounds ran before the buzz
        ([BUZZES, one_check("e", 6, 0, 12, "not_enough")], {"max_rounds": 2}, None, False, "rule"),
        (WEAK, {"max_rounds": 2, "confidence": 0.5}, None, False, "cap"),  # a weak refutation ends its claim
        (OPEN, {"max_claims": 1}, None, False, "cap"),
        (OPEN, {"max_claims": 2}, None, True, "exhausted"),  # (2)
        ([*OPEN, none(1, 7)], {"max_claims": 2}, None, False, "cap"),
        ([BUZZES], {"max_claims": 2}, None, False, "rule"),
        (UNITS, {"max_claims": {"per_unit": 2}}, None, True, "rule"),  # unit 0 ended before
        (UNITS, {"max_claims": {"words_per": 6}}, None, False, "rule"),  # one claim of 6 words, one of 3
        (UNITS, {"max_claims": {"per_entity": 1}}, None, False, "cap"),  # none of unit 1, which has no entity
        (UNIT_ENDS, {"max_claims": {"per_unit": 2}}, None, False, "rule"),  # unit 1 ends with the buzz
        ([*WEAK, LATER], {"confidence": 0.5}, None, True, "cap"),  # (3)
        ([*WEAK, LATER], {"confidence": 0.5}, "claims", False, "cap"),
        ([*WEAK, LATER], {"confidence": 0.5, "revisions": 0}, None, False, "cap"),
        (WEAK, {"confidence": 0.5}, None, False, "cap"),  # no row of that stage
        (WEAK, {"confidence": 0.5, "revisions": 1}, "claims", True, "exhausted"),  # reached, and (2)
        ([*TWO, LATER], {"max_claims": 1}, None, True, "cap"),  # (3): claim 1 is not followed
        ([*TWO, LATER], {"max_claims": 2}, None, False, "cap"),
        ([*SLOW, LATER], {"max_rounds": 1}, None, True, "cap"),  # (3): left with `not_enough`
        ([*SLOW, LATER], {"max_rounds": 2}, None, False, "cap"),
        ([*TWO, LATER], {"revisions": {"slack": 3}}, None, False, "cap"),  # 3 − 2 claims: that one
        ([*TWO, LATER], {"revisions": {"slack": 4}}, None, True, "exhausted"),
        ([*TWO, LATER], {"revisions": {"words_per": 8, "discount": 0.7}}, None, False, "cap"),  # 3 − 1.4, rounded down
        ([*TWO, LATER], {"revisions": {"words_per": 8, "discount": 0.5}}, None, True, "exhausted"),  # 3 − 1
    ],
)  # fmt: skip
def test_when_a_text_is_partial_by_hand(
    rows: list[Row], policy: Row, sees: str | None, partial: bool, ending: str
) -> None:
    text = {**TEXT, "length": 20}
    strict, available = (
        found["e"] for found in replayed([text], rows, sees, policy, {**policy, "on_missing": "use_available"})
    )
    assert (strict is None) == partial
    assert available is not None
    assert available["ending"] == ending


def test_where_the_text_goes_on_a_quick_claim_overtakes_a_slow_one() -> None:
    """At a word a second. Claim 0 of word 2 is refuted after two rounds of 4 s: at word 10, not at 6 + 4, the word of
    its second round and the seconds of that. Claim 1 of word 5 is refuted after 3 s, at word 8, so it acts on that;
    it has begun claim 2 of word 7 by then, and not claim 3 of word 8. At a tenth of a word a second it acts on claim 0
    at ⌈2.8⌉ words. At ten words a second both come at the end, claim 1 at 35, claim 0 at 82: claim 1 is first.
    """
    rows = [
        one_check("e", 0, 0, 2, "not_enough", matches_error=False, latency_s=4.0),
        one_check("e", 0, 1, 6, "refuted", matches_error=False, latency_s=4.0),
        one_check("e", 1, 0, 5, "refuted", matches_error=True, latency_s=3.0),
        one_check("e", 2, 0, 7, "supported", matches_error=False, latency_s=2.0),
        one_check("e", 3, 0, 8, "supported", matches_error=False, latency_s=2.0),
    ]
    text = {**TEXT, "length": 20}
    speeds = (None, 0.1, 1.0, 10.0)
    outcomes = [one["e"] for one in replayed([text], rows, None, *({"words_per_second": speed} for speed in speeds))]
    got = [(one["position"], one["found"], one["rounds"]) for one in outcomes if one is not None]
    assert got == [(5, 1, 2), (3, 0, 2), (8, 1, 4), (20, 1, 4)]
    lone = [one["e"] for one in replayed([text], rows[:2], None, {"words_per_second": 1.0})]
    assert [one["position"] for one in lone if one is not None] == [10]


def test_where_null_seconds_may_change_the_order_a_text_is_partial() -> None:
    """A claim of word 2 without seconds may be refuted before or after that of word 5, and that of word 9 is after it:
    the latter begins at 9, the other one acts at 5 + 3.
    """
    slow = one_check("e", 0, 0, 2, "refuted", latency_s=None)
    quick, late = one_check("e", 1, 0, 5, "refuted", latency_s=3.0), one_check("e", 2, 0, 9, "refuted", latency_s=None)
    for rows, position in (([slow, quick], None), ([quick, late], 8)):
        ((outcome,),) = ([one["e"]] for one in replayed([TEXT], rows, None, {"words_per_second": 1.0}))
        assert (None if outcome is None else outcome["position"]) == position


@pytest.mark.parametrize(
    ("rows", "length", "policy", "ending"),
    [
        ([*TWO, LATER], None, {"revisions": {"words_per": 4}}, None),
        ([BUZZES], None, {"revisions": {"words_per": 4}}, "rule"),
        ([BUZZES], None, {"words_per_second": 1.0}, None),
        ([{**BUZZES, "latency_s": None}], 20, {"words_per_second": 1.0}, None),
        ([{**OPEN[0], "latency_s": None}, BUZZES], 20, {"words_per_second": 1.0}, "rule"),
    ],
)  # fmt: skip
def test_what_is_null_and_read_is_partial_in_any_case(
    rows: list[Row], length: int | None, policy: Row, ending: str | None
) -> None:
    text = {**TEXT, "length": length}
    for found in replayed([text], rows, None, policy, {**policy, "on_missing": "use_available"}):
        outcome = found["e"]
        assert (None if outcome is None else outcome["ending"]) == ending


def test_revisions_of_no_claim_are_not_reached_in_any_form() -> None:
    """2 claims are followed in the stream, so that a slack of 2 leaves none; 0.6 claims are none, too."""
    rows = [*TWO, one_check("e", 8, 0, 20, "none", queries=0, stage="revision"), LATER]
    forms: list[Any] = [0, {"slack": 2}, {"words_per": 20, "discount": 0.2}, {"slack": 3}]
    none_, slack, words, one = (
        found["e"] for found in replayed([TEXT], rows, None, *({"revisions": form} for form in forms))
    )
    assert none_ is not None
    assert none_ == slack == words
    assert none_["rounds"] == 3  # both claims and the `none` row of the stream
    assert one is not None
    assert one["rounds"] == 5


def test_a_note_counts_texts_whose_stream_ends_short_behind_the_buzz() -> None:
    """Of three texts one has a claim behind its buzz with one round of two and no verdict."""
    texts = [{**TEXT, "example_id": name} for name in "efg"]
    rows = [one_check(name, 0, 0, 5, "refuted") for name in "efg"]
    rows += [one_check("e", 1, 0, 9, "not_enough"), one_check("f", 1, 0, 9, "supported")]
    policies = [Buzz(name=f"{end} {most}", to_end=end, max_rounds=most) for end in (True, False) for most in (2, 1)]
    notes = [
        note for note in run(checks_tables(texts, rows), policies, resamples=2).notes if note.code == "short_after_buzz"
    ]
    assert [note.policies for note in notes] == [("True 2",)]
    assert "1 text" in notes[0].text


def test_the_manifest_says_what_was_seen(tmp_path: Path) -> None:
    """Where extractor and revisor saw verdicts, or nobody says, a refutation that is not believed ends the replay."""
    tables = checks_tables([TEXT], [*WEAK, LATER])
    for sees, partial in ((None, True), ("verdicts", True), ("claims", False)):
        pools = {} if sees is None else {"pools": {"c": {"sees": sees}}}
        log = write_log(tmp_path / str(sees), name="x", tables=tables, **pools)
        policy = Buzz(name="p", confidence=0.5)
        if partial:
            with refuses("empty", "`p`", "pool `c`", "`checks`"):
                run(log, [policy], resamples=2)
        else:
            assert run(log, [policy], resamples=2).outcomes.collect()["ending"].to_list() == ["cap"]


def test_verdicts_on_claims_and_the_median_by_hand() -> None:
    """Of four labelled claims three get their label. `supported`: 2 of 2 given, 2 gold: F1 1. `refuted`: 1 given
    rightly, 1 given, 2 gold: 2/3. `not_enough` has no gold, so it is left out: (1 + 2/3) / 2.

    The buzzes come 1, 2 and 9 words of 20 after the word that shows the error: the median is 2/20.
    """
    texts = [{**TEXT, "example_id": name} for name in "efg"]
    rows = [one_check(name, 9, 0, 6 + late, "refuted") for name, late in (("e", 1), ("f", 2), ("g", 9))]
    rows += [
        one_check("e", 0, 0, 1, "supported", gold_verdict="supported"),
        one_check("f", 0, 0, 1, "not_enough", gold_verdict="supported"),
        one_check("f", 0, 1, 2, "supported", gold_verdict="supported"),
        one_check("f", 1, 0, 3, "not_enough", gold_verdict="refuted"),
        {**rows[1], "gold_verdict": "refuted"},
    ]
    del rows[1]
    result = run(checks_tables(texts, rows), [Buzz(name="p")], resamples=20)
    values = {metric: (one, n) for metric, one, n in result.summary.select("metric", "estimate", "n").rows()}
    assert values["claim_accuracy"] == (pytest.approx(3 / 4), 2)
    assert values["claim_macro_f1"] == (pytest.approx((1 + 2 / 3) / 2), 2)
    assert values["deviation"] == (pytest.approx(12 / 20 / 3), 3)
    assert result.medians("deviation").select("policy", "estimate", "n").row(0) == ("p", pytest.approx(2 / 20), 3)
    assert "median Δ" in result.table(columns=["median_deviation"]).terminal()


def test_gold_of_a_text_agrees_with_its_error() -> None:
    tables = checks_tables([TEXT], OPEN)
    labels = pl.Series([["refuted", "supported"]], dtype=pl.List(pl.String))
    tables["examples"] = tables["examples"].with_columns(labels=labels, gold=pl.lit("supported"))
    with refuses("mismatch", "`e`", "`supported`", "`gold_error`"):
        run(tables, [Buzz(name="p")], resamples=2)


def test_every_key_is_swept() -> None:
    values = {
        "pool": '["c", "d"]', "max_claims": "[2, { per_unit = 1 }]", "max_rounds": "[1, 2]", "confidence": "[0.5, 1]",
        "revisions": "[0, { slack = 15 }]", "patience": "[1, 2]", "words_per_second": "[1, 2.5]",
        "to_end": "[false, true]", "on_missing": '["partial", "use_available"]',
    }  # fmt: skip
    assert values.keys() == {one.name for one in fields(Buzz)} - NAMING - {"swept", "sees_verdicts", "logged_claims"}
    for key, value in values.items():
        file = load_policies(f'[[policy]]\nname = "p"\nkind = "buzz"\n{key} = {value}\n')
        assert len({getattr(policy, key) for policy in file.policies}) == 2, key
    file = load_policies('[[policy]]\nname = "p"\nkind = "buzz"\nmax_claims = { words_per = [4, 8] }\n')
    assert [policy.swept for policy in file.policies] == [(("max_claims.words_per", n),) for n in (4, 8)]


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
