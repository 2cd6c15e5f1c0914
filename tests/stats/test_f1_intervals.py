"""F1s with few errors or little gold: score limits, and the delta method against loops over examples."""

import numpy as np
import pytest

from toolkit.stats import Settings, summarise, wilson
from toolkit.stats.bootstrap.f1_intervals import _F1Slopes, _jaccard_limits, _pseudo_error
from toolkit.stats.limits.intervals import NORMAL

QUICK = Settings(resamples=200)
LABELS = ["x", "y", "z"]
Z = NORMAL.inv_cdf(0.975)


def only(frame, **where):
    return frame.filter(**where).row(0, named=True)


def run(made, factory, gold, answers, names=("a",), **more):
    gold, answers = np.asarray(gold), np.atleast_2d(answers)
    one = made({"correct": answers == gold}, gold=gold, predicted=np.eye(4)[answers][..., :3])  # 3: no answer
    return summarise(factory(one), list(names), labels=LABELS, settings=QUICK, **more)


def few_errors(seed, n=60, policies=1, errors=4):
    rng = np.random.default_rng(seed)
    gold = rng.permutation(np.resize([0, 0, 0, 1, 1, 2], n))
    answers = np.tile(gold, (policies, 1))
    for row in answers:
        wrong = rng.choice(n, errors, replace=False)
        row[wrong] = (gold[wrong] + rng.integers(1, 3, errors)) % 3
    return gold, answers


def test_the_score_limits_of_a_class_by_hand():
    for right, wrong in ((9, 1), (0, 7), (7, 0), (120, 33)):
        low, high = wilson(right, right + wrong)
        found = _jaccard_limits(np.array([right]), np.array([wrong]), 0.95)
        assert np.concatenate(found) == pytest.approx([2 * low / (1 + low), 2 * high / (1 + high)], abs=1e-12)
    assert np.concatenate(_jaccard_limits(np.array([9.0]), np.array([1.0]), 0.95)) == pytest.approx(
        [0.747, 0.991], abs=5e-4
    )


@pytest.mark.parametrize(("rare", "method"), [(4, None), (5, "jaccard_few"), (9, "jaccard_few"), (10, "jaccard")])
def test_a_class_of_little_gold_is_marked_and_a_smaller_one_has_no_interval(made, factory, rare, method):
    gold = np.repeat([0, 1, 2], [40, 50 - rare, rare])
    answers = gold.copy()
    answers[[0, -1]] = 1
    found = run(made, factory, gold, answers)
    row = only(found.summary, metric="f1:z")
    assert row["method"] == method
    assert (row["low"] is None) == (method is None)
    assert row["estimate"] == pytest.approx(2 * (rare - 1) / (2 * rare - 1))
    assert only(found.summary, metric="f1:x")["method"] == "jaccard"
    assert only(found.summary, metric="macro_f1")["method"] == (method and "delta")
    assert only(found.summary, metric="weighted_f1")["method"] == "delta"
    notes = [(note.policies, note.metrics) for note in found.notes if note.code == "few_gold"]
    assert notes == [((), ("macro_f1", "f1:z"))] * (method is None)


def test_the_limits_of_a_class_count_its_errors(made, factory):
    gold, answers = few_errors(1)
    row = only(run(made, factory, gold, answers).summary, metric="f1:y")
    right, wrong = ((gold == 1) & (answers[0] == 1)).sum(), ((gold == 1) != (answers[0] == 1)).sum()
    assert (row["low"], row["high"]) == pytest.approx(
        np.concatenate(_jaccard_limits(np.array([right]), np.array([wrong]), 0.95))
    )


def value(table, weighted):
    """The mean F1 of a confusion matrix (gold, answer), whose last column may be no answer."""
    right, gold, named = np.diag(table[:, :3]), table.sum(axis=1), table[:, :3].sum(axis=0)
    f1s = 2 * right / (gold + named)
    return float((f1s * gold).sum() / gold.sum() if weighted else f1s.mean())


def moved(of, table, cell, step=1e-6):
    """By how much a function of a table moves with one cell."""
    up, down = table.copy(), table.copy()
    up[cell] += step
    down[cell] -= step
    return (of(up) - of(down)) / (2 * step)


