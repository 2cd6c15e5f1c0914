"""Training texts: what each format asks and teaches, and the alphabet that all of them keep to."""

from __future__ import annotations

import random

import pytest

from generate.tasks import CHARACTERS, GRADES, PROMPTS, Algebra, Claims, Item, Task, answer_of, first_questions
from generate.tasks import formats as made
from tests.errors import refuses

TASKS: list[tuple[Task, list[Item]]] = [(task, first_questions(task, "fit", 80, 4)) for task in (Algebra(), Claims())]


def all_texts(task: Task, items: list[Item]) -> list[made.TaskText]:
    rng = random.Random(0)
    texts: list[made.TaskText] = []
    for item in items:
        wrong = task.wrong_solution(item, rng)
        cut = item.solution[: rng.randrange(len(item.solution))]
        texts += [made.solution_text(item), made.continuation_text(item, len(cut))]
        for attempt, verdict in ((wrong, False), (cut, False), (item.solution, True)):
            texts += [
                made.verification_text(task, item, attempt),
                made.repair_text(task, item, attempt),
                made.correction_text(item, attempt),
            ]
            texts += [
                made.judgement_text(task, item, attempt, verdict),
                made.reflection_text(item.question, attempt, verdict),
            ]
        chosen = made.choice_text(item.question, [wrong, cut, item.solution], [False, False, True], rng)
        texts += [chosen] if chosen else []
    return texts


@pytest.mark.parametrize(("task", "items"), TASKS, ids=lambda one: getattr(one, "name", ""))
def test_the_alphabet_is_small_and_holds_everything(task: Task, items: list[Item]) -> None:
    assert len(CHARACTERS) == len(set(CHARACTERS)) <= 62  # with two special tokens, 64
    texts = all_texts(task, items)
    used = set("".join(text.prompt + text.completion for text in texts))
    assert used <= set(CHARACTERS)
    assert {text.format for text in texts} == set(PROMPTS)
    assert all(text.completion for text in texts)


@pytest.mark.parametrize(("task", "items"), TASKS, ids=lambda one: getattr(one, "name", ""))
def test_continuing_and_solving_are_the_same_text(task: Task, items: list[Item]) -> None:
    for item in items[:20]:
        whole = made.solution_text(item)
        part = made.continuation_text(item, 7)
        assert whole.prompt + whole.completion == part.prompt + part.completion
        assert whole.completion.startswith(item.solution[:7])
        assert part.completion == item.solution[7:]
    with refuses("invalid", "`keep`", "999"):
        made.continuation_text(items[0], 999)


@pytest.mark.parametrize(("task", "items"), TASKS, ids=lambda one: getattr(one, "name", ""))
def test_revisions_end_in_the_right_answer(task: Task, items: list[Item]) -> None:
    rng = random.Random(1)
    for item in items:
        wrong, cut = task.wrong_solution(item, rng), item.solution[:5]
        for attempt in (wrong, cut, item.solution):
            for text in (made.verification_text(task, item, attempt), made.repair_text(task, item, attempt)):
                assert answer_of(text.completion) == item.answer
                assert text.prompt.startswith(f"{item.question}\n{attempt}\n")
            said = made.verification_text(task, item, attempt).completion
            assert ("not ok" not in said) is (attempt == item.solution)
        assert made.repair_text(task, item, item.solution).completion == f"ok\n#### {item.answer}"
        assert made.repair_text(task, item, wrong).completion.startswith("fix: line ")
        assert made.correction_text(item, wrong).completion == item.solution


def test_repair_names_the_first_line_that_does_not_hold() -> None:
    task, item = Algebra(), Item("Solve 2*x+3=9 for x.", "3", "2*x=9-3\n2*x=6\nx=3\n#### 3", "", {})
    assert made.repair_text(task, item, "2*x=9-3\n2*x=7\nx=4\n#### 4").completion.startswith("fix: line 2\n2*x=9-3\n")
    assert made.repair_text(task, item, "2*x=9-3\n2*x=6").completion.startswith("fix: line 3\n")
    assert made.verification_text(task, item, "x=4\n#### 4").completion == f"2*4+3=11\n9=9\nnot ok\n{item.solution}"
    assert made.verification_text(task, item, "x=3\n#### 3").completion == "2*3+3=9\n9=9\nok\n#### 3"


@pytest.mark.parametrize(
    ("attempt", "verdict", "score"),
    [
        ("2*x=9-3\n2*x=6\nx=3\n#### 3", True, "1.00"),
        ("2*x=9-2\nx=3\n#### 3", True, "0.75"),  # right by luck: one of three lines does not hold
        ("2*x=9-3\n2*x=6\nx", False, "0.50"),  # cut off, sound so far
        ("2*x=9", False, "0.50"),  # cut off in its first line
        ("2*x=9-3\n2*x=6\nx=4\n#### 4", False, "0.25"),  # half of four lines hold
        ("2*x=9+3\n2*x=12\nx=6\n#### 6", False, "0.00"),
        ("", False, "0.00"),
    ],
)
def test_the_five_anchors(attempt: str, verdict: bool, score: str) -> None:
    item = Item("Solve 2*x+3=9 for x.", "3", "2*x=9-3\n2*x=6\nx=3\n#### 3", "", {})
    assert made._grade_text(Algebra(), item, attempt, verdict) == score
    assert score in GRADES
    assert len(GRADES) == 5


def test_reflection_is_one_to_ten() -> None:
    said = [made.reflection_text("q", "a", verdict).completion for verdict in (False, True, 0.5, 0.0, 1.0, 1 / 9)]
    assert said == ["1", "10", "5", "1", "10", "2"]  # 1 + round(9 v); 5.5 rounds to even
    with refuses("invalid", "0", "1"):
        made.reflection_text("q", "a", 1.5)


def test_a_choice_names_a_right_attempt() -> None:
    attempts = ["a=1\n#### 1", "b=2\n#### 2", "b=2\nc=3\n#### 2"]
    rng = random.Random(0)
    text = made.choice_text("q", attempts, [False, True, False], rng)
    assert text is not None
    assert text.prompt == "q\n1) a=1 #### 1\n2) b=2 #### 2\n3) c=3 #### 2\nbest:\n"
    assert text.completion == "2"
    drawn = {made.choice_text("q", attempts, [False, True, True], rng).completion for _ in range(40)}  # type: ignore[union-attr]
    assert drawn == {"2", "3"}
    assert made.choice_text("q", attempts, [False] * 3, rng) is None
    with refuses("invalid", "1"):
        made.choice_text("q", attempts[:1], [True], rng)
