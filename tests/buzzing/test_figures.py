"""Where policies act, as a figure and on a line of text."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from generate.simulation.checks import CheckingModel, TextModel, simulate_checks
from replay.kinds.buzz import Buzz, rounds_as_one_line
from tests.errors import refuses

PAID = pl.DataFrame(
    {
        "stage": ["stream", "stream", "stream", "stream", "revision"], "claim": [0, 0, 1, 2, 3],
        "round": [0, 1, 0, 0, 0], "position": [2, 3, 3, 3, 5],
        "verdict": ["not_enough", "supported", "none", "refuted", "refuted"],
        "buzz": [False, False, False, False, True],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "length", "gold", "line"),
    [
        ("a b c d e", 5, 3, "a b [0.0 ?] c <error seen> [0.1 +] [2.0 -] d e || [3.0 - BUZZ]"),
        ("a b", 5, float("nan"), "2 words [0.0 ?] 1 word [0.1 +] [2.0 -] 2 words || [3.0 - BUZZ]"),
        (None, float("nan"), float("nan"), "2 words [0.0 ?] 1 word [0.1 +] [2.0 -] || [3.0 - BUZZ]"),
    ],
)
def test_a_text_on_one_line(question: str | None, length: float, gold: float, line: str) -> None:
    assert rounds_as_one_line(question, length, gold, PAID) == line


def test_where_policies_act(tmp_path: Path) -> None:
    """A sure checker acts where its claim is whole: at or above the diagonal, on every text with an error."""
    pools = {
        "sure": CheckingModel(extraction=1.0, checking=1.0, spurious=0.0, decides=1.0),
        "wild": CheckingModel(extraction=0.0, spurious=0.5, decides=1.0),
    }
    log = simulate_checks(tmp_path / "log", examples=60, seed=4, texts=TextModel(hops=1), pools=pools)
    result = replay.run(log, [Buzz(name=pool, pool=pool) for pool in pools], resamples=20)
    frame = result.figure_data("buzzes").frame
    sure = frame.filter(policy="sure")
    assert (sure["position"] >= sure["gold_position"]).all()
    assert len(sure) == result.examples["gold_error"].sum()
    assert set(frame.filter(policy="wild")["found"]) == {0.0}
    result.save(tmp_path / "saved")
    loaded = replay.load(tmp_path / "saved")
    assert_frame_equal(loaded.figure_data("buzzes").frame, frame)
    assert loaded.figure("buzzes", policies=("sure",)) is not None
    with refuses("empty", "retrieve"):
        result.figure_data("recall")
