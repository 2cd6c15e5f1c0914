"""What holds for every policy on every log, whatever the numbers are."""

from __future__ import annotations

import functools
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from tests.reference import plain, rules
from tests.reference.compare import Keyed, assert_same, differing, keyed, same
from tests.reference.random_logs import RandomLog, random_log
from tests.reference.random_policies import random_policies, to_toml
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError

FILES = ("outcomes.parquet", "summary.parquet", "comparisons.parquet")
STOPS: list[Row] = [
    {"rule": "budget", "traces": 2},
    {"rule": "budget", "verifications": 2},
    {"rule": "margin"},
    {"rule": "margin", "margin": 0.1, "min_valid": 1, "single_label": 2},
    {"rule": "agreement", "confidence": 0.75},
    {"rule": "agreement"},
    {"rule": "window", "size": 2},
    {"rule": "window", "size": 3},
]
LONG = 99  # more than any pool holds
SELECTS = ("best", "majority", "weighted")
Tables = dict[str, pl.DataFrame]


def outcomes(log: Any, policies: list[Row]) -> Keyed:
    return keyed(replay.run(log, to_toml(policies), resamples=20).outcomes.collect())


def tidy_log(seed: int, usual: int = 5) -> RandomLog:
    """A log that lacks nothing, with `usual` or more samples in `main`."""
    logs = (random_log(1000 * seed + i, examples=10, tidy=True) for i in range(1000))
    return next(log for log in logs if log.pools["main"] >= usual)


def sample(name: str, **settings: Any) -> Row:
    return {"name": name, "kind": "sample", "pool": "main", "verifier": "lora", **settings}


# ------------------------------------------------------------------------------------- bounds, identities


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_no_policy_is_right_where_its_pool_is_never(seed: int, tmp_path: Path) -> None:
    log = random_log(seed, examples=12, tidy=True)
    log.write(tmp_path / "log")
    policies = [p for p in random_policies(random.Random(seed), log, 12) if p["kind"] == "sample"]
    bounds = [{"name": f"any {p}", "kind": "oracle", "rule": "any", "of": [p]} for p in log.pools]
    rows = outcomes(tmp_path / "log", [*without_against(policies), *bounds])
    compared = 0
    for policy in policies:
        for example_id in log.plain.example:
            row, bound = (rows.get((policy["name"], example_id)), rows.get((f"any {policy['pool']}", example_id)))
            if row and bound and row["correct"] is not None:
                assert row["correct"] <= bound["correct"] + 1e-12
                assert bound["traces"] >= row["traces"]
                compared += 1
    assert compared > 12


def without_against(policies: list[Row]) -> list[Row]:
    return [{k: v for k, v in policy.items() if k != "against"} for policy in policies]


