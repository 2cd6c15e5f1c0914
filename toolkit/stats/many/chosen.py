"""What a policy that was chosen is worth: estimates corrected for having been the best of several.

The best of many looks better on the examples that it was chosen on than it is. So the units are split into halves at
random; the choice is made on one half and scored on the other, both ways, and the mean is taken over several splits.
Half of the examples choose less well than all of them, so this is somewhat pessimistic about a clear winner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.bootstrap import PRODUCT_ROWS, product_threads
from toolkit.stats.bootstrap.influence import Series
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.metrics.kept import Floats
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.scan import SUM_BITS, significant

SPLITS = 10

LEAST_UNITS = 4
"""Of fewer units no half says anything."""

STREAM = 32
"""Keeps the generators of the splits apart from those of the resamples."""


def halves(units: int, seed: int) -> NDArray[np.bool_]:
    """Random halves (SPLITS, units): each the units of one side."""
    first = np.arange(units) < units // 2
    return np.stack([np.random.default_rng([seed, STREAM, i]).permutation(first) for i in range(SPLITS)])


def on_halves(sample: WholeSample, series: Series, seed: int) -> Floats:
    """Values (2, S, SPLITS) of each series on one half and on the other."""
    index, place = np.unique(series.statistics, return_inverse=True)
    side = halves(sample.units.count, seed).astype(np.float64).T
    sums = np.zeros((len(index), SPLITS))
    statistics = [sample.scan.statistics[i] for i in index]
    with product_threads():
        for chunk, part, rows in sample.units.parts(statistics, min(PRODUCT_ROWS, sample.units.most_statistics)):
            sums[part] += rows @ side[chunk * CHUNK : chunk * CHUNK + rows.shape[1]]
    sums = significant(sums, SUM_BITS)
    others = significant(sample.scan.total[index][:, None] - sums, SUM_BITS)
    place = place.reshape(series.statistics.shape).T
    values = [series.metric.value([part[i] for i in place]) for part in (sums, others)]
    return np.stack([np.broadcast_to(one, (len(series), SPLITS)) for one in values])


def worth_of_the_best(quality: Floats, cost: Floats | None, falling: bool) -> float:
    """Mean value on one half of the policy that is best on the other; NaN where no half has a choice and a score.

    `quality`, `cost`: values (2, P, SPLITS) on the halves, NaN where a policy has none. Of equal quality the cheaper is
    chosen, then the first. `falling`: less of the quality is better.
    """
    scores = []
    for choosing, scoring in ((0, 1), (1, 0)):
        worth = -quality[choosing] if falling else quality[choosing]
        worth = np.round(np.where(np.isnan(worth), -np.inf, worth), 12)
        tied = worth == worth.max(axis=0)
        paid = np.full(worth.shape, np.inf)
        if cost is not None:
            paid = np.where(tied & ~np.isnan(cost[choosing]), cost[choosing], np.inf)
        cheapest = paid.min(axis=0)
        picked = np.argmax(tied & (paid <= cheapest + 1e-12 * np.abs(cheapest)), axis=0)
        scores.append(quality[scoring][picked, np.arange(SPLITS)])
    known = np.concatenate(scores)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")


def families(sweeps: Sequence[str], among: Sequence[int]) -> list[list[int]]:
    """Policies of which one is chosen: all of `among`, then those of each sweep."""
    found: dict[str, list[int]] = {}
    for policy in among:
        found.setdefault(sweeps[policy], []).append(policy)
    return [list(among), *found.values()]
