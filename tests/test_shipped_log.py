"""The log in `data/`: whole, of the recipes and models beside it, within its size, and worth replaying."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.recipes.recipe import load_recipe
from generate.training.model_recipe import load_training_recipe
from toolkit.log import collect, open_log, validate_log
from toolkit.stats import paired_interval

DATA = Path(__file__).resolve().parents[1] / "data"
TASKS = {"algebra_linear_1d": "algebra", "numeric_claims": "claims"}
REVISIONS = ("continue", "active-verify", "self-correct")


@cache
def traces() -> pl.DataFrame:
    """The traces with the data set and split of their example; without a readable answer a trace is not right."""
    log = open_log(DATA / "log")
    columns = ["trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "answer", "correct",
               "finish_reason", "completion_tokens", "device_s", "latency_s", "sum_logprob"]  # fmt: skip
    rows = collect(log.scan("traces", columns)).with_columns(pl.col("correct").fill_null(False))
    return rows.join(examples().select("example_id", "dataset", "split"), on="example_id")


@cache
def examples() -> pl.DataFrame:
    return collect(open_log(DATA / "log").scan("examples"))


def right(dataset: str, pool: str, split: str = "test") -> np.ndarray:
    """The mean correctness of each example's traces in a pool, by example."""
    rows = traces().filter(dataset=dataset, pool=pool, split=split)
    return rows.group_by("example_id").agg(pl.col("correct").mean()).sort("example_id")["correct"].to_numpy()


def majority(dataset: str) -> np.ndarray:
    """Whether the commonest answer of 16 is right, by example: a plain loop; of equals, the earliest."""
    rows = traces().filter(dataset=dataset, pool="votes", split="test").sort("example_id", "sample_index")
    found = []
    for _, votes in rows.group_by("example_id", maintain_order=True):
        answers, correct = votes["answer"].to_list(), votes["correct"].to_list()
        given = [answer for answer in answers if answer is not None]
        best = max(dict.fromkeys(given), key=given.count, default=None)
        found.append(best is not None and correct[answers.index(best)])
    return np.array(found, float)


def test_it_is_a_whole_log_of_the_size_that_was_promised() -> None:
    assert validate_log(open_log(DATA / "log")).ok
    size = {name: sum(f.stat().st_size for f in (DATA / name).rglob("*") if f.is_file()) for name in ("log", "models")}
    made = sum(f.stat().st_size for name in ("examples", "traces") for f in (DATA / "log" / name).rglob("*"))
    assert made <= 20e6
    assert size["models"] <= 8 * 2**20
    assert all(f.read_bytes()[8:].find(b'"F16"') > 0 for f in (DATA / "models").rglob("*.safetensors"))


def test_both_tasks_have_the_same_splits_pools_and_actions() -> None:
    counts = examples().group_by("dataset", "split").len().sort("dataset", "split").rows()
    sizes = (("dev", 500), ("test", 1_000), ("train", 1_000))
    assert counts == [(task, split, size) for task in TASKS for split, size in sizes]
    assert examples()["canonical"].n_unique() == examples().height
    per = traces().group_by("dataset", "pool", "action").len().sort("dataset", "pool")
    expected = {
        ("probe", "solve"): 2_500, ("votes", "solve"): 40_000, ("short", "solve"): 2_500, ("long", "solve"): 2_500,
        ("continue", "continue"): 5_000, ("active-verify", "active_verify"): 5_000,
        ("self-correct", "self_correct"): 5_000,
    }  # fmt: skip
    for task in TASKS:
        assert {(pool, action): n for _, pool, action, n in per.filter(dataset=task).rows()} == expected
    assert traces().filter(pl.col("device_s").is_null() | pl.col("latency_s").is_null()).is_empty()
    assert traces()["sum_logprob"].null_count() == 0


@pytest.mark.parametrize("task", TASKS.values())
def test_its_models_and_recipes_are_those_that_ship(task: str) -> None:
    recipe, training = load_recipe(f"{task}-log"), load_training_recipe(f"{task}-1m")
    model = DATA / "models" / f"{task}-1m"
    assert recipe.engine.model == f"data/models/{task}-1m"
    told = json.loads((model / "training.json").read_text(encoding="utf-8"))
    assert told["recipe"]["task"] == json.loads(
        json.dumps({"name": training.task.name, "options": training.task.options})
    )
    assert told["recipe"]["seed"] == training.seed
    assert told["seconds"] < 40 * 60  # as promised, on the one core that `threads` says
    assert [phase["tokens"] for phase in told["recipe"]["phases"]] == [phase.tokens for phase in training.phases]
    inner = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    digest = hashlib.sha256(f"model.safetensors {inner}\n".encode()).hexdigest()
    assert digest in json.dumps(open_log(DATA / "log").manifest.source)


@pytest.mark.parametrize("task", TASKS)
def test_each_task_leaves_something_to_win(task: str) -> None:
    assert 0.5 <= right(task, "probe").mean() <= 0.85
    short = traces().filter(dataset=task, pool="short", split="test")
    assert 0.15 <= (short["finish_reason"] == "length").mean() <= 0.5
    base = short.select(parent_id="trace_id", base="correct")
    ends = traces().filter(pl.col("pool").is_in(REVISIONS), dataset=task, split="test").join(base, on="parent_id")
    fixes = ends.group_by("pool").agg(
        fix=(pl.col("correct") & ~pl.col("base")).mean(), flip=(~pl.col("correct") & pl.col("base")).mean()
    )
    assert not fixes.filter((pl.col("fix") >= 0.05) & (pl.col("flip") >= 0.01)).is_empty()


def test_votes_budgets_and_revisions_pay_on_the_test_questions() -> None:
    """Each with a 95 % paired interval above zero in at least one task."""
    lows: dict[str, list[float]] = {"votes": [], "budget": [], "revision": []}
    for task in TASKS:
        lows["votes"].append(low(majority(task), right(task, "probe")))
        lows["budget"].append(low(right(task, "long"), right(task, "short")))
        short = traces().filter(dataset=task, pool="short", split="test").sort("example_id")
        cut = (short["finish_reason"] == "length").to_numpy()
        base = short["correct"].to_numpy().astype(float)
        lows["revision"] += [low(right(task, pool)[cut], base[cut]) for pool in REVISIONS]
    assert all(max(found) > 0 for found in lows.values()), lows


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS.values())
def test_its_rows_can_be_made_again(tmp_path: Path, task: str) -> None:
    """The first three test questions, asked of the models beside it: the same texts, answers and tokens."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from generate.engines import open_engine
    from generate.sampling.sampling_plan import make_plan
    from generate.sampling.sampling_run import generate

    model = DATA / "models" / f"{task}-1m"
    plan = make_plan(load_recipe(f"{task}-log", [f"engine.model={model}", 'data.split=["test"]']), limit=3)
    settings = {"model": str(model), **plan.recipe.engine.settings, "device": "cpu"}
    made = generate(plan, tmp_path / "log", lambda recipe: open_engine(recipe.engine.kind, settings)).log
    same = ["trace_id", "text", "answer", "correct", "prompt_tokens", "completion_tokens", "seed", "finish_reason"]
    again = collect(made.scan("traces", same)).sort("trace_id")
    shipped = collect(open_log(DATA / "log").scan("traces", same)).join(again, on="trace_id", how="semi")
    assert again.height == 3 * 25
    assert again.equals(shipped.sort("trace_id"))


def low(first: np.ndarray, second: np.ndarray) -> float:
    bound = paired_interval(first, second).low
    assert bound is not None
    return bound
