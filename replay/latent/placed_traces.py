"""Judged traces with their hidden states, place by place, for classifiers that are compared and not kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from replay.latent.state_rows import StateRows, find_states
from replay.latent.traced_values import question_groups
from toolkit.log import Log, collect
from toolkit.stats import unit_numbers

KEPT_BYTES = 2**29
"""Of states that are held at once: the log is read again for places beyond them."""


class PlaceRows(NamedTuple):
    """The states (n, d) of one place, in single precision, and the numbers (n,) of their traces."""

    place: int
    trace: np.ndarray
    state: np.ndarray


@dataclass(frozen=True, eq=False)
class PlacedTraces:
    """N judged first attempts whose states a model read. `keys`: trace_id, example_id, dataset, pool; `unit` (N,):
    questions that are asked alike, or are of one cluster, have one number; `right`, `train` (N,): whether a trace is
    right, and whether it is trained on (all others are measured); `left_out`: traces beyond those that are taken.
    """

    keys: pl.DataFrame
    unit: np.ndarray
    right: np.ndarray
    train: np.ndarray
    states: StateRows
    left_out: int = 0

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Layer and token of each place."""
        return self.states.places

    @property
    def units(self) -> int:
        """How many numbers `unit` has."""
        return int(self.unit.max(initial=-1)) + 1

    def of(self, column: str, value: object) -> np.ndarray:
        """Which traces (N,) have a value in a column of the keys."""
        return (self.keys[column] == value).to_numpy()

    def at(self, places: Sequence[int] | None = None) -> Iterator[PlaceRows]:
        """The states of each place, or of some, by number; as many at once as are held in memory."""
        wanted = list(range(len(self.places)) if places is None else places)
        size, width = len(self.right), self.states.width
        each = max(1, KEPT_BYTES // max(1, 4 * size * width))
        every = np.ones(size, bool)
        for start in range(0, len(wanted), each):
            chunk = wanted[start : start + each]
            column = np.full(len(self.places), -1)
            column[chunk] = np.arange(len(chunk))
            held = np.zeros((len(chunk), size, width), np.float32)
            there = np.zeros((len(chunk), size), bool)
            for batch in self.states.only(every).batches():
                own = column[batch.place] >= 0
                where = column[batch.place[own]], batch.trace[own]
                held[where], there[where] = batch.state[own], True
            for number, place in enumerate(chunk):
                yield PlaceRows(place, np.flatnonzero(there[number]), held[number][there[number]])


def placed_traces(
    log: Log, states: str, train: pl.Series, measured: pl.Series, most: int, seed: int = 0
) -> PlacedTraces | None:
    """The judged first attempts of some examples, by their ids, that have states of a model; None where none has.

    At most so many of each data set, pool, and part (trained on or measured) are taken: those of questions drawn by the
    seed. Copies of questions that are trained on are not measured.
    """
    known = train.implode(), measured.implode()
    examples = log.scan("examples", ["example_id", "dataset"]).filter(
        pl.col("example_id").is_in(known[0]) | pl.col("example_id").is_in(known[1])
    )
    rows = log.scan("traces", ["trace_id", "example_id", "pool", "action", "correct"]).filter(
        pl.col("action") == "solve", pl.col("correct").is_not_null()
    )
    own = log.scan(f"hidden_states/{states}", ["trace_id"]).unique()
    frame = collect(rows.join(examples, on="example_id").join(own, on="trace_id", how="semi"), log)
    frame = frame.join(question_groups(log), on="example_id").with_columns(train=pl.col("example_id").is_in(known[0]))
    seen = frame.filter("train")["group"].unique()
    frame = frame.filter(pl.col("train") | ~pl.col("group").is_in(seen.implode()))
    if frame.is_empty():
        return None
    taken = _drawn(frame, most, seed).sort("trace_id")
    found, _ = find_states(log, states, (), (), taken["trace_id"])
    return PlacedTraces(
        keys=taken.select("trace_id", "example_id", "dataset", "pool"),
        unit=unit_numbers(taken["group"]),
        right=taken["correct"].to_numpy().astype(bool),
        train=taken["train"].to_numpy(),
        states=found,
        left_out=frame.height - taken.height,
    )


def _drawn(frame: pl.DataFrame, most: int, seed: int) -> pl.DataFrame:
    """The first traces of each data set, pool and part, question by question in an order drawn by the seed."""
    groups = frame["group"].unique().sort()
    order = pl.Series("order", np.random.default_rng(seed).permutation(len(groups)))
    ranked = frame.join(pl.DataFrame({"group": groups, "order": order}), on="group").sort("order", "trace_id")
    return ranked.filter(pl.int_range(pl.len()).over("dataset", "pool", "train") < most)


def restricted(traces: PlacedTraces, on: np.ndarray) -> PlacedTraces:
    """The same with some of the traces (N,) alone."""
    number = np.where(on, np.cumsum(on) - 1, -1)
    kept = traces.states.only(on)
    groups = tuple((file, at, np.where(trace >= 0, number[trace], -1), place) for file, at, trace, place in kept.groups)
    return replace(
        traces,
        keys=traces.keys.filter(pl.Series(on)),
        unit=unit_numbers(traces.unit[on]),
        right=traces.right[on],
        train=traces.train[on],
        states=replace(kept, groups=groups),
    )
