"""Gates: fitted, kept as JSON, read by `when`, refused where they do not belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.recovery import RecoveryModel, _ActionModel, _recovery_tables, simulate_recovery
from replay import Act, Oracle, Route, Router, Threshold, When
from replay.engine.signals import gate_input
from replay.gatefit.fit import _FittedGate, fit_gate
from replay.gatefit.report import gate_decisions, transfer_report
from replay.policies.gate_file import content_hash, gate_file_text, load_gate, normalised_question
from replay.policies.gate_models import MODELS, fit_model
from tests.errors import numbers, refuses
from tests.logs import drawn
from tests.seeds import seeds
from thinkback.options import described
from toolkit.log import write_log
from toolkit.stats import Settings

TRAIN, DEV, TEST = "split = 'train'", "split = 'dev'", "split = 'test'"
WHEN = """
[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "BASE", max_traces = 1, select = "first" }
gate = { file = "PATH" }
then = { kind = "act", action = "ACTION", base = "BASE" }
"""


log = drawn(simulate_recovery, examples=900, seed=11)


@pytest.fixture(scope="module")
def fitted(log: Path) -> _FittedGate:
    return fit_gate(str(log), action="active_verify", on=TRAIN, tune=DEV)


@pytest.fixture
def gate(fitted: _FittedGate, tmp_path: Path) -> Path:
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(fitted.document))
    return path


def policy(path: Path, base: str = "short", action: str = "active_verify") -> str:
    return WHEN.replace("PATH", str(path)).replace("BASE", base).replace("ACTION", action)


def test_the_threshold_is_the_best_on_the_development_split(fitted: _FittedGate, log: Path, gate: Path) -> None:
    on_dev = policy(gate).replace('json"', 'json", reuse = true')
    result = replay.run(log, on_dev, where=DEV, resamples=50)
    own = {r["metric"]: r["estimate"] for r in result.summary.iter_rows(named=True)}
    assert own["accuracy"] == pytest.approx(fitted.curve["accuracy"].max())
    assert any(str(note).startswith("WARNING: gate file") for note in result.notes)


def test_a_file_says_what_it_has_seen_and_is_plain_json(fitted: _FittedGate, gate: Path) -> None:
    document = json.loads(gate.read_text())
    assert document["fitted_on"]["examples"] == 450
    assert document["tuned_on"]["examples"] == 180
    assert len(document["fitted_on"]["ids"]) == len(document["fitted_on"]["questions"]) == 450
    assert {"coefficients", "intercept", "centre", "scale"} == set(document["model"])
    assert document["development"]["curve"][0].keys() >= {"threshold", "accuracy", "flip_rate", "action_tokens"}
    assert load_gate(gate).threshold == fitted.gate.threshold


def test_a_frozen_gate_is_reported_on_the_test_split(log: Path, gate: Path) -> None:
    result = replay.run(log, policy(gate), where=TEST, resamples=50)
    report = transfer_report(str(log), load_gate(gate), where=TEST, settings=Settings(resamples=50))
    frozen = report.rows.filter(pl.col("rule") == "the gate, frozen").row(0, named=True)
    own = {r["metric"]: r["estimate"] for r in result.summary.iter_rows(named=True)}
    for metric in ("accuracy", "intervention_rate", "fix_rate", "flip_rate", "action_tokens"):
        assert frozen[metric] == pytest.approx(own[metric])
    here = report.rows.filter(pl.col("rule").str.starts_with("diagnostic")).row(0, named=True)
    assert here["accuracy"] == pytest.approx(report.curve["accuracy"].max())
    rows = gate_decisions(str(log), load_gate(gate), TEST)
    assert np.mean([row["choose_verify"] for row in rows]) == pytest.approx(own["intervention_rate"])


def test_an_explanation_shows_what_a_gate_file_reads(log: Path, gate: Path) -> None:
    row = replay.run(log, policy(gate), where=TEST, resamples=2).outcomes.collect().row(0, named=True)
    told = replay.explain(log, policy(gate), "gated", row["example_id"])
    stages = {stage.title: stage.rows for stage in told.stages}
    (read,) = stages["the gate"].to_dicts()
    inputs = stages[f"what gate file `{gate}` reads"]
    document = json.loads(gate.read_text())
    assert (read["threshold"], read["fires"]) == (document["threshold"], "at least")
    model = document["model"]
    values = (inputs["value"].to_numpy() - model["centre"]) / model["scale"]
    assert read["value"] == pytest.approx(1 / (1 + np.exp(-(values @ model["coefficients"] + model["intercept"]))))
    assert read["holds"] == bool(row["intervened"])
    assert stages["what `gated` paid"]["total_tokens"][-1] == pytest.approx(row["total_tokens"])


def test_reporting_on_what_was_used_is_refused_with_a_count_and_three_examples(log: Path, gate: Path) -> None:
    with refuses("leakage", "`q000000`", "`q000001`", "`q000002`", "630", "900"):
        replay.run(log, policy(gate), resamples=50)
    with refuses("leakage", "180"):
        transfer_report(str(log), load_gate(gate), where=DEV)


def test_overlap_is_found_by_the_question_whatever_the_id(log: Path, gate: Path, tmp_path: Path) -> None:
    tables = _recovery_tables(40, 11, RecoveryModel())
    tables["examples"] = tables["examples"].with_columns(
        example_id=pl.lit("new ") + pl.col("example_id"), question="  " + pl.col("question").str.to_uppercase()
    )
    for table in ("traces", "features"):
        tables[table] = tables[table].with_columns(example_id=pl.lit("new ") + pl.col("example_id"))
    write_log(tmp_path / "copy", name="copy", tables=tables)
    with refuses("leakage", "`new q000000`", "40"):
        replay.run(tmp_path / "copy", policy(gate), resamples=50)


def test_questions_are_told_apart_by_their_words() -> None:
    assert normalised_question(" What is  2+2?\n") == normalised_question("what is 2+2")
    assert normalised_question("What is 2-2?") != normalised_question("What is 2+2?")
    for same in ("how - many", "how—many", "How-many?", "- how many", "how – many", "how many -"):
        assert normalised_question(same) == normalised_question("how many"), same
    for text in ("5-3", "x - 3", "-x", "-3", "a -.5", "5--3"):
        assert normalised_question(text) != normalised_question(text.replace("-", " ")), text
    assert normalised_question("5 \u2212 3") == normalised_question("5-3") == normalised_question("5\u20133")
    assert normalised_question("Say 'yes', then: no.") == normalised_question("say YES then no")
    apart = ["2*(3+4)", "(2*3)+4", "2*3+4", "1.5", "15", "1 5", "5!/3", "5/3", "1,5"]
    assert len({normalised_question(f"What is {one}?") for one in apart}) == len(apart)


def test_ids_tell_questions_without_a_text_in_one_log_alone(tmp_path: Path) -> None:
    def bare(seed: int, name: str) -> str:
        tables = _recovery_tables(900, seed, RecoveryModel())
        tables["examples"] = tables["examples"].with_columns(question=pl.lit(""))
        write_log(tmp_path / name, name=name, tables=tables)
        return str(tmp_path / name)

    one, other = bare(11, "one"), bare(12, "other")
    found = fit_gate(one, action="active_verify", on=TRAIN, tune=DEV)
    with refuses("leakage", "180"):
        transfer_report(one, found.gate, where=DEV)
    report = transfer_report(other, found.gate, where=DEV, settings=Settings(resamples=20))
    assert report.examples == 180
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(found.document))
    assert "gate_reused" not in {note.code for note in replay.run(other, policy(path), resamples=20).notes}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"base": "long", "action": "active_verify"}, ("unknown", "0")),
        ({"action": "continue"}, ("mismatch", "`active_verify`", "`then`", "`continue`")),
    ],
)
def test_a_gate_for_another_action_or_base_is_refused(
    log: Path, gate: Path, change: dict[str, str], refusal: tuple[str, ...]
) -> None:
    with refuses(*refusal):
        replay.run(log, policy(gate, **change), where=TEST, resamples=50)


def test_a_gate_on_another_base_is_refused(log: Path, gate: Path) -> None:
    text = policy(gate).replace('base = { kind = "sample", pool = "short"', 'base = { kind = "sample", pool = "long"')
    with refuses("mismatch", "`short`", "`long`"):
        replay.run(log, text, where=TEST, resamples=50)


def test_a_gate_for_other_features_is_refused(log: Path, gate: Path, tmp_path: Path) -> None:
    tables = _recovery_tables(30, 99, RecoveryModel())
    tables["features"] = tables["features"].drop("difficulty")
    write_log(tmp_path / "bare", name="bare", tables=tables)
    with refuses("unknown", "`difficulty`"):
        replay.run(tmp_path / "bare", policy(gate), resamples=50)


def test_a_gate_edited_by_hand_is_refused(gate: Path) -> None:
    document = json.loads(gate.read_text())
    document["threshold"] += 0.1
    gate.write_text(json.dumps(document))
    with refuses("damaged", "`at_least`"):
        load_gate(gate)
    document["sha256"] = content_hash(document)
    gate.write_text(json.dumps(document))
    assert load_gate(gate).threshold == document["threshold"]


def twice(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The log with a second pool of revisions, `again`, whose verdicts are the opposite."""
    own = tables["traces"].filter(pl.col("action") == "active_verify")
    other = own.with_columns(
        trace_id=pl.col("trace_id") + " again",
        pool=pl.lit("again"),
        correct=~pl.col("correct"),
        answer=pl.lit("again ") + pl.col("trace_id"),
    )
    return {**tables, "traces": pl.concat([tables["traces"], other.select(tables["traces"].columns)])}


