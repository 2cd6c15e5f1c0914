"""Differences of all pairs at once: by hand, against plain loops, and where outcomes hardly differ."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtr

from toolkit.columns import COLUMNS, OutcomeColumn
from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.limits.discordant import exact_p_value, tango_limits
from toolkit.stats.many.pair_differences import _PairDifferences, fixes_and_flips, pair_differences
from toolkit.stats.metrics.outcomes import Store, join_stores

FEW = Settings(resamples=400)
TOKENS = OutcomeColumn("tokens", cost=True)
RIGHT = OutcomeColumn("correct", "accuracy", share=True, rate=True, quality=True)


def store_of(correct: NDArray[np.float64], unit: NDArray[np.int64] | None = None, **more: NDArray[np.float64]) -> Store:
    size = correct.shape[1]
    ids = np.array([f"e{i:05}" for i in range(size)], object)
    units = np.arange(size) if unit is None else unit
    block = OutcomeBlock(ids, units, {"correct": correct, **more})
    return Store.of_blocks(lambda: iter([block]), len(correct), None)


def paired(store: Store, metric: str = "accuracy", settings: Settings = FEW) -> _PairDifferences:
    names = [f"p{number}" for number in range(store.policies)]
    sample = read_sample(store, names, None, settings, [RIGHT, TOKENS], metric)
    number = [one.name for one in sample.metrics].index(metric)
    return pair_differences(sample, store, number, np.triu_indices(store.policies, 1), settings)


def test_many_discordant_pairs_by_hand() -> None:
    """Two policies are one pair: its limits are those of a single t-like interval, difference ± critical · s/√n."""
    rng = np.random.default_rng(1)
    correct = (rng.random((2, 400)) < [[0.7], [0.5]]).astype(float)
    found = paired(store_of(correct))
    apart = correct[0] - correct[1]
    assert found.difference[0] == pytest.approx(apart.mean())
    half = (found.high - found.low)[0] / 2
    assert half == pytest.approx(1.966 * apart.std(ddof=1) / 20, rel=0.1)  # the quantile of 400 draws
    assert (found.fixes[0], found.flips[0]) == ((apart > 0).sum(), (apart < 0).sum())
    assert found.method.tolist() == ["max-t"]
    assert found.differs[0]
    assert found.n.tolist() == [400]


def test_fixes_and_flips_against_plain_loops() -> None:
    """Zeros and ones, means over several rows, and nulls."""
    rng = np.random.default_rng(2)
    correct = rng.integers(0, 3, (5, 60)) / 2
    correct[:3] = correct[:3] > 0.5
    correct[rng.random((5, 60)) < 0.1] = np.nan
    pairs = list(itertools.combinations(range(5), 2))
    fixes, flips = fixes_and_flips(store_of(correct), *np.array(pairs).T)
    for number, (one, other) in enumerate(pairs):
        assert fixes[number] == sum(a > b for a, b in zip(correct[one], correct[other], strict=True))
        assert flips[number] == sum(a < b for a, b in zip(correct[one], correct[other], strict=True))


def test_pairs_that_all_go_one_way_reach_as_far_as_tango() -> None:
    base = np.zeros(500)
    base[:300] = 1
    more = base.copy()
    more[300:330] = 1
    found = paired(store_of(np.stack([more, base])))
    assert found.method.tolist() == ["max-t"]
    assert found.high[0] >= tango_limits(30, 0, 500)[1] > 0.06 + 1.96 * np.std(more - base) / np.sqrt(500)


def test_few_discordant_pairs_get_tango_at_the_shared_level() -> None:
    """p0 and p1 differ on six examples, one way; p2 is far off, so that there are three pairs."""
    base = np.zeros(500)
    base[:300] = 1
    few = base.copy()
    few[300:306] = 1
    far = np.roll(base, 150)
    found = paired(store_of(np.stack([few, base, far])))
    assert found.method.tolist() == ["tango", "max-t", "max-t"]
    critical = (found.high - found.low)[2] / 2 / np.std(base - far, ddof=1) * np.sqrt(500)
    level = float(1 - 2 * stdtr(499, -critical))
    assert level > 0.95
    low, high = tango_limits(6, 0, 500, level)
    assert (found.low[0], found.high[0]) == pytest.approx((float(low), float(high)))
    assert found.p_value[0] >= exact_p_value(6, 0) == 2 / 2**6
    assert found.difference[0] == pytest.approx(6 / 500)


def test_fewer_than_ten_discordant_pairs_also_need_the_exact_p() -> None:
    """Five of 500 one way have t = 2.24, but McNemar's exact p is 1/16."""
    base = np.zeros(500)
    few = base.copy()
    few[:5] = 1
    found = paired(store_of(np.stack([few, base])))
    assert found.p_value[0] >= 1 / 16
    assert not found.differs[0]


