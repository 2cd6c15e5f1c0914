"""A frozen gate on another log: how often it fires there, what that fixes and flips, how well its scores hold, and what
it would decide on each example, as SeVRA's prediction rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.gatefit.data import missing_inputs_text, read_data, setting_of_gate
from replay.policies.gate_file import GATE, GateFile, as_gate_file
from replay.runs.passes.gate_sweep import COMPARED, GateBranches, best_threshold, replay_branches, threshold_means
from replay.runs.passes.reuse import first_ids_text, ids_fitted_on
from toolkit.arguments import checks_arguments
from toolkit.columns import find
from toolkit.errors import LeakageError, argument, counted
from toolkit.log import AnyLog, collect
from toolkit.notes import Note, Severity, note, warning
from toolkit.show import SIMULATED, IntervalCell, Number, NumberWithInterval, Table, TableColumn
from toolkit.show.tables.table_content import PValue
from toolkit.stats import Settings, paired_interval
from toolkit.stats.curves.calibration import CalibrationScores, calibration

NEVER, FROZEN, ALWAYS = "never", "the gate, frozen", "always"
HERE = "diagnostic: the threshold that the same rule chooses here"
"""Names of the rules that a report compares."""
REPORTED = (*COMPARED, "action_tokens", "total_tokens")


@dataclass(frozen=True, eq=False)
class GateReport:
    """A frozen gate on a log, beside never and always acting, and the threshold that would be chosen here (a
    diagnostic).

    Columns of `rows`: rule, threshold, accuracy, intervention_rate, fix_rate, flip_rate, action_tokens, total_tokens,
    and the paired difference to never with its interval and p-value. `scores`, `repairs` and `unit` (N,) are those of
    the examples.
    """

    rows: pl.DataFrame
    calibration: CalibrationScores
    curve: pl.DataFrame
    examples: int
    notes: tuple[Note, ...]
    simulated: bool
    log: str
    scores: np.ndarray
    repairs: np.ndarray
    unit: np.ndarray
    level: float

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self) -> Table:
        """The table of rules in percent and points, as the command shows it."""
        percent = Number(1, 100)
        cells = [
            (
                row["rule"], row["threshold"], row["accuracy"],
                IntervalCell(row["difference"], row["low"], row["high"]) if compared else None,
                row["p_value"] if compared else None, row["intervention_rate"], row["fix_rate"], row["flip_rate"],
                row["action_tokens"],
            )
            for row in self.rows.to_dicts()
            for compared in [row["rule"] != NEVER]  # what is compared with it
        ]  # fmt: skip
        warned, remarks = (
            [str(one) for one in self.notes if (one.severity is Severity.WARNING) is loud] for loud in (True, False)
        )
        return Table(
            title=f"The gate on {self.log}",
            columns=(
                TableColumn("rule"), TableColumn("threshold", Number(4)), TableColumn("accuracy %", percent),
                TableColumn("Δ points", NumberWithInterval(1, 100, signed=True), "difference"),
                TableColumn("p", PValue(), "p_value"),
                TableColumn("fires %", percent, "intervention_rate"), TableColumn("fixes %", percent, "fix_rate"),
                TableColumn("flips %", percent, "flip_rate"), TableColumn("action tokens", Number(0), "action_tokens"),
            ),
            rows=tuple(cells),
            above=(*((SIMULATED,) if self.simulated else ()), *warned),
            below=(
                f"{self.examples:,} examples; Δ against never, {100 * self.level:g} % intervals from paired resamples.",
                *remarks,
            ),
        )  # fmt: skip

    def rule(self, name: str) -> dict[str, Any]:
        return self.rows.row(by_predicate=pl.col("rule") == name, named=True)

    def numbers(self) -> dict[str, float | None]:
        """The frozen gate's numbers, its calibration, and the diagnostic threshold with its accuracy."""
        frozen, here = self.rule(FROZEN), self.rule(HERE)
        scores = {name: float(getattr(self.calibration, name)) for name in ("auroc", "auprc", "brier", "ece")}
        return {
            **{key: frozen.get(key) for key in ("threshold", "accuracy", "intervention_rate", "fix_rate", "flip_rate")},
            **{name: None if np.isnan(score) else score for name, score in scores.items()},
            "diagnostic_threshold": here["threshold"], "diagnostic_accuracy": here["accuracy"],
        }  # fmt: skip