@pytest.mark.parametrize(("metric", "weighted"), [("macro_f1", False), ("weighted_f1", True)])
@pytest.mark.parametrize("errors", [0, 4, 20])
def test_the_mean_of_f1s_is_the_delta_method_after_one_pseudo_error(made, factory, metric, weighted, errors):
    gold, answers = few_errors(2, errors=errors)
    answers[0, 5] = 3  # no answer
    table = np.zeros((3, 4))
    np.add.at(table, (gold, answers[0]), 1)
    table[:, :3] += (1 - np.eye(3)) / 6
    square = sum(table[cell] * moved(lambda t: value(t, weighted), table, cell) ** 2 for cell in np.ndindex(3, 4))
    middle = value(table, weighted)
    row = only(run(made, factory, gold, answers).summary, metric=metric)
    limits = (middle - Z * square**0.5, min(middle + Z * square**0.5, 1))
    assert row["method"] == "delta"
    assert (row["low"], row["high"]) == pytest.approx((limits[0], max(limits[1], row["estimate"])), abs=1e-6)


@pytest.mark.parametrize("metric", ["macro_f1", "weighted_f1", "f1:y"])
def test_a_difference_is_the_delta_method_after_one_example_that_one_has_right(made, factory, metric):
    gold, answers = few_errors(3, policies=2)
    named = 2 if metric == "f1:y" else 3  # of one class all others are the second
    rows = [gold == 1, *(answers == 1)] if metric == "f1:y" else [gold, *answers]
    table = np.zeros((named, named + 1, named + 1))  # gold, answer of each
    np.add.at(table, tuple(np.asarray(row, np.int64) for row in rows), 1)
    for g, a, b in np.ndindex(named, named, named):
        table[g, a, b] += ((a == g) != (b == g)) / (2 * named * (named - 1))

    def difference(t):
        both = [t.sum(axis=2), t.sum(axis=1)]
        if metric == "f1:y":
            return float(np.subtract(*(2 * one[1, 1] / (one[1].sum() + one[:, 1].sum()) for one in both)))
        return value(both[0], metric == "weighted_f1") - value(both[1], metric == "weighted_f1")

    square = sum(table[cell] * moved(difference, table, cell) ** 2 for cell in np.ndindex(table.shape) if table[cell])
    middle, half = difference(table), Z * square**0.5
    found = run(made, factory, gold, answers, ("a", "b"), baseline="b").comparisons
    row = only(found, policy="a", baseline="b", metric=metric)
    assert row["method"] == "delta"
    assert (row["low"], row["high"]) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert row["p_value"] == pytest.approx(2 * NORMAL.cdf(-abs(middle) / square**0.5), abs=1e-6)


def test_many_errors_keep_the_bootstrap(made, factory):
    rng = np.random.default_rng(4)
    gold = rng.integers(0, 3, 300)
    answers = np.where(rng.random((2, 300)) < 0.7, gold, (gold + 1) % 3)
    found = run(made, factory, gold, answers, ("a", "b"), baseline="b")
    for frame in (found.summary, found.comparisons.filter(policy="a")):
        assert only(frame, metric="macro_f1")["method"] == "percentile"
    assert only(found.summary, policy="a", metric="f1:x")["method"] == "jaccard"
    assert only(found.comparisons, policy="a", metric="f1:x")["method"] == "percentile"


def test_clusters_give_f1s_students_limits(made, factory):
    gold, answers = few_errors(5)
    one = made({"correct": answers == gold}, np.arange(60) // 2, gold, np.eye(3)[answers])
    found = summarise(factory(one), ["a"], labels=LABELS, settings=QUICK).summary
    assert found.filter(metric="macro_f1")["method"].item() == "t_few"


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_are_derivatives(weighted):
    sums = np.random.default_rng(6).uniform(5, 20, (3, 4)) + np.array([[0], [20], [20]])
    found = _F1Slopes.slopes_at(*_pseudo_error(*sums, 4), weighted)
    for row, slopes in enumerate((found.right, found.named, found.gold)):
        for k in range(4):
            up, down = sums.copy(), sums.copy()
            up[row, k], down[row, k] = sums[row, k] + 1e-5, sums[row, k] - 1e-5
            ends = [float(_F1Slopes.slopes_at(*_pseudo_error(*one, 4), weighted).value) for one in (up, down)]
            assert slopes[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)
