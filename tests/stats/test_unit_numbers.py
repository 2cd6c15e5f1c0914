"""Units are numbered in one way, wherever examples come from."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.stats import OutcomeBlock, Settings, interval, summarise, unit_numbers


def test_units_are_numbered_as_they_first_appear() -> None:
    assert unit_numbers(["b", "a", "b", "c", "a"]).tolist() == [0, 1, 0, 2, 1]
    assert unit_numbers([7, 3, 7]).tolist() == [0, 1, 0]
    assert unit_numbers([]).tolist() == []


def test_clusters_by_name_have_the_interval_of_a_run() -> None:
    values, cluster = np.random.default_rng(1).random(60), np.repeat(["d", "a", "c", "b", "f", "e"], 10)
    settings = Settings(resamples=200)
    one = interval(values, cluster=cluster, settings=settings)
    block = OutcomeBlock(np.array([""] * 60, object), np.repeat(np.arange(6), 10), {"position": values[None]})
    row = summarise(lambda: iter([block]), ["x"], settings=settings).summary.row(0, named=True)
    assert (one.low, one.high) == pytest.approx((row["low"], row["high"]))
