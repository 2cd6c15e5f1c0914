"""What a study of thinking again was run on: for run.json, and as the first list of its report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.runs.provenance import finite
from replay.studies.recovery.study import DatasetStudy
from toolkit.errors import listed


def record(study: DatasetStudy) -> dict[str, Any]:
    """The run's, and what the study adds."""
    asked, roles, made = study.asked, study.roles, dict(study.result.provenance)
    return {
        "study": "recovery",
        "log": made.pop("log"),
        "dataset": study.dataset,
        "on": asked.on,
        "tune": asked.tune,
        "where": made.pop("where", None),
        "base": roles.base,
        "action": roles.action,
        "action_chosen": chosen(study),
        "actions": list(roles.actions),
        "revisions": {action: pool for (action, base), pool in roles.pools.items() if base == roles.base},
        "budgets": list(roles.budgets),
        "votes": {pool: list(sizes) for pool, sizes in roles.samples.items()},
        "gates": [
            {
                "policy": gate.policy, "action": gate.action, "gate": gate.shown, "kind": gate.part,
                "fitted_on": gate.fitted_on, "threshold": finite(gate.file.threshold), "sha256": gate.file.sha256,
            }
            for gate in study.gates
        ],
        "pooled": asked.pooled,
        "margin": asked.margin,
        "together": asked.together,
        "verdict": study.recommendation.verdict,
    } | made  # fmt: skip


def chosen(study: DatasetStudy) -> str:
    """How the primary action was chosen."""
    roles = study.roles
    if study.asked.action is not None:
        return "named"
    if study.asked.gates:
        return "that of the first gate file"
    if len(roles.actions) == 1:
        return "the only one"
    return "the most accurate one in table `screening`, which is of other examples than those reported"


def replayed(study: DatasetStudy) -> Iterator[str]:
    """The same in words, for people."""
    made, roles = record(study), study.roles
    log = f"{made['log']['name']}{' (simulated)' if study.result.simulated else ''}"
    yield f"log: {log}, SHA-256 {made['log'].get('sha256', 'unknown')}"
    yield f"examples: {made['where']}; {study.result.statistics.n:,} are compared"
    yield f"gates are fitted on {made['on']}, and their thresholds chosen on {made['tune']}"
    yield f"base attempts: pool `{roles.base}`; revised by {listed(roles.actions)}"
    yield f"primary action: `{roles.action}`, {made['action_chosen']}; its gate is the primary gate"
    yield f"longer budgets: {listed(roles.budgets) or 'none'}"
    votes = (f"`{pool}`, of {', '.join(map(str, sizes))} samples" for pool, sizes in roles.samples.items())
    yield f"votes: {'; '.join(votes) or 'none'}"
    yield (
        f"margin of the recommendation: {100 * made['margin']:g} points; intervals: {made['resamples']:,} resamples, "
        f"level {made['level']:g}, seed {made['seed']}"
    )
    yield "`run.json` holds all of this, the gates, the policies and the versions"
