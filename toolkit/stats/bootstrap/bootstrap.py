"""The paired bootstrap as one matrix product: statistics (statistics × units) times resample counts (units × B).

A product takes one chunk of units and one block of resamples, on one thread, in a shape that other statistics, threads
and blocks of the log do not change; chunks are added in their order. So a sum has the same bits however it comes about.
Small integers are multiplied in float32, exactly, and the rest in float64; sums of fractions are then rounded.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from toolkit.stats.metrics.metrics import BY_POLICY, Likeness, Statistic, group_by_policy, statistic_rows, way_rows
from toolkit.stats.metrics.outcomes import Chunk
from toolkit.stats.metrics.resamples import COUNT_ROWS, THREADS, Counts, Resamples
from toolkit.stats.metrics.scan import SUM_BITS, Scan, Units, round_to_bits
from toolkit.stats.metrics.spill import Floats, Ints

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

PRODUCT_ROWS = 512
"""Statistics in one product; only memory and speed depend on it."""

WIDTH = 8
"""The number of statistics in a product is padded to a multiple of this, because BLAS sums a remainder in another
order.
"""

EXACT_FLOAT32 = 2**24


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
    small = scan.integer & (scan.reach * int(resamples.draws.max()) < EXACT_FLOAT32) & (units.weight is None)
    shared = scan.integer & units.shares_ways & [one.kind in BY_POLICY for one in scan.statistics]
    kinds = np.where(scan.constant, 0, np.where(shared, 1, np.where(small, 2, 3)))
    index = np.array(sorted(statistics, key=lambda i: (kinds[i], i)), np.int64)
    sharing, start, fractions = np.searchsorted(kinds[index], [1, 2, 3])
    row = np.full(len(scan.statistics), -1)
    row[index] = np.arange(len(index))
    shape = (len(index), resamples.resamples)
    values = np.empty(shape) if space is None or len(space) < shape[0] else space[: shape[0]]
    values[:sharing] = scan.total[index[:sharing], None]
    values[sharing:start] = 0
    ways = _WaySums.of([scan.statistics[i] for i in index[sharing:start]], units.policies)
    with product_threads() as pool:
        most = min(PRODUCT_ROWS, units.most_statistics)
        for chunk, part, rows in units.parts([scan.statistics[i] for i in index[start:]], most):
            counts, sums = resamples.counts(chunk), values[start + part.start : start + part.stop]
            cut = max(0, fractions - start - part.start)
            add_products(sums[:cut], rows[:cut], counts, pool, np.float32, chunk == 0)
            add_products(sums[cut:], rows[cut:], counts, pool, first=chunk == 0)
            if sharing < start and part.stop == len(index) - start:
                most_drawn = int(resamples.draws[:, chunk].max())
                ways.add(values[sharing:start], units.examples_by_chunk[chunk], counts, most_drawn, pool)
        large = np.flatnonzero(scan.reach[index[:start]] * units.count > 2**SUM_BITS)  # others have fewer bits
        list(pool.map(_round_sums, [values[i : i + WIDTH] for i in range(max(start, fractions), len(index), WIDTH)]))
        list(pool.map(_round_sums, [values[i : i + 1] for i in large[large >= sharing]]))
    return ResampledSums(values, index, row)


@dataclass(frozen=True, eq=False)
class _WaySums:
    """Sums of integers, `alike` in all but the policy: the row of each of P policies, (alike, P), −1 where none is
    wanted. They are exact in whatever order they are added, so from one way of an example to the next only what
    differs is multiplied.
    """

    statistics: Sequence[Statistic]
    alike: Sequence[Likeness]
    row: Ints

    @classmethod
    def of(cls, statistics: Sequence[Statistic], policies: int) -> _WaySums:
        """The sums of some statistics, each a row."""
        alike = group_by_policy(statistics)
        row = np.full((len(alike), policies), -1)
        for number, cells in enumerate(alike.values()):
            for policy, place in cells:
                row[number, policy] = place
        return cls(statistics, list(alike), row)

    def add(self, sums: Floats, chunk: Chunk, counts: Counts, most_drawn: int, pool: ThreadPoolExecutor) -> None:
        """Adds one chunk of examples, drawn `counts` (B, E) times, to the `sums` (statistics, B). `most_drawn`: how
        many examples a resample draws of it at most.
        """
        ways = chunk.ways
        if ways is None:
            add_products(sums, statistic_rows(chunk, self.statistics), counts, pool)
            return
        # Integers as they are, and exact steps over ways of policies whose fractions nobody wants here.
        rows, weights = _split_exactly(np.rint(way_rows(chunk, self.alike)), most_drawn)
        later = np.flatnonzero(ways.first)
        later = later[np.argsort(ways.first[later], kind="stable")]
        ends = np.searchsorted(ways.first[later], np.arange(len(ways.order)), "right")
        moves, examples = rows[:, later] - rows[:, later - 1], ways.example[later]
        parts = rows[:, ways.first_ways], moves, weights
        add = partial(_add_ways, sums, *parts, examples, ends, self.row[:, ways.order], counts)
        list(pool.map(add, range(0, len(counts), COUNT_ROWS)))


def _split_exactly(rows: Floats, most_drawn: int) -> tuple[NDArray[np.float32], Floats]:
    """Integers (rows, N) as `weights` (rows, parts) times parts (parts, N) so small that float32 adds differences of
    `most_drawn` exactly.
    """
    base = 2.0 ** math.floor(math.log2(EXACT_FLOAT32 / (2 * max(most_drawn, 1))))
    parts, owner, scale, place, weight = [], [], [], np.arange(len(rows)), 1.0
    while len(rows):
        small = np.abs(rows).max(axis=1, initial=0.0) < base
        rest = np.floor(rows / base)
        parts.append(np.where(small[:, None], rows, rows - base * rest).astype(np.float32))
        owner.append(place)
        scale.append(np.full(len(place), weight))
        rows, place, weight = rest[~small], place[~small], weight * base
    weights = np.zeros((int(owner[0][-1]) + 1, sum(map(len, owner))))
    weights[np.concatenate(owner), np.arange(weights.shape[1])] = np.concatenate(scale)
    return np.concatenate(parts), weights


def _add_ways(
    sums: Floats, rows: NDArray[np.float32], moves: NDArray[np.float32], weights: Floats, examples: NDArray[np.int32],
    ends: Ints, row: Ints, counts: Counts, start: int,
) -> None:  # fmt: skip
    """Adds a block of resamples from number `start` on: `rows` (parts, E) of the first way of each example, and `moves`
    (parts, N) from there on, which come at `examples` (N,), those of place p in the order up to `ends` (P,). `weights`
    (rows, parts): what the parts count in `row` (rows, P).
    """
    some = counts[start : start + COUNT_ROWS]
    total, moved = rows @ some.astype(rows.dtype).T, some.take(examples, axis=1).astype(rows.dtype)
    begin = 0
    for place, end in enumerate(ends.tolist()):
        if end > begin:
            total += moves[:, begin:end] @ moved[:, begin:end].T
        begin = end
        wanted = np.flatnonzero(row[:, place] >= 0)
        sums[row[wanted, place], start : start + len(some)] += (weights @ total)[wanted]


def add_products(
    sums: Floats, rows: NDArray[np.number], counts: Counts, pool: ThreadPoolExecutor,
    dtype: DTypeLike = np.float64, first: bool = False,
) -> None:  # fmt: skip
    """Adds one chunk of units to the sums: `rows` (S, units) times the resample `counts` (B, units) to `sums` (S, B).

    The `first` chunk's are put in place of what `sums` held.
    """
    if not len(rows):
        return
    matrix = np.zeros((-(-len(rows) // WIDTH) * WIDTH, rows.shape[1]), dtype)
    matrix[: len(rows)] = rows

    def add(start: int) -> None:
        some = counts[start : start + COUNT_ROWS]
        drawn = np.zeros((COUNT_ROWS, rows.shape[1]), dtype)
        drawn[: len(some)] = some
        product, place = (matrix @ drawn.T)[: len(rows), : len(some)], sums[:, start : start + len(some)]
        if first:
            place[:] = product
        else:
            place += product

    list(pool.map(add, range(0, len(counts), COUNT_ROWS)))


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
