"""What methods did on each text, as arrays: whether they acted, on the error or not, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from replay.kinds.buzz import CLOSE
from replay.studies.buzz.systems import REFUTED
from replay.studies.kit.runs import StudyRun

WITHIN = (0.2, 0.4)
"""Shares of a text within which the paper counts an act as near."""


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of a run (E,): whether each holds an error, NaN where that is not known, the word that first shows it,
    their length, and what each is resampled with.
    """

    frame: pl.DataFrame
    unit: np.ndarray

    @property
    def ids(self) -> pl.Series:
        return self.frame["example_id"]

    def numbers(self, column: str) -> np.ndarray:
        """A column of examples (E,), NaN for null and where the log has none."""
        if column not in self.frame.columns:
            return np.full(len(self.frame), np.nan)
        return self.frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()

    @cached_property
    def error(self) -> np.ndarray:
        return self.numbers("gold_error")

    @cached_property
    def first(self) -> np.ndarray:
        return self.numbers("gold_position")

    @cached_property
    def length(self) -> np.ndarray:
        return self.numbers("length")

    @property
    def one_label(self) -> bool:
        """Whether all texts of which it is known hold an error, or none does."""
        return len(np.unique(self.error[~np.isnan(self.error)])) == 1

    def groups(self, column: str) -> dict[str, np.ndarray]:
        """The texts (E,) bool of each value of a column, by the value in words; empty where the log has none."""
        if column not in self.frame.columns:
            return {}
        values = self.frame[column].cast(pl.String)
        return {name: (values == name).fill_null(False).to_numpy() for name in values.drop_nulls().unique().sort()}

    def deviation(self, position: np.ndarray) -> np.ndarray:
        """Returns Δ (E,) of an act at a position (E,): how far behind the first word, as a share of the text."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.length > 0, (position - self.first) / self.length, np.nan)


@dataclass(frozen=True, eq=False)
class Acts:
    """What a method did on each text (E,), 0 or 1, NaN where it is not known or was not replayed: it `acted`, it is
    `right` about the text, it `finds` the error (of texts with one), raised a `false_alarm` (of others); `deviation`: Δ
    where it found it, and `deviation_of_any` where it acted on a text with an error for any reason.
    """

    acted: np.ndarray
    right: np.ndarray
    finds: np.ndarray
    false_alarm: np.ndarray
    position: np.ndarray
    deviation: np.ndarray
    deviation_of_any: np.ndarray

    @property
    def replayed(self) -> np.ndarray:
        """The texts (E,) bool on which the method was replayed."""
        return ~np.isnan(self.acted)

    @property
    def timed(self) -> np.ndarray:
        """The texts (E,) bool on which it found the error at a known Δ."""
        return ~np.isnan(self.deviation)

    def timing(self) -> dict[str, np.ndarray]:
        """Δ (E,), and whether it is near, not later, and before the error can be seen, by the names of columns."""
        delta = self.deviation
        known = np.where(self.timed, 1.0, np.nan)
        shares = {f"{round(100 * one)}": one + CLOSE for one in WITHIN}
        with np.errstate(invalid="ignore"):
            return {
                "deviation": delta,
                **{f"within_{name}": (np.abs(delta) <= share) * known for name, share in shares.items()},
                **{f"by_{name}": (delta <= share) * known for name, share in shares.items()},
                "premature": (delta < 0) * known,
            }


def acts_of(run: StudyRun, policy: str, texts: Texts, checks: bool) -> Acts:
    """Returns what a policy of a run did on some texts. Of verdicts on texts, which name no claim, an act on a text
    with an error counts as finding it.
    """
    ids = texts.ids
    refuted = (run.texts(policy, "answer", ids) == REFUTED).fill_null(False).to_numpy()
    acted = np.where(ids.is_in(run.ids.implode()).to_numpy(), refuted, np.nan)
    position = np.where(acted == 1, run.values(policy, "position", ids), np.nan)
    deviation = np.where(texts.error == 1, texts.deviation(position), np.nan)
    finds = run.values(policy, "found", ids) if checks else np.where(texts.error == 1, acted, np.nan)
    return Acts(
        acted, run.values(policy, on=ids), finds, np.where(texts.error == 0, acted, np.nan), position,
        np.where(finds == 1, deviation, np.nan), deviation,
    )  # fmt: skip


def contrast(values: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns values (E,) whose mean is that of `values` on the texts `one` less that on `other` (E,) bool, and whose
    spread is that of this difference: its linearisation. NaN on other texts, and all NaN where a side has no value.
    """
    known = ~np.isnan(values)
    sides = one & known, other & known
    if not all(side.any() for side in sides):
        return np.full(len(values), np.nan)
    means, total = [values[side].mean() for side in sides], (sides[0] | sides[1]).sum()
    out = np.full(len(values), np.nan)
    for side, mean, sign in zip(sides, means, (1, -1), strict=True):
        out[side] = means[0] - means[1] + sign * (values[side] - mean) * total / side.sum()
    return out


def ratio_values(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Returns values (E,) whose mean is the sum of `part` over that of `whole` (E,), and whose spread is that of this
    ratio: its linearisation. All NaN where the whole is 0.
    """
    if not whole.any():
        return np.full(len(whole), np.nan)
    ratio = part.sum() / whole.sum()
    return ratio + (part - ratio * whole) * len(whole) / whole.sum()


def errors_by_deviation(acts: Acts, texts: Texts, limits: tuple[float, ...]) -> Iterator[tuple[float, np.ndarray]]:
    """Yields, for each limit on Δ, whether the error of each text with one (E,) was found at most so late."""
    known = acts.replayed & (texts.error == 1) & ~np.isnan(texts.deviation(texts.first))
    for limit in limits:
        with np.errstate(invalid="ignore"):
            yield limit, np.where(known, acts.timed & (acts.deviation <= limit + CLOSE), np.nan)


def accuracy_by_deviation(acts: Acts, texts: Texts, limits: tuple[float, ...]) -> Iterator[tuple[float, np.ndarray]]:
    """Yields, for each limit on Δ, whether a method is right about each text (E,) where acts after it do not count: it
    acts on a text with an error at most so late, for any reason, and on none without one.
    """
    known = (texts.error == 0) | ((texts.error == 1) & ~np.isnan(texts.deviation(texts.first)))
    known &= acts.replayed
    for limit in limits:
        with np.errstate(invalid="ignore"):
            by_then = acts.deviation_of_any <= limit + CLOSE
        yield limit, np.where(known, np.where(texts.error == 1, by_then, 1 - acts.acted), np.nan)


def kappa_values(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns values (E,) whose mean is Cohen's κ of two verdicts (E,), 0 or 1 each, and whose spread is that of κ: its
    linearisation, κ = (p − q) / (1 − q) with p the share that agree, q what chance would. NaN where chance alone would
    agree always.
    """
    agree, first, second = (one == other).astype(float), float(one.mean()), float(other.mean())
    by_chance = first * second + (1 - first) * (1 - second)
    if by_chance == 1:
        return np.full(len(one), np.nan)
    kappa = (agree.mean() - by_chance) / (1 - by_chance)
    chance = (one - first) * (2 * second - 1) + (other - second) * (2 * first - 1)
    return kappa + (agree - agree.mean() - (1 - kappa) * chance) / (1 - by_chance)
