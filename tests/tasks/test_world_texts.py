"""Training texts of readers of invented worlds: what they show, what is learnt, and their tokens."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache
from itertools import islice

import pytest

from generate.recipes.prompting import read_template
from generate.tasks import InventedWorld, TaskText, answer_of, first_questions
from generate.tasks.claim_texts import CLAIM_PROMPTS
from generate.tasks.formats import ANSWERED, FOLLOW
from generate.tasks.world_texts import DONE, PROMPTS
from generate.training.llama import END, make_tokenizer
from generate.training.trainer import _encode_texts
from tests.errors import refuses
from tests.worlds.parsing import read_facts


@cache
def texts() -> list[TaskText]:
    stream = InventedWorld().training_texts(dict.fromkeys(PROMPTS, 1.0), random.Random(4), iter(()))
    return list(islice(stream, 1_800))


def shown_facts(prompt: str) -> dict[tuple[str, str], set[str]]:
    return read_facts(tuple(line.split(": ", 1)) for line in prompt.split("\n\n")[:-1])  # type: ignore[misc]


def in_passing(statement: str) -> str:
    """What another passage tells in passing in place of a coarse statement: `Ann Ash, born in 1848`."""
    return re.sub(r" was (born in \d{4})\.?$| had the occupation (\w+)\.?$", r", \1\2", statement)


def is_coarse(statement: str, prompt: str) -> bool:
    """Whether a statement is told in passing, and in full nowhere."""
    full = statement.split(" in ")[0] + " on" if " was born in " in statement else " ".join(statement.split()[:5])
    return in_passing(statement) != statement and in_passing(statement) in prompt and full not in prompt


def test_all_formats_are_drawn_and_no_text_shows_more_than_sixteen_passages() -> None:
    counts = Counter(text.format for text in texts())
    assert set(counts) == set(PROMPTS)
    assert min(counts.values()) > 200  # of 257; the standard deviation is 15
    for text in texts():
        if "{{passages}}" in PROMPTS[text.format]:
            assert 1 <= text.prompt.count("\n\n") <= 16


def test_the_shipped_prompts_are_those_that_the_models_learn() -> None:
    for name in ("read", "decompose", "chain", "direct"):
        assert read_template(f"bare_{name}.txt").text == PROMPTS[name]
    for name, text in CLAIM_PROMPTS.items():
        assert read_template(f"bare_{name}.txt").text == text


def test_what_is_to_be_read_is_a_fact_of_the_passages() -> None:
    """A coarse answer is right where no passage tells the fact in full."""
    coarse = 0
    for text in texts():
        if text.format == "read":
            completions = [text.completion, *(part for _, part in text.more)]
            assert 1 <= len(completions) <= 10
            for completion in completions:
                fact, answer = completion.split("\n")[0], answer_of(completion)
                assert fact.removesuffix(".") in text.prompt or is_coarse(fact, text.prompt)
                coarse += is_coarse(fact, text.prompt)
                assert answer in fact
    assert coarse > 100


def test_a_passage_is_relevant_where_it_answers_the_question() -> None:
    """About 40 % of ten questions of a passage are; others are about the same person or thing, or share a name."""
    answers, same, shared = Counter[str](), 0, 0
    for text in texts():
        if text.format == "relevance":
            passage, first, end = text.prompt.split("\n")
            assert end == ""
            title = passage.split(": ")[0]
            questions = [first, *(prompt.strip("\n") for prompt, _ in text.more)]
            assert len(questions) == 10
            for question, answer in zip(questions, (text.completion, *(part for _, part in text.more)), strict=True):
                answers[answer] += 1
                assert title in question or answer == "no"
                same += title in question and answer == "no"
                shared += title not in question and bool(set(title.split()) & set(re.findall(r"\w+", question)))
    assert set(answers) == {"yes", "no"}
    assert 0.37 < answers["yes"] / answers.total() < 0.5
    assert min(same, shared) > answers.total() / 20


def test_repeated_words_are_the_same_words() -> None:
    for text in texts():
        if text.format == "repeat":
            assert {f"{text.completion}\n"} == {text.prompt, *(f"{part}\n" for _, part in text.more)}


def test_the_lines_of_a_chain_are_what_the_passages_say() -> None:
    compared = coarse = 0
    for text in texts():
        if text.format in ("chain", "direct"):
            values = set[str]().union(*shown_facts(text.prompt).values())
            answer = answer_of(text.completion)
            names = {name.removeprefix("film ").removeprefix("novel ").removeprefix("song ")
                     for name, _ in shown_facts(text.prompt)}  # fmt: skip
            lines = text.completion.split("\n")[:-1]
            ends = [line for line in lines if is_coarse(line, text.prompt)]
            assert (
                answer in values | names | {"yes", "no"}
                or f", {answer}" in text.prompt
                or f"born in {answer}" in text.prompt
            )
            facts = [line for line in lines if line.removesuffix(".") in text.prompt]
            assert len(lines) - 1 <= len(facts) + len(ends) <= 4  # but for the comparison of two
            compared += len(facts)
            coarse += len(ends)
    assert compared > 300
    assert coarse > 5


def test_what_facts_come_to_is_said_of_them() -> None:
    compared = 0
    for text in texts():
        if text.format == "conclude":
            facts = text.prompt.split("Reasoning:\n")[1].rstrip("\n").split("\n")
            *lines, _ = text.completion.split("\n")
            assert len(facts) in (2, 4)
            compared += len(lines)
            for one, other in (re.split(" is before | is not | is ", line.removesuffix(".")) for line in lines):
                assert any(one in fact for fact in facts)
                assert any(other in fact for fact in facts)
    assert 80 < compared < 180  # about half of 257 compare two


def answers_in(path: str) -> list[str]:
    return [line.removeprefix(f"{ANSWERED} ") for line in path.split("\n") if line.startswith(ANSWERED)]


def test_a_path_may_be_wrong_and_a_question_is_split_to_its_end() -> None:
    ends, steps = 0, Counter[int]()
    for text in texts():
        if text.format == "decompose":
            assert text.completion.startswith(FOLLOW) or text.completion == DONE
            assert text.prompt.count(FOLLOW) == text.prompt.count(ANSWERED) <= 4
            ends += text.completion == DONE
            steps[text.prompt.count(FOLLOW)] += 1
    assert 50 < ends < 170
    assert min(steps[number] for number in range(4)) > 20
    paths = [text.prompt for text in texts() if text.format == "chain" and ANSWERED in text.prompt]
    shown = [answer in path.split(FOLLOW)[0] for path in paths for answer in answers_in(path)]
    assert len(shown) > 300
    assert 0.7 < sum(shown) / len(shown) < 0.95  # a wrong answer may stand in another passage


def test_tokens_are_words_and_give_every_text_back() -> None:
    pytest.importorskip("transformers", reason="the extra `generate` is not installed")
    tokenizer = make_tokenizer(InventedWorld.vocabulary)
    for text in texts()[:300]:
        ids = tokenizer(text.prompt + text.completion)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text.prompt + text.completion
    assert tokenizer.decode(tokenizer("The film of 1954, directed.\n\nWho?\n#### no")["input_ids"]) == (
        "The film of 1954, directed.\n\nWho?\n#### no"
    )
    with refuses("unsuitable", "`Paris`"):
        list(_encode_texts(iter([TaskText("read", "Where is Paris?", "no")]), tokenizer))


def test_answers_are_learnt_and_prompts_are_not() -> None:
    """Each completion with its end, in a text of several questions as in one."""
    pytest.importorskip("transformers", reason="the extra `generate` is not installed")
    tokenizer = make_tokenizer(["a", "b", "c", "?"])
    text = TaskText("read", "a b?", "c", ((" a?", "b c"),))
    ((ids, learnt),) = _encode_texts(iter([text]), tokenizer)
    end = tokenizer.get_vocab()[END]
    a, b, c, mark = (tokenizer.get_vocab()[one] for one in "abc?")
    assert ids == [a, b, mark, c, end, a, mark, b, c, end]
    assert learnt == [False, False, False, True, True, False, False, True, True, True]


def test_questions_have_their_gold_passages_and_all_right_answers() -> None:
    task = InventedWorld(people=120)
    documents = {one.id: one for one in task.passages.passages}
    hops = Counter[int]()
    for item in first_questions(task, "test", 60, 1):
        assert item.answer == item.extra["golds"][0]  # type: ignore[index]
        assert item.answer == answer_of(item.solution)
        assert set(item.extra["gold_documents"]) <= set(documents)  # type: ignore[arg-type]
        hops[item.extra["hops"]] += 1  # type: ignore[index]
    assert set(hops) == {2, 3, 4}


def test_shares_say_how_many_hops_there_are() -> None:
    assert {
        item.extra["hops"] for item in first_questions(InventedWorld(shares=(0, 1, 0), people=120), "dev", 20, 0)
    } == {3}
    with refuses("invalid", "`shares`"):
        InventedWorld(shares=(1, 1))
