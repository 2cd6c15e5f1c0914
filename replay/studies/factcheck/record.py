"""What a study of fact checking was run on: for run.json, and as the first list of its report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.studies.factcheck.study import Study
from toolkit.errors import listed

ASKED = ("dev", "pool", "verifier", "other_verifier", "features", "cap", "caps", "orders", "random_seed")


def record(study: Study) -> dict[str, Any]:
    """The main run's, and what the study adds."""
    setting = study.setting
    made = dict(study.main.result.provenance) if study.main.result is not None else {}
    asked = {
        "study": "factcheck",
        "log": made.pop("log", {"name": study.name}),
        "where": made.pop("where", None),
        **{name: getattr(setting, name) for name in ASKED},
        "published": None if setting.published is None else setting.published.dataset,
    }
    asked |= {"features": list(setting.features), "caps": list(setting.caps)}  # lists are written a line an entry
    return asked | made | {"notes": [note.record() for note in study.notes]}


def replayed(study: Study) -> Iterator[str]:
    """The same in words, for people."""
    made, setting = record(study), study.setting
    log = f"{made['log']['name']}{' (simulated)' if study.simulated else ''}"
    yield f"log: {log}, SHA-256 {made['log'].get('sha256', 'unknown')}"
    yield f"data sets: `{study.dataset}`"
    yield f"claims: {'all' if made['where'] is None else made['where']}; {study.main.n:,} are compared"
    caps = ", ".join(str(cap) for cap in study.caps)
    yield f"pool: `{setting.pool}`, of which up to {setting.cap} traces a claim (tables 5.11 to 5.13: {caps})"
    if (fixed := study.budgets.validation.fixed) is not None:
        n, pool = fixed.made.result.statistics.n, study.budgets.validation.pool
        yield f"for fixed budgets alone: {n:,} claims of the split `{fixed.split}`, pool `{pool}`"
    others = "none" if setting.other_verifier is None else f"`{setting.other_verifier}`"
    if setting.published is not None:
        yield f"shown for comparison: the published numbers of {setting.published.dataset}"
    yield f"verifier: `{setting.verifier}`; the other one: {others}"
    yield study.features_note or f"features of the surrogate: {listed(setting.features)}"
    yield (
        f"intervals: {made['resamples']:,} resamples, level {made['level']:g}, seed {made['seed']}; random order: seed "
        f"{setting.random_seed}; `orders`: means over {setting.orders}"
    )
    yield "`run.json` holds all of this, the policies and the versions"