def served_everywhere(log: RandomLog, policies: list[Row]) -> list[Row]:
    """The policies that the slow twin serves on every example; each but the first `against` the one before."""
    results = plain.replay(log.plain, without_against(policies)).results
    kept = [p for p in without_against(policies) if not any(map(plain.is_partial, results[p["name"]].values()))]
    return [*kept[:1], *({**p, "against": other["name"]} for other, p in itertools.pairwise(kept))]


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_cost_identities(seed: int, tmp_path: Path) -> None:
    log = random_log(seed, examples=12, tidy=True)
    log.write(tmp_path / "log")
    policies = served_everywhere(log, random_policies(random.Random(seed + 50), log, 12))
    assert len(policies) > 6
    width = {policy["name"]: policy.get("width", 1) for policy in policies}
    for (name, _), row in outcomes(tmp_path / "log", policies).items():
        assert same(row["operations"], row["traces"] + row["verifications"])
        assert same(row["calls"], row["traces"] + row["finalizers"])
        parts = ("prompt_tokens", "completion_tokens", "verification_tokens")
        assert same(row["total_tokens"], sum(row[part] for part in parts))
        total = row["generation_s"] + row["verification_s"]
        assert same(row["latency_s"], total) if width[name] == 1 else row["latency_s"] <= total + 1e-9
        assert 0 <= row["valid_traces"] <= row["traces"]
        assert row["traces"] >= 1
        if row["base_correct"] is not None:
            assert same(row["fix"] - row["flip"], row["correct"] - row["base_correct"])
            assert 0 <= row["action_tokens"] <= row["total_tokens"] + 1e-9
        if row["answers"] is not None:
            assert row["answer"] is None
            assert same(sum(answer["share"] for answer in row["answers"]), 1)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_larger_cap_never_sees_fewer_traces(seed: int, tmp_path: Path) -> None:
    """And a rule that held within the smaller cap leaves the same outcome, to the last column."""
    log = tidy_log(seed)
    log.write(tmp_path / "log")
    caps = range(1, log.pools["main"] + 1)
    policies = [
        sample(f"{i} {select} {cap}", max_traces=cap, stop=stop, select=select)
        for i, stop in enumerate(STOPS)
        for select in SELECTS
        for cap in caps
    ]
    rows = outcomes(tmp_path / "log", policies)
    assert len(rows) == len(policies) * len(log.plain.example)
    for (name, example_id), row in rows.items():
        rule, select, cap = name.split(" ")
        if int(cap) < len(caps):
            more = rows[f"{rule} {select} {int(cap) + 1}", example_id]
            assert more["traces"] >= row["traces"]
            assert more["verifications"] >= row["verifications"]
            assert row["ending"] != "rule" or not differing(row, more)


# --------------------------------------------------------------------------------------------- truncation


def cut(log: RandomLog, first: int, verified: set[str] | None = None) -> Tables:
    """The log with only the `first` solves of `main` and their verifications by `lora`, or those named."""
    traces = [
        trace
        for trace in log.plain.traces
        if trace["pool"] == "main" and trace["action"] == "solve" and trace["sample_index"] < first
    ]
    left = {trace["trace_id"] for trace in traces} if verified is None else verified
    checks = [row for row in log.plain.verifications if row["verifier"] == "lora" and row["trace_id"] in left]
    schemas = {table: frame.schema for table, frame in log.tables.items()}
    return {
        "examples": log.tables["examples"],
        "traces": pl.DataFrame(traces, schema=schemas["traces"], orient="row"),
        "verifications": pl.DataFrame(checks, schema=schemas["verifications"], orient="row"),
    }


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_cutting_the_pool_off_changes_no_decision_before(seed: int, width: int, tmp_path: Path) -> None:
    """Where a rule held within the first k traces the outcome stays as it is; where not, it sees all k."""
    log = tidy_log(seed)
    usual = log.pools["main"]
    policies = [
        sample(f"{i} {select}", max_traces=usual, stop=stop, select=select, width=width)
        for i, stop in enumerate(STOPS)
        for select in SELECTS
    ]
    for policy in policies:
        policy["on_missing"] = "use_available"
    everything = log_of(log, tmp_path / "all", cut(log, LONG))
    whole = outcomes(everything, policies)
    for k in range(width, usual, width):
        address = log_of(log, tmp_path / f"cut {k}", cut(log, k))
        for key, row in outcomes(address, policies).items():
            if whole[key]["traces"] <= k:
                assert not differing(whole[key], row), (key, k)
            else:
                assert (row["traces"], row["ending"]) == (k, "exhausted"), (key, k)


def log_of(log: RandomLog, path: Path, tables: Tables) -> Path:
    log.write(path, tables)
    return path


