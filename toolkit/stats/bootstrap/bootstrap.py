"""The paired bootstrap as one matrix product: statistics (statistics × units) times resample counts (units × B).

A product takes one chunk of units and one block of resamples, on one thread, in a shape that other statistics, threads
and blocks of the log do not change; chunks are added in their order. So a sum has the same bits however it comes about.
Small integers are multiplied in float32, exactly, and the rest in float64; sums of fractions are then rounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from toolkit.stats.metrics.resamples import COUNT_ROWS, THREADS, Counts, Resamples
from toolkit.stats.metrics.scan import SUM_BITS, Scan, Units, significant
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
    kinds = np.where(scan.constant, 0, np.where(small, 1, 2))
    index = np.array(sorted(statistics, key=lambda i: (kinds[i], i)), np.int64)
    start, fractions = np.searchsorted(kinds[index], [1, 2])
    row = np.full(len(scan.statistics), -1)
    row[index] = np.arange(len(index))
    shape = (len(index), resamples.resamples)
    values = np.empty(shape) if space is None or len(space) < shape[0] else space[: shape[0]]
    values[:start] = scan.total[index[:start], None]
    with product_threads() as pool:
        most = min(PRODUCT_ROWS, units.most_statistics)
        for chunk, part, rows in units.parts([scan.statistics[i] for i in index[start:]], most):
            counts, sums = resamples.counts(chunk), values[start + part.start : start + part.stop]
            cut = max(0, fractions - start - part.start)
            add_products(sums[:cut], rows[:cut], counts, pool, np.float32, chunk == 0)
            add_products(sums[cut:], rows[cut:], counts, pool, first=chunk == 0)
        list(pool.map(_round_sums, [values[i : i + WIDTH] for i in range(fractions, len(index), WIDTH)]))
    return ResampledSums(values, index, row)


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
    sums[:] = significant(sums, SUM_BITS)


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
