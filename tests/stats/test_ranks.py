"""The table `ranks`, and what it is made of: influences, splits into halves, shares of the front."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from toolkit.columns import COLUMNS
from toolkit.stats import Settings, summarise
from toolkit.stats.bootstrap.influence import MetricSeries, influences
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.limits.discordant import tango_limits
from toolkit.stats.many.ranks import SPLITS, _held_out_value_of_best, _values_on_halves, is_on_front, random_halves

LABELS = ["x", "y", "z"]
SETTINGS = Settings(resamples=500)


def _sample(one, factory, metric="accuracy"):
    names = [f"p{i}" for i in range(len(one.values["correct"]))]
    labels = None if one.gold is None else LABELS
    found = read_sample(factory(one), names, labels, SETTINGS, COLUMNS, metric)
    return found, [m.name for m in found.metrics].index(metric)


def _ranked(one, factory, **how):
    names = [f"p{i}" for i in range(len(one.values["correct"]))]
    return summarise(factory(one), names, **{"settings": SETTINGS, **how})


def _rows(found, metric="accuracy"):
    return {row["policy"]: row for row in found.ranks.filter(metric=metric).iter_rows(named=True)}


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "weighted_f1", "total_tokens"])
@pytest.mark.parametrize("clustered", [False, True])
def test_influences_are_what_a_unit_moves(random_run, factory, made, plain, metric, clustered):
    one = random_run(1, 600)
    unit = np.random.default_rng(0).integers(0, 300, 600) if clustered else np.arange(600)
    one = made(one.values, unit, one.gold, one.predicted)
    sample, number = _sample(one, factory, metric)
    found = np.concatenate(list(influences(sample, [MetricSeries.of(sample, number, range(3))])), axis=1)
    scale = np.abs(found).max()
    assert found.sum(axis=1) == pytest.approx(np.zeros(3), abs=1e-6 * scale * 600)
    units = np.unique(unit)
    for place in (0, 7, 100):
        left = [i for i in range(600) if unit[i] != units[place]]
        moved = plain(one, 1, range(600), 3)[metric] - plain(one, 1, left, 3)[metric]
        assert found[1, place] == pytest.approx(moved, abs=0.05 * scale)


def test_influences_do_not_depend_on_how_they_are_cut(random_run, factory, made, monkeypatch):
    one = random_run(2, 9_000)
    for unit in (np.arange(9_000), np.random.default_rng(1).integers(0, 5_000, 9_000)):
        sample, number = _sample(made(one.values, unit, one.gold, one.predicted), factory, "macro_f1")
        wanted = [MetricSeries.of(sample, number, range(3)), MetricSeries.of(sample, 0, [2, 0])]
        first = np.concatenate(list(influences(sample, wanted)), axis=1)
        assert first.shape == (5, sample.units.count)
        monkeypatch.setattr("toolkit.stats.bootstrap.influence.PRODUCT_ROWS", 4)
        assert np.allclose(np.concatenate(list(influences(sample, wanted)), axis=1), first, rtol=0, atol=1e-15)
        monkeypatch.undo()


def test_policies_whose_outcomes_are_equal_share_one_series(made, factory):
    correct = np.array([[1, 0, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1.0]])
    sample, number = _sample(made({"correct": correct}), factory)
    series = MetricSeries.of(sample, number, range(3))
    assert list(series.owner) == [0, 0, 1]
    assert list(series.value) == [0.75, 0.5]


def test_the_best_of_one_half_is_scored_on_the_other(made, factory):
    rng = np.random.default_rng(4)
    correct = (rng.random((5, 41)) < 0.6).astype(float)
    cost = rng.integers(1, 4, (5, 41)).astype(float)
    sample, number = _sample(made({"correct": correct, "total_tokens": cost}), factory)
    paid = [m.name for m in sample.metrics].index("total_tokens")
    both = [_values_on_halves(sample, MetricSeries.of(sample, m, range(5)), seed=3) for m in (number, paid)]
    scores = []
    for half in random_halves(41, 3):
        for side in (half, ~half):
            ranked = sorted(range(5), key=lambda p: (-correct[p, side].mean(), cost[p, side].mean(), p))
            scores.append(correct[ranked[0], ~side].mean())
    assert len(scores) == 2 * SPLITS
    assert _held_out_value_of_best(*both, falling=False) == pytest.approx(np.mean(scores))


def test_halves_are_halves():
    found = random_halves(101, seed=0)
    assert list(found.sum(axis=1)) == [50] * SPLITS
    assert len(np.unique(found, axis=0)) == SPLITS
    assert (random_halves(101, seed=1) != found).any()


def test_the_front_is_what_nothing_beats():
    rng = np.random.default_rng(2)
    quality, cost = rng.integers(0, 5, (2, 7, 200)).astype(float)
    found = is_on_front(quality, cost)
    for d in range(200):
        q, c = quality[:, d], cost[:, d]
        beaten = [
            any((q[j] >= q[i]) & (c[j] <= c[i]) & ((q[j] > q[i]) | (c[j] < c[i])) for j in range(7)) for i in range(7)
        ]
        points = {(q[i], c[i]) for i in range(7) if not beaten[i]}
        assert {(q[i], c[i]) for i in np.flatnonzero(found[:, d])} == points
        assert found[:, d].sum() == len(points)


def test_what_is_told_of_policies_that_differ_much(made, factory):
    rng = np.random.default_rng(7)
    correct = (rng.random((4, 800)) < np.array([0.9, 0.6, 0.61, 0.2])[:, None]).astype(float)
    tokens = np.array([30.0, 10, 20, 40])[:, None] + rng.normal(size=(4, 800))
    rows = _rows(_ranked(made({"correct": correct, "total_tokens": tokens}), factory, baseline="p3"))
    assert {name: (row["rank_low"], row["rank_high"], row["ties"]) for name, row in rows.items()} == {
        "p0": (1, 1, True), "p1": (2, 3, False), "p2": (2, 3, False), "p3": (4, 4, False),
    }  # fmt: skip
    assert rows["p3"]["p_baseline"] is None
    assert max(rows[name]["p_baseline"] for name in ("p0", "p1", "p2")) < 0.01
    assert rows["p0"]["baseline_low"] < correct[0].mean() - correct[3].mean() < rows["p0"]["baseline_high"]


def test_limits_against_the_baseline_are_nowhere_narrower_than_alone(made, factory):
    """Tango's at the shared level with few discordant pairs, or none (p2 has the baseline's outcomes); long tails."""
    rng = np.random.default_rng(3)
    base = (rng.random(400) < 0.7).astype(float)
    correct = np.stack([base] * 4 + [(rng.random(400) < 0.6).astype(float)])
    correct[1, np.flatnonzero(base == 0)[:3]] = 1
    correct[3, 0] = 1 - correct[3, 0]
    one = made({"correct": correct, "latency_s": rng.lognormal(0, 1.5, (5, 400))})
    found, costs = (_ranked(one, factory, baseline="p0", cost=cost) for cost in (None, "latency_s"))
    rows, plain = _rows(found), costs.comparisons.filter(baseline="p0")
    ends = {name: (row["baseline_low"], row["baseline_high"]) for name, row in rows.items()}
    level = next(level for level in np.linspace(0.95, 0.999, 981) if tango_limits(0, 0, 400, level)[1] >= ends["p2"][1])
    assert np.array(ends["p2"]) == pytest.approx(np.array(tango_limits(0, 0, 400, level)), abs=1e-4)
    assert np.array(ends["p1"]) == pytest.approx(np.array(tango_limits(3, 0, 400, level)), abs=1e-4)
    assert level > 0.95
    for metric, told in (("accuracy", rows), ("latency_s", _rows(costs, "latency_s"))):
        for name, low, high in plain.filter(metric=metric).select("policy", "low", "high").iter_rows():
            assert told[name]["baseline_low"] < low < high < told[name]["baseline_high"]


def test_the_cheapest_ranks_first_by_cost_and_shares_are_of_the_front(made, factory):
    rng = np.random.default_rng(7)
    correct = (rng.random((3, 800)) < np.array([0.9, 0.6, 0.3])[:, None]).astype(float)
    tokens = np.array([30.0, 10, 20])[:, None] + rng.normal(size=(3, 800))
    rows = _rows(_ranked(made({"correct": correct, "total_tokens": tokens}), factory), "total_tokens")
    assert [rows[f"p{i}"]["rank_low"] for i in range(3)] == [3, 1, 2]
    assert [rows[f"p{i}"]["front_share"] for i in range(3)] == [1, 1, 0]


def test_equal_policies_tie_and_are_not_significant(made, factory):
    correct = np.tile(np.random.default_rng(0).random(50) < 0.7, (3, 1)).astype(float)
    rows = _rows(_ranked(made({"correct": correct}), factory, baseline="p2"))
    assert {(row["rank_low"], row["rank_high"], row["ties"]) for row in rows.values()} == {(1, 3, True)}
    assert {row["p_baseline"] for row in rows.values()} == {1.0, None}


def test_an_adjusted_p_value_is_no_smaller_than_the_plain_one(random_run, factory):
    found = _ranked(random_run(3, 200, policies=6), factory, baseline="p0")
    plain = found.comparisons.filter(baseline="p0").select("policy", "metric", "p_value")
    both = found.ranks.join(plain, on=["policy", "metric"])
    assert len(both) == 10
    assert (both["p_baseline"] >= both["p_value"]).all()


@pytest.mark.parametrize("examples", [3, 6, 12, 30])
def test_few_examples_tell_no_more_apart_jointly_than_alone(made, factory, examples):
    rng = np.random.default_rng(examples)
    correct = np.stack([np.ones(examples), rng.random(examples) < 0.5, np.zeros(examples)]).astype(float)
    one = made({"correct": correct, "latency_s": rng.lognormal(0, 1.5, (3, examples))})
    found = _ranked(one, factory, cost="latency_s")
    for metric in ("accuracy", "latency_s"):
        rows = _rows(found, metric)
        for told in found.comparisons.filter(baseline="p0", metric=metric).iter_rows(named=True):
            row, alone = rows[told["policy"]], max(told["p_value"], told["exact_p"] or 0.0)
            assert row["p_leader"] >= alone or alone < 0.05
            assert row["ties"] == (row["p_leader"] > 0.05)
            assert not row["ties"] or row["rank_low"] == 1


def test_who_equals_the_leader_has_its_ranks(made, factory):
    """In few clusters the joint claim is surer than the single one, which is taken back for both."""
    correct = np.stack([np.ones(80), np.ones(80), np.random.default_rng(0).random(80) < 0.87]).astype(float)
    rows = _rows(_ranked(made({"correct": correct}, unit=np.arange(80) // 5), factory, baseline="p0"))
    assert {(row["rank_low"], row["rank_high"], row["ties"]) for row in rows.values()} == {(1, 3, True)}


def test_who_cannot_lead_has_no_rank(made, factory):
    correct = (np.random.default_rng(1).random((3, 200)) < np.array([0.5, 0.6, 1])[:, None]).astype(float)
    rows = _rows(_ranked(made({"correct": correct}), factory, baseline="p0", leaders=["p0", "p1"]))
    assert rows["p2"]["rank_low"] is rows["p2"]["ties"] is None
    assert rows["p2"]["p_baseline"] < 0.05
    assert max(row["rank_high"] for row in rows.values() if row["rank_high"]) == 2


def test_the_chosen_of_a_sweep_and_the_leader_are_corrected(made, factory):
    correct = (np.random.default_rng(5).random((5, 300)) < 0.7).astype(float)
    found = _ranked(made({"correct": correct}), factory, sweeps=["a", "a", "b", "b", "alone"])
    rows, plain = _rows(found), {row["policy"]: row for row in found.summary.iter_rows(named=True)}
    mean = correct.mean(axis=1)
    best = {f"p{int(np.argmax(mean[:2]))}": 2, f"p{2 + int(np.argmax(mean[2:4]))}": 2, found.leader: 5}
    assert {name: row["tried"] for name, row in rows.items() if row["tried"]} == best
    own = rows[found.leader]
    assert own["corrected"] < plain[found.leader]["estimate"]
    assert own["corrected_high"] == plain[found.leader]["high"]
    moved = plain[found.leader]["low"] + own["corrected"] - plain[found.leader]["estimate"]
    assert own["corrected_low"] == pytest.approx(moved)


@pytest.mark.parametrize("examples", [1, 2, 3])
def test_too_few_examples_tell_nothing(made, factory, examples):
    correct = np.array([[1.0, 1, 1], [0, 0, 0]])[:, :examples]
    rows = _rows(_ranked(made({"correct": correct}), factory, baseline="p1"))
    assert {row["corrected"] for row in rows.values()} == {None}
    assert not any(row["ties"] is False for row in rows.values())


def test_beyond_all_pairs_only_the_possible_leaders_are_told(made, factory, monkeypatch):
    rng = np.random.default_rng(9)
    rate = np.array([0.8, 0.79, 0.3, 0.2, 0.1])[:, None]
    one = made({"correct": (rng.random((5, 500)) < rate).astype(float)})
    whole = _rows(_ranked(one, factory, baseline="p4"))
    monkeypatch.setattr("toolkit.stats.many.ranks.MOST_PAIRED", 2)
    monkeypatch.setattr("toolkit.stats.many.simultaneous.MOST_PAIRED", 2)
    rows = _rows(_ranked(one, factory, baseline="p4"))
    assert {name: row["ties"] for name, row in rows.items()} == {name: row["ties"] for name, row in whole.items()}
    assert {row["rank_low"] for row in rows.values()} == {None}
    assert all(row["p_baseline"] is None or row["p_baseline"] < 0.05 for row in rows.values())
    assert rows["p0"]["baseline_low"] == pytest.approx(whole["p0"]["baseline_low"], abs=0.005)


def test_a_metric_of_few_values_has_ranks_though_the_cost_has_too_many(made, factory, monkeypatch):
    """Where the cost tells policies apart that answer alike."""
    rng = np.random.default_rng(9)
    correct = np.repeat(rng.random((2, 300)) < np.array([0.8, 0.3])[:, None], 3, axis=0).astype(float)
    one = made({"correct": correct, "total_tokens": rng.random((6, 300))})
    whole = _rows(_ranked(one, factory))
    monkeypatch.setattr("toolkit.stats.many.ranks.MOST_PAIRED", 4)
    found = _ranked(one, factory)
    ranks = [(row["rank_low"], row["rank_high"]) for row in _rows(found).values()]
    assert ranks == [(row["rank_low"], row["rank_high"]) for row in whole.values()] == [(1, 3)] * 3 + [(4, 6)] * 3
    assert {(row["rank_low"], row["front_share"]) for row in _rows(found, "total_tokens").values()} == {(None, None)}


def test_clusters_are_the_units(made, factory):
    """What every cluster repeats ten times counts once."""
    rng = np.random.default_rng(11)
    once = (rng.random((3, 40)) < np.array([0.8, 0.6, 0.5])[:, None]).astype(float)
    alone = _rows(_ranked(made({"correct": once}), factory, baseline="p2"))
    repeated = made({"correct": np.repeat(once, 10, axis=1)}, unit=np.repeat(np.arange(40), 10))
    many = _rows(_ranked(repeated, factory, baseline="p2"))
    for name, row in alone.items():
        assert (row["rank_low"], row["rank_high"], row["ties"]) == (
            many[name]["rank_low"], many[name]["rank_high"], many[name]["ties"],
        )  # fmt: skip


def test_ranks_do_not_depend_on_the_blocks(random_run, factory, monkeypatch):
    one = random_run(5, 9_000, policies=4)
    first = _ranked(one, factory, labels=LABELS, baseline="p1").ranks
    monkeypatch.setattr("toolkit.stats.metrics.spill.KEEP_BYTES", 0)
    second = summarise(
        factory(one, (1, 4_096, 5_000)), [f"p{i}" for i in range(4)], labels=LABELS, baseline="p1", settings=SETTINGS
    ).ranks
    assert second.equals(first)


def test_nothing_is_ranked_where_that_is_not_asked_for(random_run, factory):
    found = _ranked(random_run(5, 50), factory, ranked=False)
    assert found.ranks.is_empty()
    assert found.ranks.schema["ties"] == pl.Boolean


def test_other_seeds_draw_otherwise(random_run, factory):
    one = random_run(8, 100, policies=5)
    first = _ranked(one, factory).ranks
    other = _ranked(one, factory, settings=replace(SETTINGS, seed=1)).ranks
    assert not first.equals(other)
    assert _ranked(one, factory).ranks.equals(first)


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [False, True])
def test_claims_about_equal_policies_hold_as_often_as_they_say(made, factory, sweep):
    """A part of benchmarks/many_policies.py; limits lie three standard errors beyond what the manual promises."""
    runs, told, excess, covered = 300, 0, 0.0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, sweep])
        correct = rng.random((20, 500)) < 0.7
        if sweep:
            correct = np.where(rng.random(correct.shape) < 0.9, rng.random(500) < 0.7, correct)
        rows = _rows(_ranked(made({"correct": correct.astype(float)}), factory, baseline="p0"))
        told += any(row["rank_low"] > 1 for row in rows.values())
        (leader,) = (row for row in rows.values() if row["tried"])
        excess += leader["corrected"] - 0.7
        covered += leader["corrected_low"] <= 0.7 <= leader["corrected_high"]
    assert told / runs <= 0.07 + 3 * (0.07 * 0.93 / runs) ** 0.5
    assert abs(excess / runs) <= 0.003 + 3 * 0.02 / runs**0.5
    assert covered / runs >= 0.93 - 3 * (0.93 * 0.07 / runs) ** 0.5
