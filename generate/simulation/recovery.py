"""A simulated log of base attempts and their revisions, for gates and budgets.

Each question has a difficulty and asks for so many tokens. The pool `short` is cut off at 4,096 of them, `long` at
8,192; an attempt that is cut is nearly always wrong, and its answer comes from a finalizer. A revision (`continue`,
`active_verify`, `self_correct`, two rollouts each) repairs cut attempts often and finished ones rarely, and now and
then spoils a right answer. `votes` are samples for a majority, `probe` is one greedy trace.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from toolkit.errors import InvalidError, argument

if TYPE_CHECKING:
    from toolkit.log import Log

SHORT, LONG = 4096, 8192
ROLLOUTS = 2
SPLITS = (("train", 0.5), ("dev", 0.2), ("test", 0.3))


@dataclass(frozen=True)
class _ActionModel:
    """The parameters of an action: the probability that a revision is right, of a cut, a wrong or a right attempt; its
    tokens.
    """

    cut: float
    wrong: float
    right: float
    tokens: float


@dataclass(frozen=True)
class RecoveryModel:
    """The parameters of the simulation of attempts and revisions."""

    right: float = 0.88  # probability that a finished attempt at a question of middling difficulty is right
    tokens: float = 2_300.0  # median need of tokens
    spread: float = 0.75  # of its logarithm
    long_right: float = 0.0  # added to the probability in the pool `long`
    votes: int = 8
    continue_: _ActionModel = _ActionModel(0.55, 0.10, 0.95, 2_300.0)
    active_verify: _ActionModel = _ActionModel(0.65, 0.22, 0.98, 2_500.0)
    self_correct: _ActionModel = _ActionModel(0.30, 0.12, 0.90, 1_400.0)


def simulate_recovery(
    out: str | Path, *, examples: int, seed: int = 0, name: str | None = None, force: bool = False,
    model: RecoveryModel | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated, with the model's parameters in its manifest."""
    from toolkit.files import move_into_parent, replacing
    from toolkit.log import open_log, write_log

    if examples < 1:
        raise InvalidError(f"{argument('examples')} is {examples}; give at least 1")
    model = model or RecoveryModel()
    tables = _recovery_tables(examples, seed, model)
    source = {"simulation": "recovery", "examples": examples, "seed": seed, "model": asdict(model)}
    title = name or f"simulated recovery, {examples} examples, seed {seed}"
    with replacing(out, force) as folder:
        write_log(folder / "log", name=title, tables=tables, source=source, simulated=True)
        move_into_parent(folder / "log")
    return open_log(out)