def test_a_gate_stands_for_the_pool_of_revisions_that_it_was_fitted_on(tmp_path: Path) -> None:
    tables = twice(_recovery_tables(900, 11, RecoveryModel()).copy())
    write_log(tmp_path / "log", name="two pools", tables=tables)
    with refuses("ambiguous", "`active_verify`", "`short`", "`active-verify`"):
        fit_gate(str(tmp_path / "log"), action="active_verify", on=TRAIN, tune=DEV)
    found = fit_gate(str(tmp_path / "log"), action="active_verify", on=TRAIN, tune=DEV, pool="again")
    assert found.document["pool"] == "again"
    report = transfer_report(str(tmp_path / "log"), found.gate, where=TEST, settings=Settings(resamples=20))
    assert report.rows.row(1, named=True)["accuracy"] > report.rows.row(0, named=True)["accuracy"]
    assert len(gate_decisions(str(tmp_path / "log"), found.gate, TEST)) == report.examples
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(found.document))
    own = next(name for name in tables["traces"].filter(action="active_verify")["pool"].unique() if name != "again")
    text = policy(path).replace('base = "short" }', f'base = "short", pool = "{own}" }}')
    with refuses("mismatch", "`again`", "`then`"):
        replay.run(tmp_path / "log", text, where=TEST, resamples=20)
    served = replay.run(tmp_path / "log", text.replace(f'pool = "{own}"', 'pool = "again"'), where=TEST, resamples=20)
    accuracy = served.summary.filter(metric="accuracy")["estimate"][0]
    assert accuracy == pytest.approx(report.rows.row(1, named=True)["accuracy"])


