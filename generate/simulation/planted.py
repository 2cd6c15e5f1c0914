"""A simulated log whose hidden states hold a signal of known strength, to test verifiers that are fitted on them.

`generate.simulation.planted` documents the model. Questions are of the splits `train` and `test`, in turn. The
verifier `projection` is the states' true projection, the mean over all places: nothing can do better. There may be a
pool `probe` of one trace a question, and log-probabilities that know of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from generate.simulation.grid import GridSize, label_names, write_simulated
from toolkit.progress import progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log


NODES = 80
"""Nodes of the integrals over normal variables: enough for six decimals."""


@dataclass(frozen=True)
class PlantedModel:
    """The parameters of the simulation; the module's docstring explains each."""

    dimensions: int = setting(8, low=1, high=65_536)
    places: int = setting(4, low=1, high=1_024)
    signal: float = setting(1.0)
    difficulty: float = setting(-0.5)
    ease: float = setting(0.5)
    slope: float = setting(1.2)
    shared: float = setting(0.5, low=0, high=1)
    logprob: float | None = setting(None)
    probe: bool = False

    def __post_init__(self) -> None:
        check(self)

    @property
    def logprob_model(self) -> PlantedModel | None:
        """The model of log-probabilities, treated as states of one number; None where there are none."""
        if self.logprob is None:
            return None
        return replace(self, signal=self.logprob, shared=1.0, places=1, logprob=None)

    def noise_variance(self, places: int | None = None) -> float:
        """The variance of the projection's noise when averaged over `places` places, by default all."""
        return self.shared + (1 - self.shared) / (places or self.places)

    def right_probability(self, difficulty: np.ndarray) -> np.ndarray:
        """The probability that a trace of a question with this difficulty is right."""
        return 1 / (1 + np.exp(self.slope * difficulty - self.ease))

    def right_direction(self, seed: int) -> np.ndarray:
        """The unit vector w along which states tell right from wrong traces."""
        drawn = np.random.default_rng([seed, self.dimensions]).normal(size=self.dimensions)
        return drawn / np.linalg.norm(drawn)

    @cached_property
    def _difficulty_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes and weights for integrals over a standard normal variable."""
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
        return points, weights / weights.sum()

    def auc_within(self, places: int | None = None) -> float:
        """The AUC of the projection among the traces of one question."""
        from scipy.stats import norm

        return float(norm.cdf(self.signal / np.sqrt(2 * self.noise_variance(places))))

    def auc(self, places: int | None = None) -> float:
        """The AUC of the projection over all traces."""
        from scipy.stats import norm

        u, weights = self._difficulty_nodes
        right = weights * self.right_probability(u)
        wrong = weights - right
        apart = self.signal + self.difficulty * (u[:, None] - u[None, :])
        above = norm.cdf(apart / np.sqrt(2 * self.noise_variance(places)))
        return float(right @ above @ wrong / (right.sum() * wrong.sum()))

    def random_pick_accuracy(self) -> float:
        """The expected share of right traces."""
        u, weights = self._difficulty_nodes
        return float(weights @ self.right_probability(u))

    def best_of_accuracy(self, traces: int, places: int | None = None) -> float:
        """The expected share of questions on which the trace with the highest projection, of `traces`, is right."""
        from scipy.integrate import quad
        from scipy.stats import norm

        u, weights = self._difficulty_nodes
        probability, ahead = self.right_probability(u), self.signal / np.sqrt(self.noise_variance(places))

        def highest_density(z: float) -> float:
            """The density of z as the highest projection, of a right trace."""
            below = probability * norm.cdf(z - ahead) + (1 - probability) * norm.cdf(z)
            return float(weights @ (probability * below ** (traces - 1)) * norm.pdf(z - ahead))

        chosen, _ = quad(highest_density, ahead - 9, ahead + 9, limit=200)
        return float(traces * chosen)


STATES = "planted"
PROBE = "probe"
VERIFIER = "projection"
LABELS = 4
SURPRISE = 60.0
"""Subtracted from log-probabilities, so that none is above 0."""
MOST_NUMBERS = 2**26
"""The number of state values that are drawn before a shard is written."""


def simulate_planted(
    out: str | Path, *, examples: int, traces: int, seed: int = 0, name: str | None = None, force: bool = False,
    model: PlantedModel | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated. Its manifest has the model's parameters and known results.

    Memory does not grow with `examples`. An example is the same whatever the number of examples, and so are its first
    traces.
    """
    model = model or PlantedModel()
    size = GridSize(examples, traces, LABELS, seed)
    known = {
        "auc": model.auc(), "auc_within": model.auc_within(), "auc_of_one_place": model.auc(1),
        "auc_within_of_one_place": model.auc_within(1), "random_pick": model.random_pick_accuracy(),
        f"best_of_{traces}": model.best_of_accuracy(traces),
    }  # fmt: skip
    if model.logprob_model is not None:
        known |= {"logprob_auc": model.logprob_model.auc(), "logprob_auc_within": model.logprob_model.auc_within()}
    source = {"simulation": "states", **asdict(size), "model": asdict(model), "known": known}
    title = name or f"planted-{examples}x{traces}-d{model.dimensions}-s{seed}"
    with progress("simulating", examples, "examples") as advance:
        return write_simulated(out, _blocks(size, model), name=title, source=source, force=force, advance=advance)


