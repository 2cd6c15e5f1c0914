"""Training recipes, texts and batches: mixtures, what is learnt, schedules, and mistakes in a recipe."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from generate.recipes.prompting import read_template
from generate.recipes.toml_file import read_toml
from generate.tasks import (
    PROMPTS,
    Algebra,
    Item,
    QuestionAttempts,
    answer_of,
    endless_questions,
    first_questions,
    judge_attempts,
    make_task,
)
from generate.training.model_recipe import LearningRateSchedule, _shipped_training_recipes, load_training_recipe
from generate.training.trainer import _rate_at
from tests.errors import refuses, says
from toolkit.errors import ThinkbackError

TASK = Algebra()
ALL = dict.fromkeys(PROMPTS, 1.0)


def questions() -> Iterator[Item]:
    return endless_questions(TASK, "fit", 0)


def test_the_mixture_is_kept() -> None:
    mixture = {"solve": 6.0, "judge": 3.0, "choose": 1.0}
    made = list(islice(TASK.training_texts(mixture, random.Random(0), questions()), 2_000))
    counts = Counter(text.format for text in made)
    assert set(counts) == set(mixture)
    assert abs(counts["solve"] - 1_200) < 90  # four standard deviations: sqrt(2000 * .6 * .4) = 22
    assert abs(counts["judge"] - 600) < 90


def test_every_format_is_learnt_from_a_models_own_samples() -> None:
    (item,) = first_questions(TASK, "fit", 1, 5)
    wrong = f"{item.solution.rpartition(' ')[0]} 999"
    samples = [judge_attempts(item, [item.solution, wrong, item.solution[:3]])]
    assert samples[0].verdicts == (True, False, False)
    assert samples[0].share_right == pytest.approx(1 / 3)
    of = {name: [] for name in PROMPTS}
    for text in islice(TASK.training_texts(ALL, random.Random(1), questions(), samples), 1_500):
        of[text.format].append(text)
    assert all(len(made) > 100 for made in of.values())
    attempts = [text.prompt.removeprefix(item.question).split("\nwrong")[0].strip() for text in of["correct"]]
    assert set(attempts) == {wrong, item.solution[:3].strip()}  # never the right one
    assert all(answer_of(text.completion) == item.answer for text in of["correct"])
    assert {text.completion for text in of["reflect"]} == {
        "7",
        "3",
    }  # 1 + 9 * (1 + 1/3) / 2 = 7 and 1 + 9 * (1/3) / 2 = 2.5
    for text in of["choose"]:
        shown = text.prompt.split("\n")[-3 - text.prompt.count(") ") + 1 :]
        picked = next(line for line in shown if line.startswith(f"{text.completion}) "))
        assert answer_of(picked) == item.answer


def test_a_format_that_the_samples_cannot_teach_is_named() -> None:
    (item,) = first_questions(TASK, "fit", 1, 5)
    only_right = [QuestionAttempts(item, (item.solution,), (True,))]
    with refuses("empty", "`correct`"):
        next(TASK.training_texts({"correct": 1.0}, random.Random(0), questions(), only_right))


def test_the_rate_goes_up_in_a_line_and_down_to_nothing() -> None:
    schedule = LearningRateSchedule(rate=0.01, warmup=4)
    assert [_rate_at(schedule, step, 0.0) for step in range(6)] == pytest.approx(
        [0.002, 0.004, 0.006, 0.008, 0.01, 0.01]
    )
    assert _rate_at(schedule, 100, 0.75) == pytest.approx(0.0025)
    assert _rate_at(schedule, 100, 1.0) == 0.0


def test_the_shipped_prompts_are_those_that_the_models_learn() -> None:
    for name, text in PROMPTS.items():
        assert read_template(f"bare_{name}.txt").text == text


def test_shipped_recipes_read_and_their_questions_suffice() -> None:
    worlds = ("world-listener", "world-listener-short", "world-matcher", "world-matcher-second", "world-reader",
              "world-relevance", "world-relevance-first", "world-relevance-second")  # fmt: skip
    assert _shipped_training_recipes() == ("algebra-1m", "algebra-reader", "claims-1m", *worlds)
    for name in sorted(set(_shipped_training_recipes()) - set(worlds)):
        recipe = load_training_recipe(name)
        task = recipe.task.make()
        assert recipe.tokens > 0
        assert len(first_questions(task, "test", 1_000, 0)) == 1_000
        if recipe.start is None:  # else it goes on with solutions alone
            assert set(recipe.phases[-1].mixture) == set(PROMPTS)
            assert recipe.phases[-1].attempts is not None  # verdicts come from the model's own samples


def test_the_header_of_a_recipe_names_every_training_that_its_models_need() -> None:
    text, models = read_toml("world-listening")[1].read_text(encoding="utf-8"), set[str]()
    for name, folder in re.findall(r"thinkback train (\S+) --out (\S+)", text):
        start = load_training_recipe(name).start
        assert start is None or str(start) in models, name
        models.add(folder)
    assert set(re.findall(r'^model = "(.+)"', text, re.MULTILINE)) <= models


GOOD = '[task]\nname = "algebra_linear_1d"\n[[phase]]\ntokens = 10\n'


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (GOOD + "mixtur = { solve = 1 }", ("unknown", "`mixtur`", "`[phase.1]`", "`mixture`")),
        (GOOD + "mixture = { solv = 1 }", ("unknown", "`phase.1.mixture`", "`solv`", "`solve`")),
        (GOOD + "mixture = { solve = 0 }", ("invalid", "`phase.1.mixture.solve`", "0")),
        (GOOD + "attempts = { temperatures = [] }", ("invalid", "`phase.1.attempts`", "`temperatures`")),
        (GOOD + "[model]\nhidden = 130", ("invalid", "`hidden`", "`heads`")),
        (GOOD.replace("1d", "2d"), ("unknown", "`task.name`", "`algebra_linear_1d`", "'algebra_linear_2d'")),
        (GOOD.replace("[[phase]]", "[phase]"), ("required", "`phase`", "`[[phase]]`")),
        (GOOD.replace("= 10", "= 0"), ("invalid", "`phase.1.tokens`", "0", "1")),
        ('[task]\nname = "algebra_linear_1d"\n', ("required", "`phase`")),
        (GOOD.replace('1d"', '1d"\noptions = { term = 2 }'), ("unknown", "`algebra_linear_1d`", "`term`")),
        ("seed = 'x'\n" + GOOD, ("invalid", "`seed`", "'x'")),
        ("seed = \n" + GOOD, ("format", "`mine.toml`")),
    ],
)
def test_mistakes_in_a_recipe_are_one_line(tmp_path: Path, text: str, refusal: tuple[str, ...]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ThinkbackError) as caught:
        load_training_recipe(str(path))
    says(caught.value, *refusal)
    assert "recipe `mine.toml`" in str(caught.value)


def test_an_unknown_recipe_is_suggested() -> None:
    with refuses("not-found", "`algebra-1m`"):
        load_training_recipe("algebra-2m")


def test_the_tasks_of_the_recipes_are_those_of_the_logs() -> None:
    import tomllib

    from generate.recipes.toml_file import SHIPPED

    named = {"algebra-1m": "algebra-log", "algebra-reader": "algebra-log", "claims-1m": "claims-log"}
    for training, log in named.items():
        data = tomllib.loads((SHIPPED / f"{log}.toml").read_text())["data"]
        assert make_task(data["dataset"], data["options"]) == load_training_recipe(training).task.make()
