"""auc by hand, against a loop over pairs, and its intervals against resampled loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from tests.errors import refuses
from toolkit.stats import Settings, auc, auc_intervals, auc_within, aucs_by_group
from toolkit.stats.curves import roc
from toolkit.stats.curves.roc import InfluencedEstimate
from toolkit.stats.metrics.resamples import Resamples


def pairs_auc(scores, correct):
    """Share of (right, wrong) pairs in which the right one scores higher, ties one half."""
    right = [s for s, c in zip(scores, correct, strict=True) if c]
    wrong = [s for s, c in zip(scores, correct, strict=True) if not c]
    wins = sum((r > w) + 0.5 * (r == w) for r in right for w in wrong)
    return wins / (len(right) * len(wrong)) if right and wrong else math.nan


def test_by_hand():
    # right .35 .8, wrong .1 .4: .35 beats .1 only, .8 beats both: 3 of 4
    assert auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    # right 2 2, wrong 2 1: ties count one half: (.5 + 1 + .5 + 1) / 4
    assert auc([2, 2, 2, 1], [1, 1, 0, 0]) == 0.75
    # within: a (2 beats 1) 1, b (tie) 0.5, c has only right traces
    scores, correct, group = [1, 2, 3, 3, 9, 9], [0, 1, 1, 0, 1, 1], list("aabbcc")
    assert auc_within(scores, correct, group) == 0.75
    assert aucs_by_group(scores, correct, group) == pytest.approx([1, 0.5, np.nan], nan_ok=True)


def test_without_both_classes_there_is_none():
    assert math.isnan(auc([1, 2], [1, 1]))
    assert math.isnan(auc([], []))
    assert math.isnan(auc_within([1, 2], [1, 0], ["a", "b"]))
    assert math.isnan(auc_within([], [], []))


def test_nulls_are_left_out():
    assert auc([1, np.nan, 2, 5], [0, 0, 1, np.nan]) == 1.0


def test_lengths_must_agree():
    with refuses("mismatch", "`group`", "`correct`"):
        auc([1, 2], [1])


TRACES = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 4)), min_size=1, max_size=40
)  # (score, right?, example)


@given(TRACES)
def test_equals_the_loop_over_pairs(traces):
    scores, correct, group = (list(column) for column in zip(*traces, strict=True))
    assert auc(scores, correct) == pytest.approx(pairs_auc(scores, correct), nan_ok=True)
    each = [
        pairs_auc([s for s, g in zip(scores, group, strict=True) if g == one],
                  [c for c, g in zip(correct, group, strict=True) if g == one])
        for one in sorted(set(group))
    ]  # fmt: skip
    assert aucs_by_group(scores, correct, group) == pytest.approx(each, nan_ok=True)
    known = [a for a in each if not math.isnan(a)]
    expected = sum(known) / len(known) if known else math.nan
    assert auc_within(scores, correct, group) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("ties", [False, True])
def test_intervals_equal_loops_on_the_same_resamples(ties, monkeypatch):
    monkeypatch.setattr(roc, "FEW_OF_A_KIND", 0)
    rng = np.random.default_rng(0)
    examples, size, resamples = 12, 5, 60
    group = np.repeat(np.arange(examples), size)
    correct = rng.integers(0, 2, len(group))
    scores = rng.normal(correct, 1.0)
    if ties:
        scores = np.round(scores)
    counts = Resamples(examples, resamples, 3).counts_of_chunk(0).astype(int)
    pooled, within = [], []
    each = aucs_by_group(scores, correct, group)
    for count in counts:
        rows = [i for u, times in enumerate(count) for _ in range(times) for i in np.flatnonzero(group == u)]
        pooled.append(pairs_auc(scores[rows], correct[rows]))
        units = np.repeat(np.arange(examples), count)
        within.append(np.nanmean(each[units]))
    got = auc_intervals(scores, correct, group, settings=Settings(resamples=resamples, seed=3))
    assert got.auc.estimate == pytest.approx(auc(scores, correct))
    assert (got.auc.low, got.auc.high) == pytest.approx(tuple(np.quantile(pooled, [0.025, 0.975])))
    assert got.auc_within.estimate == pytest.approx(auc_within(scores, correct, group))
    limits = tuple(np.quantile(within, [0.025, 0.975]))
    assert (got.auc_within.low, got.auc_within.high) == pytest.approx(limits, rel=1e-6)


def test_few_of_a_kind_have_delongs_variance_on_the_logit_scale():
    """Each trace's share of the other class that it beats, by loops: variance S10/m + S01/n (DeLong 1988), but for the
    divisors, 30/29 in place of 12/11 and 18/17.
    """
    rng = np.random.default_rng(5)
    right = np.arange(30) % 5 < 2
    scores = np.round(rng.normal(right, 1.0), 1)
    good, bad = scores[right], scores[~right]
    area = pairs_auc(scores, right)
    beaten = [np.mean([(g > b) + 0.5 * (g == b) for b in bad]) for g in good]
    beats = [np.mean([(g > b) + 0.5 * (g == b) for g in good]) for b in bad]
    error = np.sqrt(30 / 29 * (np.var(beaten) / 12 + np.var(beats) / 18))
    got = auc_intervals(scores, right, np.arange(30)).auc
    half = t.ppf(0.975, 29) * error / (area * (1 - area))
    low, high = (1 / (1 + np.exp(-(np.log(area / (1 - area)) + end))) for end in (-half, half))
    assert (got.estimate, got.low, got.high) == pytest.approx((area, low, high))
    assert got.method == "logit"
    alone = auc_intervals([0, 0, 1, 1], [0, 0, 1, 1], np.arange(4)).auc  # every right one above every wrong one
    assert (alone.estimate, alone.low, alone.method) == (1.0, None, None)


def test_intervals_of_nothing_and_of_one_example():
    empty = auc_intervals([np.nan], [1], ["a"])
    assert (empty.auc.estimate, empty.auc_within.estimate) == (None, None)
    single = auc_intervals([1, 2], [0, 1], ["a", "a"], settings=Settings(resamples=50))
    assert (single.auc.estimate, single.auc.low, single.auc.high) == (1.0, None, None)
    assert single.auc_within.low is None


def test_clusters_widen_intervals():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(60), 6)
    cluster = group // 10
    correct = rng.integers(0, 2, len(group))
    quality = rng.normal(0, 2, 6)[cluster]
    scores = rng.normal(correct * quality, 1.0)
    settings = Settings(resamples=500)
    alone = auc_intervals(scores, correct, group, settings=settings).auc
    together = auc_intervals(scores, correct, group, cluster=cluster, settings=settings).auc
    assert together.n == alone.n == 60
    assert together.high - together.low > alone.high - alone.low


def test_the_variance_within_strata_by_hand():
    """Two strata of two: influences less their means, 0 and 1, are ±1; 2/(2 − 1) · 4 squares of 1 are 8."""
    within = InfluencedEstimate(0.5, np.array([1.0, -1.0, 2.0, 0.0]), 4).with_strata(np.array([0, 0, 1, 1]))
    assert 4 / 3 * (within.influence**2).sum() == pytest.approx(8, rel=1e-12)


@pytest.mark.parametrize("examples", [60, 400])
def test_areas_are_resampled_within_data_sets(examples):
    """As plain draws of half of the examples from each half; one stratum changes no digit."""
    rng = np.random.default_rng(0)
    stratum = np.arange(examples) % 2
    right = rng.random(examples) < np.where(stratum == 1, 0.9, 0.4)
    scores = 2 * stratum + rng.normal(0, 0.3, examples)
    plain, within, single = (
        auc_intervals(scores, right, np.arange(examples), stratum=one, settings=Settings(resamples=2000))
        for one in (None, stratum, np.zeros(examples))
    )
    assert plain == single
    assert within.auc.estimate == plain.auc.estimate
    drawn = [
        auc(scores[rows], right[rows])
        for _ in range(2000)
        for rows in [np.concatenate([rng.choice(np.flatnonzero(stratum == one), examples // 2) for one in (0, 1)])]
    ]
    few = examples == 60
    assert within.auc.method == ("logit" if few else "percentile")
    assert [within.auc.low, within.auc.high] == pytest.approx(
        np.quantile(drawn, [0.025, 0.975]), abs=0.04 if few else 0.01
    )
    assert within.auc.low != plain.auc.low
