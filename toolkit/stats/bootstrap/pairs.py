"""Policies against references, example by example: counts of discordant pairs, and policies that made the
same calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.limits.discordant import EXACT_PAIRS, FEW_PAIRS, exact_p_value
from toolkit.stats.limits.intervals import ZERO
from toolkit.stats.limits.studentised import Spread
from toolkit.stats.metrics.outcomes import ANSWER
from toolkit.stats.metrics.scan import SCAN_ROWS
from toolkit.stats.metrics.spill import Floats, Ints


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of examples on which the rates of policy and reference differ, each (references, metrics, policies).

    `first`, `second`: by how much the policy, by how much the reference is more, summed over the examples where it is;
    `up`, `down`: how many these are. Of outcomes of 0 and 1 they are the same. NaN where the two are known of different
    examples, and where a value lies beyond 1. `unlike`: of columns of 0 and 1 known of different examples, those on
    which the two differ or one is not known; else NaN.

    Where examples are clustered `up` and `down` count clusters, by the sums over them; `first` and `second` are what
    these sums make of `trials`, the number of clusters of equal size that are worth as much (Kish). `examples` is how
    many examples tell the two apart, see `effective_pairs`. Both are NaN where examples are independent.

    `squares`, `cubes`: sums of the differences' squares and cubes over independent examples; NaN where all are −1, 0
    and 1, or the other numbers are.
    """

    first: Floats
    second: Floats
    up: Floats
    down: Floats
    unlike: Floats
    examples: Floats
    trials: Floats
    squares: Floats
    cubes: Floats

    @property
    def discordant(self) -> Floats:
        """The number of examples, or of clusters, on which the policy and the reference differ."""
        return self.up + self.down

    @property
    def effective_pairs(self) -> Floats:
        """The effective number of differing examples: as many differences of ±1 as have the same weight."""
        return np.where(
            np.isnan(self.squares), self.discordant, effective_number(self.first + self.second, self.squares)
        )

    def difference_spread(self, number: int, metric: int, policies: Ints, n: Floats) -> Spread:
        """The central moments of the differences to a reference over `n` examples; NaN where all are −1, 0 or 1."""
        at = number, metric, policies
        return spread_of((self.first[at] - self.second[at]) / n, self.squares[at] / n, self.cubes[at] / n)

    @cached_property
    def exact_p(self) -> Floats:
        """McNemar's exact p-values of pairs with fewer than ten discordant examples; NaN for all others."""
        few = self.discordant < EXACT_PAIRS
        p_values = np.full(self.up.shape, np.nan)
        p_values[few] = exact_p_value(self.up[few], self.down[few])
        return p_values

    @property
    def has_fractions(self) -> NDArray[np.bool_]:
        """Whether the two differ by a fraction on some example, as means over several orders of traces do."""
        return ~np.isnan(self.squares)


def count_pairs(sample: WholeSample, references: Sequence[int]) -> PairCounts:
    """The discordant pairs of every rate, from one pass over the columns that differ from example to example.

    Where both are 0 or 1 and known of the same examples the pairs that agree on 1 say all: their number is a product of
    rows.
    """
    shape, scan = (len(references), *sample.rows.shape), sample.scan
    pairs = PairCounts(*(np.full(shape, np.nan) for _ in range(9)))
    for m, one in enumerate(sample.metrics):
        if not sample.has_single_units and sample.is_rate(m):
            _count_differing_clusters(sample, m, references, pairs)
        if not (one.column.rate and sample.has_single_units):
            continue
        value, weight = np.array([[scan.index[s] for s in one.statistics(p)] for p in range(shape[2])]).T
        for number, reference in enumerate(references):
            known = sample.rows[m] & sample.rows[m, reference] & (scan.reach[value] <= 1)
            known &= scan.reach[value[reference]] <= 1
            plain = scan.binary[value] & scan.binary[value[reference]]
            same, alike = weight == weight[reference], value == value[reference]
            for part in (pairs.first, pairs.second, pairs.up, pairs.down):
                part[number, m, known & same & alike] = 0
            on = np.flatnonzero(known & same & ~alike & plain)
            both = _count_joint_events(sample, value[on], int(value[reference]))
            pairs.first[number, m, on] = pairs.up[number, m, on] = scan.count[value[on]] - both
            pairs.second[number, m, on] = pairs.down[number, m, on] = scan.count[value[reference]] - both
            parts = np.flatnonzero(known & same & ~alike & ~plain)
            moved = _gain_and_loss_sums(sample, value, parts, reference)
            graded = (moved[0] != moved[2]) | (moved[1] != moved[3])
            moved[4:, ~graded] = np.nan
            columns = pairs.first, pairs.second, pairs.up, pairs.down, pairs.squares, pairs.cubes
            for part, count in zip(columns, moved, strict=True):
                part[number, m, parts] = count
            off = np.flatnonzero(known & ~same & plain)
            pairs.unlike[number, m, off] = _count_unlike_examples(sample, value, weight, off, reference)
    return pairs


