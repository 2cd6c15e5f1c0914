"""What an explanation tells is what a run finds, for every kind of policy, on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from replay.policies.base import Policy
from replay.runs.explain.explain import Explanation
from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import random_log
from tests.reference.random_policies import random_policies, random_surrogate, to_toml
from tests.seeds import seeds
from toolkit.errors import ThinkbackError

COSTS = ("traces", "verifications", "operations", "calls", "completion_tokens", "total_tokens", "latency_s")


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_endings_steps_and_costs_are_the_engines(seed: int, tmp_path: Path) -> None:
    log = random_log(seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"explain {seed}")
    told = 0
    surrogate = {"name": "guided", **random_surrogate(rng, log.pools["main"])}
    for tables in (random_policies(rng, log, 4), random_interventions(rng, log, 4), [surrogate]):
        for table in tables:
            text = to_toml([{key: value for key, value in table.items() if key != "against"}])
            told += explained(tmp_path / "log", text, table["name"])
    assert told


def explained(log: Path, text: str, name: str) -> int:
    """Compare two examples of a policy; how many were."""
    try:
        result = replay.run(log, text, resamples=2)
    except ThinkbackError:
        return 0
    rows = result.outcomes.collect().to_dicts()
    for row in (rows[0], rows[-1]):
        found = replay.explain(log, text, name, row["example_id"])
        compare(found, row, result.replayed[0])
    return 2


def compare(found: Explanation, row: dict[str, Any], policy: Policy) -> None:
    total = row["total_tokens"]
    counts = [f"{row[name]:g} {name.removesuffix('s')}{'' if row[name] == 1 else 's'}" for name in COSTS[:2]]
    assert ", ".join(counts) in found.ending
    assert (f"{total:,.0f} token" if total is not None else "total tokens not logged") in found.ending
    if row["ending"] is not None and row["answers"] is None and policy.example_ranking is None:
        assert found.ending.startswith(f"{row['ending']}: ")
        assert f"answer {row['answer'] if row['answer'] is not None else 'none'} (" in found.ending
    outcomes = found.outcomes.to_dicts()
    assert len(outcomes) == (1 if policy.example_ranking is None else 2)
    assert any(same(outcome, row) for outcome in outcomes)
    for stage in found.stages:
        if stage.title == f"what `{policy.name}` paid":
            assert costs(stage.rows.row(-1, named=True)) == costs(row)
            parts = stage.rows.drop("part").filter(pl.int_range(pl.len()) < pl.len() - 1)
            assert costs(parts.sum().row(0, named=True) | nulls(parts)) == costs(row)
        if stage.title == f"`{policy.name}`, all {getattr(policy, 'orders', None)} orders":
            mean = stage.rows.select(COSTS).mean().row(0, named=True) | nulls(stage.rows.select(COSTS))
            assert costs(mean) == costs(row)
    if policy.kind == "sample" and policy.answers_with_one_trace:
        steps = found.stages[0].rows
        last = steps.row(-1, named=True)
        assert costs(last) == costs(row)
        assert last["answer_now"] == row["answer"]
        assert last["holds"] == (row["ending"] == "rule")
        assert not any(steps["holds"][:-1])
        if "statistic" in steps.columns and getattr(policy, "width", 1) == 1:
            reached = steps["statistic"] >= steps["threshold"] - 2e-9
            assert reached.fill_null(False).to_list() == steps["holds"].to_list()


def costs(row: dict[str, Any]) -> dict[str, float | None]:
    return {name: None if row[name] is None else round(row[name], 6) for name in COSTS}


def nulls(frame: pl.DataFrame) -> dict[str, None]:
    """Columns in which something is null: a mean or a sum over the rest would be of something else."""
    return {name: None for name in COSTS if frame[name].null_count()}


def same(found: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether two rows of outcomes agree, but for the rounding of another block."""
    numbers = {name for name, value in row.items() if isinstance(value, float)}
    return (
        found.keys() == row.keys()
        and all(found[name] == pytest.approx(row[name]) for name in numbers)
        and all(found[name] == row[name] for name in ("answer", "ending"))
        and all((found[name] is None) == (row[name] is None) for name in row)
        and [a["answer"] for a in found["answers"] or ()] == [a["answer"] for a in row["answers"] or ()]
    )
