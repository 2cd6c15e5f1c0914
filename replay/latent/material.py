"""What a verifier's settings read of a log, the models that are fitted on it, and their scores of its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from replay.latent.model_rows import ModelRows
from replay.latent.models import MODELS, Document
from replay.latent.state_rows import StateRows, find_states
from replay.latent.traced_values import Traces, read_traces
from replay.latent.verifier_settings import AGGREGATES, EACH, ONE, STATES, VerifierSettings
from toolkit.log import Log

Values = Mapping[int, np.ndarray]
"""By the number of a part of the traces what is read (N, V) where a model is fitted on that part."""


@dataclass(frozen=True, eq=False)
class Material:
    """N traces with what is read of them: `states` of the model `whose`, None where none are read; `counts` (N,): the
    rows of each trace.
    """

    settings: VerifierSettings
    traces: Traces
    states: StateRows | None
    whose: str
    counts: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Which traces have a row (N,)."""
        return self.counts > 0

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Layer and token of each place; without states one that stands for the whole trace."""
        return self.states.places if self.states is not None else ((0, 0),)

    @property
    def names(self) -> tuple[str, ...]:
        """What the verifiers are called: one, or one for each place."""
        return verifier_names(self.settings, self.places)

    @property
    def sets(self) -> list[int | None]:
        """The place of each model; None: all of them."""
        return [None] if self.settings.places == ONE or self.states is None else list(range(len(self.places)))

    def at(self, places: Sequence[int]) -> Material:
        """At some of the places alone."""
        if self.states is None:
            return self
        states = self.states.at(places)
        return replace(self, states=states, counts=states.counts(len(self.counts)))

    def one_class(self, parts: Sequence[np.ndarray]) -> list[int]:
        """The places at which the traces of some part that have a row are of one class, or are none; of models over all
        places none.
        """
        if self.states is None or self.sets == [None]:
            return []
        right, found = self.traces.right, []
        for place in range(len(self.places)):
            there = self.states.only(np.ones(len(right), bool), place).counts(len(right)) > 0
            if any(len(np.unique(right[part & there])) < 2 for part in parts):
                found.append(place)
        return found

    def rows(self, keep: np.ndarray, place: int | None, values: np.ndarray | None = None) -> ModelRows:
        """The rows of some traces (N,), at a place or at all; `values` in the place of the traces' own."""
        traces = self.traces if values is None else replace(self.traces, values=values)
        own = self.states.only(keep, place) if self.states is not None else None
        return ModelRows(traces, own, keep, told=self.settings.places == ONE and self.states is not None)

    def fit(self, parts: Sequence[np.ndarray], values: Values | None = None) -> list[list[Document]]:
        """For each set of places a model for each part of the traces."""
        kind, right, group = MODELS[self.settings.model], self.traces.right, self.traces.group
        if not values:
            whole = np.logical_or.reduce(parts)
            return [kind.fit(self.rows(whole, p), right, parts, group, self.settings) for p in self.sets]
        return [
            [
                kind.fit(self.rows(part, place, values.get(number)), right, [part], group, self.settings)[0]
                for number, part in enumerate(parts)
            ]
            for place in self.sets
        ]

    def score(
        self, fits: Sequence[Sequence[Document]], who: np.ndarray, keep: np.ndarray, values: np.ndarray | None = None
    ) -> np.ndarray:
        """Scores (N, names) of some traces (N,), each by the models of the part that `who` (N,) names; NaN of others
        and where there are no rows.
        """
        kind = MODELS[self.settings.model]
        table = np.full((len(keep), len(self.places)), np.nan)
        for place, models in zip(self.sets, fits, strict=True):
            score_rows(self.rows(keep, place, values), [kind.scorer(model) for model in models], who, table)
        if self.settings.places == EACH:
            return table
        known, scores = ~np.isnan(table).all(axis=1), np.full((len(table), 1), np.nan)
        scores[known, 0] = AGGREGATES[self.settings.aggregate](table[known], axis=1)
        return scores


def verifier_names(settings: VerifierSettings, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """What the verifiers of such places are called."""
    if settings.places != EACH:
        return (settings.name,)
    return tuple(f"{settings.name}:{layer}:{token}" for layer, token in places)


def read_material(log: Log, settings: VerifierSettings) -> Material:
    """The traces of the settings' pools with what they read. ThinkbackError where the log has no such thing."""
    traces = read_traces(log, [name for name in settings.inputs if name != STATES], settings.pools)
    if STATES not in settings.inputs:
        return Material(settings, traces, None, "", (~np.isnan(traces.values).all(axis=1)).astype(np.int64))
    ids = traces.keys["trace_id"]
    states, whose = find_states(log, settings.states, settings.layers, settings.tokens, ids)
    return Material(settings, traces, states, whose, states.counts(len(ids)))


def score_rows(rows: ModelRows, scorers: Sequence[Any], who: np.ndarray, table: np.ndarray) -> None:
    """Fill `table` (N, places) with the scores of rows, each by the scorer that `who` (N,) names for its trace."""
    for batch in rows.batches(who):
        by = who[batch.trace]
        ends = [0, *(np.flatnonzero(np.diff(by)) + 1).tolist(), len(by)]
        for start, end in pairwise(ends):
            own = slice(start, end)
            table[batch.trace[own], batch.place[own]] = scorers[by[start]](batch.values[own])