def _count_differing_clusters(sample: WholeSample, m: int, references: Sequence[int], pairs: PairCounts) -> None:
    """Sets in `pairs` how many clusters of a rate differ between policy and reference, where both are known."""
    index, statistics = sample.scan.index, sample.scan.statistics
    one, size = sample.metrics[m], sample.rows.shape[1]
    value, weight = np.array([[index[s] for s in one.statistics(p)] for p in range(size)]).T
    for number, reference in enumerate(references):
        known = np.flatnonzero(sample.rows[m] & sample.rows[m, reference] & (weight == weight[reference]))
        total = sample.scan.total[weight[reference]]
        if not total:
            continue
        for start in range(0, len(known), SCAN_ROWS):
            some = known[start : start + SCAN_ROWS]
            wanted = [statistics[i] for i in (*value[some], value[reference], weight[reference])]
            counts, square = np.zeros((6, len(some))), 0.0
            for rows in sample.units.chunks(wanted):
                counts += gains_and_losses(rows[:-2] - rows[-2])
                square += float(rows[-1] @ rows[-1])
            pairs.trials[number, m, some] = total**2 / square
            pairs.first[number, m, some], pairs.second[number, m, some] = counts[:2] * total / square
            pairs.up[number, m, some], pairs.down[number, m, some] = counts[2:4]
        gains, losses, _, _, squares, _ = _gain_and_loss_sums(sample, value, known, reference)
        pairs.examples[number, m, known] = effective_number(gains + losses, squares)


def gains_and_losses(move: Floats) -> Floats:
    """Counts what `move` (pairs, units), the differences on the units, adds up to: gains, losses, units with a gain,
    units with a loss, and the sums of squares and cubes, (6, pairs).
    """
    move = np.where(np.abs(move) <= ZERO, 0.0, move)
    up, down, square = np.maximum(move, 0.0), np.maximum(-move, 0.0), move * move
    counts = [(up > 0).sum(axis=1), (down > 0).sum(axis=1)]
    return np.stack([up.sum(axis=1), down.sum(axis=1), *counts, square.sum(axis=1), (square * move).sum(axis=1)])


def spread_of(mean: Floats, square: Floats, cube: Floats) -> Spread:
    """The central moments of differences, from the means of the differences, of their squares and of their cubes."""
    return Spread(np.maximum(square - mean**2, 0.0), cube - 3 * mean * square + 2 * mean**3)


def effective_number(total: Floats, squares: Floats) -> Floats:
    """The effective number of differing examples, (Σ|d|)²/Σd² of their differences d; 0 where none differs."""
    return total**2 / np.where(squares > 0, squares, 1.0)