def test_a_gate_stands_on_one_first_attempt(log: Path, gate: Path) -> None:
    text = policy(gate).replace('max_traces = 1, select = "first"', "max_traces = 4, select = 'majority'")
    with refuses("mismatch", "`gated`"):
        replay.run(log, text, where=TEST, resamples=20)


@pytest.mark.parametrize("below", seeds(1, [False, True]))
def test_a_gate_that_never_fires_where_it_was_tuned_never_fires_elsewhere(below: bool, tmp_path: Path) -> None:
    """Elsewhere every base attempt is longer (or shorter) than all that it was tuned on."""
    tables = _recovery_tables(800, 3, RecoveryModel(active_verify=_ActionModel(0.0, 0.5, 0.1, 900.0)))  # flips by far
    write_log(tmp_path / "here", name="here", tables=tables)
    shifted = pl.col("completion_tokens") * 0 + (1 if below else 1_000_000)
    solve = pl.col("action") == "solve"
    tokens = pl.when(solve).then(shifted).otherwise("completion_tokens").cast(pl.Int32)
    tables["traces"] = tables["traces"].with_columns(completion_tokens=tokens)
    tables["examples"] = tables["examples"].with_columns(question="other " + pl.col("question"))
    write_log(tmp_path / "there", name="there", tables=tables)
    found = fit_gate(
        str(tmp_path / "here"), action="active_verify", on=None, tune="split <> 'test'", kind="score",
        features=["completion_tokens"], below=below,
    )  # fmt: skip
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(found.document))
    assert json.loads(path.read_text())["threshold"] == "never"
    ends = found.document["development"]["curve"][0], found.document["development"]["curve"][-1]
    assert [end["intervention_rate"] for end in ends] == [0.0, 1.0]
    gate = load_gate(path)
    frozen = transfer_report(str(tmp_path / "there"), gate, settings=Settings(resamples=20)).rows.row(1, named=True)
    assert frozen["intervention_rate"] == 0.0
    served = replay.run(tmp_path / "there", policy(path), resamples=20)
    assert served.outcomes.collect()["intervened"].sum() == 0.0
    assert served.provenance["policies"][0]["gate"]["file"]["threshold"] == "never"
    assert gate_decisions(str(tmp_path / "there"), gate)[0]["threshold"] is None


