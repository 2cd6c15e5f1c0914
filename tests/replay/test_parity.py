"""`replay.run` against the slow twin, example by example and column by column, on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import replay
from tests.reference import plain
from tests.reference.compare import assert_same, keyed
from tests.reference.random_logs import RandomLog, random_log
from tests.reference.random_policies import random_policies, to_toml
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError

SEEDS = [55, 72, 101, 129, 239, 318, *range(42)]  # those by name once told the two apart
LISTS = (1, 1, 1, 2, 5, 8)  # policies of each list: 6 lists per log, 288 cases in all


def replayed(log: Any, policies: list[Row]) -> Any:
    return replay.run(log, to_toml(policies), resamples=20)


def refused(log: Any, policies: list[Row]) -> bool:
    try:
        replayed(log, policies)
    except ThinkbackError:
        return True
    return False


def check_case(log: RandomLog, address: Path, policies: list[Row]) -> None:
    try:
        expected = plain.replay(log.plain, policies)
    except plain.Refused:
        expected = None
    if expected is None:
        assert refused(address, policies), f"not refused: {to_toml(policies)}"
        return
    found = replayed(address, policies)
    assert_same(expected.outcomes(), keyed(found.outcomes.collect()), f"{log.name}\n{to_toml(policies)}")
    assert set(found.dropped) == set(expected.dropped)
    assert set(found.excluded) == set(expected.excluded)


@pytest.mark.parametrize("seed", seeds(3, SEEDS))
def test_random_logs_and_policies(seed: int, tmp_path: Path) -> None:
    log = random_log(seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"policies {seed}")
    for count in LISTS:
        check_case(log, tmp_path / "log", random_policies(rng, log, count))


SWEEP = {
    "name": "swept",
    "kind": "sample",
    "pool": "main",
    "verifier": "lora",
    "max_traces": [1, 2],
    "select": ["best", "weighted", "majority"],
    "stop": {"rule": "margin", "margin": [0.0, 0.15], "min_valid": [1, 2], "single_label": 2},
    "width": [1, 2],
}


def test_a_sweep_is_its_policies(tmp_path: Path) -> None:
    """Names too: `[key=value, …]` in the order written, inner keys with dots, numbers as in the file."""
    log = next(log for log in map(random_log, range(100, 200)) if log.pools["main"] > 1 and len(log.plain.example) > 5)
    log.write(tmp_path / "log")
    expected = plain.replay(log.plain, plain.expand(SWEEP))
    found = keyed(replayed(tmp_path / "log", [SWEEP]).outcomes.collect())
    assert_same(expected.outcomes(), found, log.name)


REFUSALS: list[Row] = [
    {"select": "first", "max_traces": 2},
    {"order": "random", "select": "majority"},
    {"order": "random", "select": "best", "stop": {"rule": "agreement"}},
    {"order": "score", "stop": {"rule": "window", "size": 2}},
    {"order": "score", "stop": {"rule": "budget", "traces": 1}},
    {"order": "random", "expected": True},
    {"order": "random", "expected": True, "select": "weighted", "stop": {"rule": "budget", "verifications": 1}},
    {"order": "random", "expected": True, "stop": {"rule": "margin"}},
    {"expected": True, "stop": {"rule": "budget", "verifications": 1}},
    {"verifier": None},
    {"verifier": None, "select": "majority", "stop": {"rule": "margin"}},
    {"pool": "verdicts", "max_traces": 1, "select": "majority"},
    {"pool": "verdicts", "max_traces": 1, "select": "weighted"},
    {"pool": "verdicts", "max_traces": 1, "stop": {"rule": "margin"}},
    {"pool": "verdicts", "max_traces": 1, "stop": {"rule": "window", "size": 1}},
]


@pytest.fixture(scope="module")
def opaque_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[RandomLog, Path]:
    log = next(
        log
        for log in (random_log(seed, examples=6, tidy=True) for seed in range(200))
        if log.opaque and log.pools["main"] > 1 and not log.listwise
    )
    path = tmp_path_factory.mktemp("opaque") / "log"
    log.write(path)
    return log, path


@pytest.mark.parametrize("settings", REFUSALS, ids=lambda s: to_toml([s]).replace("\n", " ")[11:])
def test_both_refuse(opaque_log: tuple[RandomLog, Path], settings: Row) -> None:
    log, path = opaque_log
    policy = {"name": "x", "kind": "sample", "pool": "main", "max_traces": 2, "verifier": "lora", **settings}
    policy = {key: value for key, value in policy.items() if value is not None}
    with pytest.raises(plain.Refused):
        plain.replay(log.plain, [policy])
    with pytest.raises(ThinkbackError):
        replayed(path, [policy])
