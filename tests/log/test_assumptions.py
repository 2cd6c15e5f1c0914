"""What a log bears out of the assumptions of a replay: by hand, against plain loops, and on the shipped log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.errors import quotes
from tests.logs import put_all, traces, verifications, whole
from toolkit.log import describe_log, open_log, write_log
from toolkit.log.describe import measuring
from toolkit.log.describe.assumptions import (
    COLUMNS,
    SURE,
    assumption_remarks,
    noise_frame,
    order_frame,
    order_sums,
    repeat_sums,
    size_counts,
    size_frame,
)
from toolkit.log.describe.trace_groups import TraceGroups, group_traces

SHIPPED = Path(__file__).parents[2] / "data" / "log"


def solves(verdicts: list[list[bool]], **columns: Any) -> pl.DataFrame:
    """Solves of one pool, example after example, in the order of their sample index."""
    rows = [(f"e{e}", k, one) for e, some in enumerate(verdicts) for k, one in enumerate(some)]
    frame = pl.DataFrame(rows, schema=["example_id", "sample_index", "correct"], orient="row")
    plain = {"pool": "n", "action": "solve", "answer": "a", "model": "m"}
    frame = frame.with_columns(
        **{name: pl.lit(value) for name, value in plain.items()}, parent_id=pl.lit(None, pl.String)
    )
    return frame.with_columns(**columns)


def grouped(frame: pl.DataFrame) -> TraceGroups:
    return group_traces(frame, frame["example_id"].unique())


def solved(verdicts: list[list[bool]]) -> TraceGroups:
    return grouped(solves(verdicts))


def ordered(frame: pl.DataFrame) -> dict[str, Any]:
    return order_frame(order_sums(grouped(frame))).row(0, named=True)


def test_order_and_spread_by_hand() -> None:
    """Example 0 has 1, 0, 0: mean 1/3, c = 2/3, −1/3, −1/3. Example 1 has 1, 1, 1.

    Slope Σ(i − 1)c = −2/3 − 1/3 = −1, its spread 2 in each: trend −1/4. Over all orders of example 0 the slope has the
    variance 2 · (2/3) / 2 = 2/3: z = −1/√(2/3). Neighbours −2/9 + 1/9 = −1/9 of 2 · (2/3)/3 = 4/9: −1/4; over all
    orders −(2/3)/3 = −2/9 of 4/9: −1/2. Sampling (2/3 + 0)/(6 − 2) = 1/6. Means 1/3 and 1 about 2/3: 3 · 2/9 = 2/3
    with one degree of freedom, so between (2/3 − 1/6)/3 = 1/6, a half of both.
    """
    found = ordered(solves([[True, False, False], [True] * 3]))
    assert found["groups"] == 2
    assert found["trend"] == pytest.approx(-1 / 4)
    assert found["trend_z"] == pytest.approx(-1 / math.sqrt(2 / 3))
    assert found["lag"] == pytest.approx(-1 / 4)
    assert found["lag_expected"] == pytest.approx(-1 / 2)
    assert found["lag_z"] == pytest.approx(1.0)  # one group deviates: it is its own standard error
    assert found["sampling"] == pytest.approx(1 / 6)
    assert found["between"] == pytest.approx(1 / 6)
    assert found["share_between"] == pytest.approx(1 / 2)


def test_order_against_plain_loops() -> None:
    """Groups of unequal sizes, in a row order that carries no meaning."""
    rng = np.random.default_rng(3)
    verdicts = [list(map(bool, rng.random(rng.integers(1, 7)) < rng.random())) for _ in range(60)]
    frame = solves(verdicts)
    slope = spread = chance = lag = lag_chance = full = error = 0.0
    for some in verdicts:
        c, n = np.array(some, float) - np.mean(some), len(some)
        i = np.arange(n) - (n - 1) / 2
        square = float((c**2).sum())
        slope, spread = slope + float((i * c).sum()), spread + float((i**2).sum())
        chance += float((i**2).sum()) * square / (n - 1) if n > 1 else 0.0
        own = sum(c[k] * c[k + 1] for k in range(n - 1))
        lag, lag_chance, full = lag + own, lag_chance - square / n, full + (n - 1) * square / n
        error += (own + square / n) ** 2
    found = ordered(frame.sample(fraction=1, shuffle=True, seed=1))
    assert found["trend"] == pytest.approx(slope / spread)
    assert found["trend_z"] == pytest.approx(slope / math.sqrt(chance))
    assert found["lag"] == pytest.approx(lag / full)
    assert found["lag_expected"] == pytest.approx(lag_chance / full)
    assert found["lag_z"] == pytest.approx((lag - lag_chance) / math.sqrt(error))


def test_between_and_sampling_add_up_to_the_variance_of_equal_groups() -> None:
    """With groups of equal size: the variance of means less what sampling explains of it, as the manual says."""
    rng = np.random.default_rng(5)
    verdicts = rng.random((300, 8)) < rng.beta(2, 2, (300, 1))
    found = ordered(solves(verdicts.tolist()))
    within = verdicts.astype(float).var(axis=1, ddof=1).mean()
    assert found["sampling"] == pytest.approx(within)
    assert found["between"] == pytest.approx(verdicts.mean(axis=1).var(ddof=1) - within / 8)


def test_a_z_is_a_standard_normal_where_order_carries_no_meaning_and_large_where_it_does() -> None:
    rng = np.random.default_rng(7)
    made = [ordered(solves((rng.random((80, 6)) < rng.random((80, 1))).tolist())) for _ in range(60)]
    for key in ("trend_z", "lag_z"):
        values = np.array([one[key] for one in made])
        assert abs(values.mean()) < 0.4
        assert 0.75 < values.std() < 1.25
    falling = rng.random((200, 6)) < np.linspace(0.8, 0.4, 6)
    assert ordered(solves(falling.tolist()))["trend_z"] < -SURE
    sticky = np.repeat(rng.random((200, 3)) < 0.5, 2, axis=1)  # each attempt is made twice
    assert ordered(solves(sticky.tolist()))["lag_z"] > SURE


def test_pairs_have_no_lag_to_judge() -> None:
    """Of two traces each is the other's neighbour: the correlation is −1 whatever the order."""
    found = ordered(solves([[True, False], [False, True], [True, True]]))
    assert (found["lag"], found["lag_expected"], found["lag_z"]) == (-1.0, -1.0, None)