def test_a_gate_is_carried_to_a_log_that_calls_its_pools_otherwise(log: Path, gate: Path, tmp_path: Path) -> None:
    """The same examples with the pools renamed: the same report, once both names are given."""
    tables = _recovery_tables(900, 11, RecoveryModel())
    named = {"short": "first", "active_verify": "checked"}
    tables["traces"] = tables["traces"].with_columns(pl.col("pool").replace(named))
    write_log(tmp_path / "log", name="renamed", tables=tables)
    with refuses("mismatch", f"`{gate}`", "`short`", "`active_verify`", "`first`", "`base`"):
        transfer_report(str(tmp_path / "log"), load_gate(gate), where=TEST)
    settings = Settings(resamples=20)
    own = transfer_report(str(log), load_gate(gate), where=TEST, settings=settings)
    there = transfer_report(str(tmp_path / "log"), load_gate(gate), where=TEST, settings=settings, base="first")
    assert there.rows.equals(own.rows)
    rows = gate_decisions(str(tmp_path / "log"), load_gate(gate), TEST, base="first")
    expected = gate_decisions(str(log), load_gate(gate), TEST)
    assert rows == [{key: value for key, value in row.items() if key != "simulated"} for row in expected]
    with refuses("unknown", "`frst`", "`first`", "0"):
        transfer_report(str(tmp_path / "log"), load_gate(gate), where=TEST, base="frst")


def test_a_gate_is_not_moved_to_a_log_that_lacks_what_it_reads(gate: Path, tmp_path: Path) -> None:
    tables = _recovery_tables(30, 99, RecoveryModel())
    tables["features"] = tables["features"].drop("difficulty")
    write_log(tmp_path / "bare", name="bare", tables=tables)
    with refuses("unknown", "`difficulty`"):
        transfer_report(str(tmp_path / "bare"), load_gate(gate))
    tables["traces"] = tables["traces"].filter(pl.col("action") != "active_verify")
    write_log(tmp_path / "other", name="other", tables=tables)
    with refuses("unknown", "`active_verify`"):
        transfer_report(str(tmp_path / "other"), load_gate(gate))


