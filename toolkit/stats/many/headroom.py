"""How far each policy goes from a baseline to an oracle: the share of the headroom, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.bootstrap import resampled_sums
from toolkit.stats.bootstrap.pairs import effective_number, gains_and_losses, scale_to_whole_pairs
from toolkit.stats.limits.clusters import FEW_CLUSTERS
from toolkit.stats.limits.discordant import FEW_PAIRS, tango_limits
from toolkit.stats.limits.fieller import PairMoments, fieller_limits, moment_sums
from toolkit.stats.limits.intervals import ZERO, ResampledValues
from toolkit.stats.limits.student import shared_level, single_critical_value
from toolkit.stats.many.simultaneous import MOST_PAIRED, normal_draws
from toolkit.stats.metrics.metrics import Statistic
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.scan import Scan, Units, scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints


@dataclass(frozen=True, eq=False)
class _HeadroomShares:
    """Each policy's share of the headroom (P,) with limits; NaN where there is none. `room`: the headroom, the oracle's
    mean less the baseline's; `method`: the limits' method by name.
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


def captured_shares(
    store: Store, column: str, baseline: int, oracle: int, settings: Settings, among: Sequence[int] = ()
) -> _HeadroomShares:
    """Each policy's share of the headroom: (its mean − the baseline's) / (the oracle's mean − the baseline's).

    `column` is null on the same examples for the baseline, the oracle and each policy; another policy has no share. The
    share of the baseline is 0 and that of the oracle 1, both without limits. A headroom that is not above 0 with limits
    at the level (Student's t over the resampling units) is divided by for nobody. The limits are percentiles of the
    resampled ratio; Fieller's with clusters, and, marked, below fifty examples that the oracle alone has right. Where a
    policy differs from the baseline on fewer than twenty examples its limits reach at least as far as Tango's of the
    gain, over the headroom; with clusters, where it differs on none, with these as trials. So does the lower limit of
    one that differs from the oracle on none. Outcomes that differ in part count as the examples that they are worth.
    The limits of the shares of the policies `among` hold all at once.
    """
    units, everyone = Units(store), range(store.policies)
    sums, has = ([Statistic(kind, column, p) for p in everyone] for kind in ("sum", "has"))
    scan = scan_statistics(units, [*sums, *has])
    rows, weights = (np.array([scan.index[one] for one in some]) for some in (sums, has))
    alike, count = weights == weights[baseline], scan.total[weights[baseline]]
    none, nobody = np.full(store.policies, np.nan), np.full(store.policies, "", "U16")
    if units.count < 2 or not count:
        return _HeadroomShares(none, none, none, np.nan, nobody)
    means = scan.total[rows] / count
    gain, room = means - means[baseline], float(means[oracle] - means[baseline])
    if room <= 0 or not alike[oracle]:
        return _HeadroomShares(none, none, none, room, nobody)
    moments, moves, alone = np.zeros((7, store.policies)), np.zeros((6, store.policies)), np.zeros(2)
    behind = np.zeros(store.policies)
    wanted = np.unique(np.append(rows, weights[baseline]))
    place, weight = np.searchsorted(wanted, rows), int(np.searchsorted(wanted, weights[baseline]))
    for block in units.chunks([scan.statistics[i] for i in wanted]):
        change = block[place] - block[place[baseline]]
        moves += gains_and_losses(change)
        behind += gains_and_losses(change - change[oracle])[2:4].sum(axis=0)
        ahead = np.maximum(change[oracle], 0.0)
        alone += ahead.sum(), (ahead**2).sum()

    def gains(block: Floats) -> Floats:
        moved = (block[place] - means[:, None] * block[weight]) * (units.count / count)
        return np.asarray(moved - moved[baseline])

    share, others = gain / room, [number for number in among if alike[number] and number not in (baseline, oracle)]
    covariance = np.zeros((len(others), len(others))) if 1 < len(others) <= MOST_PAIRED else None
    for moved in units.residuals([scan.statistics[i] for i in wanted], gains):
        moments += moment_sums(moved, moved[[oracle]])
        if covariance is not None:
            deviation = moved[others] - share[others, None] * moved[[oracle]]
            covariance += deviation @ deviation.T
    level = _simultaneous_level(covariance, len(others), units.kish, settings)
    alone_level, settings = settings.level, replace(settings, level=level)
    pairs = PairMoments(units.count, gain, np.full(len(gain), room), *(moments / units.count))
    low, high = fieller_limits(pairs, level, units.kish, tails=False)
    independent = units.count == units.examples and units.weight is None
    rare = effective_number(alone[0], alone[1]) < FEW_ALONE - ZERO or units.kish < FEW_CLUSTERS
    method = np.full(store.policies, "headroom_few" if rare else "percentile" if independent else "fieller", "U16")
    if independent and not rare:
        low, high = _ratio_limits(units, scan, rows, baseline, oracle, settings)
    differing = effective_number(moves[0] + moves[1], moves[4]) if independent else moves[2:4].sum(axis=0)
    few = alike & (differing < (FEW_PAIRS - ZERO if independent else 1))
    trials = np.full(int(few.sum()), float(count if independent else units.kish))
    least, most = tango_limits(*scale_to_whole_pairs(moves[0, few], moves[1, few], moves[4, few], trials), level)
    low[few], high[few] = np.fmin(low[few], least / room), np.fmax(high[few], most / room)
    level_with = alike & (behind == 0)
    few[level_with], below = True, tango_limits(0, 0, float(count if independent else units.kish), level)[0]
    low[level_with] = np.fmin(low[level_with], 1 + below / room)
    known = alike & (pairs.y**2 * (pairs.units - 1) > single_critical_value(alone_level, units.kish) ** 2 * pairs.yy)
    ends = np.isin(np.arange(len(gain)), [baseline, oracle])
    share = np.where(known, share, np.nan)
    low, high = (np.where(known & ~ends, limit, np.nan) for limit in (low, high))
    method[few] = "tango"
    return _HeadroomShares(share, low, high, room, np.where(np.isnan(low), "", method))


