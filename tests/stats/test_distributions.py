"""Tails and quantiles that are computed without scipy, against scipy."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import bdtr, betaincinv, stdtr, stdtrit

from toolkit.stats.limits.intervals import FEW_RATES, binomial_tails, clopper_pearson
from toolkit.stats.limits.student import FEW_TAILS, MANY_FREE, student_quantile, student_tails


@pytest.mark.parametrize("trials", [0.7, 8.0, 200.5, 4_000.0, 20_000.0])
@pytest.mark.parametrize("tail", [0.025, 1e-4])
def test_exact_limits_of_few_rates_are_those_of_many(trials, tail):
    rates = np.array([0.0, 1e-3, 0.02, 0.5, 0.97, 1.0])
    few = clopper_pearson(rates * trials, trials, tail)
    many = clopper_pearson(np.tile(rates * trials, FEW_RATES), trials, tail)
    some = slice(1, -1)
    low = betaincinv((rates * trials)[some], ((1 - rates) * trials)[some] + 1, tail)
    assert few[0][some] == pytest.approx(low, rel=1e-6, abs=1e-12)
    for own, other in zip(few, many, strict=True):
        assert own == pytest.approx(other[: len(rates)], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("n", "share"), [(1, 0.5), (368, 0.99), (2_000, 0.95), (100_000, 0.5)])
def test_binomial_tails_are_scipys(n, share):
    assert binomial_tails(n, share) == pytest.approx(bdtr(np.arange(n + 1), n, share), abs=1e-8)


@pytest.mark.parametrize("freedom", [1.0, 2.7, 30.0, 79.0, MANY_FREE - 1, MANY_FREE, 5_000.0])
def test_students_distribution_is_scipys(freedom):
    """From 800 degrees of freedom on Wallace's approximation, to a part in a million."""
    for share in (0.6, 0.975, 0.99995, 1 - 1e-7):
        assert student_quantile(freedom, share) == pytest.approx(stdtrit(freedom, share), rel=1e-6)
    size = np.array([0.0, 0.5, 2.0, 4.0, np.nan, np.inf])
    tails = student_tails(freedom, size)
    assert tails == pytest.approx(2 * stdtr(freedom, -size), rel=1e-5, nan_ok=True)
    assert student_tails(freedom, np.tile(size, FEW_TAILS))[: len(size)] == pytest.approx(tails, rel=1e-9, nan_ok=True)


def test_some_degrees_of_freedom_are_few_and_others_without_end():
    freedom = np.array([5.0, 1e17, np.inf])
    assert student_quantile(freedom, 0.975) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-9)
    assert student_tails(freedom, np.full(3, 2.0)) == pytest.approx(2 * stdtr(freedom, -2.0), rel=1e-9)


def test_a_replay_of_many_examples_loads_no_scipy(tmp_path):
    """Loading it takes a fifth of the seconds of such a replay."""
    words = ["replay", "data/log", "--policies", "data/policies.toml", "--where", "split = 'test'", "--by", "dataset"]
    words += ["--baseline", "greedy", "--margin", "0.01", "--out", str(tmp_path / "out")]
    run = f"""
import runpy, sys
sys.argv = ["thinkback", *{words!r}]
try:
    runpy.run_module("thinkback", run_name="__main__")
except SystemExit as end:
    assert not end.code
print([name for name in sys.modules if name.split(".")[0] == "scipy"])
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