def test_policies_that_agree_on_all_examples_may_differ() -> None:
    base = (np.arange(200) < 120).astype(float)
    found = paired(store_of(np.stack([base, base])))
    assert found.difference.tolist() == [0]
    z2 = 1.959964**2
    assert found.high[0] == pytest.approx(z2 / (200 + z2), rel=0.02)  # Student's t in place of z
    assert found.low[0] == -found.high[0]
    assert found.p_value.tolist() == [1]


def test_clusters() -> None:
    """Equal policies in 12 clusters get Tango's limits with 12 trials; with two clusters there are no limits."""
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(12), 10)
    base = (rng.random(120) < 0.6).astype(float)
    other = (rng.random(120) < 0.6).astype(float)
    found = paired(store_of(np.stack([base, base, other]), unit))
    assert found.method.tolist() == ["tango", "max-t", "max-t"]
    assert found.high[0] > 3.84 / (12 + 3.84)
    two = paired(store_of(np.stack([base, other]), np.repeat([0, 1], 60)))
    assert np.isnan([two.low[0], two.high[0], two.p_value[0]]).all()
    assert not two.differs[0]
    assert two.difference[0] == pytest.approx((base - other).mean())


def test_f1s_that_few_examples_tell_apart_have_no_limits_here() -> None:
    rng = np.random.default_rng(8)
    gold = rng.integers(0, 2, 300)
    ids = np.array([f"e{i:05}" for i in range(300)], object)

    def macro_f1(wrong: int) -> _PairDifferences:
        answers = np.stack([gold, gold])
        answers[0, :wrong], answers[1, 100 : 100 + wrong] = 1 - gold[:wrong], 1 - gold[100 : 100 + wrong]
        shares = (answers[:, :, None] == np.arange(2)).astype(float)
        block = OutcomeBlock(
            ids, np.arange(300), {"correct": (answers == gold).astype(float)}, gold.astype("i4"), shares
        )
        store = Store.of_blocks(lambda: iter([block]), 2, 2)
        sample = read_sample(store, ["a", "b"], ["x", "y"], FEW, COLUMNS, "accuracy")
        number = [one.name for one in sample.metrics].index("macro_f1")
        return pair_differences(sample, store, number, np.triu_indices(2, 1), FEW)

    few, many = macro_f1(14), macro_f1(40)
    assert np.isnan([few.low[0], few.high[0], few.p_value[0]]).all()
    assert (few.method[0], few.differs[0]) == ("", False)
    assert (many.fixes[0], many.flips[0]) == (40, 40)
    assert many.low[0] < many.difference[0] < many.high[0]


def test_of_a_cost_the_first_minus_the_second_is_told() -> None:
    rng = np.random.default_rng(4)
    tokens = np.stack([rng.gamma(2, 50, 300), rng.gamma(2, 90, 300)])
    correct = np.ones((2, 300))
    found = paired(store_of(correct, tokens=tokens), "tokens")
    assert found.difference[0] == pytest.approx((tokens[0] - tokens[1]).mean())
    assert found.low[0] < found.difference[0] < found.high[0] < 0
    assert found.differs[0]
    assert (found.fixes[0], found.flips[0]) == (0, 0)
    assert found.method.tolist() == ["max-t_few"]


def test_copies_of_a_policy_cost_nothing() -> None:
    """What is said of a pair does not depend on how many copies of its policies there are."""
    rng = np.random.default_rng(5)
    correct = (rng.random((3, 300)) < 0.6).astype(float)
    plain = paired(store_of(correct))
    copied = paired(store_of(np.concatenate([correct, correct[[0, 0]]])))
    where = {pair: number for number, pair in enumerate(zip(copied.first, copied.second, strict=True))}
    for number, pair in enumerate(zip(plain.first, plain.second, strict=True)):
        for name in ("low", "high", "p_value"):
            assert getattr(copied, name)[where[pair]] == pytest.approx(getattr(plain, name)[number])


