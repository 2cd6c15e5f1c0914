"""The cells of a table are a function of the result: of its policies and metrics, and of nothing else that is shown."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from generate.simulation.grid import simulate
from replay import Result

POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n3"
max_traces = 1
select = "first"
[[policy]]
name = "best"
kind = "sample"
pool = "n3"
max_traces = [2, 3]
verifier = "strong"
[[policy]]
name = "vote"
kind = "sample"
pool = "n3"
max_traces = 3
select = "majority"
"""
COLUMNS = ("accuracy", "tokens", "calls", "traces", "latency_s")


SIMULATED = ((30, 3, 5, "first"), (7, 2, 6, "vote"), (60, 5, 7, None), (12, 4, 8, "first"))
"""Examples, labels and seed of the logs, and the baseline of the result on each."""


@pytest.fixture(scope="module", params=SIMULATED, ids=lambda log: f"{log[0]} examples")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result]:
    """A result, and the same saved and loaded."""
    folder = tmp_path_factory.mktemp("cells")
    examples, labels, seed, baseline = request.param
    simulate(folder / "log", examples=examples, traces=3, labels=labels, seed=seed)
    live = replay.run(folder / "log", POLICIES, baseline=baseline, resamples=40)
    live.save(folder / "saved")
    return live, replay.load(folder / "saved")


def cells(result: Result, **options: Any) -> dict[tuple[str, str], str]:
    """What stands in the row of a policy and the column of a heading, with all digits."""
    rows = csv.DictReader(io.StringIO(result.table(**options).csv(data=True)))
    return {(row["policy"], name): value for row in rows for name, value in row.items() if name not in ("#", "policy")}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True), st.booleans(), st.none() | st.integers(1, 4))
def test_a_cell_is_a_function_of_the_result(
    results: tuple[Result, Result], columns: list[str], loaded: bool, limit: int | None
) -> None:
    """Whichever columns and how many rows are asked for, in whatever order, of the result or of the saved one."""
    some = cells(results[loaded], columns=columns, limit=limit)
    whole = cells(results[0])
    assert some
    assert {place: value for place, value in some.items() if place in whole and whole[place] != value} == {}
    assert {name for _, name in some} & {name for _, name in whole}