def test_a_run_that_stops_when_it_is_right_shows_in_the_sizes() -> None:
    """Each example samples until it is right, at most five: the more traces, the smaller the share right."""
    rng = np.random.default_rng(11)
    stopped, fixed = [], []
    for rate in rng.beta(2, 2, 300):
        drawn = rng.random(5) < rate
        stopped.append(drawn[: int(np.argmax(drawn)) + 1 if drawn.any() else 5].tolist())
        fixed.append((rng.random(rng.integers(2, 6)) < rate).tolist())
    found = size_frame(size_counts(solved(stopped))).row(0, named=True)
    assert found["size_right"] < -0.5
    assert found["size_right_z"] < -SURE
    plain = size_frame(size_counts(solved(fixed))).row(0, named=True)
    assert abs(plain["size_right_z"]) < SURE


def test_remarks_are_written_as_the_tables_are() -> None:
    """True minus signs, the tables' digits, one remark on a pool's sizes, names quoted once."""
    order = pl.DataFrame(
        {"pool": "n", "action": "solve", "trend": -0.0242, "trend_z": -4.43, "lag": 0.06, "lag_expected": -0.0667,
         "lag_z": 6.7}
    )  # fmt: skip
    settings = pl.DataFrame(
        {"pool": ["n", "m"], "action": "solve", "mixed": 0, "settings": 2, "size_right": -0.7, "size_right_z": -12.44,
         "size_agreement": 0.8, "size_agreement_z": [14.57, None], "batched": None}
    )  # fmt: skip
    lines = list(assumption_remarks(order, settings))
    expected = [
        ("`n`: ", "−2.42 points", "(z −4.43)"), ("`n`: ", "0.0600", "−0.0667", "(z 6.70)"),
        ("`n`: ", "(z −12.44)", "(z 14.57)"), ("`m`: ", "(z −12.44)"), ("`n`, `m`: several settings",),
    ]  # fmt: skip
    for line, values in zip(lines, expected, strict=True):
        assert line.startswith(values[0])
        quotes(line, *values)


def test_sizes_by_hand() -> None:
    """Sizes 2 and 4; shares right 1 and 1/2; agreeing pairs 2 of 2 and (3·2 + 1·0) of 12: correlation −1 twice."""
    frame = solves([[True, True], [True, True, True, False]])
    frame = frame.with_columns(answer=pl.when("correct").then(pl.lit("a")).otherwise(pl.lit("b")))
    counts = size_counts(grouped(frame)).sort("size")
    assert counts.select("size", "judged", "right", "agreeing", "groups").rows() == [(2, 2, 2, 2, 1), (4, 4, 3, 6, 1)]
    found = size_frame(counts).row(0, named=True)
    assert found["size_right"] == found["size_agreement"] == pytest.approx(-1.0)
    assert size_frame(size_counts(solved([[True], [False]]))).row(0, named=True)["size_right"] is None


