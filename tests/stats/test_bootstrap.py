"""The bootstrap against plain loops on the same draws, scipy, and normal theory."""

import math

import numpy as np
import pytest
from scipy import special
from scipy.stats import bootstrap as scipy_bootstrap

from toolkit.stats import Settings, paired_interval, resampled_metric, summarise
from toolkit.stats.metrics.resamples import Resamples

LABELS = ["x", "y", "z"]


def interval_row(frame, **where):
    return frame.filter(**where).row(0, named=True)


def rows_of(counts):
    """Example numbers of one resample, as often as each is drawn."""
    return [i for i, count in enumerate(counts) for _ in range(int(count))]


def test_counts_are_multinomial():
    for units in (1, 7, 4096, 4097, 9000):
        resamples = Resamples(units, 300, seed=5)
        counts = np.concatenate([resamples.counts_of_chunk(k) for k in range(len(resamples.sizes))], axis=1)
        assert counts.shape == (300, units)
        assert (counts.sum(axis=1) == units).all()
        assert np.array_equal(np.concatenate(list(resamples.blocks_of_counts())), counts)
    # A count is Binomial(n, 1/n): mean 1, variance 1 − 1/n; two counts correlate by −1/(n − 1).
    assert counts.var() == pytest.approx(1 - 1 / units, abs=0.01)
    first_chunk = counts[:, :4096].sum(axis=1)
    expected = 9000 * (4096 / 9000) * (1 - 4096 / 9000)
    assert first_chunk.var() == pytest.approx(expected, rel=0.35)
    assert first_chunk.mean() == pytest.approx(4096, abs=5 * math.sqrt(expected / 300))


def test_small_counts_have_the_exact_distribution():
    # n = 2: (2, 0), (1, 1), (0, 2) with chances 1/4, 1/2, 1/4.
    counts = Resamples(2, 40_000, seed=1).counts_of_chunk(0)[:, 0]
    assert [np.mean(counts == k) for k in (0, 1, 2)] == pytest.approx([0.25, 0.5, 0.25], abs=0.011)


@pytest.mark.parametrize("seed", range(3))
def test_draws_equal_a_plain_loop_on_the_same_resamples(random_run, factory, plain, seed):
    one = random_run(seed, 40)
    settings = Settings(resamples=12, seed=seed)
    counts = Resamples(40, 12, seed).counts_of_chunk(0)
    for metric in ("accuracy", "traces", "total_tokens", "latency_s", "macro_f1", "weighted_f1"):
        got = resampled_metric(factory(one), ["a", "b", "c"], metric, labels=LABELS, settings=settings)
        for policy in range(3):
            expected = [plain(one, policy, rows_of(c), 3)[metric] for c in counts]
            assert got[policy] == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("seed", range(3))
def test_estimates_equal_a_plain_loop(random_run, factory, plain, seed):
    one = random_run(seed, 60)
    table = summarise(factory(one), ["a", "b", "c"], labels=LABELS, settings=Settings(resamples=5)).summary
    for policy, name in enumerate("abc"):
        for metric, value in plain(one, policy, range(60), 3).items():
            assert interval_row(table, policy=name, metric=metric)["estimate"] == pytest.approx(value, rel=1e-13)


def test_clustered_draws_add_the_examples_of_a_cluster(random_run, factory, plain, made):
    one = random_run(4, 50)
    unit = np.random.default_rng(0).integers(0, 9, 50)
    unit[:9] = range(9)
    one = made(one.values, unit, one.gold, one.predicted)
    members = [np.flatnonzero(unit == u) for u in range(9)]
    counts = Resamples(9, 12, 0).counts_of_chunk(0)
    for metric in ("accuracy", "latency_s", "macro_f1"):
        got = resampled_metric(factory(one), ["a", "b", "c"], metric, labels=LABELS, settings=Settings(resamples=12))
        for policy in range(3):
            rows = [[i for u in rows_of(c) for i in members[u]] for c in counts]
            assert got[policy] == pytest.approx([plain(one, policy, r, 3)[metric] for r in rows], rel=1e-9)


def test_clusters_of_one_are_examples_and_gaps_in_numbers_do_not_matter(random_run, factory, made):
    one = random_run(5, 80)
    spread = made(one.values, np.arange(80) * 3 + 5, one.gold, one.predicted)
    settings = Settings(resamples=300)
    first = summarise(factory(one), ["a", "b", "c"], labels=LABELS, settings=settings)
    second = summarise(factory(spread), ["a", "b", "c"], labels=LABELS, settings=settings)
    assert first.summary.equals(second.summary)
    assert first.comparisons.equals(second.comparisons)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_against_scipy(method):
    rng = np.random.default_rng(7)
    one = rng.gamma(0.7, 3.0, 250)
    two = 0.6 * one + rng.gamma(1.2, 1.0, 250)
    ours = paired_interval(one, two, settings=Settings(method=method))
    theirs = scipy_bootstrap(
        (one, two), lambda a, b, axis=-1: a.mean(axis) - b.mean(axis), paired=True, vectorized=True,
        n_resamples=10_000, method={"percentile": "percentile", "bca": "BCa"}[method], rng=np.random.default_rng(1),
    )  # fmt: skip
    # A limit's Monte-Carlo error at B = 10,000 is 0.027 standard errors; two limits differ by 0.15 at four sigmas.
    limits = theirs.confidence_interval
    tolerance = 0.15 * theirs.standard_error
    assert (ours.low, ours.high) == pytest.approx((limits.low, limits.high), abs=tolerance)
    assert ours.difference == pytest.approx(one.mean() - two.mean())


