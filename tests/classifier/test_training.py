"""Training a verifier on a log: what it learns from, what it keeps, and that it then scores any log."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.classifier.classifier_fitting import _is_held_out, labelled_traces, training_rows
from generate.classifier.classifier_recipe import load_training
from generate.signals.additions import load_additions
from tests.errors import refuses
from tests.logs import make_log, make_rows, write_recipe
from tests.seeds import seeds
from toolkit.log import collect, validate_log

TINY = Path(__file__).resolve().parents[1] / "engines" / "tiny.py"
RECIPE = '[classifier]\nmodel = "tiny"\nprompt = "class.txt"\nlearning_rate = 0.003\nepochs = 2\n'
NEEDED = ("torch", "transformers", "peft")
with_models = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="torch, transformers or peft is not installed",
)


def save(folder: Path) -> Path:
    spec = importlib.util.spec_from_file_location("tiny_model", TINY)
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    return tiny.save_tiny(folder / "tiny")


def test_labels_are_verdicts_or_the_share_of_rollouts_that_fix(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", 12)
    correct = labelled_traces(log, load_training(write_recipe(tmp_path, RECIPE + 'pools = ["votes"]\n')))
    truth = collect(log.scan("traces").filter(pl.col("pool") == "votes")).sort("trace_id")
    assert correct["label"].to_list() == [float(one) for one in truth["correct"]]
    fix = labelled_traces(log, load_training(write_recipe(tmp_path, RECIPE + 'target = "fix:active_verify"\n')))
    # by hand: votes/0 is wrong in examples 0, 3, 6, 9; its revision is right in all examples but 0, 4, 8
    assert fix["trace_id"].to_list() == [f"s{i:03d}/votes/0" for i in range(12)]
    assert [i for i, label in enumerate(fix["label"]) if label == 1] == [3, 6, 9]


def test_examples_are_split_not_traces(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", 200)
    rows = training_rows(log, load_training(write_recipe(tmp_path, RECIPE)))
    assert rows.labels.shape == (1000,)
    assert set(rows.examples[rows.dev]).isdisjoint(rows.examples[~rows.dev])
    assert 0.1 < rows.dev.mean() < 0.3
    some = rows.examples[:500]
    assert (_is_held_out(some, 0.2, 0) == _is_held_out(rows.examples, 0.2, 0)[:500]).all(), (
        "whatever else is in the log"
    )


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ('target = "right"', ("invalid", "`classifier`", "`target`", "`right`")),
        ('target = "fix:"', ("invalid", "`correct`", "`fix:active_verify`", "`fix:ACTION`")),
        ('target = "fix:verify"', ("unknown", "`verify`", "`active_verify`")),
        ('pools = ["vote"]', ("unknown", "`vote`", "`votes`")),
        ('split = ["dev"]', ("unknown", "`dev`")),
        ("rang = 8", ("unknown", "`rang`", "`[classifier]`", "`rank`")),
        ('method = "lore"', ("unknown", "`classifier.method`", "`lora`", "'lore'")),
        ('keep = "merged"\nload_in_4bit = true', ("conflict", "`merged`", "`load_in_4bit`")),
        ("dev = 0.01", ("unsuitable", "`correct`", "`classifier`")),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, change: str, refusal: tuple[str, ...]) -> None:
    log = make_log(tmp_path / "log")
    with refuses(*refusal):
        training_rows(log, load_training(write_recipe(tmp_path, f"{RECIPE}{change}\n")))


@with_models
@pytest.mark.parametrize(("method", "keep"), seeds(1, [("lora", "adapter"), ("lora", "merged"), ("full", "merged")]))
def test_a_trained_classifier_scores_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], method: str, keep: str
) -> None:
    from generate.classifier.classifier_fitting import fit_classifier

    save(tmp_path)
    capfd.readouterr()  # what transformers says of saving
    log = make_log(tmp_path / "log", 40)
    text = (
        RECIPE + f'method = "{method}"\nkeep = "{keep}"\n[[verify]]\nname = "own"\nkind = "classifier"\nmodel = "own"\n'
    )
    recipe = write_recipe(tmp_path, text)
    lines: list[str] = []
    trained = fit_classifier(log, load_training(recipe), tmp_path / "own", say=lines.append)
    assert len(lines) == len(trained.epochs)
    assert trained.best == 1 + int(np.argmax([epoch.auprc for epoch in trained.epochs]))
    assert trained.rows + trained.dev_rows == 200
    kept = json.loads((tmp_path / "own" / "classifier.json").read_text())
    assert kept["settings"]["method"] == method
    assert (tmp_path / "own" / "adapter_config.json").exists() == ((method, keep) == ("lora", "adapter"))
    done = add_signals(make_add_plan(load_additions(recipe), tmp_path / "log"), lambda _: None)
    assert tuple(capfd.readouterr()) == ("", ""), "nothing is said of a head that is still to be put on"
    assert validate_log(done.log).problems == ()
    scores = collect(done.log.scan("verifications"))["score"]
    assert scores.len() == 200
    assert scores.is_between(0, 1).all()
    # the held-out rows, scored from the folder, have the AUPRC that training kept: the best epoch's weights are there
    from sklearn.metrics import average_precision_score

    chosen = labelled_traces(log, load_training(recipe))
    dev = _is_held_out(chosen["example_id"].to_numpy(), 0.2, 0)
    both = chosen.filter(pl.Series(dev)).join(collect(done.log.scan("verifications")), on="trace_id")
    assert average_precision_score(both["label"], both["score"]) == pytest.approx(
        trained.epochs[trained.best - 1].auprc, abs=1e-6
    )


@with_models
def test_training_is_the_same_again_and_stops_early_and_balances(tmp_path: Path) -> None:
    from generate.classifier.classifier_fitting import fit_classifier

    save(tmp_path)
    log = make_log(tmp_path / "log", 30)
    runs = []
    for number in range(2):
        recipe = load_training(write_recipe(tmp_path, RECIPE + 'balance = "sample"\nmetric = "accuracy"\n'))
        runs.append(fit_classifier(log, recipe, tmp_path / f"run{number}"))
    assert runs[0] == runs[1]
    idle = RECIPE.replace("0.003", "1e-9").replace("epochs = 2", "epochs = 9") + "patience = 1\n"
    trained = fit_classifier(log, load_training(write_recipe(tmp_path, idle)), tmp_path / "idle")
    assert trained.best == 1
    assert len(trained.epochs) == 2, "nothing is learnt, so it ends after one epoch without a better one"
    with refuses("exists", "`force`"):
        fit_classifier(log, load_training(write_recipe(tmp_path, idle)), tmp_path / "idle")
    short = load_training(write_recipe(tmp_path, RECIPE + "context = 3\n"))
    with refuses("empty", "3"):
        fit_classifier(log, short, tmp_path / "short")
    assert not (tmp_path / "short").exists()


@with_models
@pytest.mark.parametrize("balance", ["weight", "sample"])
def test_labels_that_are_left_behind_by_length_are_one_line(tmp_path: Path, balance: str) -> None:
    """Every right trace has 41 characters more, and the model is to read 60."""
    from generate.classifier.classifier_fitting import fit_classifier

    save(tmp_path)
    longer = pl.when("correct").then(pl.col("text") + " " + "y" * 40).otherwise("text")
    log = make_log(tmp_path / "log", 40, traces=make_rows(40)["traces"].with_columns(text=longer))
    text = f'{RECIPE}context = 50\nbalance = "{balance}"\n'
    with refuses("unsuitable", "50") as error:
        fit_classifier(log, load_training(write_recipe(tmp_path, text)), tmp_path / "own")
    assert "\n" not in str(error.value)


@with_models
def test_an_adapter_on_another_base_is_refused(tmp_path: Path) -> None:
    from generate.classifier.classifier_fitting import fit_classifier

    save(tmp_path)
    log = make_log(tmp_path / "log", 40)
    step = '[[verify]]\nname = "own"\nkind = "classifier"\nmodel = "own"\n'
    recipe = write_recipe(tmp_path, RECIPE.replace("epochs = 2", "epochs = 1") + step)
    fit_classifier(log, load_training(recipe), tmp_path / "own")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(9)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path / "tiny")).save_pretrained(tmp_path / "tiny")
    plan = make_add_plan(load_additions(recipe), tmp_path / "log")
    with refuses("mismatch", "`own`", "`tiny`") as error:
        add_signals(plan, lambda _: None)
    assert "\n" not in str(error.value)
    (tmp_path / "tiny").rename(tmp_path / "elsewhere")
    with refuses("not-found", "`own`", "`base`"):
        add_signals(plan, lambda _: None)
    (tmp_path / "own").rename(tmp_path / "gone")
    with refuses("not-found", "`own`"):
        add_signals(plan, lambda _: None)


def test_traces_may_be_split_and_the_larger_class_cut_down(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", 60)
    every = labelled_traces(log, load_training(write_recipe(tmp_path, RECIPE)))
    right = int(every["label"].sum())
    smaller = min(right, 300 - right)
    text = RECIPE + 'split = "trace"\nbalance = "down"\n'
    rows = training_rows(log, load_training(write_recipe(tmp_path, text)))
    assert rows.counts == {
        "generated": {"right": right, "wrong": 300 - right}, "balanced": {"right": smaller, "wrong": smaller}
    }  # fmt: skip
    for side in (rows.labels == 1, rows.labels == 0):
        assert side.sum() == smaller
        assert rows.dev[side].sum() == round(0.2 * smaller), "stratified"
    assert set(rows.examples[rows.dev]) & set(rows.examples[~rows.dev])
    again = training_rows(log, load_training(write_recipe(tmp_path, text)))
    other = training_rows(log, load_training(write_recipe(tmp_path, "seed = 1\n" + text)))
    assert rows.prompts == again.prompts != other.prompts
    both = RECIPE + 'split = { of = ["test"], by = "trace" }\n'
    assert len(training_rows(log, load_training(write_recipe(tmp_path, both))).labels) == 150
    for split, refusal in (('"rows"', ("unknown", "`classifier.split.by`", "trace")),
                           ('{ of = ["no"] }', ("unknown", "`no`")), ("3", ("invalid", "split"))):  # fmt: skip
        with refuses(*refusal):
            training_rows(log, load_training(write_recipe(tmp_path, f"{RECIPE}split = {split}\n")))


def test_other_verdicts_can_be_learnt(tmp_path: Path) -> None:
    traces = make_rows(12)["traces"]
    log = make_log(tmp_path / "log", 12, traces=traces.with_columns(exact=~pl.col("correct")))
    labels = [labelled_traces(log, load_training(write_recipe(tmp_path, f'{RECIPE}target = "{one}"\n')))["label"]
              for one in ("correct", "exact")]  # fmt: skip
    assert (labels[0] == 1 - labels[1]).all()
    with refuses("unsuitable", "`classifier.target`", "`cover`"):
        labelled_traces(log, load_training(write_recipe(tmp_path, f'{RECIPE}target = "cover"\n')))


@with_models
def test_an_encoder_is_trained_and_its_record_stands_in_the_manifest(tmp_path: Path) -> None:
    from generate.classifier.classifier_fitting import fit_classifier
    from tests.loops.test_pair_scores import bert, save_words

    words = save_words(tmp_path / "tiny")
    bert(len(words), 1, 16).save_pretrained(tmp_path / "tiny")
    log = make_log(tmp_path / "log", 40)
    head = 'split = "trace"\nbalance = "down"\nmethod = "full"\nkeep = "merged"\n'
    recipe = write_recipe(tmp_path, RECIPE + head + '[[verify]]\nname = "own"\nkind = "classifier"\nmodel = "own"\n')
    trained = fit_classifier(log, load_training(recipe), tmp_path / "own")
    counts = trained.counts
    assert list(counts) == ["generated", "balanced", "train", "validation"]
    assert counts["balanced"]["right"] == counts["balanced"]["wrong"] == min(counts["generated"].values())
    for side in ("right", "wrong"):
        assert counts["train"][side] + counts["validation"][side] == counts["balanced"][side]
    assert trained.both_sides > 0
    done = add_signals(make_add_plan(load_additions(recipe), tmp_path / "log"), lambda _: None)
    record = done.log.manifest.source["verifiers"]["own"]["training"]
    assert record["trained"]["counts"] == counts
    assert record["settings"]["split"] == {"of": [], "by": "trace"}