def _recovery_tables(examples: int, seed: int, model: RecoveryModel) -> dict[str, pl.DataFrame]:
    """Draws the tables `examples`, `traces` and `features`."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=examples)
    ids = [f"q{number:06d}" for number in range(examples)]
    gold = rng.integers(0, 1000, examples)
    need = model.tokens * np.exp(model.spread * (0.7 * difficulty + 0.7 * rng.normal(size=examples)))
    probability = 1 / (1 + np.exp(-(np.log(model.right / (1 - model.right)) - 1.2 * difficulty)))
    place = (np.arange(examples) + 0.5) / examples
    split = np.select([place < 0.5, place < 0.7], ["train", "dev"], "test")
    world = _RecoverySimulation(rng, ids, gold, need, probability)
    frames = [
        world.draw_pool("probe", SHORT // 4, probability - 0.1, 1),
        world.draw_pool("votes", SHORT, probability, model.votes),
    ]
    short = world.draw_pool("short", SHORT, probability, 1)
    frames += [short, world.draw_pool("long", LONG, np.minimum(probability + model.long_right, 1.0), 1)]
    for action in ("continue", "active_verify", "self_correct"):
        setting = getattr(model, "continue_" if action == "continue" else action)
        frames.append(world.draw_revisions(action, short, setting))
    base = short.sort("example_id")
    noise = rng.normal(size=(2, examples))
    features = pl.DataFrame({
        "trace_id": base["trace_id"],
        "example_id": base["example_id"],
        "difficulty": np.clip(0.5 + 0.2 * difficulty + 0.1 * noise[0], 0, 1),
        "verification_need": np.clip(0.5 + 0.15 * difficulty + 0.2 * noise[1], 0, 1),
        "constraint_density": rng.random(examples),
    })  # fmt: skip
    table = pl.DataFrame({
        "example_id": ids,
        "dataset": np.where(np.arange(examples) % 2, "sim-b", "sim-a"),
        "split": split,
        "question": [f"Question {number} of seed {seed}: how many?" for number in range(examples)],
        "gold": gold.astype(str),
        "router_score": np.clip(0.5 + 0.2 * difficulty + 0.15 * rng.normal(size=examples), 0, 1),
    })  # fmt: skip
    return {"examples": table, "traces": pl.concat(frames, how="diagonal"), "features": features}


@dataclass(frozen=True)
class _RecoverySimulation:
    rng: np.random.Generator
    ids: list[str]
    gold: np.ndarray
    need: np.ndarray
    probability: np.ndarray

    def draw_pool(self, name: str, limit: int, probability: np.ndarray, traces: int) -> pl.DataFrame:
        """Draws the first attempts of a pool with a token limit."""
        size, frames = len(self.ids), []
        for index in range(traces):
            tokens = self.need * np.exp(0.15 * self.rng.normal(size=size))
            cut = tokens > limit
            right = self.rng.random(size) < np.where(cut, 0.12, probability)
            frames.append(self._rows(name, "solve", index, limit, right, np.minimum(tokens, limit), cut))
        return pl.concat(frames)

    def draw_revisions(self, action: str, base: pl.DataFrame, setting: _ActionModel) -> pl.DataFrame:
        """Draws two rollouts of the revision of each base attempt."""
        before = base.sort("example_id")
        cut = (before["finish_reason"] == "length").to_numpy()
        probability = np.where(cut, setting.cut, setting.wrong)
        probability = np.where(before["correct"].to_numpy(), setting.right, probability)
        pool, frames = action.replace("_", "-"), []
        for index in range(ROLLOUTS):
            tokens = setting.tokens * np.exp(0.4 * self.rng.normal(size=len(self.ids)))
            right = self.rng.random(len(self.ids)) < probability
            rows = self._rows(pool, action, index, SHORT, right, np.minimum(tokens, SHORT), tokens > SHORT)
            frames.append(rows.with_columns(before["trace_id"].alias("parent_id")))
        return pl.concat(frames)

    def _rows(
        self, pool: str, action: str, index: int, limit: int, right: np.ndarray, tokens: np.ndarray, cut: np.ndarray
    ) -> pl.DataFrame:
        wrong = (self.gold + self.rng.integers(1, 4, len(self.ids))) % 1000
        seconds = tokens / 60 * np.exp(0.2 * self.rng.normal(size=len(self.ids)))
        return pl.DataFrame({"example_id": self.ids}).with_columns(
            pl.Series("trace_id", [f"{example}/{pool}/{index}" for example in self.ids]),
            pl.lit(pool).alias("pool"),
            pl.lit(action).alias("action"),
            pl.lit(index).alias("sample_index"),
            pl.lit(limit).alias("max_tokens"),
            pl.lit("simulated").alias("model"),
            pl.Series("answer", np.where(right, self.gold, wrong).astype(str)),
            pl.Series("correct", right),
            pl.Series("prompt_tokens", np.full(len(self.ids), 120)),
            pl.Series("completion_tokens", tokens.astype(np.int64)),
            pl.Series("finish_reason", np.where(cut, "length", "stop")),
            pl.Series("finalizer_used", cut),
            pl.Series("latency_s", seconds),
            pl.Series("device_s", seconds / 8),
        )
