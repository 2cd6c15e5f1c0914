"""Limits of differences to the baseline that hold for all of them at once."""

from __future__ import annotations

import numpy as np

from toolkit.stats.bootstrap.pairs import Pairs
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesResults
from toolkit.stats.limits.discordant import tango
from toolkit.stats.limits.student import shared_level, single_critical
from toolkit.stats.metrics.kept import Floats
from toolkit.stats.metrics.resamples import Settings

TANGO = METHOD_NAMES.index("tango")


def baseline_limits(
    sample: WholeSample, metric: int, joint: Floats, critical: float, results: SeriesResults, pairs: Pairs,
    settings: Settings,
) -> Floats:  # fmt: skip
    """The limits (2, P) of one metric's differences to the first reference of `results` and `pairs`.

    `joint` (2, P) are difference ± `critical` · error, NaN where two policies have equal outcomes. What has Tango's
    interval alone has it here at the level of the critical value. Everything else reaches at least as far as its limits
    alone, moved outward by as much as the critical value is above that of a single difference: what corrects these for
    few errors or for a long tail is needed here too. Without limits alone there are none.
    """
    slot = (SeriesKind.DIFFERENCE, 0, metric)
    value, low, high = results.value[slot], results.low[slot], results.high[slot]
    single = single_critical(settings.level, sample.units.count)
    wider = max(1.0, critical / single) if critical == critical else 1.0
    least, most = np.fmin(joint[0], value - wider * (value - low)), np.fmax(joint[1], value + wider * (high - value))
    one, two = pairs.first[0, metric], pairs.second[0, metric]
    on = np.flatnonzero((results.method[slot] == TANGO) & ~np.isnan(one))
    if len(on) and critical == critical:
        level = max(settings.level, shared_level(critical, sample.units.count))
        least[on], most[on] = tango(one[on], two[on], sample.counts[metric, on], level)
    if sample.metrics[metric].column.share:
        least, most = np.maximum(least, -1.0), np.minimum(most, 1.0)
    return np.where(np.isnan(low), np.nan, [least, most])