def test_the_noise_of_a_verifier_by_hand() -> None:
    """Texts x, x, y with scores 0, 2, 4: around the text's mean 1 there is 1 + 1 of one repeat, variance 2; all three
    around 2: (4 + 0 + 4)/2 = 4. The noise is √(2/4).
    """
    frame = solves([[True, True, False]]).with_columns(
        trace_id=pl.Series(["a", "b", "c"]), text=pl.Series([1, 1, 2], dtype=pl.UInt64)
    )
    scores = pl.DataFrame(
        {"trace_id": ["a", "b", "c"], "example_id": "e0", "verifier": "v", "score": [0.0, 2.0, 4.0]}
    ).with_columns(candidates=pl.lit(None, pl.Int32))
    found = noise_frame(repeat_sums(frame, scores)).row(0, named=True)
    assert found["repeats"] == 1
    assert found["noise"] == pytest.approx(math.sqrt(1 / 2))
    listwise = scores.with_columns(candidates=pl.lit(3, pl.Int32))
    assert noise_frame(repeat_sums(frame, listwise)).is_empty()  # one call saw all: no reading of a text by itself


def test_settings_seconds_and_limits(tmp_path: Path) -> None:
    """q1 mixes two temperatures; calls of `n` waited 6 s for 1.5 s of the device; one of four was cut off."""
    changes = {
        "temperature": [0.5, 0.9, 0.5, 0.5, 0.5],
        "finish_reason": ["length", "stop", "stop", "stop", "stop"],
        "finalizer_used": [True, False, None, False, False],
        "latency_s": [3.0, 1.0, 1.0, 1.0, 1.0],
        "device_s": [0.5, 0.5, 1.0, 0.25, 0.25],
    }
    put_all(tmp_path, whole(traces=traces(**changes)))
    found = describe_log(open_log(tmp_path))
    first, second = found.settings.rows(named=True)
    assert (first["pool"], first["settings"], first["mixed"], first["prefix"]) == ("n", 2, 1, True)
    assert (first["at_limit"], first["finalized"]) == (0.25, 0.25)
    assert (first["latency_s"], first["device_s"], first["batched"]) == (1.5, 0.375, 4.0)
    assert (second["settings"], second["mixed"], second["finalized"], second["batched"]) == (1, 0, None, 1.0)
    mixed, seconds = found.remarks
    quotes(mixed, "`n`: 1 group")
    quotes(seconds, "seconds: ", "1 of 2 pools", "`n`", "1.5 s", "0.375 s")
    quotes(" ".join(found.terminal(200).split()), "0.375 s")


def test_a_pool_that_is_no_prefix_says_so(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole(), pools={"n": {"prefix": False}})
    found = describe_log(log)
    assert all(len(line) <= 80 for line in found.terminal(80).splitlines())
    assert "``" not in found.terminal(80)
    assert found.settings.select("pool", "prefix").rows() == [("n", False), ("rev", True)]
    assert "prefix" in found.terminal(200)


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(put_all(tmp_path, whole(traces=traces(text=["x", "x", "x", "y", "y"]))))
    one = describe_log(log)
    monkeypatch.setattr(measuring, "BLOCK_ROWS", 1)
    many = describe_log(log)
    assert many.order.equals(one.order)
    assert many.settings.equals(one.settings)
    assert many.verifiers.equals(one.verifiers)


def test_texts_are_compared_in_the_first_traces_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = whole(traces=traces(text=["x", "x", "r", "y", "y"]))
    tables["verifications"] = verifications(trace_id=["a0", "a1", "b0", "b1"])
    log = open_log(put_all(tmp_path, tables))
    answers = log.scan("traces", ["trace_id", "answer"]).collect().sort("trace_id")["answer"].to_list()
    assert answers[:2] == ["4", None]  # a0 and a1 have one text, but not the same answer: nothing is repeated
    assert describe_log(log).verifiers["repeats"].to_list() == [0]
    tables["traces"] = tables["traces"].with_columns(answer=pl.lit("4"), correct=pl.lit(None, pl.Boolean))
    log = open_log(put_all(tmp_path / "same", tables))
    assert describe_log(log).verifiers["repeats"].to_list() == [2]
    monkeypatch.setattr(measuring, "MOST_TEXTS", 3)
    assert describe_log(log).verifiers["repeats"].to_list() == [1]


def test_the_shipped_log() -> None:
    """The numbers of the manual's page on assumptions."""
    log = open_log(SHIPPED)
    votes = pl.col("pool") == "votes"
    columns = ["example_id", "pool", "action", "parent_id", "sample_index", "correct"]
    found = ordered(log.scan("traces", columns).filter(votes).collect())
    rounded = {name: round(found[name], 4) for name in ("lag", "lag_expected", "between", "sampling")}
    assert rounded == {"lag": -0.0672, "lag_expected": -0.0667, "between": 0.0913, "sampling": 0.1370}
    assert (round(found["trend"], 5), round(found["trend_z"], 2), round(found["share_between"], 2)) == (
        -0.00024,
        -0.86,
        0.4,
    )
    assert set(COLUMNS) <= set(log.scan("traces").collect_schema())
