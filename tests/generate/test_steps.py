"""Seeds, temperatures, prompts, evidence, few-shot examples and rows, on cases worked by hand."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.engines.base import Message
from generate.recipes.prompting import field_texts, parse_template, read_template
from generate.recipes.recipe import (
    AnswerSettings,
    EvidenceSettings,
    FewShotSettings,
    _BalancedTemperatures,
    _ConstantTemperature,
    _read_schedule,
    _TemperatureMixture,
    load_recipe,
    seed_of,
)
from generate.sampling.context import _choose_few_shot, _few_shot_text, _rank_evidence, choose_evidence, make_pool
from generate.sampling.samples import is_readable_answer, judged_traces, read_normal_answers, trace_row
from tests.errors import refuses
from tests.generate.toy import Letters, reply, write_recipe


def test_a_seed_is_the_documented_digest() -> None:
    digest = hashlib.sha256(b"7\0ex\0votes\x002").digest()
    assert seed_of(7, "ex", "votes", 2) == int.from_bytes(digest[:4], "big") % 2**31
    drawn = {seed_of(s, e, p, i) for s in (0, 1) for e in ("a", "b") for p in ("p", "q") for i in range(50)}
    assert len(drawn) == 400  # every part counts
    assert all(0 <= seed < 2**31 for seed in drawn)


def test_the_balanced_grid_is_that_of_the_thesis_and_balanced_at_every_length() -> None:
    schedule = _BalancedTemperatures(0.30, 0.70, 0.05)
    assert schedule.temperatures() == (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
    orders = set()
    for example in ("a", "b", "c"):
        drawn = [schedule.temperature(20, example, "n15", i) for i in range(40)]
        orders.add(tuple(drawn[:9]))
        for length in range(1, 41):
            counts = Counter(drawn[:length])
            spread = [counts.get(value, 0) for value in schedule.temperatures()]
            assert max(spread) - min(spread) <= 1
    assert len(orders) == 3  # no temperature is tied to a place in the pool


def test_constant_and_mixture() -> None:
    assert _ConstantTemperature(0.6).temperature(0, "e", "p", 9) == 0.6
    mixture = _read_schedule({"mixture": [0, 0.25, 0.5, 0.75, 1.0]}, "t")
    assert mixture == _TemperatureMixture((0.0, 0.25, 0.5, 0.75, 1.0))
    assert [mixture.temperature(0, "e", "p", i) for i in range(7)] == [0, 0.25, 0.5, 0.75, 1, 0, 0.25]


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ("hot", ("invalid", "`t`", "'hot'", "0", "5")),
        (-1, ("invalid", "`t`", "-1", "5")),
        ({"mixtur": [1]}, ("unknown", "`mixtur`", "`mixture`")),
        ({"mixture": []}, ("invalid", "`t`", "`mixture`")),
        ({"low": 0.3, "high": 0.7}, ("required", "`t.step`")),
        ({"low": 0.3, "high": 0.7, "step": 0.07}, ("invalid", "0.07")),
    ],
)
def test_bad_schedules(given: object, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        _read_schedule(given, "t")


def test_a_completion_prompt_keeps_its_white_space_and_braces() -> None:
    template = parse_template("p.txt", "Q: {{question}} \\boxed{7}\nA: \n\n")
    assert template.render({"question": "1 + 1"}) == "Q: 1 + 1 \\boxed{7}\nA: \n"


def test_a_chat_prompt_and_a_conversation() -> None:
    ask = parse_template("a.txt", "[[system]]\nBe brief.\n[[user]]\n{{question}}\n")
    before = ask.render({"question": "Why?"})
    assert before == (Message("system", "Be brief."), Message("user", "Why?"))
    again = parse_template("b.txt", "[[conversation]]\n[[assistant]]\n{{attempt}}\n[[user]]\nWrong.\n")
    assert again.render({"attempt": "So."}, before) == (*before, Message("assistant", "So."), Message("user", "Wrong."))


def test_fields_are_filled_once_and_lists_stand_in_lines() -> None:
    fields = field_texts({"question": "{{gold}}", "gold": "secret", "evidence": ["a", "b"], "labels": ["X", "Y"]})
    text = parse_template("p", "{{question}}|{{evidence}}|{{labels}}").render(fields)
    assert text == "{{gold}}|- a\n- b|X, Y"  # a question that looks like a field is no field


def test_bad_prompts() -> None:
    with refuses("unknown", "`question`"):
        parse_template("p", "{{qestion}}").check_fields(["question"])
    with refuses("invalid", "`[[user]]`", "`p`"):
        parse_template("p", "hello\n[[user]]\nhi")
    with refuses("unknown", "`solve.txt`"):
        read_template("slove.txt")


def test_evidence_above_the_floor_and_relaxed_below_it() -> None:
    cosines = np.array([0.2, 0.9, 0.6, 0.6])
    kept = choose_evidence(cosines, EvidenceSettings(top=3, floor=0.5))
    assert (kept.places, kept.relaxed) == ((1, 2, 3), False)  # a tie goes to the earlier one
    assert kept.similarities == (0.9, 0.6, 0.6)
    relaxed = choose_evidence(cosines, EvidenceSettings(top=3, floor=0.7))
    assert (relaxed.places, relaxed.relaxed) == ((1, 2, 3), True)
    assert choose_evidence(cosines[:1], EvidenceSettings(top=3, floor=0.1)).places == (0,)
    assert not choose_evidence(cosines[:0], EvidenceSettings(top=3, floor=0.1)).relaxed


def test_evidence_is_ranked_by_cosine_not_by_length() -> None:
    chosen = _rank_evidence(["abc"], [["zzzz", "aabbcc", "ab"]], EvidenceSettings(top=2, floor=0.9), Letters())[0]
    assert chosen.places == (1, 2)
    assert chosen.similarities[0] == pytest.approx(1.0)
    assert chosen.similarities[1] == pytest.approx(2 / (3**0.5 * 2**0.5))  # (1,1,1)·(1,1,0)
    assert chosen.relaxed  # .816 is below .9


def worked(**columns: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"example_id": ["t1", "t2", "t3", "s1"], **columns})


def test_few_shot_examples_are_near_and_never_the_question_itself() -> None:
    pool_rows = worked(question=["aab", "zzz", "A  B", "ab"], gold=["1", "2", "3", "4"])
    data = pl.DataFrame({"example_id": ["s1", "s2"], "question": ["abb", "a b"]})
    rule = FewShotSettings("similar", 2, "e.txt", "examples")
    pool = make_pool(pool_rows, data, rule, parse_template("e.txt", "{{question}}={{gold}}\n"))
    assert (pool.ids, pool.excluded) == (("t1", "t2"), 2)  # s1 by its id, t3 by its question
    assert _choose_few_shot(["zza", "aa"], pool, rule, Letters()) == [(1, 0), (0, 1)]
    assert _few_shot_text((1, 0), pool, rule) == "zzz=2\n\naab=1"
    fixed = FewShotSettings("fixed", 1, "e.txt", "examples", ids=("t2",))
    pool = make_pool(pool_rows, data, fixed, parse_template("e.txt", "{{question}}"))
    assert [pool.ids[i] for i in _choose_few_shot(["x"], pool, fixed, None)[0]] == ["t2"]
    with refuses("limit", "`few_shot.k`", "3", "2"):
        make_pool(pool_rows, data, FewShotSettings("fixed", 3, "e", "examples"), parse_template("e", "x"))


def test_a_finalizer_is_paid_for_and_changes_nothing_else(tmp_path: Path) -> None:
    recipe = load_recipe(write_recipe(tmp_path))
    attempt = reply("5 + 6", 1, 0.5, 4)
    last = reply("5 + 6 Last line:", 2, 0.0, 0)
    alone = trace_row(recipe, recipe.sample[1], "m", "e", 2, attempt, None)
    both = trace_row(recipe, recipe.sample[1], "m", "e", 2, attempt, last)
    changed = {name for name in both if both[name] != alone[name]}
    costs = {"prompt_tokens", "completion_tokens", "latency_s", "device_s"}
    assert changed == costs | {"finalizer_used", "finalizer_text", "finalizer_tokens"}
    for name in costs:
        assert both[name] == pytest.approx(getattr(attempt, name) + getattr(last, name))


def test_a_label_outside_the_label_space_is_no_answer() -> None:
    rules = load_recipe("quantemp").answers
    texts = [
        "[Justification]: x\n[Label]: SUPPORTS",
        "**[Label]:** Refutes",
        "[Label]: maybe",
        "none",
        "[Label]: [TRUE]",
    ]
    found = read_normal_answers([(text, False) for text in texts], rules)
    assert found == ["Supports", "Refutes", "maybe", None, "Supports"]
    assert [is_readable_answer(answer, rules) for answer in found] == [True, True, False, False, True]


def test_what_is_no_label_is_logged_as_no_answer_and_as_read() -> None:
    rules = load_recipe("quantemp").answers
    texts = [("[Label]: not supported", False), ("[Label]: Confl", True), ("[Label]: Supports.", False)]
    rows = [
        {"example_id": "e", "trace_id": str(i), "sample_index": i, "answer_read": answer}
        for i, answer in enumerate(read_normal_answers(texts, rules))
    ]
    frame = judged_traces(rows, pl.DataFrame({"example_id": ["e"], "gold": ["Supports"]}), rules)
    assert frame.select("answer_read", "answer", "correct").rows() == [
        ("not", None, False), (None, None, False), ("Supports", "Supports", True),
    ]  # fmt: skip


def test_an_answer_that_the_limit_cut_off_is_not_read() -> None:
    hashes = AnswerSettings(kind="number", read=("####",))
    texts = [("x = 12\n#### 1", True), ("x = 12\n#### 1\n", True), ("x = 12\n#### 12\nSo", True), ("#### 1", False)]
    assert read_normal_answers(texts, hashes) == [None, "1", "12", "1"]
    assert read_normal_answers([("yes", True), ("yes", False)], AnswerSettings()) == [None, "yes"]


def test_a_guess_in_thoughts_is_no_answer_finished_or_not() -> None:
    boxed = AnswerSettings(kind="number", read=("boxed",))
    texts = [
        ("<think>It may be \\boxed{4}, but", True), ("<think>\\boxed{4}?</think>It is \\boxed{5}.", False),
        ("<think>a < b, so \\boxed{4}</think>", True), ("\\boxed{3} <think>or \\boxed{4}", True),
    ]  # fmt: skip
    assert read_normal_answers(texts, boxed) == [None, "5", None, "3"]
    assert read_normal_answers([("so \\boxed{4}</think>It is \\boxed{5}.", False), (None, False)], boxed) == ["5", None]


def test_equivalent_answers_take_the_string_of_the_earliest() -> None:
    pytest.importorskip("math_verify")
    base = {"example_id": "e", "pool": "p", "action": "solve", "model": "m"}
    rows = [
        {**base, "trace_id": str(i), "sample_index": i, "answer_read": text}
        for i, text in enumerate(["\\frac{1}{2}", "0.5", "x+1", "1+x", None])
    ]
    frame = judged_traces(
        rows, pl.DataFrame({"example_id": ["e"], "gold": ["0.5"]}), AnswerSettings(judge="math-verify")
    )
    assert frame["answer"].to_list() == ["\\frac{1}{2}", "\\frac{1}{2}", "x+1", "x+1", None]
    assert frame["correct"].to_list() == [True, True, False, False, False]
    assert frame["answer_read"].to_list()[1] == "0.5"


def test_without_a_reference_nothing_is_judged() -> None:
    rows = [{"example_id": "e", "trace_id": "t", "sample_index": 0, "answer_read": "4"}]
    assert judged_traces(rows, pl.DataFrame({"example_id": ["e"]}), AnswerSettings())["correct"].to_list() == [None]
