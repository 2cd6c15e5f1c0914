"""An addition that was begun when journals were lines of JSON goes on with what they hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add
from generate.engines.base import Call, CallFailure
from generate.journal.database import FOLDER
from generate.journal.old_form import OLD
from generate.signals.additions import load_additions
from tests.adding.judges import Judge, in_json
from tests.adding.makers import make_log, write_recipe
from tests.adding.test_adding import CHANCE, ENGINE
from tests.generate.toy import Letters
from toolkit.log import ADDING, collect, open_log

BEFORE = Path(__file__).with_name("old_run")
"""Killed in the third block of three traces of the judge; the features were all there."""
RECIPE = (
    ENGINE + '[embedding]\nmodel = "letters"\n[[features]]\nkind = "claims"\n'
    '[[verify]]\nname = "judge"\nkind = "judge"\nprompt = "score.txt"\n' + CHANCE
)
JUDGED = "verifiers-judge-d36c7573"


class Short(Letters):
    """Takes no text of the kind `2 and … more …` whole."""

    def fits(self, texts: list[str]) -> np.ndarray:
        return np.array([not (text.startswith("2 and") and "more" in text) for text in texts], dtype=bool)


def rule(call: Call) -> str | CallFailure:
    if "s000/votes/0" in call.key:
        return CallFailure("the prompt has 99 tokens and the model takes 50", retryable=False)
    return "?" if "s000/votes/1" in call.key else in_json(call)


def begun_before(log: Path) -> None:
    for folder in BEFORE.iterdir():
        place = log / ADDING / "1-of-1" / folder.name
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.json*"))
        shutil.copytree(folder, place / FOLDER, ignore=shutil.ignore_patterns("features", "verifications"))


def run(folder: Path, asked: list[str]) -> dict[str, dict]:
    def noting(call: Call) -> str | CallFailure:
        asked.append(call.key)
        return rule(call)

    plan = make_add_plan(load_additions(write_recipe(folder, RECIPE)), folder / "log")
    return add(plan, lambda _: Judge(noting), embedder=Short()).log.manifest.source


def rows(folder: Path, table: str) -> pl.DataFrame:
    log = open_log(folder / "log")
    found = collect(log.scan(table, list(log.columns(table))))
    return found.sort([name for name in ("trace_id", "verifier") if name in found.columns])


def test_what_was_begun_before_goes_on(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for folder in (tmp_path, whole):
        make_log(folder / "log", 3, 2)
    begun_before(tmp_path / "log")
    held = [json.loads(line) for line in (BEFORE / JUDGED / OLD).read_text().splitlines()]
    calls = [line for line in held if line["pool"].endswith("/ask")]
    answered = {f"{line['example_id']}/judge/{line['indices'][0]}" for line in calls}
    asked, every = [], []
    source, wanted = run(tmp_path, asked), run(whole, every)
    assert len(answered) > 5
    assert set(asked) == set(every) - answered, "what was answered is not asked again"
    for table in ("verifications", "features"):
        assert rows(tmp_path, table).equals(rows(whole, table))
    for section, name in (("verifiers", "judge"), ("features", "claims")):
        for key in ("settings", "rows", "skipped", "incomplete", "unreadable"):
            assert source[section][name].get(key) == wanted[section][name].get(key)
    assert source["verifiers"]["judge"]["unreadable"]["count"] == 1
    assert source["features"]["claims"]["incomplete"][0]["trace_id"] == "s002/votes/1"
    assert not (tmp_path / "log" / ADDING).exists()