@pytest.mark.parametrize("stop", seeds(2, STOPS[1:4]), ids=str)
@pytest.mark.parametrize("select", seeds(1, ["best", "weighted"]))
def test_taking_later_verifications_away_changes_no_decision_before(stop: Row, select: str, tmp_path: Path) -> None:
    """In random order: with the first k verifications left, what needed no more is served, and alike."""
    log = tidy_log(7)
    policy = sample("x", max_traces=log.pools["main"], order="random", seed=3, stop=stop, select=select)
    whole = outcomes(log_of(log, tmp_path / "all", cut(log, LONG)), [policy])
    place = {}
    for example_id in log.plain.example:
        valid = [t for t in log.plain.solves(example_id, "main") if log.plain.valid(t)]
        order = rules.in_random_order(valid, 3, 0)
        place.update({trace["trace_id"]: i for i, trace in enumerate(order)})
    for k in range(1, log.pools["main"]):
        tables = cut(log, LONG, {trace_id for trace_id, i in place.items() if i < k})
        expected = {key: row for key, row in whole.items() if row["verifications"] <= k}
        address = log_of(log, tmp_path / f"cut {k}", tables)
        if expected:
            assert_same(expected, outcomes(address, [policy]), f"{k} verifications")
        else:
            with pytest.raises(ThinkbackError):
                outcomes(address, [policy])


# -------------------------------------------------------------------------------- order, threads and bytes


def shuffled_folder(log: RandomLog, path: Path, seed: int, shards: int) -> Path:
    """The log as another tool might write it: rows in any order, in any number of shards, unsealed."""
    rng = random.Random(seed)
    for table, frame in log.tables.items():
        (path / table).mkdir(parents=True)
        places = list(range(frame.height))
        rng.shuffle(places)
        size = max(1, -(-frame.height // shards))
        for i in range(0, frame.height, size):
            name = f"{rng.randrange(10**6)}-{i}.parquet"
            frame[places[i : i + size]].write_parquet(path / table / name)
    return path


RUN = """
import sys
from pathlib import Path
import replay
log, policies, out = sys.argv[1:]
replay.run(log, policies, seed=3, resamples=200).save(out)
"""


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@functools.cache
def settings_for_bytes() -> tuple[RandomLog, list[Row]]:
    log = next(log for log in (random_log(i, examples=20, tidy=True) for i in range(300)) if not log.plain.whole)
    policies = served_everywhere(log, random_policies(random.Random(5), log, 12))
    assert len(policies) > 6
    return log, policies


def test_the_same_bytes_with_one_and_two_threads(tmp_path: Path) -> None:
    log, policies = settings_for_bytes()
    log.write(tmp_path / "log")
    (tmp_path / "policies.toml").write_text(to_toml(policies), encoding="utf-8")
    words = [str(tmp_path / name) for name in ("log", "policies.toml", "other")]
    threads = 1 if pl.thread_pool_size() > 1 else 2
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    subprocess.run([sys.executable, "-c", RUN, *words], check=True, env=environment)
    replay.run(*words[:2], seed=3, resamples=200).save(tmp_path / "here")
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "other")


def test_the_same_bytes_with_rows_and_shards_in_another_order(tmp_path: Path) -> None:
    log, policies = settings_for_bytes()
    log.write(tmp_path / "sealed")
    addresses = [
        tmp_path / "sealed",
        shuffled_folder(log, tmp_path / "a", seed=1, shards=1),
        shuffled_folder(log, tmp_path / "b", seed=2, shards=4),
    ]
    written = []
    for address in addresses:
        out = tmp_path / f"out {address.name}"
        replay.run(address, to_toml(policies), seed=3, resamples=200).save(out)
        written.append(bytes_of(out))
    assert written[0] == written[1]
    assert written[0] == written[2]


def test_policies_in_another_order_give_the_same_outcomes(tmp_path: Path) -> None:
    log, policies = settings_for_bytes()
    log.write(tmp_path / "log")
    assert_same(outcomes(tmp_path / "log", policies), outcomes(tmp_path / "log", policies[::-1]), "reversed")


@pytest.mark.parametrize("size", seeds(1, [1, 3, 7]))
def test_the_same_bytes_however_many_examples_are_read_at_once(size: int, tmp_path: Path) -> None:
    log, policies = settings_for_bytes()
    log.write(tmp_path / "log")
    for name, block in (("whole", None), ("blocks", size)):
        result = replay.run(tmp_path / "log", to_toml(policies), resamples=200, block_examples=block)
        result.save(tmp_path / name)
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "blocks")