def test_bca_equals_its_formula_on_the_same_draws(random_run, factory, plain):
    one = random_run(11, 150)  # enough errors and gold for the bootstrap of the F1s
    settings = Settings(resamples=800, method="bca", level=0.9)
    names = ["a", "b", "c"]
    table = summarise(factory(one), names, labels=LABELS, baseline="b", settings=settings)
    for metric in ("accuracy", "macro_f1", "latency_s"):
        values = resampled_metric(factory(one), names, metric, labels=LABELS, settings=settings)
        pair = values[2] - values[1]
        whole = [plain(one, p, range(150), 3)[metric] for p in (2, 1)]
        theta = whole[0] - whole[1]
        left = [[i for i in range(150) if i != out] for out in range(150)]
        jack = np.array([plain(one, 2, r, 3)[metric] - plain(one, 1, r, 3)[metric] for r in left])
        below = ((pair < theta - 1e-12).sum() + (pair <= theta + 1e-12).sum()) / (2 * len(pair))
        z0, deviation = special.ndtri(below), jack.mean() - jack
        a = (deviation**3).sum() / (6 * (deviation**2).sum() ** 1.5)
        levels = [special.ndtr(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in special.ndtri([0.05, 0.95])]
        row = interval_row(table.comparisons, policy="c", baseline="b", metric=metric)
        assert row["method"] == ("bca_tail" if metric == "latency_s" else "bca")
        low, high = np.quantile(pair, levels)
        if metric == "accuracy":  # of parts of an example, Student's limits have their say
            half = special.stdtrit(149, 0.95) * (jack - jack.mean()).std() * math.sqrt(149)
            low, high = min(low, theta - half), max(high, theta + half)
        error = 2e-5 if metric == "accuracy" else 1e-9  # the jackknife's variance is not quite that of the mean
        assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-6, abs=error)


def test_percentile_agrees_with_normal_theory():
    rng = np.random.default_rng(2)
    one, two = rng.normal(5, 1, 2000), rng.normal(4.97, 1, 2000)
    got = paired_interval(one, two)
    error = (one - two).std(ddof=0) / math.sqrt(2000)
    difference = (one - two).mean()
    assert got.low == pytest.approx(difference - 1.96 * error, abs=0.15 * error)
    assert got.high == pytest.approx(difference + 1.96 * error, abs=0.15 * error)
    assert got.p_value == pytest.approx(2 * special.ndtr(-abs(difference) / error), abs=0.03)


def test_p_value_comes_from_the_draws_and_stays_under_bca(random_run, factory):
    one = random_run(3, 90)
    names = ["a", "b", "c"]
    for metric in ("total_tokens", "reduction:total_tokens", "accuracy"):
        key = metric.removeprefix("reduction:")
        values = resampled_metric(factory(one), names, key, labels=LABELS, settings=Settings(resamples=999))
        against = values[0] - values[1] if metric == key else 1 - values[0] / values[1]
        count = min((against <= 1e-12).sum(), (against >= -1e-12).sum())
        settings = Settings(resamples=999, method="bca")
        table = summarise(factory(one), names, labels=LABELS, baseline="b", settings=settings).comparisons
        row = interval_row(table, policy="a", baseline="b", metric=metric)
        counted = min(1, 2 * (1 + count) / 1000)
        if metric == "accuracy":  # of parts of an example, Student's test has its say
            assert row["p_value"] == pytest.approx(max(counted, row["p_value"]))
            assert row["p_value"] == pytest.approx(counted, abs=0.02)
        else:
            assert row["p_value"] == counted


def test_pairing_narrows_the_interval(factory, made):
    rng = np.random.default_rng(9)
    hard = rng.random(800)
    one = made({"correct": [hard < 0.6, hard < 0.65]})
    table = summarise(factory(one), ["a", "b"], baseline="a", settings=Settings(resamples=2000))
    pair = interval_row(table.comparisons, policy="b", metric="accuracy")
    alone = interval_row(table.summary, policy="b", metric="accuracy")
    assert pair["high"] - pair["low"] < 0.6 * (alone["high"] - alone["low"])


def test_level_and_seed_matter(random_run, factory):
    one = random_run(6, 120)

    def row(**options):
        settings = Settings(**{"resamples": 2000, **options})
        table = summarise(factory(one), ["a", "b", "c"], settings=settings).summary
        return interval_row(table, policy="b", metric="latency_s")

    assert row(level=0.99)["low"] < row()["low"] < row(level=0.5)["low"]
    assert row(seed=1)["low"] != row()["low"]
    assert row() == row()
