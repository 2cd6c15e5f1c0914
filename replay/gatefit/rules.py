"""Gates without a model, which a learned one has to beat: cut off, near the limit, or one feature alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.data.contents import Contents
from replay.policies.gate_file import GateFile
from replay.policies.gates import AllOf, Gate, Threshold
from toolkit.errors import listed

NEAR = 0.9
"""Share of the token limit from which an attempt is near it."""
TRUNCATION, NEAR_LIMIT, COMPLETED = "truncation only", "near limit", "completed only"
RULES = {
    TRUNCATION: "where the base attempt was cut off",
    NEAR_LIMIT: f"where it used {100 * NEAR:g} % of its tokens, or a finalizer",
    COMPLETED: "where the fitted gate fires and the base attempt was not cut off",
}
"""Rules without a model, and the fitted gate among completed attempts alone: where each acts."""
FEATURE_RULES = {"difficulty": "difficulty", "verification need": "verification_need"}
"""Routing rules on one feature, where the log has it."""
READS = {
    TRUNCATION: ("finish_reason",), NEAR_LIMIT: ("completion_tokens", "max_tokens", "finalizer_used"),
    COMPLETED: ("finish_reason",),
}  # fmt: skip
"""Columns of traces that they read."""


def cut_off(below: bool = False) -> Threshold:
    """Fires where an attempt was cut off, or, `below`, where it was not."""
    return Threshold(signal="truncated", below=1.0) if below else Threshold(signal="truncated", at_least=1.0)


def shown(rule: str) -> str:
    """A rule as tables name it."""
    return f"{rule} ({NEAR:g})" if rule == NEAR_LIMIT else rule


def rule_gates(contents: Contents, fitted: GateFile | None) -> dict[str, Gate]:
    """The rules that a log can serve, beside a fitted gate where there is one."""
    near = Threshold(signal="near_limit", fraction=NEAR, at_least=1.0)
    gates: dict[str, Gate] = {TRUNCATION: cut_off(), NEAR_LIMIT: near}
    if fitted is not None:
        gates[COMPLETED] = AllOf((Threshold(file=fitted), cut_off(below=True)))
    return {rule: gate for rule, gate in gates.items() if set(READS[rule]) <= set(contents.trace_columns)}


def missing_rules(contents: Contents, features: Mapping[str, str], action: str, fitted: bool) -> Iterator[str]:
    """Rules that the log cannot serve, with the reason; `features` are those of rules on one feature.

    `fitted`: whether there is a gate for the action.
    """
    for rule, columns in READS.items():
        lacks = [name for name in columns if name not in contents.trace_columns]
        if lacks:
            yield f"no rule `{shown(rule)}`: the log has no column {listed(lacks)} of traces"
        elif rule == COMPLETED and not fitted:
            yield f"no rule `{shown(rule)}`: no gate for `{action}` is there"
    for rule, feature in features.items():
        if feature not in contents.features:
            yield f"no rule `{rule}`: the log has no feature `{feature}`"
