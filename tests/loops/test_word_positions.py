"""Positions are words of a text as split by white space, whoever reads them: loops, replay, pages, data sets."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.datasets import load
from generate.loops.unfolding import UnfoldingText, most_positions
from generate.recipes.recipe import load_recipe
from generate.sampling.live import LiveText, listen, listening_step
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import examples_per_shard
from replay.kinds.buzz import BestBuzz, rounds_as_one_line
from tests.loops.listening import VERDICT, Scripted, go, write_listening
from tests.loops.scripted import rows
from toolkit.log import validate_log

SPACES = "".join(character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace())
TEXT = SPACES + SPACES.join(["Once", "\ufeffupon", "a\u200btime.", "“No,”", "said", "he.", "Gold"]) + SPACES
WORDS = TEXT.split()


def test_loops_count_the_words_that_split_gives(tmp_path: Path) -> None:
    assert len(WORDS) == 7
    text = UnfoldingText(TEXT)
    assert [text.revealed(place).split() for place in range(8)] == [WORDS[:place] for place in range(8)]
    recipe = write_listening(tmp_path / "one", 1, [TEXT], every=1, max_rounds=1)
    log = go(recipe, tmp_path / "log")
    assert set(rows(log, "checks")["position"]) == set(range(1, 8))
    heard = list[int]()
    live = LiveText(StringIO(TEXT, newline=""))
    listen(load_recipe(recipe), listening_step(load_recipe(recipe), None), live,
           lambda row: heard.append(row.columns["position"]), lambda _: Scripted(3, lambda *_: None))  # fmt: skip
    assert heard == rows(log, "checks").sort("claim", "round")["position"].to_list()
    log = go(write_listening(tmp_path / "other", 1, [TEXT], VERDICT, every=2), tmp_path / "verdicts")
    assert rows(log).sort("sample_index")["position"].to_list() == [2, 4, 6, 7]


def test_a_line_of_text_has_these_words() -> None:
    paid = pl.DataFrame({"claim": [0], "round": [0], "verdict": ["refuted"], "buzz": [True], "stage": ["stream"],
                         "position": [5]})  # fmt: skip
    line = rounds_as_one_line(TEXT, len(WORDS), 3.0, paid).split(" ")
    assert [part for part in line if part in WORDS] == WORDS
    assert line[:4] == [*WORDS[:3], "<error"]
    assert line[line.index("said") + 1] == "[0.0"


def test_a_page_splits_at_the_same_white_space() -> None:
    script = (Path(replay.__file__).parents[1] / "toolkit/show/dashboard/assets/rows.js").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"question \|\| \"\"\)\.split\(/(.+?)/\)", script)
    assert "".join(one for one in map(chr, range(sys.maxunicode + 1)) if re.fullmatch(pattern, one)) == SPACES


def test_statements_have_these_lengths(tmp_path: Path) -> None:
    (tmp_path / "um.jsonl").write_text(json.dumps({"statement": TEXT, "error": "x", "position": 7}), encoding="utf-8")
    assert load("um-actually", tmp_path / "um.jsonl").examples["length"].to_list() == [7]


@pytest.mark.parametrize("place", [1, 4])
def test_an_error_at_the_first_or_the_last_word(place: int, tmp_path: Path) -> None:
    recipe = write_listening(tmp_path, 1, ["Moon is gold here."] * 4, every=1, max_rounds=1)
    lines = [json.loads(line) for line in (tmp_path / "examples.jsonl").read_text().splitlines()]
    more = {"gold": "refuted", "gold_error": True, "gold_position": place, "length": 4, "error": None}
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(line | more) + "\n" for line in lines))
    log = go(recipe, tmp_path / "log")
    assert validate_log(log).ok
    outcomes = replay.run(log, [BestBuzz(name="best")], resamples=2).outcomes.collect()
    assert (outcomes["position"] == place).all()
    assert np.allclose(outcomes["deviation"], 0)


@pytest.mark.parametrize(("every", "count"), [("end", 1), ("sentences", 3), (1, 7), (2, 4), (100, 1)])
def test_requests_are_bounded_by_the_words_of_the_texts(every: str | int, count: int, tmp_path: Path) -> None:
    assert most_positions(["", TEXT, "One."], every) == count
    assert most_positions([], every) == most_positions([" "], every) == 1
    plan = make_plan(load_recipe(write_listening(tmp_path, 1, [TEXT] * 3, VERDICT, every=every)))
    assert plan.recipe.loop[0].most_requests == count
    assert examples_per_shard(plan.recipe) == 256