def _blocks(size: GridSize, model: PlantedModel) -> Iterator[dict[str, pl.DataFrame]]:
    """Yields the rows of each table for a few examples at a time."""
    step = max(1, MOST_NUMBERS // (size.traces * (model.places + 1) * model.dimensions))
    direction = model.right_direction(size.seed).astype(np.float32)
    for first in range(0, size.examples, step):
        numbers = range(first, min(first + step, size.examples))
        yield _tables_of_examples([_Question(number, size, model, direction) for number in numbers], size, model)


@dataclass(frozen=True, eq=False)
class _DrawnTraces:
    """T traces of one question in a pool: whether each is right, its label, its states and its log-probability."""

    right: np.ndarray
    codes: np.ndarray
    states: np.ndarray
    projection: np.ndarray
    logprob: np.ndarray | None


class _Question:
    """One question as drawn, from its own generator. Other pools, and each trace's noise of states and
    log-probabilities, come from further generators.
    """

    def __init__(self, number: int, size: GridSize, model: PlantedModel, direction: np.ndarray):
        self.number = number
        rng = np.random.default_rng([size.seed, number])
        self.gold = int(rng.integers(size.labels))
        self.difficulty = rng.normal()
        self.pools = {f"n{size.traces}": self._traces(rng, 1, size.traces, model, direction, size.seed)}
        if model.probe:
            probe_rng = np.random.default_rng([size.seed, number, 3])
            self.pools[PROBE] = self._traces(probe_rng, 4, 1, model, direction, size.seed)

    def _traces(
        self, rng: np.random.Generator, stream: int, count: int, model: PlantedModel, direction: np.ndarray, seed: int
    ) -> _DrawnTraces:
        """Draws `count` traces. `stream` and the next number give the generators of their noise."""
        drawn = rng.random((count, 2))
        right = drawn[:, 0] < model.right_probability(np.array(self.difficulty))
        codes = np.where(right, self.gold, (self.gold + 1 + (drawn[:, 1] * (LABELS - 1)).astype(int)) % LABELS)
        noise = np.random.default_rng([seed, self.number, stream])
        states = noise.standard_normal((count, model.places + 1, model.dimensions), dtype=np.float32)
        vectors = states[:, 1:]
        vectors *= np.sqrt(1 - model.shared)
        vectors += np.sqrt(model.shared) * states[:, :1]
        planted = model.signal * right + model.difficulty * self.difficulty
        vectors += planted.astype(np.float32)[:, None, None] * direction
        logprob = None
        if model.logprob is not None:
            other = np.random.default_rng([seed, self.number, stream + 1])
            logprob = other.standard_normal(count) + model.logprob * right + model.difficulty * self.difficulty
            logprob -= SURPRISE
        projected = (vectors @ direction).mean(axis=1, dtype=np.float64)
        return _DrawnTraces(right, codes, vectors.astype(np.float16), projected, logprob)


def _tables_of_examples(drawn: list[_Question], size: GridSize, model: PlantedModel) -> dict[str, pl.DataFrame]:
    names, seed = np.array(label_names(LABELS)), size.seed
    examples = pl.DataFrame({
        "example_id": [f"planted{seed}-{one.number:09d}" for one in drawn],
        "dataset": "planted",
        "split": ["test" if one.number % 2 else "train" for one in drawn],
        "question": [f"planted question {one.number} of seed {seed}" for one in drawn],
        "gold": names[[one.gold for one in drawn]],
        "labels": [names.tolist()] * len(drawn),
    })  # fmt: skip
    by_pool = [_pool_tables(drawn, pool, examples["example_id"], model) for pool in drawn[0].pools]
    return {"examples": examples} | {table: pl.concat([tables[table] for tables in by_pool]) for table in by_pool[0]}


def _pool_tables(drawn: list[_Question], pool: str, ids: pl.Series, model: PlantedModel) -> dict[str, pl.DataFrame]:
    names, pool_traces = np.array(label_names(LABELS)), [one.pools[pool] for one in drawn]
    count = len(pool_traces[0].right)
    width = len(str(count - 1))
    prefix = f"{pool}-" if pool == PROBE else ""
    keys = pl.DataFrame({
        "trace_id": [f"{example}/{prefix}{t:0{width}d}" for example in ids for t in range(count)],
        "example_id": np.repeat(ids.to_numpy(), count),
    })  # fmt: skip
    traces = keys.with_columns(
        pool=pl.lit(pool),
        action=pl.lit("solve"),
        sample_index=pl.Series(np.tile(np.arange(count, dtype=np.int32), len(drawn))),
        model=pl.lit("simulated"),
        answer=pl.Series(names[np.concatenate([one.codes for one in pool_traces])]),
        correct=pl.Series(np.concatenate([one.right for one in pool_traces])),
        completion_tokens=pl.lit(100, pl.Int32),
    )
    logprobs = [trace.logprob for trace in pool_traces if trace.logprob is not None]
    if logprobs:
        traces = traces.with_columns(sum_logprob=pl.Series(np.concatenate(logprobs).astype(np.float32)))
    states = np.concatenate([one.states for one in pool_traces]).reshape(-1, model.dimensions)
    rows = keys[np.repeat(np.arange(keys.height), model.places)]
    places = rows.with_columns(
        layer=pl.lit(-1, pl.Int16),
        token=pl.Series(np.tile(np.arange(-model.places, 0, dtype=np.int32), keys.height)),
        state=pl.Series(states, dtype=pl.Array(pl.Float16(), model.dimensions)),
    )
    scores = np.concatenate([pool_trace.projection for pool_trace in pool_traces])
    return {
        "traces": traces,
        "verifications": keys.with_columns(verifier=pl.lit(VERIFIER), score=pl.Series(scores)),
        f"hidden_states/{STATES}": places,
    }
