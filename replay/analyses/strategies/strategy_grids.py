"""A probe whose answer stands or is followed by n samples: every threshold and every n at once, as arrays.

The probe is one trace with a score. From the threshold s on its answer stands; below, n further samples decide, the
probe not among them, so 1 + n samples are paid (conditional voting; Piotrowski et al. 2025). Everything else is a sum
over examples in the order of their scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolkit.stats import Settings
from toolkit.stats.curves.bands import GateSteps, MetricBand, bands_by_metric
from toolkit.stats.many.ranks import is_on_front as front_of_draws


@dataclass(frozen=True, eq=False)
class ConditionalStrategy:
    """E probed examples, and what takes the probe's place where it is doubted.

    `score` (E,): NaN where the probe has no answer, which is never believed. `probe` (E,): correctness of the probe.
    `then` (E, N): (mean) correctness of what takes its place at each of the `n` (N,), the further samples paid.
    """

    score: np.ndarray
    probe: np.ndarray
    then: np.ndarray
    n: np.ndarray

    def for_examples(self, on: np.ndarray) -> ConditionalStrategy:
        """The strategy on the examples in `on` (E,) alone."""
        return ConditionalStrategy(self.score[on], self.probe[on], self.then[on], self.n)

    def thresholds(self, most: int = 256) -> np.ndarray:
        """Every distinct threshold from never to always, or `most` of them that act on evenly spread shares."""
        known = np.sort(self.score[~np.isnan(self.score)])
        every = np.append(np.unique(known), np.inf)
        if len(every) <= most:
            return every
        acted = np.linspace(0, len(known), most).round().astype(np.int64)
        return np.unique(np.append(known, np.inf)[acted])

    def doubted_probes(self, threshold: float) -> np.ndarray:
        """Mask (E,) of the probes that are doubted at a threshold."""
        return np.asarray(~(self.score >= threshold))

    def correctness_and_samples(self, threshold: float, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Correctness and samples paid, (E,) each, at one threshold and at the n with place `column`."""
        fires = self.doubted_probes(threshold)
        return np.where(fires, self.then[:, column], self.probe), 1.0 + self.n[column] * fires


@dataclass(frozen=True, eq=False)
class _ThresholdGridMeans:
    """Exact means at T thresholds and N numbers of samples: `accuracy`, `samples` (T, N); `fired` (T,), a share."""

    thresholds: np.ndarray
    n: np.ndarray
    accuracy: np.ndarray
    samples: np.ndarray
    fired: np.ndarray


def threshold_grid(of: ConditionalStrategy, thresholds: np.ndarray) -> _ThresholdGridMeans:
    """Exact means at every threshold and every n, by cumulative sums over the examples in the order of their scores."""
    order = np.argsort(np.where(np.isnan(of.score), -np.inf, of.score), kind="stable")
    gained = np.zeros((len(order) + 1, len(of.n)))
    np.cumsum((of.then - of.probe[:, None])[order], axis=0, out=gained[1:])
    forced = int(np.isnan(of.score).sum())
    known = of.score[order[forced:]]
    acted = forced + np.searchsorted(known, thresholds, side="left")
    fired = acted / len(order)
    accuracy = (of.probe.sum() + gained[acted]) / len(order)
    return _ThresholdGridMeans(thresholds, of.n, accuracy, 1 + fired[:, None] * of.n, fired)


def grid_intervals(of: ConditionalStrategy, thresholds: np.ndarray, unit: np.ndarray, settings: Settings) -> MetricBand:
    """Intervals of accuracy at T ascending thresholds and N numbers of samples (T, N), from one set of resamples.

    The band holds for all thresholds of one n at once. `unit` (E,) numbers what is resampled.
    """
    forced = np.isnan(of.score)
    group = np.where(forced, 0, np.searchsorted(thresholds, of.score, side="right"))
    names = [str(n) for n in range(len(of.n))]
    steps = GateSteps(
        group=group.astype(np.int64),
        unit=unit,
        base={name: np.where(forced, of.then[:, at], of.probe) for at, name in enumerate(names)},
        fired={name: of.then[:, at] for at, name in enumerate(names)},
        rate=frozenset(names),
        least=len(thresholds) - 1,
    )
    metric_bands, count = bands_by_metric(steps, settings), len(thresholds)
    parts = ("estimate", "low", "high", "band_low", "band_high")
    limits = {part: np.stack([getattr(metric_bands[name], part)[:count] for name in names], axis=1) for part in parts}
    return MetricBand(n=len(unit), **limits)


