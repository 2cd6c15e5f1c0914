"""The verifier that a program fits is the one that the command adds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinkback as tb
from generate.simulation.planted import PlantedModel, simulate_planted
from tests.errors import numbers, quotes, refuses
from tests.latent.planted import areas, scores
from thinkback.commands.fit_verifier import fit_verifier as command
from thinkback.options import LazyCommand
from toolkit.log import merge_logs, open_log, validate_log
from toolkit.log.describe.verifier_quality import VOTES

TRAIN = "split = 'train'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    simulate_planted(tmp_path / "log", examples=60, traces=4, seed=3, model=PlantedModel(places=2))
    return tmp_path / "log"


def test_a_program_adds_to_the_log_what_the_command_does(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate_planted(tmp_path / "other", examples=60, traces=4, seed=3, model=PlantedModel(places=2))
    report = tb.fit_verifier(path, TRAIN, name="latent", tokens=np.array([-1]), rounds=3)
    words = {"log": tmp_path / "other", "train_on": TRAIN, "name": "latent", "tokens": "-1", "rounds": 3}
    LazyCommand(command, "fit-verifier")(**words)
    other = open_log(tmp_path / "other")
    assert validate_log(report.log).problems == ()
    assert scores(report.log, "latent").equals(scores(other, "latent"))
    kept = [json.loads((folder / "models" / "latent.json").read_text()) for folder in (path, tmp_path / "other")]
    assert kept[0] == kept[1]
    last = report.sentences[-1]
    quotes(last, f"`latent` to {path}: ")
    assert numbers(last.partition(str(path))[2]) == ["240", "120"]
    assert last.replace("log:", "other:") in capsys.readouterr().out
    assert last in repr(report)


def test_what_it_is_worth_comes_as_a_frame(path: Path) -> None:
    report = tb.fit_verifier(str(path), TRAIN, name="latent", rounds=3)
    own = report.rows.filter(signal="latent")
    test = scores(report.log, "latent").filter(split="test")
    told = dict(own.select("metric", "estimate").iter_rows())
    assert (told["auc"], told["auc_within"]) == pytest.approx(areas(test))
    assert own.filter(metric="auc")["low"].item() < told["auc"] < own.filter(metric="auc")["high"].item()
    votes = report.rows.filter(signal=VOTES, metric="auc_difference")
    assert votes["p_value"].is_not_null().all()
    assert len(list(report.tables())) == 1
    shown = report._repr_html_()
    assert "<p>added <code>latent</code> to " in shown
    assert f"<td>{VOTES}</td>" in shown


def test_mistakes_name_the_argument(path: Path) -> None:
    with refuses("invalid", "`layers`"):
        tb.fit_verifier(path, TRAIN, name="latent", layers="last")
    with refuses("unknown", "`model`"):
        tb.fit_verifier(path, TRAIN, name="latent", model="forest")
    assert not open_log(path).manifest.source.get("verifiers", {}).get("latent")  # type: ignore[union-attr]


def test_merging_says_where_one_name_is_two_models(path: Path, tmp_path: Path) -> None:
    simulate_planted(tmp_path / "other", examples=40, traces=4, seed=4, model=PlantedModel(places=2))
    tb.fit_verifier(path, TRAIN, name="latent", rounds=2)
    tb.fit_verifier(path, TRAIN, name="own", rounds=2)
    tb.fit_verifier(tmp_path / "other", TRAIN, name="latent", rounds=2)
    done = merge_logs([path, tmp_path / "other"], tmp_path / "merged")
    assert done.differing == ("latent",)
