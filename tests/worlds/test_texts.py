"""Texts about an invented world, read by patterns of their own: which claims hold, and where the wrong one is told."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice

from generate.tasks import InventedTexts, InventedWorld, TaskText, first_questions
from generate.tasks.claim_texts import CLAIM_TEXTS
from generate.tasks.task import examples
from generate.worlds.passages import WorldPassages, draw_world
from generate.worlds.texts import ClaimText, draw_text
from tests.worlds.parsing import CLAUSE, PATTERNS, RELATIONS, read_facts


@cache
def place() -> WorldPassages:
    return draw_world(3, 300)


@cache
def facts() -> dict[tuple[str, str], set[str]]:
    return read_facts((one.title, one.text) for one in place().passages)


@cache
def texts() -> list[ClaimText]:
    rng = random.Random(2)
    drawn = (draw_text(place().world, number % 2 == 1, rng) for number in range(700))
    return [text for text in drawn if text is not None]


def resolved(words: str) -> str:
    """The name that a subject stands for: of `the mother of the writer of the novel X`, whose that is."""
    match = re.fullmatch(r"[Tt]he (\w+) of (.+)", words)
    if match is None:
        return re.sub(r"^[Tt]he (?=film|novel|song)", "", words)
    (name,) = facts()[resolved(match[2]), RELATIONS[match[1]]]
    return name


def read_claims(text: str) -> Iterator[tuple[str, str, set[str]]]:
    """(who or what, relation, values) of each claim of a text, pronouns resolved to the last name."""
    name = ""
    for sentence in text.removesuffix(".").split(". "):
        subject, clauses = CLAUSE.split(sentence, maxsplit=1)
        if subject not in ("She", "He", "It"):
            name = resolved(subject)
        for clause in re.split(r" and (?=(?:was|had|married|died|came|lies|has) )", clauses):
            relation, values = next((one, m.groups()) for one, of in PATTERNS if (m := re.fullmatch(of, clause)))
            yield name, relation, {value for value in values if value is not None}


def test_a_text_tells_right_claims_but_for_one_where_it_holds_an_error() -> None:
    counts = Counter[bool]()
    for text in texts():
        claims = list(read_claims(text.text))
        assert len(claims) == len(text.claims)
        wrong = [number for number, (name, relation, values) in enumerate(claims) if values != facts()[name, relation]]
        assert wrong == [number for number, claim in enumerate(text.claims) if claim is text.error]
        assert len(wrong) == (text.gold_position is not None)
        counts[bool(wrong)] += 1
        assert 4 <= text.text.count(".") <= 8
    assert min(counts.values()) > 250


def test_an_error_is_told_by_the_first_word_that_the_right_value_would_not_have() -> None:
    """`He was born on 14 March 1921.` is wrong from `14` where he was born on the 15th, from `1921` where in 1920."""
    earliest = Counter[int]()
    for text in texts():
        if text.error is None or text.gold_position is None:
            continue
        name, relation, values = list(read_claims(text.text))[text.claims.index(text.error)]
        (value,), words, told = values, text.text.split(), text.gold_position
        right = next(iter(facts()[name, relation])).split()
        first = next(place for place, word in enumerate(value.split()) if right[place : place + 1] != [word])
        assert words[told - 1].strip(".") == value.split()[first]
        assert [word.strip(".") for word in words[told - 1 - first : told]] == value.split()[: first + 1]
        earliest[first] += 1
    assert earliest[0] > 100
    assert earliest[1] + earliest[2] > 1


def test_wrong_claims_need_one_passage_two_or_three() -> None:
    hops = Counter(len(text.error.hops) for text in texts() if text.error is not None)
    assert set(hops) == {1, 2, 3}
    assert min(hops.values()) > 40


def test_texts_with_and_without_an_error_take_turns_in_each_split() -> None:
    frame = examples(InventedTexts(people=120), {"dev": 6, "test": 7}, 1)
    assert frame["gold_error"].to_list() == [number % 2 == 1 for number in (*range(6), *range(7))]
    assert set(frame["labels"].explode()) == {"supported", "refuted"}
    for row in frame.iter_rows(named=True):
        assert row["gold"] == ("refuted" if row["gold_error"] else "supported")
        assert (row["error"] in row["claims"]) if row["gold_error"] else row["error"] is None
        assert (row["gold_position"] is None) != row["gold_error"]
        assert row["length"] == len(row["question"].split())
        labels = ["refuted" if claim == row["error"] else "supported" for claim in row["claims"]]
        assert row["claim_labels"] == labels
    assert frame["canonical"].n_unique() == frame.height
    assert [one.question for one in first_questions(InventedTexts(people=120), "dev", 6, 1)] == frame["question"][
        :6
    ].to_list()


@cache
def lessons() -> list[TaskText]:
    return list(
        islice(InventedWorld().training_texts(dict.fromkeys(CLAIM_TEXTS, 1.0), random.Random(4), iter(())), 1_750)
    )


def test_what_is_to_be_extracted_is_the_first_claim_that_is_not_named_yet() -> None:
    nothing = 0
    for text in lessons():
        if text.format == "extract":
            revealed, named = text.prompt.removesuffix("\nNext:\n").split("\nClaims:\n")
            told = {(name, relation) for name, relation, _ in read_claims_of_any(revealed.removeprefix("Text: "))}
            lines = [line for line in named.split("\n") if line]
            if text.completion == "None":
                nothing += 1
                assert len(lines) == len(told)
            else:
                assert text.completion not in lines
                assert text.completion.endswith(".")
                assert len(lines) < len(told)
    assert 20 < nothing < 250


def read_claims_of_any(text: str) -> list[tuple[str, str, str]]:
    """(subject as told, relation, clause) of each claim of a text of any world."""
    rows, name = list[tuple[str, str, str]](), ""
    for sentence in text.removesuffix(".").split(". "):
        subject, clauses = CLAUSE.split(sentence, maxsplit=1)
        name = name if subject in ("She", "He", "It") else subject
        for clause in re.split(r" and (?=(?:was|had|married|died|came|lies|has) )", clauses):
            rows.append((name, next(one for one, of in PATTERNS if re.fullmatch(of, clause)), clause))
    return rows


def test_all_claims_of_a_text_are_listed_in_order() -> None:
    for text in lessons():
        if text.format == "claims":
            told = read_claims_of_any(text.prompt.removeprefix("Text: ").removesuffix("\nClaims:\n"))
            lines = text.completion.split("\n")
            assert lines == [f"{subject} {clause}." for subject, _, clause in told]


def pairs_of(name: str) -> Iterator[tuple[str, str, str]]:
    """(what is shown first, prompt, completion) of each question of the texts of a format."""
    for text in lessons():
        if text.format == name:
            for prompt, completion in ((text.prompt, text.completion), *text.more):
                yield text.prompt, prompt, completion


def test_a_filter_copies_a_fact_of_the_passages_or_nothing() -> None:
    replies = Counter[int]()
    for shown, _, completion in pairs_of("filter"):
        fact, *following = completion.split("\n") if completion else [""]
        assert fact.removesuffix(".") in shown
        assert all(line.startswith("Next query: ") and line.endswith("?") for line in following)
        replies[len(following) if completion else -1] += 1
    assert set(replies) == {-1, 0, 1}
    assert min(replies.values()) > 150


def test_a_check_of_facts_says_what_these_facts_say() -> None:
    """Of a claim of one hop: supported where it stands there, refuted where it does and only the value differs."""
    verdicts, compared = Counter[str](), 0
    for shown, prompt, completion in pairs_of("check"):
        evidence, claim = prompt.removesuffix("\nVerdict:\n").split("\n\nClaim: ")
        if ": " in shown.split("\n\nClaim: ")[0]:  # passages, which stand before the first claim alone
            evidence = shown.split("\n\nClaim: ")[0]
        verdicts[completion] += 1
        if " of " not in claim:
            compared += 1
            assert (claim.removesuffix(".") in evidence) == (completion == "supported")
            assert completion == "not enough" or claim.split(" ")[0] in evidence
    assert set(verdicts) == {"supported", "refuted", "not enough"}
    assert min(verdicts.values()) > 300
    assert compared > 500


def test_a_claim_that_is_compared_is_what_the_fact_says_or_has_another_value() -> None:
    verdicts = Counter[str]()
    for _, prompt, completion in pairs_of("compare"):
        fact, claim = prompt.removesuffix("\nVerdict:\n").split("\n\nClaim: ")
        verdicts[completion] += 1
        assert (fact == claim) == (completion == "supported")
        (subject, relation, _), (other, same, _) = (read_claims_of_any(one)[0] for one in (fact, claim))
        assert (subject, relation) == (other, same)
    assert set(verdicts) == {"supported", "refuted"}
    assert min(verdicts.values()) > 0.4 * verdicts.total()
