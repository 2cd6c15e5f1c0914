"""Policies that think again against the slow twin, example by example and column by column, on random logs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import random_log
from tests.replay.test_parity import check_case
from tests.seeds import seeds

SEEDS = [41, 102, 131, 157, 186, *range(20)]  # those by name once told the two apart
MORE = [seed for seed in range(20, 200) if seed not in SEEDS]
LISTS = (1, 1, 1, 2, 2, 4)  # policies of each list: 6 lists per log


@pytest.mark.parametrize("seed", seeds(3, [*SEEDS, *MORE]))
def test_random_logs_and_interventions(seed: int, tmp_path: Path) -> None:
    log = random_log(seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"interventions {seed}")
    for count in LISTS:
        check_case(log, tmp_path / "log", random_interventions(rng, log, count))
