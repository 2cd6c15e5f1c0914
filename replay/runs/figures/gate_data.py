"""Accuracy over the share of examples acted on: the curves of a result's gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.runs.figures.figure_data import PANELS, RATE, FigureData, FigureRequest, fitting
from replay.runs.saved.findings import Findings
from toolkit.columns import OutcomeColumn
from toolkit.errors import ThinkbackError, require_known
from toolkit.show.figures.gate_curves import GateCurve, gates_figure
from toolkit.stats import summarise
from toolkit.stats.many.compare import ACCURACY
from toolkit.stats.metrics.outcomes import side_by_side

BASE = "base_correct"
NAMING = {"name", "against", "label", "sweep", "sweep_size"}
"""Settings of a policy that change nothing of what it does."""


def gates_data(asked: FigureRequest) -> FigureData:
    """Accuracy over the share of examples acted on, of every sweep of a gate and every gate with all thresholds."""
    found = asked.found
    curves = [*_all_thresholds(found), *_settings(found)]
    if asked.policies:
        names = [curve.name for curve in curves]
        for name in asked.policies:
            require_known(name, names, f"no gate with several settings is named `{name}`")
        curves = [curve for curve in curves if curve.name in asked.policies]
    if not curves:
        raise ThinkbackError(
            "no policy of the result has a gate with several settings: sweep its threshold, as `below = [0.2, 0.5]`, "
            '`below = { quantiles = 10 }` or `below = "all"`'
        )
    level = f"{100 * found.summariser.settings.level:g} %"
    kinds = {curve.whole for curve in curves}
    said = [f"band: {level}, for the whole curve"] * (True in kinds) + [f"bars: {level} intervals"] * (False in kinds)
    shown = curves if asked.policies else curves[:PANELS]
    left_out = len(curves) - len(shown)
    frame = pl.concat(
        pl.DataFrame(
            {"policy": [curve.name] * len(curve.rate), RATE: curve.rate, ACCURACY: curve.accuracy, "low": curve.low,
             "high": curve.high, "whole_curve": [curve.whole] * len(curve.rate)},
            schema_overrides=dict.fromkeys((RATE, ACCURACY, "low", "high"), pl.Float64),
        )
        for curve in curves
    )  # fmt: skip
    labels = {policy.sweep: policy.label or policy.sweep for policy in found.policies}
    named = [replace(curve, name=labels.get(curve.name, curve.name)) for curve in shown]
    draw = fitting(gates_figure, named, (), said, left_out, ("more gate", "more gates"), simulated=found.simulated)
    return FigureData(frame, draw)


def _all_thresholds(found: Findings) -> Iterator[GateCurve]:
    """The gates with the threshold `all`."""
    if found.bands is None:
        return
    for (name,), rows in found.bands.partition_by("policy", as_dict=True, maintain_order=True).items():
        rate, accuracy = (rows.filter(metric=metric) for metric in (RATE, ACCURACY))
        both = rate.select("threshold", rate="estimate").join(
            accuracy.select("threshold", "estimate", "band_low", "band_high"), on="threshold", maintain_order="left"
        )
        both = both.drop_nulls(["rate", "estimate"])
        if both.height > 1:
            rates, values, low, high = (tuple(both[one]) for one in ("rate", "estimate", "band_low", "band_high"))
            yield GateCurve(str(name), rates, values, low, high, whole=True, never=True, always=True)


def _settings(found: Findings) -> Iterator[GateCurve]:
    """The sweeps of a gate's threshold; before them `never`, the base on the same examples, and after them `always`,
    where the result has what the gate leads to as a policy.
    """
    whole = set() if found.bands is None else {*found.bands["policy"]}
    sweeps: dict[str, list[str]] = {}
    for policy in found.policies:
        if [key.startswith("gate.") for key, _ in policy.swept] == [True] and policy.sweep not in whole:
            sweeps.setdefault(policy.sweep, []).append(policy.name)
    told = {(policy, metric): rest for policy, metric, *rest in found.summary.iter_rows()}
    firsts = [names[0] for names in sweeps.values()]
    base = _bases(found, firsts) if firsts else {}
    for (sweep, names), first in zip(sweeps.items(), firsts, strict=True):
        points = []
        for name in names:
            rate, accuracy = told.get((name, RATE), [None])[0], told.get((name, ACCURACY), [None] * 3)[:3]
            if rate is not None and accuracy[0] is not None:
                points.append((rate, *accuracy))
        points.sort()
        if len(points) < 2:
            continue
        if points[0][0] > 0 and first in base:
            points.insert(0, (0.0, *base[first]))
        always = told.get((_always(found, first), ACCURACY), [None] * 3)[:3]
        if points[-1][0] < 1 and always[0] is not None:
            points.append((1.0, *always))
        rates, values, low, high = zip(*points, strict=True)
        yield GateCurve(sweep, rates, values, low, high, never=rates[0] == 0, always=rates[-1] == 1)


def _always(found: Findings, gate: str) -> str:
    """The policy that is what a gate leads to; empty where there is none."""

    def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in settings.items() if key not in NAMING}

    named = {policy.name: policy.settings for policy in found.policies}
    then = named[gate].get("then")
    if not isinstance(then, Mapping):
        return ""
    return next((name for name, settings in named.items() if plain(settings) == plain(then)), "")


def _bases(found: Findings, names: Sequence[str]) -> dict[str, tuple[float, float | None, float | None]]:
    """How often the base of some policies is right, with limits."""
    summariser = found.summariser
    store = summariser.outcomes.statistics().only([BASE])
    numbers = [summariser.names.index(name) for name in names]
    column = OutcomeColumn(BASE, rate=True, quality=True)
    made = summarise(
        side_by_side([(store, numbers)], [BASE], 0), names, leaders=(), metric=BASE, columns=[column],
        settings=summariser.settings,
    )  # fmt: skip
    rows = made.summary.filter(pl.col("estimate").is_not_null() & (pl.col("metric") == BASE))
    return {
        name: (value, low, high)
        for name, value, low, high in rows.select("policy", "estimate", "low", "high").iter_rows()
    }