def votes_at_mean_samples(values: np.ndarray, n: np.ndarray, samples: float) -> np.ndarray:
    """The value (E,) of plain sampling at a mean number of samples, mixed from the two neighbours of it in `n`.

    `values` (E, N) at the ascending `n`. Below the first and beyond the last n, that one.
    """
    after = int(np.clip(np.searchsorted(n, samples), 1, max(len(n) - 1, 1)))
    if len(n) == 1:
        return values[:, 0]
    share = float(np.clip((samples - n[after - 1]) / (n[after] - n[after - 1]), 0.0, 1.0))
    return np.asarray((1 - share) * values[:, after - 1] + share * values[:, after])


def unbeaten_points(accuracy: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Mask (P,) of the points that no other beats: none is as accurate for fewer samples, or better for as many.

    Of points that are equal in both the first stands for all.
    """
    return front_of_draws(np.round(accuracy, 12)[:, None], np.round(samples, 9)[:, None])[:, 0]


@dataclass(frozen=True)
class VotesByScore:
    """A rule for the number of further samples, which falls as the probe's score rises.

    `below` ascends: a probe whose score is below the first threshold gets the first number of `votes`, below the second
    the second, and so on; from the last threshold on its answer stands. A probe without a score gets the first.
    """

    below: tuple[float, ...]
    votes: tuple[int, ...]

    def places_of_sample_numbers(self, score: np.ndarray, n: np.ndarray) -> np.ndarray:
        """The place in `n` (E,) of each example's number of samples, -1 where the probe stands."""
        places = np.append(np.searchsorted(n, self.votes), -1).astype(np.int64)
        rung = np.searchsorted(np.asarray(self.below), score, side="right")
        return places[np.where(np.isnan(score), 0, rung)]

    def correctness_and_samples(self, of: ConditionalStrategy) -> tuple[np.ndarray, np.ndarray]:
        """Correctness and samples paid, (E,) each, under the rule."""
        column = self.places_of_sample_numbers(of.score, of.n)
        stands = column < 0
        votes_then = np.take_along_axis(of.then, np.maximum(column, 0)[:, None], axis=1)[:, 0]
        return np.where(stands, of.probe, votes_then), 1.0 + np.where(stands, 0, of.n[column])

    def correctness_by_coin(self, of: ConditionalStrategy) -> np.ndarray:
        """Correctness (E,) if a coin, not the score, says which examples get which number of samples."""
        column = self.places_of_sample_numbers(of.score, of.n)
        share = np.bincount(column + 1, minlength=len(of.n) + 1) / len(column)
        return np.asarray(share[0] * of.probe + of.then @ share[1:])


def fit_votes_by_score(of: ConditionalStrategy, price: float) -> VotesByScore:
    """The rule, numbers falling with the score, with the highest mean of correctness - price x samples.

    Exact over all monotone step functions of the score, by dynamic programming over its distinct values. Of equal ones
    that with fewer samples.
    """
    forced = np.isnan(of.score)
    values, place = np.unique(of.score[~forced], return_inverse=True)
    numbers = np.append(of.n[::-1], 0)  # from most to none: the last is the probe that stands
    utility = np.column_stack([of.then[:, ::-1], of.probe]) - price * numbers
    utility[forced, -1] = -float(len(forced))  # a probe without an answer never stands
    sums = np.zeros((len(values) + 2, len(numbers)))  # bin 0 holds what has no score
    sums[1] = utility[forced].sum(axis=0)
    np.add.at(sums, place + 2, utility[~forced])
    running = np.round(np.cumsum(sums, axis=0), 12)
    bins = len(running) - 1
    best = np.append(0.0, np.full(bins, -np.inf))
    starts = np.zeros((len(numbers), bins + 1), np.int64)  # of each number: where it begins if it ends at a bin
    for at in range(len(numbers)):
        begun = np.round(best - running[:, at], 12)
        peak = np.maximum.accumulate(begun)
        record = np.append(True, begun[1:] > peak[:-1])
        starts[at] = np.maximum.accumulate(np.where(record, np.arange(bins + 1), 0))
        best = running[:, at] + peak
    below, votes, end = [], [], bins
    for at in reversed(range(len(numbers))):
        start = int(starts[at, end])
        if at < len(numbers) - 1 and end > start and (end > 1 or forced.any()):
            below.append(float(values[end - 1]) if end < bins else np.inf)
            votes.append(int(numbers[at]))
        end = start
    return VotesByScore(tuple(below[::-1]), tuple(votes[::-1]))
