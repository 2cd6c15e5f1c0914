"""Recipes: strict keys, bounds, settings given on the command line, and the settings of the papers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from generate.classifier.classifier_recipe import load_training
from generate.recipes.prompting import PROMPTS
from generate.recipes.recipe import (
    Recipe,
    _BalancedTemperatures,
    _ConstantTemperature,
    _ReviseStep,
    _TemperatureMixture,
    load_added_pools,
    load_recipe,
)
from generate.recipes.toml_file import read_toml, shipped_recipes
from generate.sampling.samples import sample_calls
from generate.sampling.sampling_estimate import estimate_pools
from generate.sampling.sampling_plan import make_plan
from generate.signals.additions import load_additions
from generate.tasks import PROMPTS as FORMATS
from tests.errors import numbers, refuses
from tests.generate.toy import RECIPE, URL, write_recipe

TABLES = {name: set(read_toml(name)[0]) for name in shipped_recipes()}
LOGS = [name for name, tables in TABLES.items() if "data" in tables]
ADDING = [name for name, tables in TABLES.items() if tables & {"verify", "features", "states"}]
TRAINING = [name for name, tables in TABLES.items() if "classifier" in tables]

CHANGES: list[tuple[Callable[[str], str], str]] = [
    (lambda t: t.replace("samples = 3", "sample = 3"), ("unknown", "`sample`", "`[sample.votes]`", "`samples`")),
    (lambda t: "sed = 1\n" + t, ("unknown", "`sed`", "`seed`")),
    (lambda t: t.replace('model = "rule"', ""), ("required", "`engine.model`")),
    (lambda t: t.replace('model = "rule"', 'model = " "'), ("invalid", "`engine`", "`model`")),
    (lambda t: t.replace('kind = "openai"', 'kind = "opnai"'), ("unknown", "`openai`")),
    (lambda t: t.replace("samples = 3", "samples = 0"), ("invalid", "samples`", "0", "1")),
    (lambda t: t.replace("samples = 3", 'samples = "3"'), ("invalid", "`sample.votes.samples`", "'3'")),
    (lambda t: t.replace("samples = 3", "samples = true"), ("invalid", "`sample.votes.samples`")),
    (lambda t: t.replace('of = "probe"', 'of = "prob"'), ("unknown", "`probe`")),
    (lambda t: t.replace('of = "probe"', 'of = "probe"\nof_sample = 1'), ("invalid", "`probe`", "1", "0")),
    (lambda t: t.replace('pool = "votes"', 'pool = "probe"'), ("conflict", "`sample.probe.pool`")),
    (lambda t: t.replace('pool = "votes"', 'pool = "a/b"'), ("invalid", "`/`")),
    (lambda t: t.replace("last.txt", "lost.txt"), ("unknown", "`lost.txt`")),
    (lambda t: t.replace('read = ["answer is"]', 'read = ["answer"]'), ("unknown", "`answer is`")),
    (lambda t: t.replace('kind = "number"', 'kind = "label"'), ("required", "`answers`", "`kind`", "`label`")),
    (lambda t: t.replace("[finalizer]", "[evidence]\ntop = 3\n[finalizer]"), ("required", "`[embedding]`")),
    (lambda t: t.replace("[finalizer]", "[finaliser]"), ("unknown", "`finalizer`")),
    (lambda t: t.replace('model = "rule"', 'model = "rule"\nconcurency = 2'), ("unknown", "`concurrency`")),
    (lambda t: t.replace(URL, "base_url = 3\n"), ("invalid", "`base_url`", "3")),
    (lambda t: t.replace('model = "rule"', 'model = "rule"\nretries = "2"'), ("invalid", "`retries`", "'2'")),
    (lambda t: t.replace('model = "rule"', 'model = "rule"\nextra = 3'), ("invalid", "`extra`", "3")),
    (lambda t: t + "x = ", ("format", "`sums.toml`")),
]


@pytest.mark.parametrize(("change", "refusal"), CHANGES)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, change: Callable[[str], str], refusal: tuple[str, ...]) -> None:
    path = write_recipe(tmp_path, text=change(RECIPE))
    with refuses(*refusal, "`sums.toml`"):
        load_recipe(path)


def test_settings_overrule_the_file(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    recipe = load_recipe(
        path, ["sample.votes.samples=5", "engine.model=other", "sample.probe.temperature={mixture=[0,1]}"]
    )
    assert recipe.sample[1].samples == 5
    assert recipe.engine.model == "other"
    assert recipe.sample[0].temperature == _TemperatureMixture((0.0, 1.0))
    for given, refusal in (
        ("sample.vote.samples=5", ("unknown", "`votes`")),
        ("samples", ("invalid", "`engine.model=llama3.2`", "`samples`")),
        ("name.x=1", ("unknown", "`sums.toml`")),
        ("sample.votes=1", ("unknown", "`sums.toml`")),
    ):
        with refuses(*refusal):
            load_recipe(path, [given])


def test_a_shipped_recipe_by_name_and_a_misspelt_one() -> None:
    assert set(shipped_recipes()) >= {"quantemp", "claimdecomp", "sevra-math500", "sevra-gsm8k", "lilave-gsm8k"}
    with refuses("not-found", "`quantemp`"):
        load_recipe("quantem")


def test_identity_leaves_out_how_calls_are_made(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    plain = load_recipe(path).identity()
    assert load_recipe(path, ["engine.concurrency=2", "engine.timeout_s=9", "data.path=x"]).identity() == plain
    for given in ("engine.send_seed=false", "sample.votes.top_p=0.9", "seed=8"):
        assert load_recipe(path, [given]).identity() != plain
    (tmp_path / "ask.txt").write_text("Add: {{question}}", encoding="utf-8")
    assert load_recipe(path).identity() != plain


def pools(recipe: Recipe) -> dict[str, tuple[int, object, int]]:
    return {step.pool: (step.samples, step.temperature, step.max_tokens) for step in recipe.steps}


def test_settings_of_the_papers() -> None:
    for name in ("quantemp", "claimdecomp"):
        recipe = load_recipe(name)
        assert pools(recipe) == {"n15": (15, _BalancedTemperatures(0.3, 0.7, 0.05), 512)}
        assert recipe.few_shot is not None
        assert (recipe.few_shot.choose, recipe.few_shot.k, recipe.few_shot.split) == ("similar", 4, ("train",))
        assert recipe.answers.labels == ("Supports", "Refutes", "Conflicting")
    evidence = load_recipe("quantemp").evidence
    assert evidence is not None
    assert evidence.top == 3
    math, gsm = load_recipe("sevra-math500"), load_recipe("sevra-gsm8k")
    assert [step.max_tokens for step in math.sample] == [4096, 6144, 8192]
    assert [step.max_tokens for step in gsm.sample] == [4096, 8192]
    for recipe in (math, gsm):
        assert recipe.seed == 42
        assert {(s.action, s.of, s.rollouts, s.max_tokens) for s in recipe.steps if isinstance(s, _ReviseStep)} == {
            (action, "base-4096", 2, 4096) for action in ("continue", "critique_repair", "active_verify")
        }
        assert recipe.finalizer is not None
        assert recipe.finalizer.max_tokens == 512
    lilave = load_recipe("lilave-gsm8k")
    assert pools(lilave)["probe"][:2] == (1, _ConstantTemperature(0.0))
    assert pools(lilave)["votes"][:2] == (16, _ConstantTemperature(1.0))
    assert pools(lilave)["mixture"][:2] == (5, _TemperatureMixture((0.0, 0.25, 0.5, 0.75, 1.0)))
    assert lilave.revise[0].action == "self_correct"


def test_every_shipped_prompt_is_used_by_a_shipped_recipe_or_is_an_action() -> None:
    used = {name for recipe in LOGS for name in load_recipe(recipe).prompts}
    used |= {name for recipe in TABLES if (pools := load_added_pools(recipe)) is not None for name in pools.prompts}
    used |= {name for recipe in ADDING for name in load_additions(recipe).prompts}
    used |= {load_training(recipe).template.name for recipe in TRAINING}
    taught = {f"bare_{name}.txt" for name in FORMATS}
    assert {path.name for path in PROMPTS.glob("*.txt")} == used | taught


def published(folder: Path) -> dict[str, list[str]]:
    """A few made rows of each data set in the form in which it is published, and the settings that name them."""

    def lines(path: str, rows: list[dict[str, object]], joined: bool = True) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows) if joined else json.dumps(rows)
        (folder / path).write_text(text, encoding="utf-8")

    def claims(split: str, count: int) -> list[dict[str, object]]:
        return [{"claim": f"{split} claim {i}", "label": "True", "label_original": "true"} for i in range(count)]

    def decomposed(split: str, count: int) -> list[dict[str, object]]:
        notes = [{"questions": ["Is it so?"], "answers": ["yes"]}]
        return [
            {"example_id": f"{split}{i}", "claim": f"{split} claim {i}", "label": "half-true", "annotations": notes}
            for i in range(count)
        ]

    for split, count in (("test", 3), ("train", 6)):
        lines(f"quantemp/{split}_claims_quantemp.json", claims(split, count), joined=False)
        lines(f"claimdecomp/{split}.jsonl", decomposed(split, count))
    passages = [{"claim": f"test claim {i}", "docs": ["b", "aaaaaa", "cc", "dddd"]} for i in range(3)]
    lines("quantemp/bm25_scored_evidence/bm25_top_100_test.json", passages, joined=False)
    problems = [
        {"problem": f"{i} + 1?", "solution": f"$\\boxed{{{i + 1}}}$", "answer": str(i + 1), "subject": "Algebra",
         "level": 1, "unique_id": f"test/algebra/{i}.json"}
        for i in range(3)
    ]  # fmt: skip
    lines("math500/test.jsonl", problems)
    lines("gsm8k/test.jsonl", [{"question": f"{i} + 1?", "answer": f"So.\n#### {i + 1}"} for i in range(3)])
    data = {"sevra-math500": "math500", "sevra-gsm8k": "gsm8k", "lilave-gsm8k": "gsm8k"}
    named = {name: [f"data.path={folder / data.get(name, name)}"] for name in LOGS}
    named["quantemp"].append(f"data.options.evidence={folder / 'quantemp' / 'bm25_scored_evidence'}")
    return named


@pytest.mark.parametrize("name", ["quantemp", "claimdecomp", "sevra-math500", "sevra-gsm8k", "lilave-gsm8k"])
def test_a_dry_run_of_each_shipped_recipe(tmp_path: Path, name: str) -> None:
    recipe = load_recipe(name, published(tmp_path)[name])
    found = estimate_pools(make_plan(recipe))
    assert [line.pool for line in found] == [step.pool for step in recipe.steps]
    for line, step in zip(found, recipe.steps, strict=True):
        assert line.samples == 3 * step.samples
        finalizer = line.samples * 512 if recipe.finalizer is not None else 0
        assert line.completion_tokens == line.samples * step.max_tokens + finalizer
        assert line.requests == line.samples if recipe.engine.kind == "openai" else line.requests == 3
        assert line.prompt_tokens > 0
        if isinstance(step, _ReviseStep):  # the attempt comes back in the prompt
            base = next(other for other in recipe.steps if other.pool == step.of)
            assert line.prompt_tokens >= line.samples * base.max_tokens


@pytest.mark.parametrize(("per_call", "per_request", "requests"), [(8, 3, 6), (8, 1, 16), (2, 8, 8), (3, 2, 10)])
def test_a_dry_run_counts_the_requests_of_calls(tmp_path: Path, per_call: int, per_request: int, requests: int) -> None:
    """Of 8 samples of each of 2 questions; where temperatures differ, only neighbours of one share a request."""
    given = ["sample.votes.samples=8", f"engine.samples_per_call={per_call}"]
    given.append(f"engine.samples_per_request={per_request}")
    alike = load_recipe(write_recipe(tmp_path, 2), [*given, "sample.votes.temperature=0.5"])
    assert [line.requests for line in estimate_pools(make_plan(alike)) if line.pool == "votes"] == [requests]
    unlike = load_recipe(write_recipe(tmp_path, 2), given)
    step, options = unlike.step_of("votes"), unlike.engine.options
    asked = [sample_calls(step, unlike.seed, name, "?", range(8), per_call) for name in ("s000", "s001")]
    sent = sum(len(options.split_into_requests(one.call.temperatures)) for calls in asked for one in calls)
    assert [line.requests for line in estimate_pools(make_plan(unlike)) if line.pool == "votes"] == [sent]
    assert sent >= requests


def test_counts_stand_beside_those_of_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a dry run too, and those of the few-shot pool as well. 3 of the 2,495 claims and 6 of the 9,935 are here."""
    from thinkback.commands.generate import generate

    settings = published(tmp_path)["quantemp"]
    generate("quantemp", settings=settings, dry_run=True)
    said = capsys.readouterr().out.splitlines()
    subjects = ("quantemp test claims: ", "few-shot pool: quantemp train claims: ")
    counts = [numbers(line)[:3] for subject in subjects for line in said if line.startswith(subject)]
    assert counts == [["3", "2,495", "2,492"], ["6", "9,935", "9,929"]]
    assert make_plan(load_recipe("quantemp", settings)).notes == tuple(said[: said.index(said[-4])])


