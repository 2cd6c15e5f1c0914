"""Answers while a question unfolds: how many words the last trace had seen, and how often its answer beats recorded
people.

Expected wins are those of J. Boyd-Graber and others (Besting the Quiz Master, 2012): a right answer wins against the
people who had not answered rightly before, a wrong one against none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.cuts import StopConditions, partial_reason_numbers
from replay.engine.outcome import COVERED, Outcome
from replay.engine.trajectory import Trajectory
from replay.sampling.selects import Select

POSITION = "position"
"""The column of traces with the number of words of the question that the guess had seen."""
POSITION_COLUMNS = (POSITION, "position_share", "expected_win")
"""Further columns of outcomes on a pool whose traces have positions."""
PEOPLE = frozenset({"length", "human_position", "human_correct", "human_positions", "human_corrects"})
"""The columns of examples that record when people answered, and whether they were right."""


def last_positions(trajectory: Trajectory, step: np.ndarray) -> np.ndarray:
    """Position (E,) of the last trace drawn when a walk ends at `step` (E,); NaN where none was drawn."""
    drawn = trajectory.n_paid(step)
    sample = np.take_along_axis(trajectory.place, np.maximum(drawn - 1, 0)[:, None], axis=1)[:, 0]
    return np.where(drawn > 0, trajectory.pool.signals[POSITION][np.arange(len(step)), sample], np.nan)


def add_positions(block: LogBlock, outcome: Outcome, position: np.ndarray | None) -> Outcome:
    """The outcome with the columns of positions, for a last trace at `position` (E,); None: unchanged."""
    if position is None:
        return outcome
    length = block.numbers("length")
    share = np.divide(position, length, out=np.full(len(position), np.nan), where=length > 0)
    expected = expected_wins(block.examples, position, outcome.correct)
    measured = dict(zip(POSITION_COLUMNS, (position, share, expected), strict=True))
    return replace(outcome, measured={**outcome.measured, **measured})


def expected_wins(examples: pl.DataFrame, position: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Expected wins (E,) against recorded people of answers `correct` (E,) after `position` (E,) words; NaN: no one
    recorded.

    An answer beats those who had not answered rightly before it; who answers at the same word had not.
    """
    row, place, right = human_buzzes(examples)
    people = np.bincount(row, minlength=len(position))
    before = np.bincount(row, weights=right & (place < position[row]), minlength=len(position))
    share = np.divide(people - before, people, out=np.full(len(position), np.nan), where=people > 0)
    return np.where(np.isnan(position), np.nan, share * correct)


def human_buzzes(examples: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The recorded people, (N,) each: the row of the example, the words that they had seen, and whether they were
    right.
    """
    schema = {"human_position": pl.Int32, "human_correct": pl.Boolean}
    lists = {"human_positions": pl.List(pl.Int32), "human_corrects": pl.List(pl.Boolean)}
    kinds = schema | lists
    columns = [
        pl.col(name) if name in examples.columns else pl.lit(None, dtype).alias(name) for name, dtype in kinds.items()
    ]
    rows = examples.select(*columns, row=pl.int_range(pl.len()))
    alone = pl.col("human_positions").is_null() | pl.col("human_corrects").is_null()
    one = rows.filter(alone).select("row", "human_position", "human_correct").drop_nulls()
    several = rows.filter(~alone).select("row", "human_positions", "human_corrects")
    several = several.explode("human_positions", "human_corrects").drop_nulls()
    every = pl.concat([one.rename(dict(zip(schema, lists, strict=True))), several])
    row, place, right = (every[name].to_numpy() for name in ("row", *lists))
    return row.astype(np.int64), place, right.astype(bool)


@dataclass(frozen=True)
class ThresholdSteps:
    """How a policy's means change as the threshold of its stop falls, over some examples.

    `ends`: by column, the sum and the count of known values where the stop never holds. `changes`: by column, how sum
    and count change (N,) once the threshold falls to each `value` (N,) of the stop's statistic.
    """

    value: np.ndarray
    ends: Mapping[str, tuple[float, float]]
    changes: Mapping[str, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def steps_of_walk(
        cls, block: LogBlock, trajectory: Trajectory, how: StopConditions, select: Select
    ) -> ThresholdSteps:
        """The changes of a walk that generates trace by trace and stops once the statistic of its stop reaches a
        threshold.

        On examples that are partial at some threshold nothing is counted.
        """
        statistic = how.stop.statistic(trajectory.stop_prefix)
        limit = np.minimum(trajectory.n_generated, how.cap)
        within = np.arange(statistic.shape[1]) < limit[:, None]
        covered = partial_reason_numbers(trajectory, how, limit, None) == COVERED
        highest = np.maximum.accumulate(np.where(within, statistic, -np.inf), axis=1)
        before = np.concatenate([np.full((len(limit), 1), -np.inf), highest[:, :-1]], axis=1)
        row, step = np.nonzero((highest > before) & covered[:, None])
        alone = np.append(row[1:] != row[:-1], True) if len(row) else np.zeros(0, bool)
        later = np.where(alone, limit[row], np.append(step[1:] + 1, 0)[: len(row)])
        columns = _columns_by_step(block, trajectory, select)
        every = np.flatnonzero(covered)
        ends, changes = {}, {}
        for name, values in columns.items():
            known, value = np.isfinite(values), np.nan_to_num(values)
            ends[name] = float(value[every, limit[every]].sum()), float(known[every, limit[every]].sum())
            now, then = (row, step + 1), (row, later)
            changes[name] = value[now] - value[then], known[now].astype(float) - known[then]
        return cls(highest[row, step], ends, changes)


def _columns_by_step(block: LogBlock, trajectory: Trajectory, select: Select) -> dict[str, np.ndarray]:
    """Correctness and the columns of positions for each step 0 to S at which the walk might end: (E, S + 1) each."""
    correct = trajectory.answers_by_step(select).judged
    plain = np.full_like(correct, np.nan)
    plain[:, 1:] = np.take_along_axis(trajectory.pool.signals[POSITION], trajectory.place, axis=1)
    length = block.numbers("length")[:, None]
    share = np.divide(plain, length, out=np.full(plain.shape, np.nan), where=length > 0)
    steps = range(trajectory.costs.shape[1])
    wins = np.stack([expected_wins(block.examples, plain[:, step], correct[:, step]) for step in steps], axis=1)
    return {"correct": correct, POSITION: plain, "position_share": share, "expected_win": wins}


def threshold_curve(parts: Sequence[ThresholdSteps]) -> pl.DataFrame:
    """The mean of each column at every threshold, from infinity (the stop never holds) down; null: not known."""
    value = np.concatenate([part.value for part in parts])
    thresholds, place = np.unique(-value, return_inverse=True)
    columns: dict[str, np.ndarray] = {"threshold": np.append(np.inf, -thresholds)}
    for name in parts[0].ends:
        totals = []
        for number in (0, 1):
            steps = np.zeros(len(thresholds) + 1)
            steps[0] = sum(part.ends[name][number] for part in parts)
            np.add.at(steps[1:], place, np.concatenate([part.changes[name][number] for part in parts]))
            totals.append(np.cumsum(steps))
        total, count = totals[0], np.rint(totals[1])
        columns[name] = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        columns |= {"n": count} if name == POSITION else {}
    return pl.DataFrame(columns).with_columns(pl.exclude("threshold", "n").fill_nan(None), pl.col("n").cast(pl.Int64))
