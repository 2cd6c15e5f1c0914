"""What an explanation tells is what a run finds, for every kind of policy, on random logs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import replay
from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import random_log
from tests.reference.random_policies import random_policies, to_toml
from toolkit.errors import ThinkbackError


@pytest.mark.parametrize("seed", range(12))
def test_endings_steps_and_costs_are_the_engines(seed: int, tmp_path: Path) -> None:
    log = random_log(seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"explain {seed}")
    told = 0
    for tables in (random_policies(rng, log, 4), random_interventions(rng, log, 4)):
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
    if result.replayed[0].ranking is not None:  # whom it chooses is not known of one example
        return 0
    for row in (rows[0], rows[-1]):
        found = replay.explain(log, text, name, row["example_id"])
        assert f"{row['traces']:g} traces, {row['verifications']:g} verifications" in found.ending
        total = row["total_tokens"]
        assert (f"{total:,.0f} tokens" if total is not None else "tokens not logged") in found.ending
        if row["ending"] is not None and row["answers"] is None:
            assert found.ending.startswith(f"{row['ending']}: ")
            assert f"answer {row['answer'] if row['answer'] is not None else 'none'} (" in found.ending
        policy = result.replayed[0]
        if policy.kind == "sample" and policy.single and row["ending"] == "rule":
            last = found.steps.row(-1, named=True)
            assert last["holds"]
            assert not any(found.steps["holds"][:-1])
            assert (last["answer_now"], last["total_tokens"]) == (row["answer"], total)
            assert last["operations"] == row["operations"]
    return 2
