"""What adding to a log will cost at most: traces, calls, tokens, bytes on disk. No model is loaded for it.

A bound, not a forecast: a text has at most as many tokens as bytes in UTF-8, a listwise prompt holds whole texts, and
every judgement is counted as asked twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from generate.annotating.annotation_plan import AddPlan, Todo
from generate.engines.weights import find_model, installed
from generate.sampling.sampling_estimate import PER_MESSAGE
from generate.signals.additions import Additions, Asked, Classifier, LogProb, States
from generate.signals.asked import TRIES
from toolkit.log import collect

ROW_BYTES = 200


@dataclass(frozen=True)
class Lacking:
    """Upper bounds for one step. `asked_for`: the traces that the step is for, done ones included."""

    name: str
    kind: str
    traces: int
    asked_for: int
    calls: int
    tokens: int
    disk_bytes: int


def estimate_additions(plan: AddPlan) -> list[Lacking]:
    """One line per step, in the order in which they run."""
    return [_step(plan, todo) for todo in plan.todo]


def _step(plan: AddPlan, todo: Todo) -> Lacking:
    step, traces = todo.step, todo.traces.height
    calls = tokens = 0
    reads = isinstance(step, (Asked, Classifier, States)) or (isinstance(step, LogProb) and step.model is not None)
    if reads and traces:
        tokens = _text_bytes(plan, todo) + traces * (_template_bytes(plan.additions, todo) + PER_MESSAGE)
    if isinstance(step, Asked):
        listwise = step.kind == "listwise"
        calls = TRIES * (todo.groups if listwise else traces)
        tokens = TRIES * tokens + calls * step.max_tokens
    disk = traces * ROW_BYTES
    if isinstance(step, States):
        installed("generate", "huggingface_hub", "transformers")
        width = find_model(plan.additions.model(step.model), None, download=False).hidden_size()
        disk = traces * len(step.layers) * len(step.tokens) * (width * (2 if step.store == "float16" else 4) + 32)
    return Lacking(step.name, step.kind, traces, todo.asked_for, calls, tokens, disk)


def _template_bytes(additions: Additions, todo: Todo) -> int:
    """The longest prompt file's own words; without one those of the log's manifest, which are counted as none."""
    name = getattr(todo.step, "prompt", None)
    return len(additions.prompts[name].text.encode()) if name else 0


def _text_bytes(plan: AddPlan, todo: Todo) -> int:
    """Bytes of the traces' texts and of all columns of their examples, for every trace."""
    columns = [name for name, kind in plan.log.columns("examples").items() if kind == pl.String]
    own = collect(plan.log.scan("traces", ["trace_id", "text"]), plan.log).join(todo.traces, on="trace_id")
    texts = own["text"].str.len_bytes().sum() or 0
    sizes = pl.sum_horizontal(pl.col(name).str.len_bytes().fill_null(0) for name in columns if name != "example_id")
    examples = collect(plan.log.scan("examples", columns).select("example_id", size=sizes), plan.log)
    return int(texts) + int(todo.traces.join(examples, on="example_id")["size"].sum())
