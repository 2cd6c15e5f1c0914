"""The paired bootstrap as one matrix product: statistics (statistics × units) times resample counts (units × B).

A product takes one chunk of units and one block of resamples, on one thread. It is exact: values are split into parts
of so few bits that their sums have no rounding, and the sums of the parts are joined. Chunks are added in their order,
and sums of fractions are then rounded. So a sum has the same bits however it comes about. Small integers are multiplied
in float32, the rest in float64.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.metrics import BY_POLICY, Likeness, Statistic, group_by_policy, shared_rows, statistic_rows
from toolkit.stats.metrics.outcomes import Chunk
from toolkit.stats.metrics.resamples import COUNT_ROWS, THREADS, Counts, Resamples
from toolkit.stats.metrics.scan import SUM_BITS, Scan, Units, round_to_bits
from toolkit.stats.metrics.spill import Floats, Ints

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

PRODUCT_ROWS = 512
"""Statistics in one product; only memory and speed depend on it."""

EXACT = {np.float32: 2.0**24, np.float64: 2.0**53}  # below this number all integers are exact
VALUE_BITS = 78
"""Bits of a value that count, from the highest of the largest value on: all 53 of those that are 2^-25 as large."""


@dataclass(frozen=True, eq=False)
class ResampledSums:
    """The sums of S statistics over the units of each of B bootstrap resamples."""

    values: Floats  # (S, B)
    index: Ints  # (S,) number in the scan of each row's statistic
    row: Ints  # row of each statistic of the scan, −1 where it is not among them


def resampled_sums(
    units: Units, scan: Scan, statistics: Collection[int], resamples: Resamples, space: Floats | None = None
) -> ResampledSums:
    """Sums each of `statistics` (numbers in the scan) over the units that each bootstrap resample draws.

    `space`: the sums of an earlier call that are no longer needed; their memory is used again where it suffices.
    """
    small = scan.integer & (scan.reach * int(resamples.draws.max()) < EXACT[np.float32]) & (units.weight is None)
    shared = units.shares_outcomes & np.array([statistic.kind in BY_POLICY for statistic in scan.statistics], bool)
    kinds = np.where(scan.constant, 0, np.where(shared, 1, np.where(small, 2, 3)))
    index = np.array(sorted(statistics, key=lambda i: (kinds[i], i)), np.int64)
    sharing, start, rest = np.searchsorted(kinds[index], [1, 2, 3]).tolist()
    row = np.full(len(scan.statistics), -1)
    row[index] = np.arange(len(index))
    shape = (len(index), resamples.resamples)
    values = np.empty(shape) if space is None or len(space) < shape[0] else space[: shape[0]]
    values[:sharing] = scan.total[index[:sharing], None]
    values[sharing:] = 0
    named = [scan.statistics[i] for i in index]
    ways = _SharedOutcomeSums.of_statistics(named[sharing:start], scan.integer[index[sharing:start]], units.policies)
    with product_threads() as pool:
        most = min(PRODUCT_ROWS, units.most_statistics)
        for chunk, columns, rows in units.rows_by_chunk(named[start:], most):
            counts, sums = resamples.counts_of_chunk(chunk), values[start + columns.start : start + columns.stop]
            cut, most_drawn = max(0, rest - start - columns.start), int(resamples.draws[:, chunk].max())
            add_products(sums[:cut], rows[:cut], counts, most_drawn, pool, np.float32)
            add_products(sums[cut:], rows[cut:], counts, most_drawn, pool)
            if sharing < start and columns.stop == len(index) - start:
                ways.add_chunk(values[sharing:start], units.examples_by_chunk[chunk], counts, most_drawn, pool)
        long = ~scan.integer | (units.weight is not None) | (scan.reach * units.count > 2**SUM_BITS)
        due = np.flatnonzero(long[index] & (kinds[index] > 0))
        list(pool.map(_round_sums, [values[i : i + 1] for i in due]))
    return ResampledSums(values, index, row)


@dataclass(frozen=True, eq=False)
class _SharedOutcomeSums:
    """Sums of statistics, `alike` in all but the policy: the row of each of P policies, (alike, P), −1 where none is
    wanted; `whole` (alike,): whether they are of integers. They are exact in whatever order they are added, so from one
    outcome of an example to the next only what differs is multiplied.
    """

    statistics: Sequence[Statistic]
    alike: Sequence[Likeness]
    row: Ints
    whole: NDArray[np.bool_]

    @classmethod
    def of_statistics(
        cls, statistics: Sequence[Statistic], integer: NDArray[np.bool_], policies: int
    ) -> _SharedOutcomeSums:
        """The sums of some statistics, each a row; `integer` (statistics,): whether its values are."""
        alike = group_by_policy(statistics)
        row, whole = np.full((len(alike), policies), -1), np.ones(len(alike), bool)
        for number, cells in enumerate(alike.values()):
            for policy, place in cells:
                row[number, policy] = place
                whole[number] &= integer[place]
        return cls(statistics, list(alike), row, whole)

    def add_chunk(self, sums: Floats, chunk: Chunk, counts: Counts, most_drawn: int, pool: ThreadPoolExecutor) -> None:
        """Adds one chunk of examples, drawn `counts` (B, E) times, to the `sums` (statistics, B). `most_drawn`: how
        many examples a resample draws of it at most.
        """
        ways = chunk.shared_outcomes
        if ways is None:
            add_products(sums, statistic_rows(chunk, self.statistics), counts, most_drawn, pool)
            return
        rows = shared_rows(chunk, self.alike)
        # Integers as they are, and exact steps over outcomes of policies whose fractions nobody wants here.
        parts = _split_exactly(np.where(self.whole[:, None], np.rint(rows), rows), most_drawn, np.float32)
        later = np.flatnonzero(ways.first)
        later = later[np.argsort(ways.first[later], kind="stable")]
        ends = np.searchsorted(ways.first[later], np.arange(len(ways.order)), "right")
        moves, examples = parts.rows[:, later] - parts.rows[:, later - 1], ways.example[later]
        placed = parts.rows[:, ways.first_outcome_of_example], moves, examples, ends, self.row[:, ways.order]
        add = partial(_add_shared_outcomes, sums, parts, *placed, counts)
        list(pool.map(add, range(0, len(counts), COUNT_ROWS)))


@dataclass(frozen=True, eq=False)
class _ExactParts:
    """Rows as sums of N parts: whole numbers `rows` (N, units), level after level from the highest bits on, each the
    rows that have such a part, and the unit of each. The sums of the first `exact` levels have no rounding.
    """

    rows: NDArray[np.floating]
    levels: Sequence[tuple[Ints, Floats]]
    exact: int

    @cached_property
    def _weights(self) -> Floats:
        """What each part counts in each row, (2, rows, N): those of the first levels, and of the others."""
        out, start = np.zeros((2, len(self.levels[0][0]), len(self.rows))), 0
        for number, (owner, unit) in enumerate(self.levels):
            out[int(number >= self.exact), owner, start + np.arange(len(owner))] = unit
            start += len(owner)
        return out

    def join_sums(self, sums: NDArray[np.floating]) -> Floats:
        """The sums of the rows (rows, B) from those (N, B) of the parts; all but one addition are exact."""
        if len(self.levels) == 1:
            return sums * self.levels[0][1][:, None]
        high, low = self._weights
        return high @ sums if len(self.levels) <= self.exact else low @ sums + high @ sums


def _split_exactly(rows: Floats, most_drawn: int, form: type[np.floating]) -> _ExactParts:
    """Rows (rows, units) in parts so small that numbers of type `form` add differences of `most_drawn` exactly."""
    size = math.log2(EXACT[form])
    bits = math.floor(size - 1 - math.log2(max(most_drawn, 1)))
    owner, low = np.arange(len(rows)), np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    parts: list[Floats] = []
    levels: list[tuple[Ints, Floats]] = []
    while not levels or (len(owner) and len(levels) * bits < VALUE_BITS):
        low = np.maximum(low - bits, -1022)
        unit = np.ldexp(1.0, low)
        levels.append((owner, unit))
        parts.append(np.trunc(rows / unit[:, None]))
        rows = rows - parts[-1] * unit[:, None]
        rest = rows.any(axis=1)
        rows, owner, low = rows[rest], owner[rest], low[rest]
    return _ExactParts(np.concatenate(parts).astype(form), levels, 1 + int((53 - size) // bits))


def _add_shared_outcomes(
    sums: Floats, parts: _ExactParts, first: NDArray[np.float32], moves: NDArray[np.float32],
    examples: NDArray[np.int32], ends: Ints, row: Ints, counts: Counts, start: int,
) -> None:  # fmt: skip
    """Adds a block of resamples from number `start` on: of the `parts` of rows those of the `first` outcome of each
    example (N, E), and `moves` (N, M) from there on, which come at `examples` (M,), those of place p in the order up
    to `ends` (P,). `row` (rows, P): where the sums of each row go.
    """
    some, form = counts[start : start + COUNT_ROWS], first.dtype
    total, moved, begin = first @ some.astype(form).T, some.take(examples, axis=1).astype(form), 0
    for place, end in enumerate(ends.tolist()):
        if end > begin:
            total += moves[:, begin:end] @ moved[:, begin:end].T
        begin = end
        wanted = np.flatnonzero(row[:, place] >= 0)
        sums[row[wanted, place], start : start + len(some)] += parts.join_sums(total)[wanted]


def add_products(
    sums: Floats, rows: Floats, counts: Counts, most_drawn: int, pool: ThreadPoolExecutor,
    form: type[np.floating] = np.float64,
) -> None:  # fmt: skip
    """Adds one chunk of units to the sums: `rows` (S, units) times the resample `counts` (B, units) to `sums` (S, B).

    `most_drawn`: how many units a resample draws of it at most; `form`: the type of numbers that are multiplied.
    """
    if not len(rows):
        return
    parts = _split_exactly(rows, most_drawn, form)

    def add_resample_block(start: int) -> None:
        some = counts[start : start + COUNT_ROWS]
        sums[:, start : start + len(some)] += parts.join_sums(parts.rows @ some.astype(form).T)

    list(pool.map(add_resample_block, range(0, len(counts), COUNT_ROWS)))


def _round_sums(sums: Floats) -> None:
    sums[:] = round_to_bits(sums, SUM_BITS)


@contextmanager
def product_threads() -> Iterator[ThreadPoolExecutor]:
    """A pool of threads that share the resamples. Threads of BLAS are held to one, since they would only wait."""
    with _loaded_libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(THREADS) as pool:
        yield pool


@cache
def _loaded_libraries() -> ThreadpoolController:
    """The loaded libraries that run threads themselves, such as BLAS. The search takes as long as a small product."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
