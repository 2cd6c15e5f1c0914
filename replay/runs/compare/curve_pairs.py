"""Curves against each other: differences at each number of traces, paired by example."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from replay.runs.compare.curves import Curve, PoolCurves
from toolkit.stats import Settings, differences

SCHEMA = pl.Schema({
    "k": pl.Int64, "first_pool": pl.String, "first_metric": pl.String, "first_verifier": pl.String,
    "second_pool": pl.String, "second_metric": pl.String, "second_verifier": pl.String, "difference": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "p_value": pl.Float64, "n": pl.Int64, "method": pl.String,
})  # fmt: skip
SEES_GOLD = "pass"


def curve_pairs(found: Sequence[PoolCurves], settings: Settings) -> pl.DataFrame:
    """First minus second at each number of traces, each interval for its pair alone; pass@k, which sees gold, has none.

    The lines of a pool with each other, from two traces on: best-of-k minus majority@k minus avg@k. Then the same line
    of two pools, on the examples that both have.
    """
    made = [pl.DataFrame(schema=SCHEMA), *(_within(one, settings) for one in found)]
    made += [_between(one, other, settings) for one, other in itertools.combinations(found, 2)]
    return pl.concat(made)


def _within(found: PoolCurves, settings: Settings) -> pl.DataFrame:
    """Pairs of the lines of a pool."""
    steps = sorted({curve.k for curve in found.plan if curve.k > 1})
    lines = [[i for i, curve in enumerate(found.plan) if curve.k == k and _counts(curve)] for k in steps]
    owners = [(found.pool, curve) for curve in found.plan]
    pairs = [(later, earlier) for line in lines for earlier, later in itertools.combinations(line, 2)]
    return _compared(found, owners, lines, pairs, settings)


def _between(one: PoolCurves, other: PoolCurves, settings: Settings) -> pl.DataFrame:
    """Pairs of the same line of two pools."""
    shared = one.examples["example_id"].is_in(other.examples["example_id"].implode()).to_numpy()
    if not shared.any():
        return pl.DataFrame(schema=SCHEMA)
    examples = one.examples.filter(pl.Series(shared))
    kept = other.examples["example_id"].is_in(examples["example_id"].implode()).to_numpy()
    values = np.concatenate([one.values[:, shared], other.values[:, kept]])
    places = {curve: len(one.plan) + i for i, curve in enumerate(other.plan)}
    pairs = [(i, places[curve]) for i, curve in enumerate(one.plan) if curve in places and _counts(curve)]
    owners = [(found.pool, curve) for found in (one, other) for curve in found.plan]
    both = PoolCurves(one.pool, one.plan + other.plan, values, examples)
    return _compared(both, owners, pairs, pairs, settings)


def _counts(curve: Curve) -> bool:
    return curve.metric != SEES_GOLD


def _compared(
    found: PoolCurves,
    owners: Sequence[tuple[str, Curve]],
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    settings: Settings,
) -> pl.DataFrame:
    """The rows of some pairs (places in `owners`), each of which is in one of the groups.

    Pairs with a line that some examples lack come last, and are on the examples that have all lines.
    """
    partial_ = np.isnan(found.values).any(axis=1)
    made = [pl.DataFrame(schema=SCHEMA)]
    for lacking in (False, True):
        asked = [pair for pair in pairs if partial_[list(pair)].any() == lacking]
        lines = np.arange(len(partial_)) if lacking else np.flatnonzero(~partial_)
        if asked:
            own = [[place for place in group if place in lines] for group in groups]
            made.append(_on_their_examples(found, owners, lines, own, asked, settings))
    return pl.concat(made)


def _on_their_examples(
    found: PoolCurves,
    owners: Sequence[tuple[str, Curve]],
    lines: np.ndarray,
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    settings: Settings,
) -> pl.DataFrame:
    """The rows of some pairs on the examples that have all the lines."""
    values = found.values[lines]
    whole = ~np.isnan(values).any(axis=0)
    if not whole.any():
        return pl.DataFrame(schema=SCHEMA)
    block = replace(found, values=values[:, whole], examples=found.examples.filter(pl.Series(whole))).outcomes()
    named = [[str(place) for place in group] for group in groups]
    told = differences(partial(iter, [block]), list(map(str, lines)), "accuracy", named, settings=settings)
    rows = {(int(row["policy"]), int(row["baseline"])): row for row in told.iter_rows(named=True)}
    return pl.DataFrame(list(_rows(rows, owners, pairs)), schema=SCHEMA, orient="row")


def _rows(
    rows: dict[tuple[int, int], dict[str, object]],
    owners: Sequence[tuple[str, Curve]],
    pairs: Sequence[tuple[int, int]],
) -> Iterator[tuple[object, ...]]:
    for first, second in pairs:
        row = rows[first, second]
        lines = [(pool, curve.metric, curve.verifier) for pool, curve in (owners[first], owners[second])]
        told = [row[name] for name in ("difference", "low", "high", "p_value", "n", "method")]
        yield owners[first][1].k, *lines[0], *lines[1], *told
