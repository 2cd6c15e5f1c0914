"""How far each policy goes from a baseline to an oracle: the share of the headroom, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.bootstrap import resampled_sums
from toolkit.stats.limits.clusters import FEW_CLUSTERS
from toolkit.stats.limits.discordant import FEW_PAIRS, tango
from toolkit.stats.limits.fieller import PairMoments, fieller_limits, moment_sums
from toolkit.stats.limits.intervals import ZERO, ResampledValues, single_critical
from toolkit.stats.metrics.metrics import Statistic
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.scan import Scan, Units, scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints


@dataclass(frozen=True, eq=False)
class _Captured:
    """Shares of the headroom (P,) with limits; NaN where there is none. `room`: the headroom itself; `method`: of the
    limits, by name.
    """

    share: Floats
    low: Floats
    high: Floats
    room: float
    method: NDArray[np.str_]


SHARES_AT_ONCE = 64
"""Policies whose ratios are resampled at once; only memory depends on it."""

FEW_ALONE = 50
"""Examples that the oracle alone has right below which shares of the headroom are marked."""


def captured(store: Store, column: str, baseline: int, oracle: int, settings: Settings) -> _Captured:
    """(mean of the policy − mean of the baseline) / (mean of the oracle − mean of the baseline), of each policy.

    `column` is null on the same examples for the baseline, the oracle and each policy; another policy has no share. The
    share of the baseline is 0 and that of the oracle 1, both without limits. A headroom that is not above 0 with limits
    at the level (Student's t over the resampling units) is divided by for nobody. The limits are percentiles of the
    resampled ratio; Fieller's with clusters, and, marked, below fifty examples that the oracle alone has right. Where a
    policy differs from the baseline on fewer than twenty examples its limits reach at least as far as Tango's of the
    gain, over the headroom; with clusters, where it differs on none, with these as trials.
    """
    level = settings.level
    units, everyone = Units(store), range(store.policies)
    sums, has = ([Statistic(kind, column, p) for p in everyone] for kind in ("sum", "has"))
    scan = scan_statistics(units, [*sums, *has])
    rows, weights = (np.array([scan.index[one] for one in some]) for some in (sums, has))
    alike, count = weights == weights[baseline], scan.total[weights[baseline]]
    none, nobody = np.full(store.policies, np.nan), np.full(store.policies, "", "U16")
    if units.count < 2 or not count:
        return _Captured(none, none, none, np.nan, nobody)
    means = scan.total[rows] / count
    gain, room = means - means[baseline], float(means[oracle] - means[baseline])
    if room <= 0 or not alike[oracle]:
        return _Captured(none, none, none, room, nobody)
    moments, moves = np.zeros((7, store.policies)), np.zeros((4, store.policies))
    wanted = np.unique(np.append(rows, weights[baseline]))
    place, weight = np.searchsorted(wanted, rows), int(np.searchsorted(wanted, weights[baseline]))
    for block in units.chunks([scan.statistics[i] for i in wanted]):
        change = block[place] - block[place[baseline]]
        change[np.abs(change) <= ZERO] = 0.0
        up, down = np.maximum(change, 0.0), np.maximum(-change, 0.0)
        moves += [one.sum(axis=1) for one in (up, down, up > 0, down > 0)]

    def gains(block: Floats) -> Floats:
        moved = (block[place] - means[:, None] * block[weight]) * (units.count / count)
        return np.asarray(moved - moved[baseline])

    for moved in units.residuals([scan.statistics[i] for i in wanted], gains):
        moments += moment_sums(moved, moved[[oracle]])
    pairs = PairMoments(units.count, gain, np.full(len(gain), room), *(moments / units.count))
    low, high = fieller_limits(pairs, level, units.kish, tails=False)
    independent = units.count == units.examples and units.weight is None
    rare = moves[2, oracle] < FEW_ALONE or units.kish < FEW_CLUSTERS
    method = np.full(store.policies, "headroom_few" if rare else "percentile" if independent else "fieller", "U16")
    if independent and not rare:
        low, high = _resampled(units, scan, rows, baseline, oracle, settings)
    few = alike & (moves[2:].sum(axis=0) < (FEW_PAIRS if independent else 1))
    least, most = tango(moves[0, few], moves[1, few], float(count if independent else units.kish), level)
    low[few], high[few] = np.fmin(low[few], least / room), np.fmax(high[few], most / room)
    known = alike & (pairs.y**2 * (pairs.units - 1) > single_critical(level, units.kish) ** 2 * pairs.yy)
    ends = np.isin(np.arange(len(gain)), [baseline, oracle])
    share = np.where(known, gain / room, np.nan)
    low, high = (np.where(known & ~ends, limit, np.nan) for limit in (low, high))
    method[few] = "tango"
    return _Captured(share, low, high, room, np.where(np.isnan(low), "", method))


def _resampled(
    units: Units, scan: Scan, rows: Ints, baseline: int, oracle: int, settings: Settings
) -> tuple[Floats, Floats]:
    """Percentile limits (P,) of the ratio of gain to headroom; `rows` (P,): each policy's sum in the scan."""
    resamples = Resamples(units.count, settings.resamples, settings.seed, units.stratum)
    low, high = np.full((2, len(rows)), np.nan)
    for start in range(0, len(rows), SHARES_AT_ONCE):
        some = rows[start : start + SHARES_AT_ONCE]
        sums = resampled_sums(units, scan, {*some.tolist(), int(rows[baseline]), int(rows[oracle])}, resamples)
        drawn, begin, end = (sums.values[sums.row[i]] for i in (some, rows[baseline], rows[oracle]))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (drawn - begin) / np.where(end > begin, end - begin, np.nan)
        low[start : start + len(some)], high[start : start + len(some)] = ResampledValues.of(shares).percentile(
            settings.level
        )
    return low, high