def test_an_option_is_a_path_only_where_it_names_a_file(tmp_path: Path) -> None:
    """A file beside the recipe that is called like a column changes nothing."""
    published(tmp_path)
    (tmp_path / "split").write_text("x", encoding="utf-8")
    text = RECIPE.replace('dataset = "examples"', 'dataset = "gsm8k"').replace("examples.jsonl", "gsm8k")
    path = write_recipe(tmp_path, text=text)
    plan = make_plan(load_recipe(path, ["data.options.choose=2", "data.options.choose_by=split"]))
    assert plan.examples.height == 2


def test_members_of_requests_by_step(tmp_path: Path) -> None:
    """The finalizer of the SeVRA recipes does not think; what a call sets itself, and keys, are refused."""
    for name in ("sevra-math500", "sevra-gsm8k"):
        assert load_recipe(name).finalizer.extra == {"reasoning_effort": "none"}
    path = write_recipe(tmp_path)
    assert load_recipe(path, ["sample.votes.extra={top_k = 20}"]).sample[1].extra == {"top_k": 20}
    for given, name in (("seed = 1", "`seed`"), ("api_key = 'x'", "`key_variable`")):
        with refuses("conflict", "`votes`", "`extra`", name):
            load_recipe(path, [f"sample.votes.extra={{{given}}}"])
    with refuses("conflict", "`finalizer`", "`extra`"):
        load_recipe(path, ["engine={kind = 'transformers', model = 'm'}", "finalizer.extra={a = 1}"])


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("engine.concurrency=0", ("invalid", "`concurrency`", "0", "1")),
        ("engine.base_url=x", ("invalid", "`base_url`")),
        ("engine={kind = 'openai', model = 'm'}", ("required", "`base_url`")),
        ("engine={kind = 'transformers', model = 'm', device = 'tpu'}", ("unknown", "`device`", "'tpu'")),
    ],
)
def test_values_of_an_engine_are_checked_when_the_recipe_is_read(
    tmp_path: Path, setting: str, refusal: tuple[str, ...]
) -> None:
    with refuses(*refusal):
        load_recipe(write_recipe(tmp_path), [setting])


def test_a_recipe_without_pools_makes_nothing(tmp_path: Path) -> None:
    text = RECIPE.partition("[[sample]]")[0]
    path = write_recipe(tmp_path, text=f"sample = []\n{text}")
    with refuses("required", "`[[sample]]`"):
        load_recipe(path)
