"""Rows that a model reads: a state, where it was taken, and the values of its trace, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replay.latent.state_rows import StateRows
from replay.latent.traced_values import Traces
from toolkit.errors import LimitError

MOST_BYTES = 2**32
"""Of the rows, in single precision, that a model takes which needs all of them at once."""


class RowBatch(NamedTuple):
    """Some rows. `values` is the same memory in every batch: it holds until the next one."""

    values: np.ndarray  # (n, columns) float32
    trace: np.ndarray  # (n,)
    place: np.ndarray  # (n,)


@dataclass(frozen=True, eq=False)
class ModelRows:
    """The rows of some traces. Without `states` a trace is one row. `told`: layer and token are columns, too."""

    traces: Traces
    states: StateRows | None
    keep: np.ndarray  # (N,) of the traces
    told: bool

    @property
    def columns(self) -> int:
        width = self.states.width if self.states is not None else 0
        return width + 2 * self.told + self.traces.values.shape[1]

    @property
    def count(self) -> int:
        return self.states.count if self.states is not None else int(self.keep.sum())

    def sample(self, least: int, seed: int) -> ModelRows:
        """All rows of some traces, drawn at random: about `least` rows, or all."""
        if self.states is None or self.count <= least:
            return self
        known = np.flatnonzero(self.states.counts(len(self.keep)) > 0)
        size = max(1, round(len(known) * least / self.count))
        keep = np.zeros(len(self.keep), bool)
        keep[np.random.default_rng(seed).permutation(known)[:size]] = True
        return ModelRows(self.traces, self.states.only(keep), keep, self.told)

    def batches(self, order: np.ndarray | None = None) -> Iterator[RowBatch]:
        """All rows, in the same order each time, in large batches; or with `order` (N,), a number for each trace, in
        small ones, which are sorted by it.
        """
        values = self.traces.values
        if self.states is None:
            trace = np.flatnonzero(self.keep)
            trace = trace if order is None else trace[np.argsort(order[trace], kind="stable")]
            if len(trace):
                yield RowBatch(values[trace], trace, np.zeros(len(trace), np.int32))
            return
        memory = np.zeros((0, self.columns), np.float32)
        places = np.array(self.states.places, np.float32)
        for trace, place, state in self.states.batches(self.columns - self.states.width, gathered=order is None):
            if order is not None and (np.diff(order[trace]) < 0).any():
                by = np.argsort(order[trace], kind="stable")
                trace, place, state = trace[by], place[by], state[by]
            if len(memory) < len(trace):
                memory = np.empty((len(trace), self.columns), np.float32)
            row = memory[: len(trace)]
            row[:, : state.shape[1]] = state
            if self.told:
                row[:, state.shape[1] : state.shape[1] + 2] = places[place]
            row[:, self.columns - values.shape[1] :] = values[trace]
            yield RowBatch(row, trace, place)

    def whole(self, what: str) -> RowBatch:
        """All rows at once. ThinkbackError where they are too large."""
        size = 4 * self.columns * self.count
        if size > MOST_BYTES:
            raise LimitError(
                f"a model of kind `{what}` needs its {self.count:,} rows of {self.columns:,} numbers at once "
                f"({size / 2**30:.1f} GiB): take fewer layers or tokens, --places each, or the model `xgboost`"
            )
        made = [RowBatch(one.values.copy(), one.trace, one.place) for one in self.batches()]
        return RowBatch(*(np.concatenate(one) for one in zip(*made, strict=True)))