def test_predictions_say_which_rows_the_gate_has_seen(log: Path, gate: Path) -> None:
    rows = gate_decisions(str(log), load_gate(gate))
    assert sum(row["seen_by_gate"] for row in rows) == 630  # 450 it was fitted and 180 it was tuned on
    assert not any(row["seen_by_gate"] for row in gate_decisions(str(log), load_gate(gate), TEST))
    assert all(row["simulated"] for row in rows)


def test_the_check_and_the_notes_count_the_same(tmp_path: Path) -> None:
    """Of 60 development examples one of two rollouts repairs 19, or 20, which is enough: 9.5 and 10 repairs."""
    for fixed, enough in ((19, False), (20, True)):
        ids = [f"e{i:03d}" for i in range(120)]
        examples = pl.DataFrame({"example_id": ids}).with_columns(
            dataset=pl.lit("d"), question=pl.lit("q ") + pl.col("example_id"),
            split=pl.when(pl.int_range(120) < 60).then(pl.lit("train")).otherwise(pl.lit("dev")),
        )  # fmt: skip
        rows = []
        for i, name in enumerate(ids):
            shared = {"example_id": name, "model": "m", "completion_tokens": 10 + i % 7}
            first = {"trace_id": f"{name} base", "pool": "base", "action": "solve", "sample_index": 0}
            rows.append(shared | first | {"parent_id": None, "correct": False, "answer": "no"})
            for k in range(2):
                again = {"trace_id": f"{name} v{k}", "pool": "v", "action": "verify", "sample_index": k}
                right = k == 0 and i % 60 < fixed
                judged = {"correct": right, "answer": "yes" if right else "no"}
                rows.append(shared | again | judged | {"parent_id": f"{name} base"})
        path = tmp_path / str(fixed)
        write_log(path, name="made", tables={"examples": examples, "traces": pl.DataFrame(rows)})
        if enough:
            notes = fit_gate(str(path), action="verify", on=TRAIN, tune=DEV).notes
            assert ["60", "20", "10"] in map(numbers, notes)
            continue
        with refuses("empty", "19"):
            fit_gate(str(path), action="verify", on=TRAIN, tune=DEV)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"on": TRAIN, "tune": TRAIN}, ("leakage", "`q000000`", "`q000001`", "`q000002`", "450")),
        ({"on": TRAIN, "tune": None}, ("required", "`tune`", "`n_folds`")),
        ({"on": None, "tune": DEV}, ("required", "`on`")),
        ({"on": TRAIN, "tune": "split = 'dev' AND example_id < 'q000470'"}, ("empty", "7", "20")),
        ({"on": TRAIN, "tune": "split = 'dev' AND example_id < 'q000451'"}, ("unsuitable", "1")),
        ({"on": TRAIN, "tune": "split = 'def'"}, ("empty", "`tune`", "`dev`", "`test`", "`train`", "'def'")),
        ({"on": "split = 'trian'", "tune": DEV}, ("empty", "`on`")),
        ({"on": TRAIN, "tune": DEV, "features": ["dificulty"]}, ("unknown", "`difficulty`")),
        ({"on": TRAIN, "tune": DEV, "base": "votes"}, ("unknown", "`active_verify`", "`votes`", "0")),
        ({"on": None, "tune": DEV, "kind": "score", "features": []}, ("required", "`score`", "`features`")),
        ({"on": TRAIN, "tune": None, "n_folds": 1}, ("invalid", "`n_folds`", "1", "2")),
    ],
)
def test_bad_settings_are_one_line(log: Path, settings: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        fit_gate(str(log), action="active_verify", **settings)


def test_copies_of_questions_across_the_splits_are_refused(tmp_path: Path) -> None:
    tables = _recovery_tables(400, 3, RecoveryModel())
    question = pl.when(pl.col("split") == "dev").then(pl.lit("Question 0 of seed 3: HOW MANY")).otherwise("question")
    tables["examples"] = tables["examples"].with_columns(question=question)
    write_log(tmp_path / "log", name="copies", tables=tables)
    with refuses("leakage", "`tune`", "`on`", "80"):
        fit_gate(str(tmp_path / "log"), action="active_verify", on=TRAIN, tune=DEV)


def test_out_of_fold_scores_never_see_their_own_label(log: Path) -> None:
    found = fit_gate(str(log), action="active_verify", on=TRAIN, tune=None, n_folds=5)
    assert found.out_of_fold is not None
    assert len(found.out_of_fold) == 450
    inside = fit_gate(str(log), action="active_verify", on=TRAIN, tune=DEV)
    assert found.gate.content["tuned_on"]["folds"] == 5
    assert found.calibration.auroc > 0.8
    assert found.document["model"] == inside.document["model"]  # the gate itself is fitted on all of them


def test_any_logged_score_is_a_gate(log: Path) -> None:
    found = fit_gate(str(log), action="active_verify", on=None, tune=DEV, kind="score", features=["completion_tokens"])
    assert found.gate.kind == "score"
    assert found.document["fitted_on"]["examples"] == 0
    assert found.curve["accuracy"].max() > found.curve["accuracy"][0]


def test_logistic_weights_halves() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 2))
    repair = rng.choice([0.0, 0.5, 1.0], 200)
    model = fit_model("logistic", values, repair, seed=0)
    rows = (np.concatenate([values, values]) - model["centre"]) / model["scale"]
    labels, weights = np.repeat([1, 0], 200), np.concatenate([repair, 1 - repair])
    own = LogisticRegression(max_iter=5000, tol=1e-8).fit(rows, labels, sample_weight=weights)
    expected = own.predict_proba((values - model["centre"]) / model["scale"])[:, 1]
    assert MODELS["logistic"].scores(model, values) == pytest.approx(expected, abs=1e-6)


