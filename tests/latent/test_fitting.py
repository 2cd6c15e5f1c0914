"""Fitted verifiers: no question is scored by a model that has seen it, whatever is read and however it is fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.planted import PlantedModel, simulate_planted
from replay.latent import fitting, model_rows, models
from replay.latent.fitting import FittedVerifier, fit_verifier
from replay.latent.model_rows import Traces
from replay.latent.models import VerifierSettings
from replay.latent.report import _add_verifier
from tests.errors import noted, refuses
from tests.latent.planted import scores
from tests.logs import log_tables
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect, extend_log, open_log, validate_log, write_log
from toolkit.log.describe.scored_traces import scored_traces
from toolkit.log.describe.verifier_quality import _measure_quality
from toolkit.stats import auc, auc_within

TRAIN = "split='train'"
QUICK = VerifierSettings("latent", rounds=5, depth=3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("fitting") / "log"
    simulate_planted(where, examples=300, traces=4, seed=3, model=PlantedModel(places=2))
    return where


@pytest.fixture(scope="module")
def coarse(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with states of nine values, so that bins do not depend on the rows that they are made of."""
    log = open_log(path)
    table = "hidden_states/planted"
    states = collect(log.scan(table), log)
    rough = np.clip(np.round(states["state"].to_numpy().astype(np.float32) * 2) / 2, -2, 2).astype(np.float16)
    changed = states.with_columns(state=pl.Series(rough, dtype=pl.Array(pl.Float16(), rough.shape[1])))
    return copied(path, tmp_path_factory.mktemp("coarse") / "log", **{table: changed})


def copied(path: Path, to: Path, **changed: pl.DataFrame) -> Path:
    """A copy of a log with other rows in some tables."""
    log = open_log(path)
    tables = log_tables(log) | changed
    write_log(to, name="copy", tables=tables)
    return to


def added(path: Path, settings: VerifierSettings, train_on: str = TRAIN) -> tuple[Log, FittedVerifier]:
    fitted = fit_verifier(str(path), train_on, settings)
    return _add_verifier(path, fitted), fitted


def test_trained_questions_get_scores_out_of_fold_and_others_none(path: Path, tmp_path: Path) -> None:
    log, fitted = added(copied(path, tmp_path / "log"), QUICK)
    assert validate_log(log).problems == ()
    found = scores(log, "latent")
    assert found.height == 1_200
    assert (found["fold"].is_null() == (found["split"] == "test")).all()
    assert set(found["fold"].drop_nulls()) == set(range(5))
    assert found.group_by("example_id").agg(pl.col("fold").n_unique())["fold"].max() == 1
    assert fitted.rows == 150 * 4 * 2
    assert auc(found["score"], found["correct"]) > 0.75


def test_scores_out_of_fold_are_those_of_a_model_without_the_fold(coarse: Path) -> None:
    """Fitting on the other folds alone, by their ids, gives the same scores."""
    fitted = fit_verifier(str(coarse), TRAIN, QUICK)
    folded = fitted.scores.filter(pl.col("fold") == 2)
    ids = ", ".join(f"'{one}'" for one in folded["example_id"].unique())
    alone = fit_verifier(str(coarse), f"split='train' and example_id not in ({ids})", replace(QUICK, folds=0))
    both = folded.join(alone.scores, on="trace_id")
    assert both.height == folded.height
    assert (both["score"] - both["score_right"]).abs().max() < 1e-6
    full = fit_verifier(str(coarse), TRAIN, replace(QUICK, folds=0)).scores
    assert set(full["trace_id"]).isdisjoint(folded["trace_id"])