def scale_to_whole_pairs(gains: Floats, losses: Floats, squares: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
    """Rescales gains, losses and trials by c = Σ|d|/Σd², so that fractional differences count as whole ones of ±1.

    c is 1 where nothing differs.
    """
    scale = np.where(squares > 0, (gains + losses) / np.where(squares > 0, squares, 1.0), 1.0)
    return scale * gains, scale * losses, scale * n


def few_clusters_differ(examples: Floats, clusters: Floats, total: Floats | int) -> NDArray[np.bool_]:
    """Whether too few examples or clusters differ between two rates to estimate the variance: fewer than twenty
    examples, or fewer than twenty clusters that are less than half of all.
    """
    return (examples < FEW_PAIRS) | (clusters < np.minimum(FEW_PAIRS, np.asarray(total) / 2))


def _gain_and_loss_sums(sample: WholeSample, value: Ints, policies: Ints, reference: int) -> Floats:
    """Some policies against a reference: the sums of gains and of losses, the number of examples with each, and the
    sums of squares and cubes, (6, policies).
    """
    moves = np.zeros((6, len(policies)))
    for start in range(0, len(policies), SCAN_ROWS):
        some = np.append(policies[start : start + SCAN_ROWS], reference)
        for rows in sample.units.example_rows([sample.scan.statistics[i] for i in value[some]]):
            moves[:, start : start + len(some) - 1] += gains_and_losses(rows[:-1] - rows[-1])
    return moves


def _count_joint_events(sample: WholeSample, values: Ints, reference: int) -> Floats:
    """The number of examples on which both a column of 0 and 1 and the reference's column are 1."""
    scan = sample.scan
    distinct, place = np.unique(values, return_inverse=True)
    known = scan.constant[distinct] | scan.constant[reference] | (distinct == reference)
    counts = np.minimum(scan.count[distinct], scan.count[reference])
    rest = np.flatnonzero(~known)
    for start in range(0, len(rest), SCAN_ROWS):
        some = rest[start : start + SCAN_ROWS]
        statistics = [scan.statistics[i] for i in (*distinct[some], reference)]
        counts[some] = sum(rows[:-1] @ rows[-1] for rows in sample.units.example_rows(statistics))
    return counts[place]


def _count_unlike_examples(sample: WholeSample, value: Ints, weight: Ints, policies: Ints, reference: int) -> Floats:
    """The number of examples (policies,) on which policy and reference differ, or only one of them is known."""
    counts = np.zeros(len(policies))
    for start in range(0, len(policies), SCAN_ROWS):
        some = np.append(policies[start : start + SCAN_ROWS], reference)
        statistics = [sample.scan.statistics[i] for i in (*value[some], *weight[some])]
        for rows in sample.units.example_rows(statistics):
            mine, known = rows[: len(some)], rows[len(some) :]
            unlike = (mine[:-1] != mine[-1]) | (known[:-1] != known[-1])
            counts[start : start + len(some) - 1] += unlike.sum(axis=1)
    return counts


def is_identical(
    sample: WholeSample, references: Sequence[int], policies: Sequence[int] | None = None
) -> NDArray[np.bool_]:
    """Whether a policy paid the same and answered the same as a reference on every example, (references, policies).
    `policies`: those that are looked at, references among them; None: all.

    What is counted against a base of the policy's own is no call: a gate that never fires makes those of its base.
    """
    index, free = sample.scan.index, [metric for metric in sample.metrics if not metric.column.needs]
    places = np.arange(len(sample.policies)) if policies is None else np.array(policies)
    paid = np.array(
        [
            [index[one] for metric in free for one in (*metric.statistics(p), *metric.counts(p))]
            for p in places.tolist()
        ],
        np.int64,
    )
    # Equal sums of clusters may be made of different examples.
    sums = {statistic.key for metric in free for statistic in metric.statistics(0) if statistic.key}
    keys = [ANSWER] if sample.has_single_units else [ANSWER, *sorted(sums)]
    same = np.zeros((len(references), len(sample.policies)), bool)
    for number, reference in enumerate(references):
        alike = places[(paid == paid[places == reference]).all(axis=1)]
        alike = alike[alike != reference]
        if len(alike):
            same[number, alike] = sample.units.same_rows(keys, alike, reference)
    return same