@checks_arguments(gate=GATE, base="a pool's name")
def transfer_report(
    log: AnyLog,
    gate: GateFile | str | Path,
    *,
    where: str | None = None,
    ids: pl.Series | None = None,
    reuse: bool = False,
    settings: Settings | None = None,
    base: str | None = None,
    pool: str | None = None,
) -> GateReport:
    """Report a frozen gate on the examples of `where`, or on those of them with `ids`, if given.

    `base` and `pool` name the pools of this log that take the place of those that it was fitted on.

    Raises ThinkbackError where the log lacks what the gate reads, or the gate has seen some of the questions and
    `reuse` does not allow that.
    """
    settings = settings or Settings()
    gate = as_gate_file(gate)
    at = setting_of_gate(log, gate, base, pool)
    data = read_data(at, where, gate.features, ids)
    seen = ids_fitted_on(data.plan.examples.frame, gate, at.log.digest())
    text = f"gate file `{gate.path}` has seen {len(seen):,} of {len(data.ids):,} questions ({first_ids_text(seen)})"
    if seen and not reuse:
        raise LeakageError(f"{text}: report on others with {argument('where')}, or allow it with {argument('reuse')}")
    below = gate.direction == "below"
    branches = replay_branches(data.plan, at.gated_policy(gate, below).required_swept_gate)
    table = threshold_means(branches)
    here = best_threshold(table, below)
    never, always = (-np.inf, np.inf) if below else (np.inf, -np.inf)
    rules = ((NEVER, never), (FROZEN, gate.threshold), (ALWAYS, always), (HERE, here))
    notes = [warning("gate_reused", f"{text}: its numbers here are too good")] if seen else []
    if data.without_revision or data.without_input:
        text = (
            f"left out: {counted(data.without_revision, 'example')} without a judged revision, "
            f"{data.without_input:,} with a missing input of the gate{missing_inputs_text(data.lacking)}"
        )
        notes.append(note("left_out", text))
    rows = [_rule_row(branches, name, threshold, settings) for name, threshold in rules]
    return GateReport(
        rows=pl.DataFrame(rows),
        calibration=calibration(branches.signal, data.repair),
        curve=table,
        examples=len(data.ids),
        notes=tuple(notes),
        simulated=at.log.simulated,
        log=at.log.name,
        scores=branches.signal,
        repairs=data.repair,
        unit=branches.unit,
        level=settings.level,
    )


def _rule_row(branches: GateBranches, name: str, threshold: float, settings: Settings) -> dict[str, object]:
    on = branches.fires_at(threshold)
    values = {c: np.where(on, branches.fired[c], branches.unfired[c]) for c in REPORTED if c in branches.unfired}
    gained = paired_interval(values["correct"], branches.unfired["correct"], cluster=branches.unit, settings=settings)
    numbers = {str(find(c).metric): None if np.isnan(v).any() else float(v.mean()) for c, v in values.items()}
    difference = {"difference": gained.difference, "low": gained.low, "high": gained.high, "p_value": gained.p_value}
    return {"rule": name, "threshold": float(threshold), **numbers, **difference}


@checks_arguments(gate=GATE, base="a pool's name")
def gate_decisions(
    log: AnyLog,
    gate: GateFile | str | Path,
    where: str | None = None,
    *,
    base: str | None = None,
    pool: str | None = None,
) -> list[dict[str, Any]]:
    """The gate's decision on each example with its inputs and its action, one row each, in example_id order.

    `seen_by_gate` marks those whose question it was fitted or tuned on. `base` and `pool` name the pools of this log
    that take the place of those that it was fitted on.
    """
    gate = as_gate_file(gate)
    at = setting_of_gate(log, gate, base, pool)
    data = read_data(at, where, gate.features)
    branches = replay_branches(data.plan, at.gated_policy(gate).required_swept_gate)
    score = branches.signal
    fires = score < gate.threshold if gate.direction == "below" else score >= gate.threshold
    columns = ["example_id", "pool", "action", "sample_index", "finish_reason", "finalizer_used", "prompt_tokens"]
    traces = at.log.scan("traces", [*columns, "completion_tokens"])
    predicate = (pl.col("pool") == at.base.pool) & (pl.col("action") == "solve") & (pl.col("sample_index") == 0)
    attempts = {row["example_id"]: row for row in collect(traces.filter(predicate), at.log).iter_rows(named=True)}
    seen = set(ids_fitted_on(data.plan.examples.frame, gate, at.log.digest()))
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
            "base_correct": bool(branches.unfired["correct"][e]),
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
