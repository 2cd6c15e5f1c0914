"""Which cost a run ranks by: the one asked for, or the first that is known."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import replay
from replay import Sample
from tests.errors import quotes, refuses
from tests.logs import tables
from thinkback.app import app
from toolkit.log import Log, write_log

POOL = {"e1": [("A", 0.4), ("A", 0.9)], "e2": [("B", 0.1), ("B", 0.2)], "e3": [("B", 0.4), ("B", 0.4)]}
GOLDS = {"e1": "A", "e2": "B", "e3": "A"}
POLICIES = [
    Sample(name="two", max_traces=2, select="majority"),
    Sample(name="wide", max_traces=2, select="majority", width=2),
    Sample(name="verified", max_traces=1, verifier="v"),
]
TOML = """
[[policy]]
name = "two"
kind = "sample"
max_traces = 2
select = "majority"

[[policy]]
name = "one"
kind = "sample"
max_traces = 1
select = "first"
"""


def made(folder: Path, without: tuple[str, ...] = ()) -> Log:
    """A log on which all policies give the same answers: costs alone decide."""
    found = tables({"n2": POOL}, dict(GOLDS))
    return write_log(folder / "log", name="costs", tables={**found, "traces": found["traces"].drop(without)})


@pytest.mark.parametrize(
    ("cost", "leader"),
    # two: 30 tokens, 3 s, 2 operations; wide: 30 tokens, 2 s, 2 operations; verified: 19 tokens, 1.25 s, 2 operations
    [(None, "verified"), ("tokens", "verified"), ("seconds", "verified"), ("latency_s", "verified"),
     ("operations", "two"), ("verification_tokens", "two"), ("verified", "two"), ("completion tokens", "verified")],
)  # fmt: skip
def test_among_equals_the_cheapest_leads_by_the_cost_asked_for(tmp_path: Path, cost: str | None, leader: str) -> None:
    result = replay.run(made(tmp_path), POLICIES, cost=cost, resamples=10)
    assert set(result.summary.filter(metric="accuracy")["estimate"].round(9)) == {round(2 / 3, 9)}
    assert result.leader == leader
    assert result.provenance["cost"] == {"latency_s": "seconds"}.get(str(cost), cost)


def test_unknown_costs_and_costs_without_values_are_refused(tmp_path: Path) -> None:
    log = made(tmp_path)
    with refuses("unknown", "`second`", "`seconds`"):
        replay.run(log, POLICIES, cost="second")
    with refuses("unknown", "`price`", "`calls`", "`seconds`"):
        replay.run(log, POLICIES, cost="price", resamples=10)


def test_only_metrics_with_values_are_offered(tmp_path: Path) -> None:
    with refuses("unknown", "`acuracy`", "`accuracy`"):
        replay.run(made(tmp_path), POLICIES, metric="acuracy", resamples=10)


def test_completion_tokens_alone_rank_and_total_tokens_stay_null(tmp_path: Path) -> None:
    log = made(tmp_path, ("prompt_tokens",))
    result = replay.run(log, POLICIES, resamples=10)
    assert result.outcomes.collect()["total_tokens"].is_null().all()
    assert result.leader == "verified"  # five tokens written, the others ten


def test_one_note_says_what_would_fill_calls(tmp_path: Path) -> None:
    result = replay.run(made(tmp_path, ("finalizer_used",)), POLICIES, resamples=10)
    assert result.outcomes.collect()["calls"].is_null().all()
    (told,) = (note.text for note in result.notes if "calls" in note.metrics)
    quotes(told, "calls: ", "`two`, `wide`, `verified`", "`finalizer_used`")


def test_the_command_shows_the_cost_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    made(tmp_path, ("prompt_tokens", "finalizer_used"))
    (tmp_path / "p.toml").write_text(TOML)
    asked = ["replay", str(tmp_path / "log"), "--policies", str(tmp_path / "p.toml"), "--resamples", "10"]
    headings = {}
    for number, extra in enumerate(([], ["--cost", "seconds"])):
        done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / f"out{number}"), *extra])
        assert done.exit_code == 0, done.output
        headings[number] = pl.read_csv(tmp_path / f"out{number}" / "table.csv").columns
        assert (tmp_path / f"out{number}" / "frontier.pdf").exists()
        assert "for fewer " + ("seconds" if extra else "completion tokens") in done.output
        assert done.output.count("finalizer_used") == 1
    assert headings[0] == headings[1]
    assert "total_tokens" not in headings[0]
    assert {"completion_tokens", "calls", "traces", "latency_s"} <= set(headings[0])


def test_nothing_is_said_of_a_cost_that_counts_the_calls_of_several_pools_as_equal(tmp_path: Path) -> None:
    found = tables({"tree": POOL, "plain": POOL}, dict(GOLDS))
    tokens = ("prompt_tokens", "completion_tokens")
    bare = found | {table: found[table].drop(tokens) for table in ("traces", "verifications")}
    policies = [
        Sample(name=pool, pool=pool, max_traces=k, select="majority") for pool, k in (("tree", 1), ("plain", 2))
    ]
    unlike = replay.run(bare, policies, resamples=10)
    note = next(note for note in unlike.notes if note.code == "unlike_calls")
    quotes(note, "`plain`, `tree`", "tokens")
    text = unlike.table().markdown()
    assert "shares the best accuracy" in text
    assert "instead of" not in text
    for log, cost, these in ((found, None, policies), (bare, "seconds", policies), (bare, None, policies[1:])):
        told = replay.run(log, these, cost=cost, resamples=10)
        assert "unlike_calls" not in {note.code for note in told.notes}
