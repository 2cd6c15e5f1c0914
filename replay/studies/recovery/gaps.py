"""What the study on thinking again cannot show on a log: dashes with their reasons, figures, left-out examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import polars as pl

from replay.runs.coverage_notes import CALLS_FAILED
from replay.studies.kit.gaps import told_left_out, unlogged
from replay.studies.recovery.study import DatasetStudy
from toolkit.errors import listed
from toolkit.notes import Severity

TOKENS, SECONDS, FINALIZERS, ENDINGS = "tokens", "seconds", "uses of a finalizer", "finish reasons"
METRICS = {TOKENS: "total_tokens", SECONDS: "latency_s", FINALIZERS: "finalizers", ENDINGS: "truncated"}
"""What a log may lack of traces, by the metric that shows it."""
SPENT = (
    "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
    "action_tokens_saved", "total_tokens_saved", "difference", "per_1000_priced",
)  # fmt: skip
COLUMNS = (
    dict.fromkeys(SPENT, TOKENS)
    | dict.fromkeys(("mean", "p50", "p95", "p99"), SECONDS)
    | dict.fromkeys(("calls", "finalizers", "calls_avoided", "finalizer_rate"), FINALIZERS)
    | dict.fromkeys(("truncated", "truncation_rate"), ENDINGS)
)
"""Columns that are dashes where it lacks that."""
NO_GATE = "no gate was fitted for the primary action"
FIGURES_OF = {
    "cost_accuracy": "no policy's tokens are logged throughout",
    "fixes_and_flips": "no policy that revises was served",
    "threshold_sweep": NO_GATE,
    "flips_among": NO_GATE,
    "calibration": "no gate was fitted",
}
"""Why a figure cannot be drawn."""


def lacking(study: DatasetStudy) -> dict[str, list[str]]:
    """What is not logged for every trace, with the policies whose value it takes away."""
    summary = study.result.summary
    found = {}
    for kind, metric in METRICS.items():
        known = summary.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())["policy"]
        without = [policy for policy in study.policies if policy not in known.to_list()]
        if without:
            found[kind] = without
    return found


def told_gaps(studies: Sequence[DatasetStudy], dashed: Collection[str]) -> list[str]:
    """Why columns (by key) with a dash have one, for what is not logged."""
    told = []
    for kind in dict.fromkeys(kind for key, kind in COLUMNS.items() if key in dashed):
        short = [study.dataset for study in studies if kind in lacking(study)]
        where = "" if len(short) == len(studies) else f"{', '.join(short)}: "
        told += [where + unlogged(kind, "trace")] if short else []
    return told


def missing_figures(study: DatasetStudy, drawn: Collection[str]) -> Iterator[str]:
    """Figures of a data set that are not drawn, and what others lack, with the reason."""
    for figure, why in FIGURES_OF.items():
        if figure not in drawn:
            yield f"{study.dataset}: no figure `{figure}`: {why}"
    named = study.named
    aside = {*named.rules, named.trees, *named.matched, *named.joint.values()} - {named.base, *named.budgets.values()}
    aside -= {*named.always.values(), *named.selective.values()}
    without = [n for n in lacking(study).get(TOKENS, ()) if n not in aside]
    if without and "cost_accuracy" in drawn:
        names = listed(without)
        yield f"{study.dataset}: figure `cost_accuracy` is without {names}: their tokens are not logged throughout"
    if without and "threshold_sweep" in drawn and {study.named.base, study.named.primary} & set(without):
        yield f"{study.dataset}: figure `threshold_sweep` is without tokens, which are not logged throughout"


def warnings_of(study: DatasetStudy, alone: bool) -> Iterator[str]:
    """A data set's warnings and which calls of its log failed, with its name where it is not `alone`."""
    named = "" if alone else f"{study.dataset}: "
    for note in study.notes:
        if note.severity is Severity.WARNING or note.code == CALLS_FAILED:
            yield str(replace(note, text=f"{named}{note.text}"))


def told_aside(study: DatasetStudy, alone: bool) -> tuple[str, ...]:
    """A data set's warnings and which examples its comparison leaves out."""
    named = "" if alone else f"{study.dataset}: "
    left_out = (f"{named}{told}" for told in told_left_out(study.result.excluded))
    return (*warnings_of(study, alone), *left_out)
