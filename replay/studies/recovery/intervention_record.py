"""What a comparison of interventions was run on: for run.json, and as the first list of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.studies.recovery.gated_run import GatedRun
from replay.studies.recovery.interventions import how_chosen
from toolkit.errors import listed


def record(study: GatedRun, name: str, verdict: str) -> dict[str, Any]:
    """The run's, and what a study of this name adds, its verdict among it."""
    asked, roles, made = study.asked, study.roles, dict(study.result.provenance)
    return {
        "study": name,
        "log": made.pop("log"),
        "dataset": study.dataset,
        "on": asked.on,
        "tune": asked.tune,
        "where": made.pop("where", None),
        "base": roles.base,
        "action": roles.action,
        "action_chosen": how_chosen(asked, roles),
        **roles.record(),
        "gates": [gate.record() for gate in study.gates],
        "pooled": asked.pooled,
        "margin": asked.margin,
        "together": asked.together,
        "verdict": verdict,
    } | made


def replayed(study: GatedRun) -> Iterator[str]:
    """The same in words, for people."""
    asked, roles, made = study.asked, study.roles, study.result.provenance
    log = f"{made['log']['name']}{' (simulated)' if study.result.simulated else ''}"
    yield f"log: {log}, SHA-256 {made['log'].get('sha256', 'unknown')}"
    yield f"examples: {made.get('where')}; {study.result.statistics.n:,} are compared"
    yield f"gates are fitted on {asked.on}, and their thresholds chosen on {asked.tune}"
    yield f"base attempts: pool `{roles.base}`; revised by {listed(roles.actions)}"
    yield f"primary action: `{roles.action}`, {how_chosen(asked, roles)}; its gate is the primary gate"
    yield f"longer budgets: {listed(roles.budgets) or 'none'}"
    votes = (f"`{pool}`, of {', '.join(map(str, sizes))} samples" for pool, sizes in roles.samples.items())
    yield f"votes: {'; '.join(votes) or 'none'}"
    yield (
        f"margin of the recommendation: {100 * asked.margin:g} points; intervals: {made['resamples']:,} resamples, "
        f"level {made['level']:g}, seed {made['seed']}"
    )
    yield "`run.json` holds all of this, the gates, the policies and the versions"
