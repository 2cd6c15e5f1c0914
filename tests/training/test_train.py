"""Training for real, on a model small enough for a test: it learns, its folder is whole, and a seed decides all."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `generate` is not installed")
pytest.importorskip("transformers", reason="the extra `generate` is not installed")

from generate.engines import open_engine
from generate.engines.base import Call, Completion
from generate.engines.weights import find_model
from generate.tasks import TaskText
from generate.training import trainer
from generate.training.llama import load_model, make_classifier, make_model, make_tokenizer, save_model
from generate.training.model_recipe import LearningRateSchedule, ModelShape, load_training_recipe
from generate.training.trainer import IGNORED, _batches, train_model
from tests.errors import refuses, says
from toolkit.errors import ThinkbackError

RECIPE = """
seed = 3
[task]
name = "numeric_claims"
options = { years = 2, kinds = ["bound"], two_parts = 0.0, differ = 0.0, shares = [1, 1, 0] }
[model]
hidden = 32
layers = 2
heads = 2
intermediate = 64
context = 320
[schedule]
rate = 0.01
warmup = 5
batch_tokens = 512
[[phase]]
tokens = 40_000
mixture = { solve = 1 }
[[phase]]
tokens = 8_000
mixture = { solve = 1, continue = 1, verify = 1, repair = 1, correct = 1, judge = 1, reflect = 1 }
attempts = { questions = 8, samples = 2, max_tokens = 24, short = [6] }
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def model(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "tiny"
    done = subprocess.run(
        [sys.executable, "-m", "thinkback", "train", str(recipe), "--out", str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "phase 1: 4" in done.stdout
    assert "sampled attempts" in done.stdout
    assert done.stderr == ""
    return out


def test_only_completions_and_their_ends_are_learnt() -> None:
    tokenizer = make_tokenizer()
    made = iter([TaskText("solve", f"{n}+{n}\n", f"#### {n + n}") for n in range(10, 40)] * 40)
    batch = next(_batches(made, tokenizer, 512, 64, random.Random(0)))
    assert batch.ids.size <= 512
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        learnt = [int(token) for token in targets if token != IGNORED]
        assert learnt[-1] == tokenizer.eos_token_id
        number = int(tokenizer.decode(learnt[:-1]).removeprefix("#### "))
        text = tokenizer.decode([token for token in ids if token != tokenizer.pad_token_id], skip_special_tokens=True)
        assert text == f"{number // 2}+{number // 2}\n#### {number}"
        first = int(np.argmax(targets != IGNORED))
        assert targets[first] == ids[first + 1]  # each place predicts the next one
    assert batch.tokens == sum(len(tokenizer.decode(row[row != tokenizer.pad_token_id], skip_special_tokens=True)) + 1
                               for row in batch.ids)  # fmt: skip


def test_texts_of_like_length_stand_together() -> None:
    tokenizer = make_tokenizer()
    rng = random.Random(0)
    made = (TaskText("solve", "1" * rng.randint(1, 60), "2") for _ in range(100_000))
    padded = [batch.tokens / batch.ids.size for batch in islice(_batches(made, tokenizer, 1024, 128, rng), 100)]
    assert sum(padded) / len(padded) > 0.93


def test_texts_that_no_model_can_read_are_refused() -> None:
    tokenizer = make_tokenizer()
    with refuses("unsuitable", "`solve`", "`É`"):
        next(_batches(iter([TaskText("solve", "É", "1")]), tokenizer, 512, 64, random.Random(0)))
    with refuses("empty", "64"):
        next(_batches(iter([TaskText("solve", "1" * 80, "1")]), tokenizer, 512, 64, random.Random(0)))


@pytest.mark.parametrize("convolution", [0, 5])
def test_attention_in_float32_is_the_models_own(convolution: int) -> None:
    import torch

    tokenizer = make_tokenizer()
    shape = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, intermediate=32, convolution=convolution)
    model = make_model(shape, 0, tokenizer)
    assert model.config.model_type == ("lfm2" if convolution else "llama")
    ids = torch.randint(2, len(tokenizer), (3, 17))
    ours = model(input_ids=ids).logits
    model.config._attn_implementation = "eager"
    torch.testing.assert_close(ours, model(input_ids=ids).logits, atol=1e-5, rtol=1e-4)


def test_a_trained_model_knows_the_form_of_its_answers(model: Path) -> None:
    engine = open_engine("transformers", {"model": str(model)})
    question = "year jobs cars\n2011 10 12\n2012 30 25\nclaim: jobs were above 20 in 2012.\n"
    ((_, outcome),) = engine.run([Call("a", question, (0,), (0.0,), 40)])
    assert not hasattr(outcome, "reason")
    (completion,) = outcome
    assert isinstance(completion, Completion)
    assert "####" in completion.text


def test_the_folder_is_whole_and_reports_the_way_there(model: Path) -> None:
    from safetensors.numpy import load_file

    weights = load_file(model / "model.safetensors")
    assert {str(weight.dtype) for weight in weights.values()} == {"float16"}
    report = json.loads((model / "training.json").read_text())
    assert report["recipe"]["seed"] == 3
    assert report["parameters"] == sum(weight.size for weight in weights.values())
    first, second = report["phases"]
    assert first["tokens"] >= 40_000
    assert first["losses"][-1][1] < 3.0  # the mean of all steps; nothing learnt would be log(59) = 4.1
    assert 0 <= second["sampled"] <= 1
    assert sorted(path.name for path in model.parent.iterdir()) == ["tiny"]  # nothing half-written beside it


def test_the_seed_decides_every_weight(recipe: Path, model: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    text = recipe.read_text().replace("40_000", "6_000")
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / f"{name}.toml").write_text(
            text.replace("seed = 3", f"seed = {seed}").split("[[phase]]\ntokens = 8")[0]
        )
        train_model(load_training_recipe(str(tmp_path / f"{name}.toml")), tmp_path / name)
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert all((a[name] == b[name]).all() for name in a)
    assert any((a[name] != c[name]).any() for name in a)


def test_a_step_of_matrices_is_muons(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's own, which knows bfloat16 alone; in float32 the same update, but for rounding."""
    import torch

    def trained(precision: Any) -> Any:
        monkeypatch.setattr(trainer, "_matrix_precision", lambda device: precision)
        torch.manual_seed(0)
        layer = torch.nn.Linear(6, 10, bias=False)
        layer.device, layer.gain = torch.device("cpu"), torch.nn.Parameter(torch.ones(6))
        optimizer = trainer._Optimizer(layer, LearningRateSchedule(rate=0.01, warmup=0))
        reference = torch.nn.Parameter(layer.weight.detach().clone())
        muon = torch.optim.Muon([reference], lr=0.01, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
        for step in range(4):
            layer.gain.grad, layer.weight.grad = torch.zeros(6), 0.01 * torch.randn(10, 6)
            reference.grad = layer.weight.grad.clone()
            optimizer.step(step, 0.0)
            muon.step()
        return layer.weight.detach(), reference.detach()

    assert torch.equal(*trained(torch.bfloat16))
    ours, torchs = trained(torch.float32)
    assert 0 < (ours - torchs).abs().max() < 0.002  # of steps of 0.01 * 0.2 * sqrt(10), a tenth


@pytest.mark.slow
def test_training_goes_on_from_a_model(recipe: Path, model: Path, tmp_path: Path) -> None:
    before, _, after = RECIPE.partition("[model]")
    schedule = "[schedule]" + after.partition("[schedule]")[2].split("[[phase]]")[0]
    on = f'start = "{model}"\n{before}{schedule}[[phase]]\ntokens = 8_000\n'
    (tmp_path / "on.toml").write_text(on.replace("rate = 0.01", "rate = 0.001"))
    (report,) = train_model(load_training_recipe(str(tmp_path / "on.toml")), tmp_path / "on")
    first = json.loads((model / "training.json").read_text())["phases"][0]
    assert report.losses[-1][1] < first["losses"][-1][1]  # the mean of all steps: it does not begin anew
    written = json.loads((tmp_path / "on" / "training.json").read_text())
    assert len(written["start_weights_sha256"]) == 64
    assert written["recipe"]["start"] == str(model)


def test_a_model_that_cannot_be_gone_on_from_is_refused(recipe: Path, model: Path, tmp_path: Path) -> None:
    def told(line: str, text: str = RECIPE) -> ThinkbackError:
        (tmp_path / "on.toml").write_text(line + text)
        with pytest.raises(ThinkbackError) as refused:
            train_model(load_training_recipe(str(tmp_path / "on.toml")), tmp_path / "on")
        assert not (tmp_path / "on").exists()
        return refused.value

    shapeless = RECIPE.partition("[model]")[0] + "[[phase]]\ntokens = 100\n"
    says(told(f'start = "{model}"\n'), "conflict", "`[model]`", "`start`")
    says(told("start = 3\n", shapeless), "invalid", "`start`", "3")
    says(told(f'start = "{tmp_path / "none"}"\n', shapeless), "not-found", "none`")
    other = tmp_path / "other"
    shutil.copytree(model, other)
    words = json.loads((other / "tokenizer.json").read_text())
    words["model"]["vocab"]["é"] = len(words["model"]["vocab"])
    (other / "tokenizer.json").write_text(json.dumps(words))
    says(told(f'start = "{other}"\n', shapeless), "mismatch", "`thinkback train`")
    foreign = tmp_path / "foreign"
    shutil.copytree(model, foreign)
    config = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    says(told(f'start = "{foreign}"\n', shapeless), "unsuitable", "`gpt2`", "`thinkback train`")


@pytest.mark.slow
@pytest.mark.parametrize("convolution", [0, 4])
def test_a_classifier_has_the_log_odds_of_its_classes(convolution: int, tmp_path: Path) -> None:
    """Of two classes those of the first against the second, of three a logit for each: as the model itself has them."""
    import torch

    cross = pytest.importorskip("sentence_transformers", reason="the extra `retrieval` is not installed").CrossEncoder
    question, passage = "Where was Ana born?", "Ana: Born in Rome."
    words = ["yes", "no", "\n", *["Where", "was", "Ana", "born", "?", ":", "Born", "in", "Rome", "."]]
    tokenizer = make_tokenizer(words)
    shape = ModelShape(hidden=16, layers=2, heads=2, intermediate=32, context=64, convolution=convolution)
    model = make_model(shape, 5, tokenizer).eval()
    ids = torch.tensor([tokenizer(f"{question}\n{passage}\n")["input_ids"]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, -1].double()
    yes, no, was = (float(logits[tokenizer.get_vocab()[name]]) for name in ("yes", "no", "was"))
    for classes, wanted in ((("yes", "no"), 1 / (1 + np.exp(no - yes))), (("yes", "no", "was"), [yes, no, was])):
        folder = tmp_path / "-".join(classes)
        save_model(make_classifier(model, tokenizer, classes), tokenizer, folder)
        scores = cross(str(folder), device="cpu").predict([(question, passage), ("Who?", "Ana: Rome."), ("", "")])
        assert scores[0] == pytest.approx(wanted, abs=2e-3)  # weights are kept in float16
    with refuses("unsuitable", "ForSequenceClassification"):
        load_model(find_model(str(folder), None, download=False), tokenizer)


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [('classes = ["yes"]', "invalid", "`classes`"), ('classes = ["#", "perhaps"]', "unknown", "`perhaps`")],
)
def test_classes_are_tokens_of_the_task(line: str, code: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(f"{line}\n{RECIPE}")
    with refuses(code, name):
        load_training_recipe(str(tmp_path / "tiny.toml"))


def test_without_a_compiler_nothing_is_compiled(recipe: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "thinkback", "train", str(recipe), "--out", str(tmp_path / "made"), "--compile"],
        capture_output=True,
        text=True,
        env={**os.environ, "CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 2
    says(done, "package", "g++", "`compiled`")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_a_compiled_model_learns_the_same(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(RECIPE.replace("40_000", "4_000").split("[[phase]]\ntokens = 8")[0])
    short = load_training_recipe(str(tmp_path / "a.toml"))
    (plain,), (compiled,) = train_model(short, tmp_path / "a"), train_model(short, tmp_path / "b", compiled=True)
    assert plain.tokens == compiled.tokens
    assert compiled.losses[-1][1] == pytest.approx(plain.losses[-1][1], rel=0.02)
    assert json.loads((tmp_path / "b" / "training.json").read_text())["compiled"]


def test_a_folder_that_exists_is_refused_before_anything_is_trained(recipe: Path, model: Path) -> None:
    before = (model / "model.safetensors").stat().st_mtime_ns
    done = subprocess.run(
        [sys.executable, "-m", "thinkback", "train", str(recipe), "--out", str(model)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (model / "model.safetensors").stat().st_mtime_ns == before