@pytest.mark.parametrize("deep", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fold_does_not_depend_on_its_own_labels(
    coarse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: bool
) -> None:
    """With the labels of one fold turned round before anything is fitted, its scores stay as they are, and those of
    others do not; those of a verifier that reads another one, or one that does.
    """
    monkeypatch.setattr(fitting, "_folds_of_questions", dealt_by_number)
    base = replace(QUICK, name="base", places="mean")
    whose = fit_verifier(str(coarse), TRAIN, base).scores
    log = open_log(coarse)
    one = whose.filter(pl.col("fold") == 1)["example_id"].unique()
    turned = pl.when(pl.col("example_id").is_in(one.implode())).then(~pl.col("correct")).otherwise("correct")
    changed = {"examples": collect(log.scan("examples"), log).with_columns(labels=pl.lit(None, pl.List(pl.String)))}
    traces = collect(log.scan("traces"), log).with_columns(answer=pl.col("trace_id"), opaque=pl.lit(True))
    settings = replace(QUICK, inputs=("states", "verifier:base"))  # whose folds are taken
    pair = []
    for name, own in (("plain", traces), ("turned", traces.with_columns(correct=turned))):
        where = copied(coarse, tmp_path / name, **changed, traces=own)
        added(where, base)
        if deep:
            added(where, replace(settings, name="second"))
        last = replace(settings, inputs=("verifier:second", "verifier:base")) if deep else settings
        pair.append(fit_verifier(str(where), TRAIN, last).scores.sort("trace_id"))
    moved = [(a["score"] - b["score"]).abs().max() for a, b in zip(*(_by_fold(one) for one in pair), strict=True)]
    assert moved[1] < 1e-6
    assert min(moved[0], *moved[2:]) > 0.01


def dealt_by_number(traces: Traces, rows: np.ndarray, count: int, seed: int) -> dict[int, int]:
    """Folds that do not depend on labels."""
    return {int(group): place % count for place, group in enumerate(np.unique(traces.group[rows]))}


@pytest.mark.parametrize("kind", ["logistic", pytest.param("xgboost", marks=pytest.mark.slow)])
def test_shuffled_labels_give_a_half_to_a_verifier_that_reads_another_one(
    path: Path, tmp_path: Path, kind: str
) -> None:
    """Labels are shuffled before the first is fitted: the second can subtract it from the states, which both read."""
    log = open_log(path)
    ids = collect(log.scan("examples", ["example_id"]), log)["example_id"].sort()[:80]
    inside = pl.col("example_id").is_in(ids.implode())
    tables = {table: collect(log.scan(table), log).filter(inside) for table in log.shards}
    tables["examples"] = tables["examples"].with_columns(labels=pl.lit(None, pl.List(pl.String)))
    traces = tables["traces"].sort("trace_id").with_columns(answer=pl.col("trace_id"), opaque=pl.lit(True))
    areas = []
    for seed in range(6):
        told = traces.with_columns(pl.col("correct").sample(fraction=1, shuffle=True, seed=seed))
        where = tmp_path / str(seed)
        write_log(where, name="shuffled", tables=tables | {"traces": told})
        first = replace(QUICK, name="base", model=kind)
        added(where, first)
        stacked = replace(first, name="stack", inputs=("states", "verifier:base"))
        found = fit_verifier(str(where), TRAIN, stacked).scores.filter(pl.col("fold").is_not_null())
        found = found.join(told.select("trace_id", "correct"), on="trace_id")
        areas.append(auc(found["score"], found["correct"]))
    assert np.mean(areas) < 0.5 + 3 * np.std(areas, ddof=1) / np.sqrt(len(areas))
    assert np.mean(areas) < 0.55


def test_what_cannot_be_fitted_again_is_not_read(path: Path, tmp_path: Path) -> None:
    fitted = fit_verifier(str(path), TRAIN, QUICK)
    log = open_log(path)
    both = pl.concat([collect(log.scan("verifications"), log), fitted.scores], how="diagonal_relaxed")
    where = copied(path, tmp_path / "log", verifications=both)
    with refuses("leakage", "`latent`", "`thinkback fit-verifier`"):
        fit_verifier(str(where), TRAIN, replace(QUICK, name="stack", inputs=("verifier:latent",)))


@pytest.mark.parametrize("kind", ["xgboost", "logistic"])
@pytest.mark.parametrize("places", ["each", "mean"])
def test_a_place_where_all_that_is_trained_on_is_right_is_left_out(
    path: Path, tmp_path: Path, kind: str, places: str
) -> None:
    log = open_log(path)
    table, traces = "hidden_states/planted", collect(log.scan("traces"), log)
    told = collect(log.scan(table), log).join(traces.select("trace_id", "correct"), on="trace_id")
    sparse = told.filter((pl.col("token") == -1) | "correct").drop("correct")
    where = copied(path, tmp_path / "log", **{table: sparse})
    fitted = fit_verifier(str(where), TRAIN, replace(QUICK, model=kind, places=places))
    assert fitted.places == ((-1, -1),)
    assert fitted.verifiers == (("latent:-1:-1",) if places == "each" else ("latent",))
    noted(fitted.notes, "one_class", "1 ", "-1:-2")
    assert fitted.scores["verifier"].unique().to_list() == list(fitted.verifiers)
    with refuses("unsuitable", "341"):
        fit_verifier(str(where), TRAIN, replace(QUICK, model=kind, places=places, tokens=(-2,)))
    apart = told.filter((pl.col("token") == -2) == pl.col("correct")).drop("correct")
    where = copied(path, tmp_path / "apart", **{table: apart})
    with refuses("unsuitable", "2"):
        fit_verifier(str(where), TRAIN, replace(QUICK, model=kind, places=places))


def test_few_questions_are_dealt_to_folds_all_the_same(path: Path) -> None:
    log = open_log(path)
    traces = collect(log.scan("traces", ["trace_id", "example_id", "correct", "sample_index"]), log)
    one = traces.filter(sample_index=0).sort("example_id")
    three = pl.concat([one.filter("correct")[:3], one.filter(~pl.col("correct"))[:3]])
    tables = log_tables(log)
    few = {
        name: frame.filter(pl.col("example_id").is_in(three["example_id"].implode())) for name, frame in tables.items()
    }
    few = {name: f.filter(pl.col("trace_id").is_in(three["trace_id"].implode())) if "trace_id" in f.columns else f
           for name, f in few.items()}  # fmt: skip
    fitted = fit_verifier(few, "true", replace(QUICK, tokens=(-1,)))
    assert sorted(fitted.scores["fold"]) == [0, 0, 1, 2, 3, 4]


def _by_fold(scores: pl.DataFrame) -> list[pl.DataFrame]:
    return [scores.filter(pl.col("fold") == fold) for fold in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shuffles"), seeds(1, [("logistic", 20), ("xgboost", 20)]))
def test_shuffled_labels_give_a_half_on_trained_questions_on_average(
    path: Path, kind: str, shuffles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, found = fitting.read_traces, []
    for seed in range(100, 100 + shuffles):

        def shuffled(*asked: Any, seed: int = seed) -> Traces:
            traces = read(*asked)
            return replace(traces, right=np.random.default_rng(seed).permutation(traces.right))

        monkeypatch.setattr(fitting, "read_traces", shuffled)
        scored = fit_verifier(str(path), TRAIN, replace(QUICK, model=kind)).scores
        keys = shuffled(open_log(path), (), ())
        right = keys.keys.select("trace_id", right=pl.Series(keys.right))
        inside = scored.filter(pl.col("fold").is_not_null()).join(right, on="trace_id")
        areas = (
            auc(inside["score"], inside["right"]),
            auc_within(inside["score"], inside["right"], inside["example_id"]),
        )
        found.append(areas)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(shuffles)
    assert (np.abs(mean - 0.5) < 3 * error).all()
    assert (error < 0.02).all()


def test_copies_of_a_question_and_its_cluster_share_its_fold(path: Path, tmp_path: Path) -> None:
    log = open_log(path)
    examples = collect(log.scan("examples"), log).sort("example_id")
    number = pl.Series(range(300))
    changed = examples.with_columns(
        question=pl.when(number < 20).then(pl.lit("What is 2 + 2?")).otherwise("question"),
        cluster=pl.when(number.is_between(19, 30)).then(pl.lit("one")),
    )
    where = copied(path, tmp_path / "log", examples=changed)
    found = fit_verifier(str(where), TRAIN, QUICK).scores.join(changed.with_row_index("n"), on="example_id")
    together = found.filter(pl.col("n") < 31)
    assert together["fold"].null_count() == 0  # the test questions among them, too
    assert together["fold"].n_unique() == 1


def test_stacking_takes_the_folds_of_what_it_reads(path: Path, tmp_path: Path) -> None:
    where = copied(path, tmp_path / "log")
    added(where, QUICK)
    states = collect(open_log(where).scan("hidden_states/planted"))
    extend_log(where, {"hidden_states/later": states})  # of another model, which the first does not read
    log, second = added(where, VerifierSettings("stacked", inputs=("verifier:latent", "verifier:projection"), seed=9))
    folds = scores(log, "latent").join(scores(log, "stacked"), on="trace_id")
    assert folds["fold"].eq_missing(folds["fold_right"]).all()
    assert "inherited_folds" in {note.code for note in second.notes}
    log, _ = added(where, replace(QUICK, name="other", seed=4, states="planted"))
    with refuses("mismatch", "`other`", "`latent`"):
        fit_verifier(str(where), TRAIN, VerifierSettings("both", inputs=("verifier:latent", "verifier:other")))


def test_what_was_not_trained_on_keeps_the_fold_of_its_inputs(path: Path, tmp_path: Path) -> None:
    where = copied(path, tmp_path / "log")
    added(where, QUICK)
    log, _ = added(where, VerifierSettings("later", inputs=("verifier:latent",)), "split='test'")
    found = scores(log, "later")
    assert found["fold"].null_count() == 0


@pytest.mark.parametrize("kind", ["mlp", pytest.param("swiglu", marks=pytest.mark.slow)])
def test_networks_learn_too(path: Path, kind: str) -> None:
    if kind == "swiglu":
        pytest.importorskip("torch")
    fitted = fit_verifier(str(path), TRAIN, VerifierSettings(kind, model=kind, folds=0))
    log = open_log(path)
    right = collect(log.scan("traces", ["trace_id", "correct"]), log)
    found = fitted.scores.join(right, on="trace_id")
    assert found["score"].is_between(0, 1).all()
    assert auc(found["score"], found["correct"]) > 0.6


@pytest.mark.parametrize("places", ["one", "each", "mean"])
@pytest.mark.parametrize("aggregate", ["min", "median"])
def test_places_and_aggregates(path: Path, places: str, aggregate: str) -> None:
    fitted = fit_verifier(str(path), TRAIN, replace(QUICK, places=places, aggregate=aggregate, folds=2))
    names = ["latent:-1:-2", "latent:-1:-1"] if places == "each" else ["latent"]
    assert sorted(fitted.scores["verifier"].unique()) == sorted(names)
    assert fitted.scores.height == 1_200 * len(names)
    assert len(fitted.models) == (1 if places == "one" else 2)


def test_aggregates_are_of_the_scores_of_places(path: Path) -> None:
    each = fit_verifier(str(path), TRAIN, replace(QUICK, places="each")).scores
    apart = each.group_by("trace_id").agg(pl.col("score").mean(), low=pl.col("score").min())
    for aggregate, column in (("mean", "score"), ("min", "low")):
        whole = fit_verifier(str(path), TRAIN, replace(QUICK, places="mean", aggregate=aggregate)).scores
        both = whole.join(apart, on="trace_id", suffix="_apart")
        other = "score_apart" if column == "score" else column
        assert (both["score"] - both[other]).abs().max() < 1e-6


def test_external_memory_and_small_batches_give_the_same_scores(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fit_verifier(str(path), TRAIN, QUICK).scores.drop("latency_s", "device_s")
    monkeypatch.setattr(models, "IN_MEMORY", 0)
    monkeypatch.setattr(model_rows, "BATCH_BYTES", 5_000)
    after = fit_verifier(str(path), TRAIN, QUICK).scores.drop("latency_s", "device_s")
    joined = before.join(after, on="trace_id", suffix="_after")
    assert (joined["score"] - joined["score_after"]).abs().max() < 1e-6
    assert joined["fold"].eq_missing(joined["fold_after"]).all()


def test_bins_of_a_sample_of_rows_give_nearly_the_same_scores(coarse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fit_verifier(str(coarse), TRAIN, QUICK).scores
    monkeypatch.setattr(models, "IN_MEMORY", 0)
    monkeypatch.setattr(models, "SAMPLED", 300)
    after = fit_verifier(str(coarse), TRAIN, QUICK).scores  # nine values, all of which are in the sample
    joined = before.join(after, on="trace_id", suffix="_after")
    assert (joined["score"] - joined["score_after"]).abs().max() < 1e-6


def test_the_model_is_plain_xgboost_json_and_the_manifest_says_what_it_saw(path: Path, tmp_path: Path) -> None:
    import hashlib

    import xgboost

    where = copied(path, tmp_path / "log")
    log, _ = added(where, QUICK)
    record = json.loads((where / "manifest.json").read_text())["source"]["verifiers"]["latent"]
    file = where / record["model"]["file"]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == record["model"]["sha256"]
    assert record["trained_on"]["examples"] == 150
    assert record["trained_on"]["log"] == open_log(path).digest() or record["trained_on"]["log"]
    assert len(record["trained_on"]["questions"]) == 150
    assert record["settings"]["depth"] == 3
    model = json.loads(file.read_text())["models"][0]
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(model), "utf-8"))
    assert booster.num_boosted_rounds() == 5
    assert log.warnings == ()


def test_other_inputs(path: Path, tmp_path: Path) -> None:
    log = open_log(path)
    traces = collect(log.scan("traces"), log).sort("trace_id")
    rng = np.random.default_rng(0)
    lists = [rng.normal(float(right), 1, size=3 + i % 9).tolist() for i, right in enumerate(traces["correct"])]
    told = traces.with_columns(token_logprobs=pl.Series(lists, dtype=pl.List(pl.Float32)), credit=pl.lit(1.0))
    features = traces.select("trace_id", "example_id", entropy=pl.Series(rng.normal(size=len(traces))))
    where = copied(path, tmp_path / "log", traces=told, features=features)
    inputs = ("trace:token_logprobs", "feature:entropy", "trace:completion_tokens")
    fitted = fit_verifier(str(where), TRAIN, replace(QUICK, inputs=inputs))
    assert fitted.columns[:4] == (
        "trace:token_logprobs sum", "trace:token_logprobs mean", "trace:token_logprobs min", "trace:token_logprobs[-1]",
    )  # fmt: skip
    found = fitted.scores.join(traces, on="trace_id")
    assert auc(found["score"], found["correct"]) > 0.8
    kept = collect(open_log(where).scan("verifications"), log).join(
        told.select("trace_id", own="token_logprobs"), on="trace_id"
    )
    kept = kept.with_columns(token_logprobs="own").drop("own")
    other = copied(where, tmp_path / "kept", verifications=kept)
    same = fit_verifier(str(other), TRAIN, replace(QUICK, inputs=("tokens:projection", *inputs[1:]))).scores
    both = same.join(fitted.scores, on="trace_id")
    assert (both["score"] - both["score_right"]).abs().max() < 1e-9
    spread = kept.with_columns(token_entropies="token_logprobs", token_ranks=pl.lit([3, 1, 2], pl.List(pl.Int32)))
    spread = spread.with_columns(pl.col("token_entropies").list.eval(-pl.element().clip(upper_bound=0)))
    spread = spread.with_columns(token_logprobs=pl.lit(None, pl.List(pl.Float32)))
    third = copied(where, tmp_path / "spread", verifications=spread)
    columns = fit_verifier(str(third), TRAIN, replace(QUICK, inputs=("tokens:projection",))).columns
    assert {"tokens:projection entropy max", "tokens:projection entropy[-1]", "tokens:projection rank sum"} < {*columns}
    assert len(columns) == 2 * 12
    for name, refusal in (
        ("trace:credit", ("unknown", "`credit`")), ("feature:entropi", ("unknown", "`entropy`")),
        ("entropy", ("unknown", "`trace:COLUMN`")),
        ("verifier:none", ("unknown", "`none`")),
        ("tokens:projection", ("unknown", "`projection`")),
    ):  # fmt: skip
        with refuses(*refusal):
            fit_verifier(str(where), TRAIN, replace(QUICK, inputs=(name,)))


def test_mistakes_are_one_line_and_leave_the_log_as_it_was(path: Path, tmp_path: Path) -> None:
    where = copied(path, tmp_path / "log")
    before = (where / "manifest.json").read_bytes()
    for settings, train_on, refusal in (
        (replace(QUICK, name="projection"), TRAIN, ("conflict", "`projection`")),
        (replace(QUICK, layers=(-2,)), TRAIN, ("unknown", "-2", "-1")),
        (replace(QUICK, states="other"), TRAIN, ("unknown", "`other`")),
        (replace(QUICK, pools=("n5",)), TRAIN, ("unknown", "`n5`")),
        (QUICK, "split='dev'", ("empty", "`train_on`", "`test`")),
        (replace(QUICK, folds=200), TRAIN, ("empty", "200")),
    ):
        with refuses(*refusal):
            added(where, settings, train_on)
    for wrong in ({"folds": 1}, {"name": " "}, {"model": "forest"}, {"inputs": ()}):
        with pytest.raises(ThinkbackError):
            replace(QUICK, **wrong)
    assert (where / "manifest.json").read_bytes() == before
    assert not (where / "models").exists()


def test_a_rare_class_is_warned_of(path: Path, tmp_path: Path) -> None:
    log = open_log(path)
    examples = collect(log.scan("examples"), log).with_columns(labels=pl.lit(None, pl.List(pl.String)))
    traces = collect(log.scan("traces"), log).sort("trace_id").with_row_index("n")
    few = traces.with_columns(correct=pl.col("n") % 25 == 0, answer=pl.col("trace_id"), opaque=pl.lit(True)).drop("n")
    where = copied(path, tmp_path / "log", traces=few, examples=examples)
    assert "rare_class" in {note.code for note in fit_verifier(str(where), TRAIN, QUICK).notes}


@pytest.mark.parametrize("kind", ["xgboost", "logistic", "mlp"])
def test_shuffled_labels_give_a_half_within_the_interval_on_trained_questions_too(
    path: Path, tmp_path: Path, kind: str
) -> None:
    log = open_log(path)
    traces = collect(log.scan("traces"), log).sort("trace_id")
    shuffled = traces["correct"].sample(fraction=1, shuffle=True, seed=11)
    examples = collect(log.scan("examples"), log).with_columns(labels=pl.lit(None, pl.List(pl.String)))
    told = traces.with_columns(shuffled, answer=pl.col("trace_id"), opaque=pl.lit(True))
    log, fitted = added(copied(path, tmp_path / "log", traces=told, examples=examples), replace(QUICK, model=kind))
    for ids in (fitted.trained, examples.filter(pl.col("split") == "test")["example_id"]):
        [read] = scored_traces(log, ids)
        [row] = [one for one in _measure_quality(read, None).signals if one.name == "latent"]
        for found in (row.auc, row.within):
            assert found.low <= 0.5 <= found.high


@pytest.mark.parametrize(("writer", "reads"), [("hub/Reader-8B", False), ("writer", True)])
def test_a_score_by_a_model_that_reads_anothers_text_costs_its_tokens_and_seconds(
    path: Path, tmp_path: Path, writer: str, reads: bool
) -> None:
    """Of 100 tokens and 5 s for each trace with states of `reader-8b`; of the model's own traces nothing."""
    log = open_log(path)
    tables = log_tables(log)
    tables["traces"] = tables["traces"].with_columns(
        model=pl.lit(writer), prompt_tokens=pl.lit(60, pl.Int32), completion_tokens=pl.lit(40, pl.Int32)
    )
    count = tables["hidden_states/planted"]["trace_id"].n_unique()
    source = {"hidden_states": {"planted": {"model": "reader-8b", "wall_clock_s": 5.0 * count}}}
    write_log(tmp_path / "log", name="read", tables=tables, source=source)
    fitted = fit_verifier(str(tmp_path / "log"), TRAIN, QUICK)
    each = fitted.seconds["scoring"] / fitted.scores.height
    assert fitted.scores["prompt_tokens"].unique().to_list() == [100 if reads else 0]
    assert fitted.scores["device_s"].to_numpy() == pytest.approx((5.0 if reads else 0.0) + each, rel=1e-4)
    assert any(one.code == "read_by_another" for one in fitted.notes) is reads
    _add_verifier(tmp_path / "log", fitted)
    best = replay.Sample(name="best", verifier="latent", max_traces=2)
    first = replay.Sample(name="first", max_traces=2, select="majority")
    result = replay.run(tmp_path / "log", [best, first], where="split = 'test'", resamples=10)
    spent = {
        p: e for p, m, e in result.summary.select("policy", "metric", "estimate").iter_rows() if m == "total_tokens"
    }
    assert spent["best"] - spent["first"] == pytest.approx(200 if reads else 0)
    parts = [{"source": {"hidden_states": {"planted": {"model": model}}}} for model in (writer, "another")]
    write_log(tmp_path / "merged", name="merged", tables=tables, source={"merged": parts})
    assert fit_verifier(str(tmp_path / "merged"), TRAIN, QUICK).scores["prompt_tokens"].unique().to_list() == [0]
    unknown = dict(source["hidden_states"]["planted"])
    del unknown["wall_clock_s"]
    write_log(tmp_path / "dark", name="dark", tables=tables, source={"hidden_states": {"planted": unknown}})
    dark = fit_verifier(str(tmp_path / "dark"), TRAIN, QUICK).scores
    assert dark["device_s"].null_count() == (dark.height if reads else 0)
