"""Every kind of policy on one process and on 1, 2 and 7 workers: saved results, equal byte for byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import replay
from replay.policies.base import KINDS
from replay.policies.toml import load_policies
from replay.runs.passes import passes
from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import random_log
from tests.reference.random_policies import random_policies, to_toml
from tests.seeds import seeds
from tests.workers.pools import ScriptedPool, on_pool
from tests.workers.worlds import RULES, WORLDS
from toolkit.errors import ThinkbackError


def test_the_worlds_have_every_kind(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    policies = [
        one for world in WORLDS.values() for one in load_policies(world.policies, tmp_path / "mine.py").policies
    ]
    assert {policy.kind for policy in policies} == set(KINDS)


@pytest.mark.parametrize("places", seeds(1, [2, 1, 7]))
@pytest.mark.parametrize("name", WORLDS)
def test_results_are_equal_for_any_number_of_workers(
    name: str, places: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, rules, log = WORLDS[name], tmp_path / "mine.py", tmp_path / "log"
    rules.write_text(RULES)
    world.make(log)
    monkeypatch.setattr(passes, "chunk_size", lambda policies, traces: world.chunk)
    plain = world.save(log, tmp_path / "none", rules)
    pool = ScriptedPool(places, lambda part, attempt: "lost" if part == 1 and attempt == 0 else "done")
    with on_pool(pool):
        here = world.save(log, tmp_path / "pool", rules)
    assert len(pool.parts) >= 3
    assert sorted(plain) == sorted(here)
    assert [file for file in plain if plain[file] != here[file]] == []


def replayed(log: Path, policies: str) -> tuple[object, ...] | str:
    """What a run says of policies, or the line with which it refuses them."""
    try:
        result = replay.run(log, policies, resamples=20)
    except ThinkbackError as error:
        return str(error)
    frames = result.outcomes.collect(), result.summary, result.comparisons, result.ranks
    rows = tuple("" if frame is None else repr(frame.rows()) for frame in frames)
    return rows, result.excluded, result.dropped


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_random_logs_and_policies(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs with all that goes wrong in real ones, an example a chunk."""
    log, rng = random_log(seed), random.Random(f"workers {seed}")
    log.write(tmp_path / "log")
    monkeypatch.setattr(passes, "chunk_size", lambda policies, traces: 1)
    for policies in map(to_toml, (random_policies(rng, log, 6), random_interventions(rng, log, 4))):
        plain = replayed(tmp_path / "log", policies)
        with on_pool(ScriptedPool(3)):
            assert replayed(tmp_path / "log", policies) == plain
