"""`answers_as`: votes by a column of traces, such as clusters of meaning, in place of the answers themselves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from tests.errors import refuses
from tests.logs import sealed, tables
from tests.reference import plain
from tests.reference.compare import assert_same, keyed
from tests.reference.random_logs import TRACES, RandomLog, random_log
from tests.reference.random_policies import agreement, margin, to_toml, traces_budget, window
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.log import Log

CLUSTER = "answer_cluster"


def cities() -> dict[str, pl.DataFrame]:
    """One question: Paris twice, and three names of London that mean one thing; a trace without an answer."""
    answers = ["Paris", "London", "Paris", "the City", None, "Londinium"]
    parts = tables({"n": {"e": [(answer, None if answer is None else 0.5) for answer in answers]}}, {"e": "London"})
    clusters = ["2", "10", "2", "10", None, "10"]
    return parts | {"traces": parts["traces"].with_columns(pl.Series(CLUSTER, clusters))}


log = sealed(cities)


def outcome(log: Log, **keys: Any) -> Row:
    policy = {"name": "p", "kind": "sample", "max_traces": 6, "select": "majority", **keys}
    return replay.run(log, to_toml([policy]), resamples=20).outcomes.collect().row(0, named=True)


def test_a_cluster_wins_and_its_earliest_answer_is_given(log: Log) -> None:
    assert (outcome(log)["answer"], outcome(log)["correct"]) == ("Paris", 0.0)
    by_cluster = outcome(log, answers_as=CLUSTER)
    assert (by_cluster["answer"], by_cluster["correct"], by_cluster["valid_traces"]) == ("London", 1.0, 5.0)


def test_ties_go_by_the_column_too(log: Log) -> None:
    """After four traces two clusters have two votes: the earliest is Paris's, and 2 is less than 10."""
    tied = {"max_traces": 4, "answers_as": CLUSTER}
    assert outcome(log, **tied)["answer"] == "Paris"
    assert outcome(log, **tied, tie="smallest")["answer"] == "Paris"
    assert outcome(log, max_traces=4, tie="smallest")["answer"] == "Paris"  # two of four votes
    assert outcome(log, max_traces=6, answers_as=CLUSTER, select="weighted", verifier="v")["answer"] == "London"


def test_over_all_orders_any_of_the_cluster_may_come_first(log: Log) -> None:
    """Of six traces all are drawn: London's cluster wins whatever the order, with each of its three names alike."""
    row = outcome(log, answers_as=CLUSTER, expected=True)
    assert {one["answer"]: round(one["share"], 9) for one in row["answers"]} == dict.fromkeys(
        ("London", "the City", "Londinium"), round(1 / 3, 9)
    )
    assert row["correct"] == pytest.approx(1 / 3)


def test_stops_count_clusters(log: Log) -> None:
    stop = {"rule": "agreement", "confidence": 0.6}
    assert outcome(log, answers_as=CLUSTER, stop={"rule": "window", "size": 3}, max_traces=6)["traces"] == 6.0
    first = outcome(log, stop=stop, answers_as=CLUSTER)
    assert (first["traces"], first["ending"]) == (1.0, "rule")


def test_the_share_of_votes_is_of_the_cluster(log: Log) -> None:
    """Three of the five traces with an answer."""
    base = {"kind": "sample", "max_traces": 6, "select": "majority", "answers_as": CLUSTER}
    then = {"kind": "sample", "max_traces": 1, "select": "first"}
    for below, traces in ((0.6, 6.0), (0.61, 6.0)):
        gate = {"signal": "vote_share", "below": below}
        policy = {"name": "p", "kind": "when", "base": base, "gate": gate, "then": then}
        text = to_toml([policy])
        row = replay.run(log, text, resamples=20).outcomes.collect().row(0, named=True)
        assert (row["traces"], row["answer"]) == (traces, "London" if below == 0.6 else "Paris")


