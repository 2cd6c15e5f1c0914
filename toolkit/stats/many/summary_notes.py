"""The notes on result tables: examples, metrics and intervals that are unusual, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolkit.errors import listed
from toolkit.notes import Note, note, warning
from toolkit.stats.bootstrap.f1_intervals import FEWEST_GOLD
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesResults
from toolkit.stats.limits.clusters import FEW_CLUSTERS, FEWEST_CLUSTERS
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.strata import Strata

MOST_STRATA = 4
"""The most strata that a note names."""
BATCHED = 1.5
"""The ratio of waiting to device seconds above which calls count as batched."""
BATCHED_SECONDS = "batched_seconds"
LONG = 0.05
"""The largest share of the examples that may carry half of a sum of seconds for a note."""
SORTED_AT_ONCE = 16
"""Policies whose seconds are sorted at once; only memory depends on it."""
WAITING, DEVICE = "latency_s", "device_s"
SECONDS = (WAITING, "generation_s", "verification_s")


def notes_of(
    sample: WholeSample, results: SeriesResults, references: Sequence[int], settings: Settings
) -> Iterator[Note]:
    """The notes of a summary, in the order in which they are printed."""
    n = sample.units.examples
    if sample.judged < n:
        left_out = "left out of the metrics that need verdicts; their costs stay"
        yield note("unjudged", f"{n - sample.judged} of {n} examples are unjudged: {left_out}")
    yield from notes_on_units(n, sample.units.count, sample.units.kish)
    yield from notes_on_strata(sample.units.strata)
    yield from _notes_on_metrics(sample, results, settings)
    yield from notes_on_seconds(sample)
    yield from _notes_on_long_calls(sample)
    yield from _notes_on_intervals(sample, results, references, settings)


def notes_on_units(n: int, units: int, kish: float) -> Iterator[Note]:
    """Notes on the clusters of n examples, which are warnings where they, or their effective number, are few."""
    clusters = f"{units} clusters of {n} examples"
    clusters += f", worth {kish:.3g} of equal size" if units < n and kish < 0.95 * units else ""
    if units == 1:
        yield note("one_unit", "one resampling unit: no intervals and no p-values")
    elif units < min(n, FEWEST_CLUSTERS):
        yield warning("few_clusters", f"{clusters}: below three there are no intervals and no p-values")
    elif units < n:
        if kish < FEW_CLUSTERS:
            yield warning("few_clusters", f"only {clusters}: the intervals rest on the differences between these few")
        how = f"exact limits for rates, Student's t with {max(kish - 1, 1):.3g} degrees of freedom for all else"
        yield note("clusters", f"{clusters}, which count as the trials: {how}")


def notes_on_strata(strata: Strata | None) -> Iterator[Note]:
    """Notes on the strata that intervals are computed within, and on the weight of each stratum."""
    if strata is None:
        return
    sizes = listed([f"{name} ({size:,})" for name, size in strata.sizes.items()], MOST_STRATA)
    yield note("strata", f"intervals take the number of examples of each `{strata.column}` as fixed: {sizes}")
    if strata.joined:
        few = "too few examples to be resampled alone; these are resampled together"
        yield note("small_strata", f"{listed(strata.joined, MOST_STRATA)}: {few}")
    if strata.shares is not None:
        parts = listed([f"{name} {100 * share:.3g} %" for name, share in strata.shares.items()], MOST_STRATA)
        yield note("weighed", f"means weigh each `{strata.column}`, whatever its number of examples: {parts}")


def _notes_on_metrics(sample: WholeSample, results: SeriesResults, settings: Settings) -> Iterator[Note]:
    for m, metric in enumerate(sample.metrics):
        rows = sample.rows[m] | bool(metric.column.filled_by)  # of others nothing is said where none has any
        policies = [sample.policies[p] for p in np.flatnonzero(rows & np.isnan(sample.estimates[m]))]
        if policies and metric.column.computed == "ratio":
            text = f"{metric.column.label}: no value for {_name_list(policies)}: unknown, or a division by 0"
            yield note("no_ratio", text, policies, [metric.name])
        elif policies and metric.column.cost:
            text = (
                f"{metric.column.label}: no value for {_name_list(policies)}: not logged for every call that was paid"
            )
            text += f"; {metric.column.filled_by}" if metric.column.filled_by else ""
            yield note("not_logged", text, policies, [metric.name])
    for metric in sample.metrics:
        if metric.column.computed == "seconds":
            paid = f"{sample.seconds} / 3600 · {settings.kw:g} kW · {settings.eur_per_kwh:g} € per kWh"
            paid += f" · {metric.column.scale:,g}" if metric.column.scale != 1 else ""
            yield note("euros", f"{metric.column.label}: {paid}", metrics=[metric.name])
    for m, metric in enumerate(sample.metrics):
        method, estimates = results.method[SeriesKind.VALUE, 0, m], sample.estimates[m]
        few = [sample.policies[p] for p in np.flatnonzero(method == METHOD_NAMES.index("wilson"))]
        if few:
            text = f"{metric.column.label}: fewer than ten examples of a kind for {_name_list(few)}: Wilson's interval"
            yield note("few_events", text, few, [metric.name])
        exact = np.isin(method, [METHOD_NAMES.index(f"korn-graubard{few}") for few in ("", "_few")])
        alike = [sample.policies[p] for p in np.flatnonzero(exact & ((estimates == 0) | (estimates == 1)))]
        if alike:
            text = f"all examples alike for {_name_list(alike)}: exact limits, a cluster as one trial"
            yield note("clusters_agree", f"{metric.column.label}: {text}", alike, [metric.name])


def notes_on_seconds(sample: WholeSample) -> Iterator[Note]:
    """Notes seconds that were measured while other calls ran on the same device: their sum is no user's wait."""
    means = {metric.name: sample.estimates[m] for m, metric in enumerate(sample.metrics)}
    if WAITING not in means or DEVICE not in means:
        return
    waiting, device = means[WAITING], means[DEVICE]
    with np.errstate(invalid="ignore"):
        shared = np.flatnonzero((device > 0) & (waiting > BATCHED * device))
    if len(shared):
        most = int(shared[np.argmax(waiting[shared] / device[shared])])
        text = batches_text(waiting[most], device[most], f"`{sample.policies[most]}`: ")
        yield note(BATCHED_SECONDS, text, [sample.policies[p] for p in shared], SECONDS)


