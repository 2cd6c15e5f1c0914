"""What was added to the log in `data/`: verifiers of all traces, features, hidden states; and that one of them pays."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from generate.classifier.classifier_recipe import load_training
from generate.signals.additions import load_additions
from tests.test_shipped_log import DATA, examples, majority
from thinkback.app import app
from toolkit.log import collect, open_log, write_log
from toolkit.stats import auc_intervals, paired_interval

SHARED = ("trained", "judge", "reflection", "logprob_sum", "logprob_mean")
FIXES = {"fix_active_verify": "active_verify", "fix_continue": "continue"}
STATES = {"algebra_linear_1d": "algebra-1m", "numeric_claims": "claims-1m"}


@cache
def votes(dataset: str, verifier: str) -> pl.DataFrame:
    """The 16 votes of each test question with a verifier's scores, in the order in which they were sampled."""
    log = open_log(DATA / "log")
    of_test = examples().filter(dataset=dataset, split="test")
    columns = ["trace_id", "example_id", "pool", "sample_index", "answer", "correct"]
    rows = collect(log.scan("traces", columns)).filter(pool="votes")
    rows = rows.join(of_test, on="example_id", how="semi").with_columns(pl.col("correct").fill_null(False))
    scores = collect(log.scan("verifications", ["trace_id", "verifier", "score"])).filter(verifier=verifier)
    return rows.join(scores, on="trace_id", how="left").sort("example_id", "sample_index")


def best_of_all(rows: pl.DataFrame) -> np.ndarray:
    """Whether the trace with the highest score is right, by example; of equals, the earliest."""
    given = rows.filter(pl.col("answer").is_not_null() & pl.col("score").is_not_null())
    best = given.group_by("example_id", maintain_order=True).agg(pl.col("correct").get(pl.col("score").arg_max()))
    every = rows.select("example_id").unique().join(best, on="example_id", how="left").sort("example_id")
    return every["correct"].fill_null(False).to_numpy().astype(float)


def test_a_verifier_tells_right_from_wrong_and_beats_the_majority() -> None:
    rows = votes("algebra_linear_1d", "reader")
    found = auc_intervals(rows["score"], rows["correct"].cast(pl.Int8), rows["example_id"])
    assert found.auc_within.low is not None
    assert found.auc_within.low > 0.6
    gain = paired_interval(best_of_all(rows), majority("algebra_linear_1d"))
    assert gain.low is not None
    assert gain.low > 0


@pytest.mark.parametrize("dataset", STATES)
def test_every_trace_has_its_scores_and_features(dataset: str) -> None:
    log = open_log(DATA / "log")
    own = examples().filter(dataset=dataset)["example_id"]
    traces = collect(log.scan("traces", ["trace_id", "example_id"])).filter(pl.col("example_id").is_in(own.implode()))
    scores = collect(log.scan("verifications", ["trace_id", "verifier", "score", "device_s", "prompt_tokens"]))
    per = scores.join(traces, on="trace_id", how="semi").group_by("verifier").agg(pl.len(), pl.all().null_count())
    counted = {row["verifier"]: row for row in per.iter_rows(named=True)}
    task = STATES[dataset].split("-")[0]
    (source,) = (part["source"] for part in log.manifest.source["merged"] if part["name"] == f"{task}-log")
    assert counted.keys() == {*SHARED, *FIXES, "choice", *(["reader"] if task == "algebra" else [])}
    asked = {"choice": 2_500 * 6, **dict.fromkeys(FIXES, 2_500)}
    for name, row in counted.items():  # a judgement that can't be read has no row, and the manifest says which
        told = source["verifiers"][name]
        without = len(told.get("skipped", ())) + len(told.get("unreadable", {}).get("traces", ()))
        assert row["len"] == told["rows"] == asked.get(name, traces.height) - without
        assert without <= (96 if name == "choice" else 10)
        assert row["device_s"] == row["prompt_tokens"] == 0
    features = collect(log.scan("features")).join(traces, on="trace_id", how="semi")
    assert features.height == traces.height
    assert features["prompt_words"].null_count() == 0