def test_an_explanation_shows_the_column(log: Log) -> None:
    policy = {"name": "p", "kind": "sample", "max_traces": 3, "select": "majority", "answers_as": CLUSTER}
    (stage,) = [one for one in replay.explain(log, to_toml([policy]), "p", "e").stages if CLUSTER in one.rows.columns]
    assert stage.rows[CLUSTER].to_list() == ["2", "10", "2"]
    assert f"`{CLUSTER}`" in stage.title


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"answers_as": "cluster"}, ("unknown", "`cluster`", "`answer_cluster`")),
        ({"answers_as": "sample_index"}, ("unsuitable", "`sample_index`")),
        ({"answers_as": CLUSTER, "select": "best", "verifier": "v"}, ("unsuitable", "`answers_as`")),
        ({"answers_as": CLUSTER, "select": "weighted", "verifier": "v", "order": "surrogate"}, ("unsuitable",)),
        ({"answers_as": 3}, ("invalid", "`answers_as`")),
    ],
)
def test_what_does_not_vote_takes_no_column(keys: Row, refusal: tuple[str, ...], log: Log) -> None:
    with refuses(*refusal):
        outcome(log, **keys)


def with_clusters(log: RandomLog, seed: int) -> RandomLog:
    """The log with a cluster for each answer, or for several, and at times none."""
    rng = random.Random(f"clusters {seed}")
    nulls = rng.choice([0.0, 0.0, 0.03])
    for trace in log.plain.traces:
        name = (
            None if trace["answer"] is None or rng.random() < nulls else rng.choice(["9", "10", "b", trace["answer"]])
        )
        trace[CLUSTER] = name
    columns = {name: kind for name, kind in TRACES.items() if name in log.tables["traces"].columns}
    frame = pl.DataFrame(log.plain.traces, schema={**columns, CLUSTER: pl.String}, orient="row")
    return RandomLog(**{**vars(log), "tables": {**log.tables, "traces": frame}})


def random_voter(rng: random.Random, log: RandomLog) -> Row:
    pool = rng.choice([name for name in log.pools if name not in log.plain.whole])
    policy: Row = {
        "kind": "sample",
        "pool": pool,
        "answers_as": CLUSTER,
        "select": rng.choice(["majority", "weighted"]),
    }
    policy["max_traces"] = rng.randrange(1, log.pools[pool] + 1)
    if policy["select"] == "weighted":
        policy["verifier"] = rng.choice([one for one in log.verifiers if one not in log.listwise])
    way = rng.random()
    if way < 0.3 and policy["select"] == "majority":
        policy["expected"] = True
    elif way < 0.7:
        policy["stop"] = rng.choice([traces_budget, agreement, window, margin])(rng)
        if policy["stop"]["rule"] == "margin":
            policy["verifier"] = rng.choice([one for one in log.verifiers if one not in log.listwise])
    elif way < 0.85:
        policy["orders"] = 2
    if rng.random() < 0.5:
        policy["tie"] = rng.choice(["smallest", "random"])
        policy["seed"] = 3
    if policy["select"] == "majority" and rng.random() < 0.3:
        policy["nulls"] = "vote"
    return policy


@pytest.mark.parametrize("seed", seeds(2, 24))
def test_the_slow_twin_agrees(seed: int, tmp_path: Path) -> None:
    log = with_clusters(random_log(seed), seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"voters {seed}")
    for count in (1, 2, 4):
        policies = [{"name": f"p{i}", **random_voter(rng, log)} for i in range(count)]
        try:
            expected = plain.replay(log.plain, policies)
        except plain.Refused:
            with pytest.raises(ThinkbackError):
                replay.run(tmp_path / "log", to_toml(policies), resamples=20)
            continue
        found = keyed(replay.run(tmp_path / "log", to_toml(policies), resamples=20).outcomes.collect())
        assert_same(expected.outcomes(), found, to_toml(policies))
