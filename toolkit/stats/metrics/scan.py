"""The first pass over the outcomes: distinct statistics, their sums, and facts on their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.facts import HASHED_ROWS, StatisticFacts
from toolkit.stats.metrics.metrics import BY_POLICY, Statistic, group_by_policy, shared_rows, statistic_rows
from toolkit.stats.metrics.outcomes import CHUNK, Chunk, Key, Store
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import effective_units

SCAN_ROWS = 256
"""Statistics in one batch of the first pass; only memory depends on it."""

ADDED_BYTES = 512 * 2**20
"""Sums over clusters in memory at one time."""

TOTAL_BITS, SUM_BITS = 46, 40
"""Significant bits of sums over the whole sample (14 decimal digits) and of resampled ones (12): float addition leaves
nothing over in them, and tables show far fewer."""


def kish_number(unit: Ints) -> float:
    """The effective number of clusters, (Σn)²/Σn² (Kish); `unit` (E,)."""
    _, sizes = np.unique(unit, return_counts=True)
    return len(unit) ** 2 / float(sizes @ sizes)


class Units:
    """The statistics of each resampling unit, in fixed chunks. A unit is an example or a cluster, summed.

    `plain`: every example is a unit of its own, numbered in order; `kish`: how many of equal size, in one stratum, are
    worth as much; `strata`: where there are several; `stratum`, `weight` (units,): that of each unit, and what each of
    its examples counts, None where there is one, and where all count alike.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._resamples: dict[tuple[int, int], Resamples] = {}
        unit = store.unit
        self.examples = len(unit)
        self.plain = np.array_equal(unit, np.arange(len(unit)))
        self._numbers, first, counts = np.unique(unit, return_index=True, return_counts=True)
        self.count = len(self._numbers)
        self.strata = store.strata
        self.stratum: Ints | None = None if self.strata is None else self.strata.number[first]
        weight = None if self.strata is None else self.strata.weight
        self.weight: Floats | None = None if weight is None else weight[first]
        sizes = counts.astype(np.float64) if self.weight is None else counts * self.weight
        if self.strata is None:
            self.kish = float(self.count) if self.plain else kish_number(unit)
        else:
            self.kish = float(effective_units(*(self.sums_by_stratum(size[None])[:, 0] for size in (sizes, sizes**2))))

    @cached_property
    def shares_outcomes(self) -> bool:
        """Whether every example is a unit, all count alike, and policies share outcomes on some."""
        return (
            self.plain
            and self.weight is None
            and any(chunk.shared_outcomes is not None for chunk in self._store.chunks)
        )

    @property
    def policies(self) -> int:
        return self._store.policies

    @property
    def examples_by_chunk(self) -> Sequence[Chunk]:
        return self._store.chunks

    def resamples(self, settings: Settings) -> Resamples:
        """The resamples of the units, the same object for equal settings, so that counts are drawn once."""
        key = settings.resamples, settings.seed
        if key not in self._resamples:
            self._resamples = {key: Resamples(self.count, *key, self.stratum)}
        return self._resamples[key]

    @property
    def stratum_count(self) -> int:
        """The number of strata; 1 where the log has none."""
        return 1 if self.strata is None else self.strata.count

    @property
    def heaviest_share(self) -> float:
        """The largest share of the total weight that a single example has."""
        return float((1.0 if self.weight is None else self.weight.max()) / self.examples)

    def sums_by_stratum(self, rows: Floats, start: int = 0) -> Floats:
        """Sums (strata, rows) of `rows` (rows, units) over the units of each stratum; the first is unit `start`."""
        if self.stratum is None:
            return rows.sum(axis=1)[None]
        here = self.stratum[start : start + rows.shape[1]]
        return np.stack([rows[:, here == place].sum(axis=1) for place in range(self.stratum_count)])

    def by_stratum(self, statistics: Sequence[Statistic], function: Callable[[Floats], Floats]) -> Floats:
        """Sums over the units of each stratum of `function` of the statistics' rows: (strata, rows)."""
        start, total = 0, np.zeros(0)
        for rows in self.chunks(statistics):
            added = self.sums_by_stratum(function(rows), start)
            total, start = added if not start else total + added, start + rows.shape[1]
        return total

    def residuals(self, statistics: Sequence[Statistic], function: Callable[[Floats], Floats]) -> Iterator[Floats]:
        """Yields a linear `function` of the statistics, a chunk of units at a time. With several strata the stratum's
        mean is subtracted; in one stratum such a function adds up to 0.
        """
        mean, start = None, 0
        if self.stratum is not None:
            mean = (self.by_stratum(statistics, function) / np.bincount(self.stratum)[:, None]).T
        for rows in self.chunks(statistics):
            moved = function(rows)
            if self.stratum is not None and mean is not None:
                moved = moved - mean[:, self.stratum[start : start + rows.shape[1]]]
            start += rows.shape[1]
            yield moved

    @property
    def most_statistics(self) -> int:
        """How many statistics may be held for all units at once. Sums over clusters are in memory, examples are not."""
        return 2**62 if self.plain else max(1, ADDED_BYTES // (8 * max(1, self.count)))

    def rows_by_chunk(self, statistics: Sequence[Statistic], most: int) -> Iterator[tuple[int, slice, Floats]]:
        """Yields (chunk, which statistics, their weighted rows (statistics, units)), at most `most` statistics at once.

        Each cut comes chunk after chunk in the same order.
        """
        for number, cut, rows in self.unweighted_rows(statistics, most):
            yield number, cut, self.weighted_rows(rows, number)

    def unweighted_rows(self, statistics: Sequence[Statistic], most: int) -> Iterator[tuple[int, slice, Floats]]:
        """Yields what `rows_by_chunk` yields, with every example counted once instead of by its weight."""
        cuts = [slice(i, min(i + most, len(statistics))) for i in range(0, max(1, len(statistics)), most)]
        if self.plain:
            for number, chunk in enumerate(self._store.chunks):
                for cut in cuts:
                    yield number, cut, statistic_rows(chunk, statistics[cut])
            return
        for cut in cuts:
            added = self._cluster_sums(statistics[cut])
            for number, start in enumerate(range(0, self.count, CHUNK)):
                yield number, cut, added[:, start : start + CHUNK]

    def weighted_rows(self, rows: Floats, chunk: int) -> Floats:
        """The rows of a chunk times the weight of each unit's examples."""
        return rows if self.weight is None else rows * self.weight[chunk * CHUNK : chunk * CHUNK + rows.shape[1]]

    def chunks(self, statistics: Sequence[Statistic]) -> Iterator[Floats]:
        """Yields the rows of all the statistics (statistics, units), in chunks of at most CHUNK units."""
        for _, _, rows in self.rows_by_chunk(statistics, max(1, len(statistics))):
            yield rows

    def example_rows(self, statistics: Sequence[Statistic]) -> Iterator[Floats]:
        """Yields rows of single examples (statistics, examples) by chunks, neither added into clusters nor weighted."""
        for chunk in self._store.chunks:
            yield statistic_rows(chunk, statistics)

    def same_rows(self, keys: Sequence[Key], policies: Ints, reference: int) -> NDArray[np.bool_]:
        """Whether each of some policies (P,) has the reference's values in the columns `keys` on every example. Columns
        that are not stored count as equal.
        """
        same = np.ones(len(policies), bool)
        for chunk in self._store.chunks:
            for key in (key for key in keys if chunk.has(key)):
                mine, other = chunk.values(key, policies), chunk.values(key, np.array([reference]))
                same &= ((mine == other) | (np.isnan(mine) & np.isnan(other))).all(axis=1)
        return same

    def _cluster_sums(self, statistics: Sequence[Statistic]) -> Floats:
        """The sums of the statistics over each cluster (statistics, units). Fixed chunks fix the order of addition."""
        added = np.zeros((len(statistics), self.count))
        for chunk in self._store.chunks:
            numbers, position = np.unique(chunk.unit, return_inverse=True)
            units = np.searchsorted(self._numbers, numbers)
            for row, values in enumerate(statistic_rows(chunk, statistics)):
                added[row, units] += np.bincount(position, weights=values, minlength=len(units))
        return added


@dataclass(frozen=True)
class Scan:
    """The facts that one pass over the units gathers about each distinct statistic."""

    statistics: tuple[Statistic, ...]
    index: dict[Statistic, int]  # every statistic given -> its first equal in `statistics`
    total: Floats  # (S,) sum over units, as their examples count
    count: Floats  # (S,) the same where every example counts once
    reach: Floats  # (S,) largest absolute value of a unit
    constant: NDArray[np.bool_]  # (S,) the same for all units
    binary: NDArray[np.bool_]  # (S,) only 0 and 1
    integer: NDArray[np.bool_]  # (S,) only integers, whose sums are exact

    def join_scan(self, other: Scan) -> Scan:
        """A scan with the facts of this one, and behind them those of the `other`."""
        names = "total", "count", "reach", "constant", "binary", "integer"
        index = self.index | {one: place + len(self.statistics) for one, place in other.index.items()}
        arrays = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return Scan(self.statistics + other.statistics, index, **arrays)

    def totals(self, statistics: Sequence[Sequence[Statistic]]) -> Floats:
        """The sums over all units of each policy's statistics, (policies, statistics)."""
        return self.total[[[self.index[one] for one in row] for row in statistics]]


def round_to_bits(values: Floats, bits: int) -> Floats:
    """Rounds values to `bits` significant bits, by Veltkamp's splitting.

    Sums that are equal in exact arithmetic stay equal: a multiple of 1/K has no more bits, or lies at least 1/(2K) of a
    step away from the point between two steps.
    """
    scaled = values * (2.0 ** (53 - bits) + 1)
    return scaled - (scaled - values)


def scan_statistics(units: Units, statistics: Sequence[Statistic]) -> Scan:
    """Reads all units once for the facts about each statistic. Statistics that are equal on every unit become one."""
    ordered = sorted(set(statistics), key=lambda s: (s.kind, s.key, s.label, s.policy))
    facts = StatisticFacts.no_facts(len(ordered))
    weighed = _scan_shared(units, ordered, facts) if units.shares_outcomes else _scan_rows(units, ordered, facts)
    exact = facts.total.astype(np.float64)
    sums = np.where(facts.integer, exact, round_to_bits(exact, TOTAL_BITS))
    first: dict[bytes, int] = {}
    index = {s: first.setdefault(facts.hashes[:, i].tobytes(), i) for i, s in enumerate(ordered)}
    keep = np.array(sorted(set(index.values())), np.int64)
    place = {int(old): new for new, old in enumerate(keep)}
    return Scan(
        tuple(ordered[i] for i in keep),
        {s: place[i] for s, i in index.items()},
        (sums if units.weight is None else round_to_bits(weighed, TOTAL_BITS))[keep], sums[keep],
        np.maximum(facts.high, -facts.low)[keep], (facts.low == facts.high)[keep],
        facts.binary[keep], facts.integer[keep],
    )  # fmt: skip


def _scan_rows(units: Units, ordered: Sequence[Statistic], facts: StatisticFacts) -> Floats:
    """Adds every unit to the facts; the sums of the statistics (S,) as the units' examples count."""
    size, most = len(ordered), min(SCAN_ROWS, units.most_statistics)
    weighed, alike = np.zeros(size), np.zeros(size, bool)
    group = [(s.kind, s.key, s.label) for s in ordered]
    # Equal to the one before it on all units so far, which stands for both.
    alike[1:] = [one == other for one, other in itertools.pairwise(group)]
    alike[::most] = False
    for chunk, cut, rows in units.unweighted_rows(ordered, most):
        same = np.concatenate([[False], (rows[1:] == rows[:-1]).all(axis=1)])
        heads = np.maximum.accumulate(np.where(alike[cut], 0, np.arange(len(rows)))) + cut.start
        for one in cut.start + np.flatnonzero(alike[cut] & ~same):
            facts.copy_facts(one, heads[one - cut.start])
            weighed[one] = weighed[heads[one - cut.start]]
        alike[cut] &= same
        first_rows = np.flatnonzero(~alike[cut])
        on, rows = cut.start + first_rows, rows[first_rows]
        facts.add_units(on, rows, chunk * CHUNK)
        if units.weight is not None:
            weighed[on] += units.weighted_rows(rows, chunk).sum(axis=1)
    heads = np.maximum.accumulate(np.where(alike, 0, np.arange(size)))
    for one in np.flatnonzero(alike):
        facts.copy_facts(int(one), int(heads[one]))
    return weighed[heads]


def _scan_shared(units: Units, ordered: Sequence[Statistic], facts: StatisticFacts) -> Floats:
    """Adds the facts of examples that are units of their own and count alike, each shared outcome once."""
    alike = group_by_policy([one for one in ordered if one.kind in BY_POLICY])
    number = {one: place for place, one in enumerate(ordered)}
    names = sorted(alike, key=lambda one: (one[1], one[2], one[0]))  # those of one column follow each other
    others = [place for place, one in enumerate(ordered) if one.kind not in BY_POLICY]
    apart = np.array(others, np.int64)
    on = np.full((len(names), units.policies), -1)
    for row, (kind, key, label) in enumerate(names):
        for policy, _ in alike[kind, key, label]:
            on[row, policy] = number[Statistic(kind, key, policy, label)]
    for place, chunk in enumerate(units.examples_by_chunk):
        ways = chunk.shared_outcomes
        for start in range(0, 0 if ways is None else len(names), HASHED_ROWS):
            cut = slice(start, start + HASHED_ROWS)
            if ways is not None:
                facts.add_shared_outcomes(on[cut], shared_rows(chunk, names[cut]), ways, place * CHUNK)
        rest = np.arange(len(ordered)) if ways is None else apart
        for some in (rest[start : start + SCAN_ROWS] for start in range(0, len(rest), SCAN_ROWS)):
            facts.add_units(some, statistic_rows(chunk, [ordered[i] for i in some]), place * CHUNK)
    return np.zeros(len(ordered))
