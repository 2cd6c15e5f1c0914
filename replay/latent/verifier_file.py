"""A fitted verifier as a JSON file in its log: its models, and what the rows that they read hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from replay.latent.fitting import FittedVerifier
from replay.latent.models import AGGREGATES, MODELS, ONE, PLACES, Scorer
from toolkit.arguments import checks_arguments
from toolkit.errors import FormatError, InvalidError, MismatchError, argument, error_prefix, quote
from toolkit.models import list_reader, read_model, read_pairs
from toolkit.settings import Checked, from_table, setting

FORMAT, VERSION = "thinkback-verifier", 1


def verifier_document(fitted: FittedVerifier) -> dict[str, Any]:
    """A fitted verifier as plain data, with the model that saw all training traces."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": fitted.settings.model,
        "states": fitted.states or None,
        "columns": list(fitted.columns),
        "places": [list(place) for place in fitted.places] if fitted.states else [],
        "joined": fitted.settings.places,
        "aggregate": fitted.settings.aggregate,
        "models": list(fitted.models),
    }


@dataclass(frozen=True)
class SavedVerifier(Checked):
    """A verifier read from a file, checked as a whole.

    `states`: the model whose hidden states it reads at `places` (layer, token), None where it reads none; `columns`:
    the values of a trace that it reads after them. `models`: one, or where `joined` is not `one` one for each place.
    """

    format: str = setting(choices=(FORMAT,))
    version: int = setting(low=VERSION, high=VERSION)
    kind: str = setting(choices=MODELS)
    states: str | None = setting()
    columns: tuple[str, ...] = setting()
    places: tuple[tuple[int, int], ...] = setting(read=read_pairs)
    joined: str = setting(choices=PLACES)
    aggregate: str = setting(choices=AGGREGATES)
    models: tuple[Mapping[str, Any], ...] = setting(read=list_reader(lambda given, _: given))

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.states is None) != (not self.places) or len(self.models) != (
            len(self.places) if self.has_model_for_each_place else 1
        ):
            raise MismatchError(f"it has {len(self.models)} models and {len(self.places)} places, which do not fit")
        _ = self.scorers

    @property
    def has_model_for_each_place(self) -> bool:
        """Whether there is one model for each place; a single model for all reads layer and token, too."""
        return self.joined != ONE and self.states is not None

    @cached_property
    def scorers(self) -> tuple[tuple[Scorer, int], ...]:
        """The function from rows to scores of each model, with how many numbers such a row has."""
        kind, least = (
            MODELS[self.kind],
            len(self.columns) + (0 if self.states is None else 1 if self.has_model_for_each_place else 3),
        )
        checked = [kind.check(model, f"models.{number}") for number, model in enumerate(self.models, start=1)]
        for _, width in checked:
            if width < least or (self.states is None and width > least):
                raise MismatchError(f"a model reads {width:,} numbers, and its inputs give at least {least:,}")
        return tuple((kind.scorer(model), width) for model, width in checked)

    def probabilities(self, rows: np.ndarray, place: tuple[int, int] | None = None) -> np.ndarray:
        """Probability (n,) that a trace is right, of each row (n, numbers).

        A row is a hidden state, its layer and token where one model reads all places, and the values of `columns`, NaN
        where one is missing. `place` (layer, token) names the model where there is one for each. InvalidError for rows
        of another length, and for a place that was not fitted.
        """
        if self.has_model_for_each_place and place not in self.places:
            raise InvalidError(f"`place` is {quote(place)}; it takes one of {quote(self.places)}")
        score, width = self.scorers[
            self.places.index(place) if self.has_model_for_each_place and place is not None else 0
        ]
        values = np.asarray(rows, np.float32)
        if values.ndim != 2 or values.shape[1] != width:
            raise InvalidError(f"{argument('rows')} has the shape {values.shape}; it takes rows of {width:,} numbers")
        return np.asarray(score(values), np.float64)


@checks_arguments(path="the path of a verifier's file")
def load_verifier(path: str | Path) -> SavedVerifier:
    """Read a verifier that `fit_verifier` wrote, from `models` of its log. ThinkbackError where it is none, or holds
    what no verifier does; nothing of it reaches XGBoost before it is checked whole.
    """
    named = f"verifier `{path}`"
    document = read_model(path, named)
    if document.get("format") != FORMAT:
        raise FormatError(f"{named} is no file of a verifier: `thinkback fit-verifier` writes one into its log")
    with error_prefix(f"{named}: "):
        return from_table(SavedVerifier, document)