def _notes_on_long_calls(sample: WholeSample) -> Iterator[Note]:
    """Notes means of seconds of which a few examples make up half."""
    for m, metric in enumerate(sample.metrics):
        if metric.name != WAITING or sample.units.examples < 1 / LONG:
            continue
        policies = np.flatnonzero(sample.estimates[m] > 0)
        statistics = list(dict.fromkeys(metric.statistics(p)[0] for p in policies.tolist()))
        for start in range(0, len(statistics), SORTED_AT_ONCE):
            part = statistics[start : start + SORTED_AT_ONCE]
            rows = -np.sort(-np.concatenate(list(sample.units.example_rows(part)), axis=1), axis=1)
            half = 1 + np.argmax(np.cumsum(rows, axis=1) >= rows.sum(axis=1, keepdims=True) / 2, axis=1)
            n, fewest = rows.shape[1], int(np.argmin(half))
            if half[fewest] <= LONG * n:
                name = sample.policies[part[fewest].policy]
                text = f"{half[fewest]} of {n:,} examples carry half of the sum for `{name}`: other examples"
                yield note(
                    "long_calls", f"{metric.column.label}: {text} may have more such, or none", [name], [WAITING]
                )


def batches_text(waiting: float, device: float, whose: str = "") -> str:
    """The sentence that says that seconds were measured in batches. `whose` names the policy that they belong to."""
    seen = f"{whose}{waiting:.3g} s of waiting, {device:.3g} s of the device"
    return f"seconds were measured while calls shared batches ({seen}): their sum is not what one user would wait"


def _notes_on_intervals(
    sample: WholeSample, results: SeriesResults, references: Sequence[int], settings: Settings
) -> Iterator[Note]:
    yield from _notes_on_withheld(sample, results)
    dropped = (results.method == 0) & (results.valued_share > 0)
    if dropped.any():
        metrics = _metric_names(sample, dropped)
        text = f"no interval for some of {_name_list(metrics)}: more than 5 % of the resamples have no value"
        yield note("too_few_resamples", text, metrics=metrics)
    fallen = (results.method == METHOD_NAMES.index("percentile")) & (results.low != results.high)
    for number, reference in enumerate(references):
        fallen[SeriesKind.DIFFERENCE :, number, :, reference] = False
    if settings.method == "bca" and fallen.any():
        text = f"BCa is undefined for {int(fallen.sum())} intervals: percentile limits there"
        yield note("bca_undefined", text, metrics=_metric_names(sample, fallen))


def _notes_on_withheld(sample: WholeSample, results: SeriesResults) -> Iterator[Note]:
    """Notes on metrics without an interval because no resample was drawn for them."""
    if sample.units.count < (2 if sample.has_single_units else FEWEST_CLUSTERS):
        return
    bare = (results.method == 0) & np.isfinite(results.value) & ~(results.valued_share > 0)
    rare = [
        metric.name
        for metric, on in zip(sample.metrics, bare[SeriesKind.VALUE, 0].any(axis=1), strict=True)
        if on and metric.column.computed == "labels" and sample.has_single_units
    ]
    if rare:
        few = f"fewer than {('no', 'one', 'two', 'three', 'four', 'five')[FEWEST_GOLD]} examples have a class as gold"
        yield note("few_gold", f"no interval for {_name_list(rare)}: {few}", metrics=rare)
    divided = np.array([metric.cost_ratio_parts is not None for metric in sample.metrics])
    bare[: SeriesKind.REDUCTION] &= divided[:, None]
    if bare.any():
        metrics = _metric_names(sample, bare)
        why = "the divisor is not significantly different from 0"
        yield note("weak_denominator", f"no interval for some of {_name_list(metrics)}: {why}", metrics=metrics)


def _metric_names(sample: WholeSample, series: np.ndarray) -> list[str]:
    """The names of the metrics and reductions that are marked in `series` (kinds, references, metrics, policies)."""
    names = {
        ("reduction:" if kind == SeriesKind.REDUCTION else "") + sample.metrics[m].name
        for kind, m in np.argwhere(series.any(axis=(1, 3)))
    }
    return sorted(names)


def _name_list(names: Sequence[str], most: int = 3) -> str:
    return listed(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
