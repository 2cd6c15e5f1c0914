"""What every table of the study has around it, and what cannot be shown on a log, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import polars as pl

from replay.studies.kit.cells import TOLD
from replay.studies.kit.gaps import Gap, unlogged
from replay.studies.kit.layout import Surroundings
from replay.studies.recovery.study import DatasetStudy
from toolkit.errors import listed
from toolkit.notes import Severity

LACKING = {
    "tokens": ("total_tokens", frozenset({
        "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
        "action_tokens_saved", "total_tokens_saved", "difference", "per_1000_priced",
    })),
    "seconds": ("latency_s", frozenset({"mean", "p50", "p95", "p99"})),
    "uses of a finalizer": (
        "finalizers", frozenset({"calls", "finalizers", "calls_avoided", "finalizer_rate"})
    ),
    "finish reasons": ("truncated", frozenset({"truncated", "truncation_rate"})),
}  # fmt: skip
"""What a log may lack of traces, the metric that shows it, and the columns that are then dashes."""
NO_GATE = "no gate was fitted for the primary action"
FIGURES_OF = {
    "cost_accuracy": "no policy's tokens are logged throughout",
    "fixes_and_flips": "no policy that revises was served",
    "threshold_sweep": NO_GATE,
    "flips_among": NO_GATE,
    "calibration": "no gate was fitted whose scores are probabilities",
}
"""Why a figure cannot be drawn."""


def surroundings(studies: Sequence[DatasetStudy]) -> Surroundings[DatasetStudy]:
    """Of the tables of these data sets."""
    told = [f"{one.dataset}: {one.result.statistics.n:,} examples" for one in studies]
    made = studies[0].result.provenance
    drawn = f"{100 * made['level']:g} % intervals, {made['resamples']:,} paired resamples, seed {made['seed']}."
    counted = f"{'; '.join(told)}. {drawn}"
    return Surroundings(
        simulated=any(one.result.simulated for one in studies),
        dataset="dataset",
        above=lambda sheet, parts: [told for one in parts for told in warnings_of(one, len(parts) == 1)],
        below=lambda sheet, parts, shown: [counted],
        gaps=lambda sheet, parts: _gaps(parts),
    )


def lacking(study: DatasetStudy) -> dict[str, list[str]]:
    """What is not logged for every trace, with the policies whose value it takes away."""
    summary = study.result.summary
    found = {}
    for kind, (metric, _) in LACKING.items():
        known = summary.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())["policy"].to_list()
        without = [policy for policy in study.policies if policy not in known]
        if without:
            found[kind] = without
    return found


def _gaps(studies: Sequence[DatasetStudy]) -> Iterator[Gap]:
    for kind, (_, columns) in LACKING.items():
        short = [study.dataset for study in studies if kind in lacking(study)]
        where = "" if len(short) == len(studies) else f"{', '.join(short)}: "
        if short:
            yield Gap(where + unlogged(kind, "trace"), columns)


def missing_figures(study: DatasetStudy, drawn: Collection[str]) -> Iterator[str]:
    """Figures of a data set that are not drawn, and what others lack, with the reason."""
    harmless = {"flips_among": "the primary gate flips nothing at any threshold"} if study.band is not None else {}
    for figure, why in {**FIGURES_OF, **harmless}.items():
        if figure not in drawn:
            yield f"{study.dataset}: no figure `{figure}`: {why}"
    named = study.named
    shown = {named.base, *named.budgets.values(), *named.always.values(), *named.selective.values()}
    shown |= {*named.samples, *named.oracles}
    without = [policy for policy in lacking(study).get("tokens", ()) if policy in shown]
    if without and "cost_accuracy" in drawn:
        names = listed(without)
        yield f"{study.dataset}: figure `cost_accuracy` is without {names}: their tokens are not logged throughout"
    if without and "threshold_sweep" in drawn and {named.base, named.primary} & set(without):
        yield f"{study.dataset}: figure `threshold_sweep` is without tokens, which are not logged throughout"
    if "threshold_sweep" in drawn and "flips_among" not in drawn:
        yield f"{study.dataset}: figure `threshold_sweep` is without flips: there are none at any threshold"


def warnings_of(study: DatasetStudy, alone: bool) -> Iterator[str]:
    """A data set's warnings and which calls of its log failed, with its name where it is not `alone`."""
    named = "" if alone else f"{study.dataset}: "
    for note in study.notes:
        if note.severity is Severity.WARNING or note.code in TOLD[:1]:
            yield str(replace(note, text=f"{named}{note.text}"))