@cache
def repairs() -> pl.DataFrame:
    """The rollouts of the actions on test questions: whether they repaired the attempt, its scores, and its end."""
    log = open_log(DATA / "log")
    columns = ["trace_id", "example_id", "pool", "action", "parent_id", "correct", "finish_reason"]
    rows = collect(log.scan("traces", columns)).with_columns(pl.col("correct").fill_null(False))
    rows = rows.join(examples().filter(split="test").select("example_id", "dataset"), on="example_id")
    cut = (pl.col("finish_reason") == "length").cast(pl.Float64)
    short = rows.filter(pool="short").select(parent_id="trace_id", base="correct", cut=cut)
    scores = collect(log.scan("verifications", ["trace_id", "verifier", "score"])).rename({"trace_id": "parent_id"})
    named = pl.col("verifier").replace_strict(FIXES)
    own = scores.filter(pl.col("verifier").is_in(list(FIXES))).select("parent_id", "score", action=named)
    found = rows.join(short, on="parent_id").join(own, on=["parent_id", "action"]).sort("example_id", "trace_id")
    return found.with_columns(repaired=(pl.col("correct") & ~pl.col("base")).cast(pl.Int8))


@pytest.mark.parametrize("action", FIXES.values())
@pytest.mark.parametrize("dataset", STATES)
def test_what_is_said_of_the_classifiers_of_repairs_holds(dataset: str, action: str) -> None:
    rows = repairs().filter(dataset=dataset, action=action)
    assert rows.height == 2 * 1_000
    shown = []
    for column in ("score", "cut"):
        found = auc_intervals(rows[column], rows["repaired"], rows["example_id"]).auc
        shown.append(f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]")
    line = f"| `{dataset}` | {action} | {100 * rows['repaired'].mean():.1f} % | {shown[0]} | {shown[1]} |"
    assert line in (DATA / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("action", FIXES.values())
@pytest.mark.parametrize("dataset", STATES)
def test_they_know_more_than_the_cut_where_it_is_said(dataset: str, action: str) -> None:
    """Differences of two AUCs on the same rollouts, resampled by question."""
    from sklearn.metrics import roc_auc_score

    rows, rng = repairs().filter(dataset=dataset, action=action), np.random.default_rng(0)
    repaired, score, cut = (rows[name].to_numpy() for name in ("repaired", "score", "cut"))
    of = rows["example_id"].rank("dense").to_numpy() - 1
    places = [np.flatnonzero(of == one) for one in range(of.max() + 1)]

    def ahead(at: np.ndarray) -> float:
        return roc_auc_score(repaired[at], score[at]) - roc_auc_score(repaired[at], cut[at])

    drawn = [np.concatenate([places[one] for one in rng.integers(0, len(places), len(places))]) for _ in range(300)]
    assert (np.quantile([ahead(at) for at in drawn], 0.025) > 0) == (action == "active_verify")
    if action == "active_verify":
        rounded = {"algebra_linear_1d": 0.02, "numeric_claims": 0.04}[dataset]
        assert round(ahead(np.arange(rows.height)), 2) == rounded


@pytest.mark.parametrize("task", ["algebra", "claims"])
@pytest.mark.parametrize("action", FIXES.values())
def test_classifiers_of_repairs_learnt_from_the_train_split_alone(task: str, action: str) -> None:
    """As their recipes say; the model that scored is the one that ships."""
    model = DATA / "models" / f"{task}-fix-{action.replace('_', '-')}"
    told = json.loads((model / "classifier.json").read_text(encoding="utf-8"))
    training = load_training(f"{task}-fixes", [f"classifier.target=fix:{action}"]).training
    assert asdict(training.split) == {"of": ("train",), "by": "question"}
    assert (told["settings"]["target"], told["settings"]["split"]) == (f"fix:{action}", ["train"])
    assert told["settings"] == json.loads(json.dumps(asdict(training))) | {"model": f"{task}-1m", "split": ["train"]}
    assert told["trained"]["rows"] + told["trained"]["dev_rows"] == 1_000
    inner = hashlib.sha256((model / "adapter_model.safetensors").read_bytes()).hexdigest()
    digest = hashlib.sha256(f"adapter_model.safetensors {inner}\n".encode()).hexdigest()
    source = next(p["source"] for p in open_log(DATA / "log").manifest.source["merged"] if p["name"] == f"{task}-log")
    assert source["verifiers"][f"fix_{action}"]["weights_sha256"] == digest
    steps = {step.name: step for step in load_additions(f"{task}-fixes").verify}
    assert Path(str(steps[f"fix_{action}"].model)).name == model.name


@pytest.mark.parametrize(("dataset", "model"), STATES.items())
def test_probes_have_their_hidden_states(dataset: str, model: str) -> None:
    log = open_log(DATA / "log")
    rows = collect(log.scan(f"hidden_states/{model}", ["trace_id", "layer", "token", "state"]))
    assert rows["trace_id"].n_unique() == 2_500
    assert sorted(rows["layer"].unique()) == [-4, -1]
    assert sorted(rows["token"].unique()) == list(range(-8, 0))
    assert rows.height >= 0.99 * 2_500 * 2 * 8  # a text of fewer than eight tokens has fewer
    assert rows.schema["state"] == pl.Array(pl.Float16, 128)
    (step,) = load_additions(f"{model.split('-')[0]}-signals").states
    assert step.grid is not None
    states = rows["state"].head(100).to_numpy().astype(float)
    assert (states / step.grid == np.round(states / step.grid)).all()


@pytest.mark.slow
@pytest.mark.parametrize("dataset", STATES)
def test_its_signals_can_be_made_again(tmp_path: Path, dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two test questions: the same scores, but for the last digits of what was rounded, and the same states."""
    pytest.importorskip("peft")
    shipped, task = open_log(DATA / "log"), STATES[dataset].split("-")[0]
    few = examples().filter(dataset=dataset, split="test").head(2).select("example_id")
    tables = {
        name: collect(shipped.scan(name)).join(few, on="example_id", how="semi") for name in ("examples", "traces")
    }
    source = next(part["source"] for part in shipped.manifest.source["merged"] if part["name"] == f"{task}-log")
    made = {key: value for key, value in source.items() if key not in ("verifiers", "features", "hidden_states")}
    write_log(tmp_path / "log", name="again", tables=tables, source=made)
    monkeypatch.chdir(DATA.parent)
    done = CliRunner().invoke(app, ["generate", f"{task}-signals", "--on", str(tmp_path / "log")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["generate", f"{task}-fixes", "--on", str(tmp_path / "log")])
    assert done.exit_code == 0, done.output
    again = open_log(tmp_path / "log")
    assert set(FIXES) <= set(collect(again.scan("verifications", ["verifier"]))["verifier"])
    keys = {"verifications": ["trace_id", "verifier"], f"hidden_states/{task}-1m": ["trace_id", "layer", "token"]}
    for table, key in keys.items():
        value = "score" if table == "verifications" else "state"
        both = collect(again.scan(table, [*key, value])).join(
            collect(shipped.scan(table, [*key, value])), on=key, how="left", suffix="_shipped"
        )
        first, second = (both[name].to_numpy().astype(float) for name in (value, f"{value}_shipped"))
        assert both.height >= (len(SHARED) * 50 if value == "score" else 2 * 2 * 8)
        assert np.mean(np.isclose(first, second, atol=0.02)) > 0.99


def test_all_of_data_is_small_enough_for_git() -> None:
    assert sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file()) <= 29e6
