"""Classifiers of one place by kind of model, and by how many questions and right traces they are trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.latent.place_probes import PROBE, joint, mean_area, pooled, score_table
from replay.latent.placed_traces import PlacedTraces, PlaceRows
from toolkit.stats import Interval
from toolkit.stats.curves.roc import Influenced

SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of right traces to train on."""
HALVINGS = 5
"""How often the number of questions to train on is halved."""
MOST_OF_ALL = 0.8
"""Share of the questions to train on that each seed draws for a comparison of models."""


@dataclass(frozen=True)
class SeededArea:
    """Areas of several seeds: their median and the ends of what they reach, and their mean with its interval.

    `size`: what the training rows were (their number of questions, or their share of right traces); `rows`: of traces.
    """

    size: float
    rows: int
    median: float
    least: float
    most: float
    mean: Interval


@dataclass(frozen=True)
class ModelArea(SeededArea):
    """Areas of a kind of model at one token, `size` questions to train on."""

    model: str
    layer: int
    token: int


def _seeded(areas: Sequence[Influenced], level: float) -> tuple[float, float, float, Interval] | None:
    known = [one.estimate for one in areas if not np.isnan(one.estimate)]
    if not known:
        return None
    return float(np.median(known)), min(known), max(known), mean_area(areas).interval(level)


def _some_questions(traces: PlacedTraces, count: int, seed: int) -> np.ndarray:
    """The training traces (N,) of so many questions, drawn by the seed: more of them hold those of fewer."""
    known = np.unique(traces.unit[traces.train])
    drawn = np.random.default_rng(seed).permutation(known)[:count]
    return np.asarray(traces.train & np.isin(traces.unit, drawn))


def as_many(traces: PlacedTraces, parts: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """As many training traces (N,) of each part, a mask (N,), as the smallest one has: drawn by the seed, from as many
    questions as there are.
    """
    order = np.random.default_rng(seed).permutation(len(traces.right))
    inside = {name: order[(part & traces.train)[order]] for name, part in parts.items()}
    least = min(len(drawn) for drawn in inside.values())
    found = {}
    for name, drawn in inside.items():
        turn = pl.DataFrame({"unit": traces.unit[drawn]}).select(pl.int_range(pl.len()).over("unit")).to_series()
        found[name] = np.zeros(len(traces.right), bool)
        found[name][drawn[np.argsort(turn.to_numpy(), kind="stable")[:least]]] = True
    return found


def _some_right(traces: PlacedTraces, share: float, rows: int, seed: int) -> np.ndarray:
    """So many training traces (N,), a share of them right, drawn by the seed."""
    rng = np.random.default_rng(seed)
    right, wrong = (
        rng.permutation(np.flatnonzero(traces.train & is_right)) for is_right in (traces.right, ~traces.right)
    )
    count = round(share * rows)
    found = np.zeros(len(traces.right), bool)
    found[np.concatenate([right[:count], wrong[: rows - count]])] = True
    return found


def _even_rows(traces: PlacedTraces, shares: Sequence[float] = SHARES) -> int:
    """How many training traces there are at most for every share of right ones."""
    right, wrong = int((traces.train & traces.right).sum()), int((traces.train & ~traces.right).sum())
    return int(min(min(right / share, wrong / (1 - share)) for share in shares))


def by_questions(traces: PlacedTraces, places: Sequence[int], seeds: int, level: float = 0.95) -> Iterator[SeededArea]:
    """What a verifier of some places is worth by how many questions it is trained on: all, half, a quarter, …"""
    held = list(traces.at(places))
    whole = len(np.unique(traces.unit[traces.train]))
    for count in sorted({whole >> halved for halved in range(HALVINGS)}):
        drawn = [_some_questions(traces, count, seed) for seed in range(seeds if count < whole else 1)]
        if (found := _of(traces, drawn, held, count, level)) is not None:
            yield found


def by_share(traces: PlacedTraces, places: Sequence[int], seeds: int, level: float = 0.95) -> Iterator[SeededArea]:
    """What a verifier of some places is worth by the share of right ones among as many traces to train on."""
    held, rows = list(traces.at(places)), _even_rows(traces)
    for share in SHARES:
        drawn = [_some_right(traces, share, rows, seed) for seed in range(seeds)]
        if (found := _of(traces, drawn, held, share, level)) is not None:
            yield found


def _of(
    traces: PlacedTraces, drawn: Sequence[np.ndarray], rows: Sequence[PlaceRows], size: float, level: float
) -> SeededArea | None:
    areas = [pooled(traces, joint(score_table(traces, one, rows)), ~traces.train) for one in drawn]
    found = _seeded(areas, level)
    return None if found is None else SeededArea(size, int(drawn[0].sum()), *found)


def by_model(
    traces: PlacedTraces, places: Sequence[int], models: Sequence[str], seeds: int, level: float = 0.95
) -> Iterator[ModelArea]:
    """What classifiers of one place are worth by the kind of model, each seed on questions that it draws."""
    count = max(1, round(MOST_OF_ALL * len(np.unique(traces.unit[traces.train]))))
    drawn = [_some_questions(traces, count, seed) for seed in range(seeds)]
    held = list(traces.at(places))
    areas: dict[tuple[str, int], list[Influenced]] = {(model, place): [] for model in models for place in places}
    for seed, train in enumerate(drawn):
        for model in models:
            table = score_table(traces, train, held, replace(PROBE, model=model, seed=seed))
            for place in places:
                areas[model, place].append(pooled(traces, table[:, place], ~traces.train))
    for (model, place), own in areas.items():
        layer, token = traces.places[place]
        found = _seeded(own, level)
        if found is not None:
            yield ModelArea(count, int(drawn[0].sum()), *found, model, layer, token)