def _simultaneous_level(covariance: Floats | None, shares: int, units: float, settings: Settings) -> float:
    """The level for one share's interval at which the intervals of `shares` policies all hold at once. It is max-t's
    over normal draws with the `covariance` of all, or Bonferroni's where that is not known.
    """
    if covariance is None:
        return 1 - (1 - settings.level) / max(shares, 1)
    error = np.sqrt(np.diag(covariance))
    error[error <= ZERO] = np.inf
    largest = np.concatenate(
        [np.abs(block / error[:, None]).max(axis=0) for block in normal_draws(covariance, settings)]
    )
    return max(settings.level, shared_level(float(np.quantile(largest, settings.level)), units))


def _ratio_limits(
    units: Units, scan: Scan, rows: Ints, baseline: int, oracle: int, settings: Settings
) -> tuple[Floats, Floats]:
    """Percentile limits (P,) of each ratio of gain to headroom; `rows` (P,): where a policy's sum is in the scan."""
    resamples = Resamples(units.count, settings.resamples, settings.seed, units.stratum)
    low, high = np.full((2, len(rows)), np.nan)
    for start in range(0, len(rows), SHARES_AT_ONCE):
        some = rows[start : start + SHARES_AT_ONCE]
        sums = resampled_sums(units, scan, {*some.tolist(), int(rows[baseline]), int(rows[oracle])}, resamples)
        drawn, begin, end = (sums.values[sums.row[i]] for i in (some, rows[baseline], rows[oracle]))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (drawn - begin) / np.where(end > begin, end - begin, np.nan)
        low[start : start + len(some)], high[start : start + len(some)] = ResampledValues.of(shares).percentile_limits(
            settings.level
        )
    return low, high
