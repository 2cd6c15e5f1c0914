"""The strata of a run's examples: the column that makes them, and their weights, from what the user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from replay.data.contents import Contents
from replay.runs.passes.example_set import ExampleSet, resampling_units, stratum_names
from toolkit.errors import ConflictError, InvalidError, UnknownError, argument, listed, quote, suggest
from toolkit.notes import Note, note

DATASET, NONE, EQUAL = "dataset", "none", "equal"
FORM = "`equal`, or weights by name, such as `algebra=2,claims=1`"

Weights = str | Mapping[str, float]
"""Weights of strata relative to each other: by name, `equal`, or a text such as `algebra=2,claims=1`."""


def strata_column(contents: Contents, strata: str | None, weigh: Weights | None, by: Sequence[str]) -> str | None:
    """The column whose values are strata: by default `dataset`, where it makes groups or strata are weighted.

    Raises ThinkbackError where there is no such column, or weights are given and no strata.
    """
    if strata == NONE and weigh is not None:
        raise ConflictError(f"{argument('weigh')} weighs strata, and {argument('strata')} is `{NONE}`: leave one out")
    column = strata or (DATASET if DATASET in by or weigh is not None else None)
    if column is None or column == NONE:
        return None
    contents.require_groups(column, "strata")
    return column


def with_strata(
    examples: ExampleSet, column: str | None, weigh: Weights | None, is_requested: bool
) -> tuple[ExampleSet, tuple[Note, ...]]:
    """The examples with their strata, and a note where there are none: a cluster lies in several, or there is but one.

    `is_requested`: whether a user asked for strata; then clusters in several are an error, and one stratum has a note.
    """
    if column is None:
        return examples, ()
    names = stratum_names(examples.frame, column)
    units = pl.DataFrame({"unit": resampling_units(examples.frame), "name": names}).unique()
    crossing = units.filter(pl.col("unit").is_duplicated())["unit"]
    if len(crossing):
        cluster = str(crossing.sort()[0])[1:]
        text = f"cluster `{cluster}` has examples of more than one `{column}`"
        if is_requested:
            raise ConflictError(f"{text}, so it can't be {argument('strata')}: name another column, or `{NONE}`")
        return examples, (note("no_strata", f"{text}: examples are resampled as if all had the same"),)
    single = names.n_unique() == 1 and is_requested
    text = f"all examples have the same `{column}`, `{names[0]}`, so strata by it change nothing" if single else ""
    return replace(
        examples, strata=column, weights=_stratum_weights(weigh, column, sorted(names.unique().to_list()))
    ), ((note("one_stratum", text),) if text else ())


def _stratum_weights(weigh: Weights | None, column: str, names: Sequence[str]) -> Mapping[str, float] | None:
    """Weight by stratum. Raises ThinkbackError unless each stratum has one above 0, and no other name has any."""
    if weigh is None:
        return None
    if weigh == EQUAL:
        return dict.fromkeys(names, 1.0)
    weights = (
        _weights_from_text(weigh)
        if isinstance(weigh, str)
        else {str(name): float(value) for name, value in weigh.items()}
    )
    for name in weights:
        if name not in names:
            raise UnknownError(f"{argument('weigh')} names `{name}`, no `{column}` of the run: {suggest(name, names)}")
    if lacking := [name for name in names if name not in weights]:
        every = f"leave out its examples by {argument('where')}, or give it one"
        raise InvalidError(f"{argument('weigh')} has no weight for {column} {listed(lacking, 3)}: {every}")
    for name, value in weights.items():
        if not 0 < value < float("inf"):
            raise InvalidError(f"{argument('weigh')} gives `{name}` the weight {value:g}; it takes numbers above 0")
    return dict(weights)


def _weights_from_text(text: str) -> dict[str, float]:
    """The weights in a text such as `algebra=2,claims=1`."""
    weights = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise InvalidError(f"{argument('weigh')} is {quote(text)}; it takes {FORM}") from None
    return weights
