"""All thresholds at once: exact, in the right order, and what a sweep over a list gives."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from generate.simulation.recovery import RecoveryModel, _recovery_tables, simulate_recovery
from replay.runs.passes.gate_sweep import GateBranches, band_table, best_threshold, spread_places, threshold_means
from tests.errors import refuses
from tests.logs import drawn
from tests.seeds import seeds
from toolkit.log import open_log, write_log
from toolkit.stats import Settings

FIRST = '{ kind = "sample", pool = "short", max_traces = 1, select = "first" }'
ACT = '{ kind = "act", action = "active_verify", base = "short" }'


def branches(signal: list[float], kept: list[float], fired: list[float], below: bool) -> GateBranches:
    base, after = np.array(kept), np.array(fired)
    return GateBranches(
        ids=pl.Series([f"e{i}" for i in range(len(signal))]),
        unit=np.arange(len(signal)),
        signal=np.array(signal),
        below=below,
        unfired={"correct": base, "fix": 0 * base, "flip": 0 * base, "intervened": 0 * base, "action_tokens": 0 * base},
        fired={
            "correct": after, "fix": (1 - base) * after, "flip": base * (1 - after), "intervened": 0 * base + 1,
            "action_tokens": 0 * base + 7,
        },
        left_out=0,
    )  # fmt: skip


cases = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")]), st.booleans(), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=1, max_size=12,
)  # fmt: skip


@given(cases, st.booleans())
@settings(deadline=None, max_examples=80)
def test_every_threshold_is_a_plain_loop(rows: list[tuple[float, bool, float]], below: bool) -> None:
    signal, kept, fired = ([row[i] for row in rows] for i in range(3))
    made = branches(signal, [float(k) for k in kept], fired, below)
    table = threshold_means(made, made.unfired)
    values = sorted({s for s in signal if s == s})
    assert table["threshold"].to_list() == ([*values, np.inf] if below else [np.inf, *reversed(values)])
    for row in table.iter_rows(named=True):
        on = [s != s or (s < row["threshold"] if below else s >= row["threshold"]) for s in signal]
        right = [f if o else float(k) for o, k, f in zip(on, kept, fired, strict=True)]
        assert row["accuracy"] == pytest.approx(sum(right) / len(right))
        assert row["intervention_rate"] == pytest.approx(sum(on) / len(on))
        assert row["action_tokens"] == pytest.approx(7 * sum(on) / len(on))
        gained = row["accuracy"] - sum(map(float, kept)) / len(kept)
        assert row["fix_rate"] - row["flip_rate"] == pytest.approx(gained, abs=1e-12)


def test_ties_go_to_fewer_action_tokens_then_fewer_flips_then_the_higher_threshold() -> None:
    rows = {
        "threshold": [np.inf, 0.9, 0.8, 0.7, 0.6],
        "accuracy": [0.5, 0.75, 0.75, 0.75, 0.75],
        "action_tokens": [0.0, 20.0, 10.0, 10.0, 10.0],
        "flip_rate": [0.0, 0.0, 0.1, 0.05, 0.05],  # the one with the fewest flips costs more tokens
        "intervention_rate": [0.0, 0.2, 0.3, 0.4, 0.4],
    }
    assert best_threshold(pl.DataFrame(rows), below=False) == 0.7
    assert best_threshold(pl.DataFrame(rows).reverse(), below=True) == 0.6


@pytest.mark.parametrize("below", [False, True])
def test_who_never_acts_cannot_flip(below: bool) -> None:
    """The first threshold lets nobody through; at the next ones no flip was seen, and one may yet happen."""
    made = branches([0.1 * i for i in range(10)], [1.0] * 10, [1.0] * 10, below)
    table = band_table(made, Settings(resamples=50)).filter(metric="flip_rate")
    rows = table.select("estimate", "low", "high", "band_low", "band_high").rows()
    assert rows[0] == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert all(row[0] == 0 and row[4] > 0 for row in rows[1:])


def test_points_keep_never_and_always() -> None:
    places = spread_places(1001, 200)
    assert len(places) == 200
    assert (places[0], places[-1]) == (0, 1000)


def shared_out(signal: list[float], shares: int, below: bool) -> list[float]:
    """As the manual says it, one threshold after the other."""
    values = sorted(s for s in signal if s == s)
    found: list[float] = []
    for j in range(shares + 1):
        m = math.floor(Fraction(j * len(values), shares) + Fraction(1, 2))
        at = m if below else len(values) - m
        threshold = values[at] if 0 <= at < len(values) else math.inf
        if threshold not in found:
            found.append(threshold)
    return found


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, float("nan")]), max_size=25), st.integers(2, 12),
       st.booleans())  # fmt: skip
@settings(deadline=None)
def test_quantiles_are_a_plain_loop(signal: list[float], shares: int, below: bool) -> None:
    zeros = [0.0] * len(signal)
    found = branches(signal, zeros, zeros, below).thresholds_at_shares(shares).tolist()
    assert found == shared_out(signal, shares, below)
    assert found[-1 if below else 0] == math.inf


@pytest.mark.parametrize("key", seeds(1, ["below", "at_least"]))
def test_quantiles_are_a_sweep_of_thresholds(log: Path, key: str) -> None:
    gate = f'{{ feature = "difficulty", {key} = {{ quantiles = 4 }} }}'
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {gate}\n'
    result = replay.run(log, policy, resamples=50)
    rates = [result.summary.filter(policy=p.name, metric="intervention_rate")["estimate"][0] for p in result.policies]
    assert rates == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [p.sweep_size for p in result.policies] == [5] * 5
    values = [p.swept[0][1] for p in result.policies]
    listed = replay.run(log, policy.replace("{ quantiles = 4 }", str(values)), resamples=50)
    for one, other in zip(result.policies, listed.policies, strict=True):
        assert (
            result.summary.filter(policy=one.name).drop("policy").equals(
                listed.summary.filter(policy=other.name).drop("policy")
            )
        )  # fmt: skip
    again = replay.explain(log, policy, result.policies[2].name, result.examples["example_id"][0])
    assert again.ending


def test_thresholds_at_quantiles_do_not_depend_on_other_policies(log: Path) -> None:
    gate = '{ feature = "difficulty", below = { quantiles = 4 } }'
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {gate}\n'
    other = '[[policy]]\nname = "y"\nkind = "sample"\npool = "short"\nmax_traces = 1\nselect = "first"\n'
    alone, beside = (replay.run(log, text, resamples=20) for text in (policy, policy + other))
    assert [p.name for p in alone.policies] == [p.name for p in beside.policies][:-1]


def test_tune_chooses_among_quantiles_and_reports_the_same_number(log: Path) -> None:
    gate = '{ feature = "difficulty", below = { quantiles = 5 } }'
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {gate}\n'
    ids = open_log(log).scan("examples").collect()["example_id"].sort()
    half = f"example_id < '{ids[30]}'"
    tuned = replay.tune(log, policy, goal="max accuracy", on=half, report=f"NOT ({half})", resamples=50)
    tried = [p.name for p in tuned.development.policies]
    assert 2 < len(tried) <= 6
    assert tuned.best in tried
    assert [p.name for p in tuned.report.policies] == [tuned.best]


@pytest.mark.parametrize(
    ("threshold", "refusal"),
    [
        ("{ quantiles = 1 }", ("invalid", "1", "2", "200")),
        ("{ quantile = 5 }", ("unknown", "`quantile`")),
        ("{}", ("required", "`gate.below.quantiles`")),
        ('"al"', ("invalid", "`below`", "'al'", "{ quantiles = 10 }")),
    ],
)
def test_wrong_quantiles_are_refused_in_one_line(log: Path, threshold: str, refusal: tuple[str, ...]) -> None:
    gate = f'{{ feature = "difficulty", below = {threshold} }}'
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {gate}\n'
    with refuses(*refusal):
        replay.run(log, policy)


log = drawn(simulate_recovery, examples=60, seed=5)


@pytest.mark.parametrize("gate", seeds(1, ['feature = "difficulty", at_least', 'signal = "completion_tokens", below']))
def test_all_is_a_sweep_over_every_value(log: Path, gate: str) -> None:
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {{ {gate} = "all" }}\n'
    result = replay.run(log, policy, resamples=50)
    assert result.thresholds is not None
    assert result.bands is not None
    found = result.thresholds
    assert found["intervention_rate"][0] == 0.0
    assert found["intervention_rate"][-1] == 1.0
    listed = [v for v in found["threshold"].to_list() if v != np.inf][:4]
    swept = replay.run(log, policy.replace('"all"', str(listed)), resamples=50)
    for threshold, name in zip(listed, [p.name for p in swept.policies], strict=True):
        row = found.filter(threshold=threshold).row(0, named=True)
        own = swept.summary.filter(policy=name)
        for metric in ("accuracy", "fix_rate", "flip_rate", "action_tokens", "total_tokens"):
            assert row[metric] == pytest.approx(own.filter(metric=metric)["estimate"][0])
    assert all(p.sweep_size == len(found) and p.sweep == "x" for p in result.policies)
    assert {p.swept for p in result.policies} == {((f"gate.{gate.split()[-1]}", t),) for t in found["threshold"]}
    band = result.bands.filter(pl.col("metric") == "accuracy")
    assert (band["band_low"] <= band["estimate"]).all()
    assert (band["estimate"] <= band["band_high"]).all()


WHOLE = {"intervention_rate", "total_tokens"}
"""What is known of unjudged examples too."""


def test_flips_among_those_acted_on_are_of_judged_examples(tmp_path: Path) -> None:
    """Always acting: every flip over every example that is judged, of which a third is not."""
    tables = _recovery_tables(60, 5, RecoveryModel())
    unjudged = pl.col("example_id").is_in(tables["examples"]["example_id"][:20].implode())
    tables["traces"] = tables["traces"].with_columns(correct=pl.when(~unjudged).then("correct"))
    write_log(tmp_path / "log", name="partly judged", tables=tables)
    gate = '{ signal = "completion_tokens", at_least = "all" }'
    policy = f'[[policy]]\nname = "x"\nkind = "when"\nbase = {FIRST}\nthen = {ACT}\ngate = {gate}\n'
    found = replay.run(tmp_path / "log", policy, resamples=50).bands
    assert found is not None
    ends = {row["metric"]: row["estimate"] for row in found.filter(threshold=found["threshold"].min()).to_dicts()}
    assert ends["flips_among"] == pytest.approx(ends["flip_rate"])
    among = found.filter(metric="flips_among")
    assert among.filter(threshold=np.inf)["estimate"].to_list() == [None]
    assert "acted" not in set(found["metric"])
    counted = found.select("metric", "n").unique().rows()
    assert set(counted) == {(name, 60 if name in WHOLE else 40) for name in found["metric"].unique()}


def test_curves_and_bands_are_over_the_examples_of_the_table(tmp_path: Path) -> None:
    """The example with the least signal lacks a vote, which another policy needs: its threshold lets nobody through."""
    tables = _recovery_tables(120, 11, RecoveryModel(votes=3))
    first = tables["traces"].filter((pl.col("pool") == "short") & (pl.col("sample_index") == 0))
    least = first.sort("completion_tokens")["example_id"][0]
    hole = (pl.col("example_id") == least) & (pl.col("pool") == "votes") & (pl.col("sample_index") == 2)
    tables["traces"] = tables["traces"].filter(~hole)
    write_log(tmp_path / "log", name="holed", tables=tables)
    vote = '[[policy]]\nname = "vote"\nkind = "sample"\npool = "votes"\nmax_traces = 3\nselect = "majority"\n'
    gate = '{ signal = "completion_tokens", at_least = "all" }'
    swept = f'[[policy]]\nname = "all"\nkind = "when"\nbase = {FIRST}\ngate = {gate}\nthen = {ACT}\n'
    result = replay.run(tmp_path / "log", swept + vote, resamples=20)
    assert list(result.excluded) == [least]
    assert result.thresholds is not None
    assert result.bands is not None
    assert set(result.thresholds["n"]) == set(result.thresholds["judged"]) == set(result.bands["n"]) == {119}
    shown = {
        (row["policy"], row["metric"]): row["estimate"]
        for row in result.summary.filter(pl.col("metric").is_in(["accuracy", "total_tokens"])).iter_rows(named=True)
    }
    for row in result.bands.iter_rows(named=True):
        if row["metric"] in ("accuracy", "total_tokens"):
            name = f"all[gate.at_least={row['threshold']!r}]"
            assert row["estimate"] == pytest.approx(shown[name, row["metric"]])
    ends = result.thresholds["accuracy"][0], result.thresholds["accuracy"][-1]
    assert ends == pytest.approx([shown[result.policies[i].name, "accuracy"] for i in (0, -2)])
