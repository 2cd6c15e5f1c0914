"""The loop `verdict`: the traces of a plain one, kills, refusals, texts of every shape, and its replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from generate.engines.base import Completion
from generate.recipes.recipe import load_recipe
from tests.errors import refuses
from tests.loops.listening import VERDICT, WORDS, Scripted, go, plain_verdicts, say, write_listening
from tests.loops.scripted import check_kills, rows, run_scripted
from toolkit.log import Log, collect, validate_log

KEYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "with a search": {"search": "wiki", "query_prompt": "query.txt", "top": 3},
    "the text is the query": {"search": "wiki"},
    "after each sentence": {"search": "wiki", "query_prompt": "query.txt", "every": "sentences"},
    "every two words": {"every": 2, "confidence": "stated"},
}


def write(folder: Path, *args: Any, **keys: Any) -> Path:
    return write_listening(folder, *args, loop=VERDICT, **keys)


def verdicts_of(log: Log) -> pl.DataFrame:
    """The traces with their scores."""
    scores = rows(log, "verifications").filter(verifier="refuted").select("trace_id", "score")
    return rows(log).join(scores, on="trace_id", how="left").sort("example_id", "sample_index")


@pytest.mark.parametrize("name", KEYS)
def test_traces_are_those_of_a_plain_loop(name: str, tmp_path: Path) -> None:
    keys = KEYS[name]
    log = go(write(tmp_path, 5, **keys), tmp_path / "log")
    assert validate_log(log).ok
    frame = verdicts_of(log)
    if "every" not in keys:
        frame = frame.with_columns(position=pl.lit(None))
    for example, text, gold in collect(log.scan("examples", ["example_id", "question", "gold"])).rows():
        wanted = plain_verdicts(text, **keys)
        mine = frame.filter(example_id=example).rows(named=True)
        assert [{key: row[key] for key in one} for row, one in zip(mine, wanted, strict=True)] == wanted
        assert [row["correct"] for row in mine] == [row["answer"] == gold for row in wanted]


def test_killed_at_any_request_the_traces_are_the_same(tmp_path: Path) -> None:
    recipe = write(tmp_path, 1, ["The river is gold. A ship.", "Moon"], **KEYS["after each sentence"])
    check_kills(go, verdicts_of, recipe, tmp_path)


def test_a_refused_verdict_ends_its_text_and_is_counted(tmp_path: Path) -> None:
    recipe = write(tmp_path, 1, ["A river. Gold. A ship."] * 2, every="sentences")
    log = go(recipe, tmp_path / "log", fail=frozenset({"t0/asked/1"}))
    assert verdicts_of(log).group_by("example_id", maintain_order=True).len().rows() == [("t0", 1), ("t1", 3)]
    assert log.manifest.source["left_out"] == {"400": 1}


LONG = " ".join(["gold", "ship."] * 5_000)


@pytest.mark.parametrize(
    ("text", "every", "positions"),
    [("", 1, []), (" \n ", "end", []), ("Moon", "sentences", [1]), ("not ended by\twhat ends one", "sentences", [6]),
     (LONG, 2_500, [2_500, 5_000, 7_500, 10_000]), (LONG, "end", [None]), ("One. Two three", 2, [2, 3])],
)  # fmt: skip
def test_texts_of_every_shape(text: str, every: Any, positions: list[int | None], tmp_path: Path) -> None:
    log = go(write(tmp_path, 1, [text, "The ship. Gold."], every=every), tmp_path / "log")
    assert validate_log(log).ok
    frame = verdicts_of(log).filter(example_id="t0")
    assert frame.height == len(positions)
    if every != "end":
        assert frame["position"].to_list() == positions


def test_a_reply_that_is_cut_off_after_its_verdict_has_an_answer(tmp_path: Path) -> None:
    class Cut(Scripted):
        def reply(self, *args: Any) -> Completion:
            return replace(super().reply(*args), finish_reason="length")

    frame = rows(run_scripted(Cut, write(tmp_path, 5, every=1), tmp_path / "log"))
    assert set(frame["finish_reason"]) == {"length"}
    assert frame["answer"].drop_nulls().len() > 2


def test_the_first_refuted_prefix_is_where_a_policy_acts(tmp_path: Path) -> None:
    texts = [f"The {one} is gold. A {two} of stone" for one in WORDS[:4] for two in WORDS[4:6]]
    log = go(write(tmp_path, 5, texts, every=1), tmp_path / "log")
    (tmp_path / "policy.toml").write_text(
        '[[policy]]\nname = "buzz"\nkind = "sample"\npool = "asked"\nselect = "last"\n'
        'stop = { rule = "at_least", verifier = "refuted", score = 0.5 }\n'
    )
    outcomes = replay.run(log, tmp_path / "policy.toml", resamples=20).outcomes.collect()
    refuted = 0
    for example, answer, position in outcomes.select("example_id", "answer", "position").rows():
        text = collect(log.scan("examples", ["example_id", "question"])).filter(example_id=example)["question"][0]
        sure = [row for row in plain_verdicts(text, every=1) if row["score"] >= 0.5]
        last = sure[0] if sure else plain_verdicts(text, every=1)[-1]
        assert (answer, position) == (last["answer"], last["position"])
        refuted += answer == "refuted"
    assert 0 < refuted < len(texts)


def test_passages_with_ids_are_logged(tmp_path: Path) -> None:
    recipe = write(tmp_path, 1, ["A river. Gold."], search="corpus")
    (tmp_path / "passages.jsonl").write_text('{"id": "p1", "text": "a river of gold"}\n{"id": "p2", "text": "sea"}\n')
    text = recipe.read_text().replace(
        "[[loop]]", '[search.corpus]\nkind = "passages"\npath = "passages.jsonl"\n[[loop]]'
    )
    recipe.write_text(text)
    log = go(recipe, tmp_path / "log")
    (row,) = rows(log).rows(named=True)
    assert row["documents"] == ["p1"]
    assert row["text"] == say("Verdict A river. Gold. | a river of gold").text


@pytest.mark.parametrize(
    ("keys", "code", "name"),
    [({"query_prompt": "query.txt"}, "conflict", "`search`"), ({"every": "never"}, "invalid", "every"),
     ({"confidence": "guess"}, "unknown", "confidence")],
)  # fmt: skip
def test_settings_that_do_not_fit(keys: dict[str, Any], code: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path, **keys)
    with refuses(code, name):
        load_recipe(path)
