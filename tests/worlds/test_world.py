"""An invented world: its passages agree with each other, its questions with its passages."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from functools import cache

import pytest

from generate.tasks import endless_questions, make_task, split_of_question
from generate.worlds.passages import COARSE, Passage, WorldPassages, draw_world
from generate.worlds.questions import Question, draw_question
from tests.worlds.parsing import day_of, read_facts


@cache
def place() -> WorldPassages:
    return draw_world(0, 900)


@cache
def facts() -> dict[tuple[str, str], set[str]]:
    return read_facts((one.title, one.text) for one in place().passages)


@cache
def questions(hops: int) -> list[Question]:
    rng = random.Random(5)
    drawn = (draw_question(place().world, hops, rng) for _ in range(1_500))
    return list({one.canonical: one for one in drawn if one is not None}.values())


def only(name: str, relation: str) -> str:
    (value,) = facts()[name, relation]
    return value


def test_a_world_has_three_to_five_thousand_short_passages_each_with_an_id_of_its_own() -> None:
    passages = place().passages
    assert 3_000 <= len(passages) <= 5_000
    assert len({one.id for one in passages}) == len(passages)
    assert sum(len(str(one).split()) for one in passages) / len(passages) < 17
    assert max(len(str(one).split()) for one in passages) <= 25


def test_every_passage_is_read_by_its_own_pattern_and_no_fact_has_two_values_but_spouses_and_children() -> None:
    several = {relation for (_, relation), values in facts().items() if len(values) > 1}
    assert several == {"spouse", "child"}
    assert max(map(len, facts().values())) == 2


def test_what_passages_say_of_families_agrees_both_ways() -> None:
    checked = Counter[str]()
    for (name, relation), values in list(facts().items()):
        for value in values:
            if relation == "spouse":
                assert name in facts()[value, "spouse"]
            elif relation == "child":
                assert name in facts()[value, "father"] | facts()[value, "mother"]
            elif relation in ("father", "mother"):
                assert name in facts()[value, "child"]
                assert 20 <= day_of(only(name, "born"))[0] - day_of(only(value, "born"))[0] <= 45
                if (value, "died") in facts():
                    assert day_of(only(value, "died")) > day_of(only(name, "born"))
            else:
                continue
            checked[relation] += 1
        if relation == "father":
            (mother,) = facts()[name, "mother"]
            assert mother in facts()[next(iter(values)), "spouse"]
            assert name.split()[-1] == next(iter(values)).split()[-1]
        if relation == "died":
            assert 45 <= day_of(only(name, "died"))[0] - day_of(only(name, "born"))[0] <= 95
    assert min(checked.values()) > 300


def test_works_are_made_by_grown_people_while_they_live_and_places_lie_in_regions() -> None:
    for (name, relation), values in facts().items():
        value = min(values)
        if relation == "maker":
            year = int(only(name, "released"))
            assert 22 <= year - day_of(only(value, "born"))[0] <= 70
            assert (value, "died") not in facts() or year <= day_of(only(value, "died"))[0]
        if relation == "birthplace":
            assert int(only(value, "founded")) < day_of(only(name, "born"))[0]
            assert (only(value, "region"), "capital") in facts()
        if relation == "capital":
            assert only(value, "region") == name


def test_coarse_words_in_other_passages_are_true() -> None:
    """`painter` of a maker, `born in 1921` of a parent: the class and the year of what other passages tell."""
    years = jobs = 0
    for one in place().passages:
        for name, year in re.findall(r"(?:father|mother) (\w+ \w+), born in (\d+)\.", one.text):
            assert day_of(only(name, "born"))[0] == int(year)
            years += 1
        for name, job in re.findall(r"by (\w+ \w+), (\w+)\.", one.text):
            assert COARSE[only(name, "occupation")] == job
            jobs += 1
    assert years > 100
    assert jobs > 100
    assert years + jobs == sum(len(one.coarse) for one in place().passages)


def test_names_are_shared() -> None:
    titles = defaultdict[str, set[str]](set)
    surnames = Counter(one.name.split()[-1] for one in place().world.of_kind("woman", "man"))
    for one in place().world.of_kind("film", "novel", "song"):
        titles[one.name].add(one.kind)
    assert sum(len(kinds) > 1 for kinds in titles.values()) > 100
    assert surnames.most_common(30)[-1][1] >= 10


def answers_of(question: Question) -> set[str]:
    """The answers of a question, from its hops' sentences alone and what passages say."""
    read = []
    for hop in question.hops:
        entity, relation = hop.fact
        name = f"{entity.kind} {entity.name}" if entity.kind in ("film", "novel", "song") else entity.name
        assert entity.name in hop.question
        read.append(facts()[name, relation])
    names = re.findall(r"(?:, |Were )(.+) (?:or|and) (.+?)(?:\?| born)", question.text)
    if question.type == "time order":
        ends = [next(iter(one)) for one in (read if len(read) == 2 else read[1::2])]
        when = [int(one) if one.isdigit() else day_of(one) for one in ends]
        first = when[0] < when[1]
        (pair,) = re.findall(r", (.+) or (.+)\?", question.text)
        return {pair[0] if first == (" first, " in question.text) else pair[1]}
    if question.type == "comparison":
        ends = [read[len(read) // 2 - 1], read[-1]]
        return {"yes" if ends[0] == ends[1] else "no"}
    assert not names
    return read[-1]


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_answers_follow_from_the_passages(hops: int) -> None:
    assert len(questions(hops)) > 500
    for question in questions(hops):
        assert len(question.hops) == hops
        assert set(question.answers) == answers_of(question)
        for hop in question.hops:
            passage = place().passage_of_fact[hop.fact]
            assert passage.title == hop.fact[0].name


def test_each_hop_of_a_bridge_asks_about_the_answer_before() -> None:
    for hops in (2, 3, 4):
        for question in questions(hops):
            if question.type not in ("time order", "comparison"):
                for before, after in zip(question.hops, question.hops[1:], strict=False):
                    assert before.values == (after.fact[0],)


def test_no_answer_stands_in_its_question_but_where_the_question_names_the_candidates() -> None:
    places = list[bool]()
    for hops in (1, 2, 3, 4):
        for question in questions(hops):
            if question.type == "time order":
                before, _, after = question.text.rpartition(" or ")
                assert (question.answers[0] in before) != (question.answers[0] in after)
                places.append(question.answers[0] in before)
            else:
                assert not any(re.search(rf"\b{one}\b", question.text) for one in question.answers)
    assert len(places) > 300
    assert 0.45 <= sum(places) / len(places) <= 0.55


def test_yes_and_no_are_about_as_frequent() -> None:
    answers = Counter(one.answers[0] for hops in (2, 4) for one in questions(hops) if one.type == "comparison")
    assert set(answers) == {"yes", "no"}
    assert min(answers.values()) / answers.total() > 0.45


def test_there_are_questions_with_two_answers_and_such_with_a_coarser_one_beside() -> None:
    drawn = [one for hops in (2, 3, 4) for one in questions(hops)]
    assert sum(len(one.answers) == 2 for one in drawn) > 20
    assert sum(one.type == "class" for one in drawn) > 100
    assert sum(one.type == "date" for one in drawn) > 100


def test_a_world_is_the_same_for_a_seed_and_another_for_another() -> None:
    def shown(passages: tuple[Passage, ...]) -> list[str]:
        return [str(one) for one in passages]

    assert shown(draw_world(3, 60).passages) == shown(draw_world(3, 60).passages)
    assert not set(shown(draw_world(3, 60).passages)) & set(shown(draw_world(4, 60).passages))


def test_splits_share_no_chain_of_facts() -> None:
    task = make_task("invented_world")
    drawn = {}
    for split in ("train", "test"):
        stream = endless_questions(task, split, 0)
        drawn[split] = [next(stream) for _ in range(150)]
        assert all(split_of_question(one.canonical) == split for one in drawn[split])
    assert not {one.canonical for one in drawn["train"]} & {one.canonical for one in drawn["test"]}
