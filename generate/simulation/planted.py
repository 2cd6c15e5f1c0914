"""A simulated log whose hidden states hold a signal of known strength, to test verifiers that are fitted on them.

`generate.simulation.planted_model` documents the model. Questions are of the splits `train` and `test`, in turn. The
verifier `projection` is the states' true projection, the mean over all places: nothing can do better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from generate.simulation.grid import GridSize, label_names, write_simulated
from generate.simulation.planted_model import PlantedModel
from toolkit.progress import progress

if TYPE_CHECKING:
    from toolkit.log import Log

STATES = "planted"
VERIFIER = "projection"
LABELS = 4
MOST_NUMBERS = 2**26
"""Numbers of states that are drawn before a shard is written."""


def simulate_planted(
    out: str | Path, *, examples: int, traces: int, seed: int = 0, name: str | None = None, force: bool = False,
    model: PlantedModel | None = None,
) -> Log:  # fmt: skip
    """Write the log to `out`, marked as simulated; the manifest has the model's parameters and what is known of it.

    Memory does not grow with `examples`. An example is the same whatever the number of examples, and so are its first
    traces.
    """
    model = model or PlantedModel()
    size = GridSize(examples, traces, LABELS, seed)
    known = {
        "auc": model.auc(), "auc_within": model.auc_within(), "auc_of_one_place": model.auc(1),
        "auc_within_of_one_place": model.auc_within(1), "random_pick": model.random_pick(),
        f"best_of_{traces}": model.best_of(traces),
    }  # fmt: skip
    source = {"simulation": "states", **asdict(size), "model": asdict(model), "known": known}
    title = name or f"planted-{examples}x{traces}-d{model.dimensions}-s{seed}"
    with progress("simulating", examples, "examples") as advance:
        return write_simulated(out, _parts(size, model), name=title, source=source, force=force, advance=advance)


def _parts(size: GridSize, model: PlantedModel) -> Iterator[dict[str, pl.DataFrame]]:
    """The tables' rows of a few examples at a time."""
    step = max(1, MOST_NUMBERS // (size.traces * (model.places + 1) * model.dimensions))
    direction = model.direction(size.seed).astype(np.float32)
    for first in range(0, size.examples, step):
        numbers = range(first, min(first + step, size.examples))
        yield _tables([_Example(number, size, model, direction) for number in numbers], size, model)


class _Example:
    """One question as drawn, from a generator of its own; the states' noise from another, trace by trace."""

    def __init__(self, number: int, size: GridSize, model: PlantedModel, direction: np.ndarray):
        self.number = number
        rng = np.random.default_rng([size.seed, number])
        self.gold = int(rng.integers(size.labels))
        u = rng.normal()
        drawn = rng.random((size.traces, 2))
        self.right = drawn[:, 0] < model.right(np.array(u))
        self.codes = np.where(
            self.right, self.gold, (self.gold + 1 + (drawn[:, 1] * (LABELS - 1)).astype(int)) % LABELS
        )
        noise = np.random.default_rng([size.seed, number, 1])
        shape = (size.traces, model.places + 1, model.dimensions)
        states = noise.standard_normal(shape, dtype=np.float32)
        own = states[:, 1:]
        own *= np.sqrt(1 - model.shared)
        own += np.sqrt(model.shared) * states[:, :1]
        planted = model.signal * self.right + model.difficulty * u
        own += planted.astype(np.float32)[:, None, None] * direction
        self.states = own.astype(np.float16)
        self.projection = (own @ direction).mean(axis=1, dtype=np.float64)


def _tables(drawn: list[_Example], size: GridSize, model: PlantedModel) -> dict[str, pl.DataFrame]:
    names, seed, width = np.array(label_names(LABELS)), size.seed, len(str(size.traces - 1))
    ids = [f"planted{seed}-{one.number:09d}" for one in drawn]
    examples = pl.DataFrame({
        "example_id": ids,
        "dataset": "planted",
        "split": ["test" if one.number % 2 else "train" for one in drawn],
        "question": [f"planted question {one.number} of seed {seed}" for one in drawn],
        "gold": names[[one.gold for one in drawn]],
        "labels": [names.tolist()] * len(drawn),
    })  # fmt: skip
    keys = pl.DataFrame({
        "trace_id": [f"{example}/{t:0{width}d}" for example in ids for t in range(size.traces)],
        "example_id": np.repeat(np.array(ids), size.traces),
    })  # fmt: skip
    traces = keys.with_columns(
        pool=pl.lit(f"n{size.traces}"),
        action=pl.lit("solve"),
        sample_index=pl.Series(np.tile(np.arange(size.traces, dtype=np.int32), len(drawn))),
        model=pl.lit("simulated"),
        answer=pl.Series(names[np.concatenate([one.codes for one in drawn])]),
        correct=pl.Series(np.concatenate([one.right for one in drawn])),
        completion_tokens=pl.lit(100, pl.Int32),
    )
    scores = np.concatenate([one.projection for one in drawn])
    states = np.concatenate([one.states for one in drawn]).reshape(-1, model.dimensions)
    rows = keys[np.repeat(np.arange(keys.height), model.places)]
    places = rows.with_columns(
        layer=pl.lit(-1, pl.Int16),
        token=pl.Series(np.tile(np.arange(-model.places, 0, dtype=np.int32), keys.height)),
        state=pl.Series(states, dtype=pl.Array(pl.Float16(), model.dimensions)),
    )
    return {
        "examples": examples,
        "traces": traces,
        "verifications": keys.with_columns(verifier=pl.lit(VERIFIER), score=pl.Series(scores)),
        f"hidden_states/{STATES}": places,
    }
