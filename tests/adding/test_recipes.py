"""The shipped recipes that add to logs: they fit the logs that they are for, and run from end to end."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from generate.classifier.classifier_recipe import load_training
from generate.recipes.recipe import load_recipe
from generate.recipes.toml_file import SHIPPED
from generate.signals.additions import load_additions
from generate.signals.judge import _PromptedVerifier
from generate.tasks import make_task
from generate.tasks.exercises import CHOICES
from thinkback.app import app
from toolkit.log import collect, open_log, validate_log

MODELS = Path(__file__).resolve().parents[2] / "data" / "models"
TASKS = ("algebra", "claims")


@pytest.mark.parametrize("task", TASKS)
def test_a_verifier_learns_from_the_questions_of_its_log(task: str) -> None:
    """The same task and seed, so that its first questions are those of the log's training split, and no others'."""
    data = [tomllib.loads((SHIPPED / f"{task}-{name}.toml").read_text())["data"] for name in ("log", "verifier")]
    options = [{key: value for key, value in one["options"].items() if key != "n"} for one in data]
    assert make_task(data[0]["dataset"], options[0]) == make_task(data[1]["dataset"], options[1])
    assert data[1]["split"] == ["train"]
    votes, attempts = load_recipe(f"{task}-log").sample[1], load_recipe(f"{task}-verifier").sample[0]
    assert (attempts.prompt, attempts.temperature, attempts.max_tokens) == (
        votes.prompt, votes.temperature, votes.max_tokens,
    )  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_signals_are_those_that_the_model_has_learnt(task: str) -> None:
    added = load_additions(f"{task}-signals")
    asked = {step.kind: step for step in added.verify if isinstance(step, _PromptedVerifier)}
    assert {kind: step.prompt for kind, step in asked.items()} == {
        "judge": "bare_judge.txt", "reflection": "bare_reflect.txt", "listwise": "bare_choose.txt",
    }  # fmt: skip
    assert asked["listwise"].first == CHOICES
    assert load_training(f"{task}-verifier").template.name == "bare_judge.txt"
    (probes,) = added.states
    assert (len(probes.layers), len(probes.tokens), probes.pools) == (2, 8, ("probe",))


@pytest.mark.parametrize("name", ["quantemp", "sevra-gsm8k", "sevra-math500", "lilave-gsm8k"])
def test_what_is_added_to_published_logs_fits_their_pools(name: str) -> None:
    """Whatever a step is for is there, and a choice is among several attempts at one question."""
    recipe = load_recipe(name)
    samples = {sample.pool: sample.samples for sample in recipe.sample}
    steps = load_additions(f"{name.partition('-')[0]}-signals").steps
    assert {pool for step in steps for pool in step.pools} <= samples.keys()
    choices = [step for step in steps if step.kind == "listwise"]
    assert all(step.pools and min(samples[pool] for pool in step.pools) >= step.first for step in choices)
    assert len(choices) == (name == "lilave-gsm8k")


def at_work(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Runs commands in a folder that has the models which ship, but for the verifiers."""
    pytest.importorskip("peft")
    (folder / "data" / "models").mkdir(parents=True)
    for model in sorted(MODELS.iterdir()):
        if not model.name.endswith("-verifier"):
            (folder / "data" / "models" / model.name).symlink_to(model)
    monkeypatch.chdir(folder)
    for line in lines:
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 0, f"{line}\n{done.output}"


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_from_a_model_to_a_log_with_every_signal(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work(
        tmp_path,
        monkeypatch,
        f"generate {task}-verifier --set data.options.n.train=40 --out attempts",
        f"fit {task}-verifier --on attempts --set classifier.epochs=1 --out data/models/{task}-verifier",
        f"generate {task}-log --set data.options.n=2 --out log",
        f"generate {task}-signals --on log",
    )
    log = open_log("log")
    assert validate_log(log).problems == ()
    verifiers = set(collect(log.scan("verifications"))["verifier"])
    assert verifiers == {step.name for step in load_additions(f"{task}-signals").verify}
    assert log.rows("features") == log.rows("traces")
    assert log.rows(f"hidden_states/{task}-1m") == 6 * 2 * 8


@pytest.mark.slow
def test_one_command_writes_the_states_of_both_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work(
        tmp_path,
        monkeypatch,
        *(f"generate {task}-log --set data.options.n=1 --out {task}" for task in TASKS),
        "merge algebra claims --name both --out log",
        "generate small-grid --on log",
    )
    log = open_log("log")
    traces = collect(log.scan("traces", ["trace_id", "example_id"]))
    kinds = collect(log.scan("examples", ["example_id", "dataset"]))
    for task, dataset in zip(TASKS, ("algebra_linear_1d", "numeric_claims"), strict=True):
        grid = collect(log.scan(f"hidden_states/{task}-1m-grid"))
        own = traces.join(kinds.filter(dataset=dataset), on="example_id")
        assert set(grid["trace_id"]) == set(own["trace_id"])
        assert sorted(grid["layer"].unique()) == [-6, -4, -2, -1]
        assert sorted(grid["token"].unique()) == list(range(-16, 0))