def test_inputs_that_some_examples_lack_are_left_out_by_name(tmp_path: Path) -> None:
    """Ten training examples lack `difficulty`: no example goes, the input does; asked for by name, the examples go."""
    tables = _recovery_tables(900, 11, RecoveryModel())
    train = tables["examples"].filter(pl.col("split") == "train")["example_id"][:10]
    held = pl.when(~pl.col("example_id").is_in(train.implode())).then("difficulty")
    tables["features"] = tables["features"].with_columns(difficulty=held)
    write_log(tmp_path / "log", name="holes", tables=tables)
    found = fit_gate(str(tmp_path / "log"), action="active_verify", on=TRAIN, tune=DEV)
    assert "feature:difficulty" not in {str(feature) for feature in found.gate.features}
    assert [note for note in found.notes if "inputs left" in note and "(`feature:difficulty`: 10)" in note]
    assert found.document["fitted_on"]["examples"] == 450
    named = fit_gate(str(tmp_path / "log"), action="active_verify", on=TRAIN, tune=DEV, features=["difficulty"])
    assert named.document["fitted_on"]["examples"] == 440
    assert [note for note in named.notes if "10 examples" in note and "(`feature:difficulty`: 10)" in note]


def test_the_command_names_the_kinds_of_models(log: Path) -> None:
    assert set(described("fit-gate", "kind").choices) == set(MODELS)
    with refuses("unknown", "`forest`"):
        fit_gate(str(log), action="active_verify", on=TRAIN, tune=DEV, kind="forest")


def test_an_unknown_source_of_an_input_is_one_line() -> None:
    with refuses("unknown", "`verifer`", "`verifier`"):
        gate_input("verifer", "latent")


def test_a_base_without_one_chosen_trace_is_refused_with_its_own_advice_alone() -> None:
    gate, act = Threshold(signal="truncated", at_least=1), Act(name="a", action="verify", base="p")
    routed = Route(name="r", route=Router(column="c", at_least=1), then=act, else_=act)
    with refuses("unsuitable", "`rollouts = 0`"):
        When(name="w", base=routed, gate=gate, then=act)
    with refuses("unsuitable", "`w`", "`base`", "`oracle`"):
        When(name="w", base=Oracle(name="o", rule="expected_action", of=["p"], base="p"), gate=gate, then=act)
