"""Metrics as sums, the paired bootstrap, intervals and auc."""

from toolkit.stats.curves.arrays import (
    Interval,
    PairedInterval,
    interval,
    intervals,
    paired_interval,
    paired_reduction,
    simultaneous_level,
    unit_numbers,
)
from toolkit.stats.curves.roc import AucIntervals, auc, auc_intervals, auc_within, aucs_by_group
from toolkit.stats.limits.intervals import newcombe, wilson
from toolkit.stats.many.compare import Summary, differences, resampled_metric, summarise
from toolkit.stats.metrics.outcomes import OutcomeBlock
from toolkit.stats.metrics.resamples import Settings, check_margin, rules_out_loss, settings_of

__all__ = [
    "AucIntervals", "Interval", "OutcomeBlock", "PairedInterval", "Settings", "Summary", "auc", "auc_intervals",
    "auc_within", "aucs_by_group", "check_margin", "differences", "interval", "intervals", "newcombe",
    "paired_interval", "paired_reduction", "resampled_metric", "rules_out_loss", "settings_of",
    "simultaneous_level", "summarise", "unit_numbers", "wilson",
]  # fmt: skip
