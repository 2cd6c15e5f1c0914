"""What a gate would decide on each example of a log, as SeVRA's prediction rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import CONDITION
from replay.gatefit.data import read_data, setting_of
from replay.policies.gate_file import GATE, GateFile, gate_given
from replay.runs.passes.gate_sweep import gather
from replay.runs.passes.reuse import overlap
from toolkit.arguments import checks_arguments
from toolkit.log import TAKES, AnyLog, collect


@checks_arguments(log=TAKES, gate=GATE, where=CONDITION, base="a pool's name", pool="a pool's name")
def predictions(
    log: AnyLog,
    gate: GateFile | str | Path,
    where: str | None = None,
    *,
    base: str | None = None,
    pool: str | None = None,
) -> list[dict[str, Any]]:
    """A row for each example that has the gate's inputs and its action, in example_id order.

    `seen_by_gate` marks those whose question it was fitted or tuned on. `base` and `pool` name the pools of
    this log that take the place of those that it was fitted on.
    """
    gate = gate_given(gate)
    at = setting_of(log, gate, base, pool)
    data = read_data(at, where, gate.features)
    branches = gather(data.plan, at.when(gate).one_gate)
    score = branches.signal
    fires = score < gate.threshold if gate.direction == "below" else score >= gate.threshold
    columns = ["example_id", "pool", "action", "sample_index", "finish_reason", "finalizer_used", "prompt_tokens"]
    traces = at.log.scan("traces", [*columns, "completion_tokens"])
    own = (pl.col("pool") == at.base.pool) & (pl.col("action") == "solve") & (pl.col("sample_index") == 0)
    attempts = {row["example_id"]: row for row in collect(traces.filter(own), at.log).iter_rows(named=True)}
    seen = set(overlap(data.plan.examples.frame, gate, at.log.digest()))
    marks = {"simulated": True} if at.log.simulated else {}
    rows = []
    for e, name in enumerate(branches.ids.to_list()):
        attempt = attempts[name]
        counts = (attempt["prompt_tokens"], attempt["completion_tokens"])
        tokens = float(branches.fired["action_tokens"][e])
        rows.append({
            "example_id": name,
            "probability": float(score[e]),
            "threshold": gate.threshold if np.isfinite(gate.threshold) else None,  # never or always
            "choose_verify": bool(fires[e]),
            "base_correct": bool(branches.kept["correct"][e]),
            "verify_accuracy": float(branches.fired["correct"][e]),
            "verify_avg_action_tokens": None if np.isnan(tokens) else tokens,
            "verify_harmful_flip_rate": float(branches.fired["flip"][e]),
            "helpful_fix_rate": float(branches.fired["fix"][e]),
            "features": {str(f): float(v) for f, v in zip(gate.features, data.values[e], strict=True)},
            "base_finalizer_used": attempt["finalizer_used"],
            "base_done_reason": attempt["finish_reason"],
            "base_actual_tokens": None if None in counts else sum(counts),
            "seen_by_gate": name in seen,
            **marks,
        })  # fmt: skip
    return rows