def test_some_policies_of_two_stores_as_one() -> None:
    """The same rows in the order asked for, whatever the order of the stores, and the same statistics."""
    rng = np.random.default_rng(6)
    correct = (rng.random((5, 5000)) < rng.random((5, 1))).astype(float)  # more than one chunk
    first, second = store_of(correct[:3]), store_of(correct[3:])
    both = join_stores([(first, [2, 0]), (second, [1])], ["correct"], 0)
    assert both.policies == 3
    rows = np.concatenate([chunk.values("correct", np.array([0, 1, 2])) for chunk in both.chunks], axis=1)
    assert np.array_equal(rows, correct[[2, 0, 4]])
    names = ["a", "b", "c"]
    made = summarise(both, names, baseline="a", columns=[RIGHT], settings=FEW)
    plain = summarise(store_of(correct[[2, 0, 4]]), names, baseline="a", columns=[RIGHT], settings=FEW)
    assert made.comparisons.equals(plain.comparisons)


def test_few_clusters_that_differ_get_tango_with_clusters_as_trials() -> None:
    """Of 200 clusters of five p1 loses one example in six, p2 nothing, p3 in sixty: the level is the shared one."""
    correct, unit = np.ones((4, 1000)), np.arange(1000) // 5
    correct[1, np.arange(6) * 35] = 0
    correct[3, np.arange(60) * 15 + 1] = 0
    found = paired(store_of(correct, unit))
    assert found.method.tolist() == ["tango", "tango", "max-t", "tango", "max-t", "max-t"]
    few, none = [float(end[0]) for end in (found.low, found.high)], [float(end[1]) for end in (found.low, found.high)]
    half = (found.high[5] - found.low[5]) / 2 / (correct[2] - correct[3]).reshape(200, 5).mean(axis=1).std(ddof=1)
    level = 1 - 2 * stdtr(199, -half * np.sqrt(200))
    assert few == pytest.approx([float(end) for end in tango_limits(1.2, 0, 200, level)])
    assert none == pytest.approx([float(end) for end in tango_limits(0, 0, 200, level)])
    assert found.p_value[0] >= float(exact_p_value(6, 0))


def test_limits_of_few_examples_are_possible_and_marked() -> None:
    """Six examples with means over several replays: Bonferroni's limits would go beyond 100 points."""
    correct = np.array([[1, 0.9, 0.1, 1, 0.5, 0.2], [0, 1, 0.3, 0.1, 0.9, 0.1], [0.4, 0.2, 1, 0.3, 0, 0.9]])
    found = paired(store_of(correct))
    assert set(found.method) == {"graded_tango"}  # which is marked
    assert (found.low.min(), found.high.max()) == (-1, 1)


def test_few_examples_that_differ_in_part_reach_as_far_as_tango() -> None:
    """Of 300, eight gain a half: worth eight pairs, of twice as many examples."""
    base = np.full(300, 0.5)
    more = base.copy()
    more[:8] = 1
    pair = paired(store_of(np.stack([more, base])))
    assert pair.method.tolist() == ["graded_tango"]
    low, high = tango_limits(8, 0, 600, float(1 - 2 * stdtr(299, -1.96794)))
    assert pair.low[0] <= low + 1e-3
    assert pair.high[0] >= high - 1e-3
    assert high > 4 / 300 + 1.968 * np.std(more - base, ddof=1) / np.sqrt(300)


def test_rare_total_losses_draw_the_limit_out() -> None:
    """Of 500, every other moves by 1/20, as many up as down, and three lose all: Student's limit rules out −1.3 points,
    the studentised one doesn't.
    """
    base = np.full(500, 0.5)
    base[:3] = 1
    moved = base + np.where(np.arange(500) % 4 == 0, 0.05, np.where(np.arange(500) % 4 == 1, -0.05, 0))
    moved[:3] = 0
    pair = paired(store_of(np.stack([moved, base])))
    difference = moved - base
    student = difference.mean() - 1.9647 * difference.std(ddof=1) / np.sqrt(500)
    assert pair.method.tolist() == ["max-t"]
    assert pair.low[0] < -0.016 < student + 0.001
