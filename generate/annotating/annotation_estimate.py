"""What adding to a log will cost at most: traces, calls, tokens, bytes on disk. No model is loaded for it.

A bound, not a forecast: a text has at most as many tokens as bytes in UTF-8, a listwise prompt holds whole texts, and
every judgement is counted as asked twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import polars as pl

from generate.annotating.annotation_plan import AnnotationPlan, SignalPlan
from generate.signals.signal import Cost, Workload
from toolkit.log import collect


@dataclass(frozen=True)
class Lacking:
    """Upper bounds for one signal. `asked_for`: the traces that it is for, done ones included."""

    name: str
    kind: str
    traces: int
    asked_for: int
    cost: Cost


def estimate_additions(plan: AnnotationPlan) -> list[Lacking]:
    """One line per signal, in the order in which they are made."""
    return [_estimate(plan, todo) for todo in plan.todo]


def _estimate(plan: AnnotationPlan, todo: SignalPlan) -> Lacking:
    load = Workload(plan.additions, todo.traces.height, todo.groups, partial(_text_bytes, plan, todo))
    return Lacking(todo.step.name, todo.step.kind, load.traces, todo.asked_for, todo.step.cost(load))


def _text_bytes(plan: AnnotationPlan, todo: SignalPlan) -> int:
    """Bytes of the traces' texts and of all columns of their examples, for every trace."""
    columns = [name for name, kind in plan.log.columns("examples").items() if kind == pl.String]
    own = collect(plan.log.scan("traces", ["trace_id", "text"]), plan.log).join(todo.traces, on="trace_id")
    texts = own["text"].str.len_bytes().sum() or 0
    sizes = pl.sum_horizontal(pl.col(name).str.len_bytes().fill_null(0) for name in columns if name != "example_id")
    examples = collect(plan.log.scan("examples", columns).select("example_id", size=sizes), plan.log)
    return int(texts) + int(todo.traces.join(examples, on="example_id")["size"].sum())
