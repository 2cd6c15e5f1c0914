"""What a study of latent verifiers was run on: for run.json, and as the first list of its report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from replay.runs.saved.provenance import versions
from replay.studies.latent.study import LatentStudy


def record(study: LatentStudy) -> dict[str, Any]:
    """The settings, what was chosen, and the verdicts."""
    asked, source = study.asked, None if study.strategies is None else study.strategies.source
    made = asked.settings
    return {
        "study": "latent",
        "log": {"name": study.log.name, "sha256": study.log.digest()},
        "dataset": study.dataset,
        "where": study.where,
        "on": study.on,
        "trained": study.asked.trained,
        "verifiers": {pool.pool: pool.verifier for pool in study.pools},
        "states": study.states or None,
        "strategies": None if source is None else asdict(source),
        "seeds": asked.seeds if asked.ablations else None,
        "verdicts": [
            {
                "question": one.question.name.lower(), "over": one.over or None, "verdict": one.answer.value,
                "against": one.against or None, "difference": one.difference.difference if one.difference else None,
                "low": one.difference.low if one.difference else None,
                "high": one.difference.high if one.difference else None, "why": one.why or None,
            }
            for one in study.verdicts
        ],
        "seed": made.seed,
        "resamples": made.resamples,
        "level": made.level,
        "versions": versions(),
    }  # fmt: skip


def measured_on(study: LatentStudy) -> Iterator[str]:
    """The same in words, for people."""
    made = study.asked.settings
    simulated = " (simulated)" if study.simulated else ""
    yield f"log: {study.log.name}{simulated}, SHA-256 {study.log.digest()}"
    yield f"examples: {study.asked.where or 'all but the training rows'}; training rows: {study.asked.on}"
    if study.asked.trained:
        yield f"left out: {study.asked.trained:,} training rows among the examples that were to be reported"
    yield "; ".join(f"pool `{pool.pool}`: verifier `{pool.verifier}`" for pool in study.shown)
    if study.strategies is not None:
        source = study.strategies.source
        probe = "no probe" if source.probe is None else f"the probe from `{source.probe}`"
        yield f"strategies: samples from `{source.pool}`, {probe}, votes over {source.orders} orders"
    yield f"intervals: {made.resamples:,} resamples, level {made.level:g}, seed {made.seed}"
    yield "`run.json` holds all of this and the versions"
