"""The ranking of rounds that both stages use: a policy `retrieve` ranks as it does, and its settings are checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.rounds import RoundsModel, simulate_rounds
from replay.kinds.retrieve import Retrieve
from tests.errors import refuses
from toolkit.log import collect
from toolkit.rounds.frontier import Rounds
from toolkit.rounds.ranking import RoundRanking
from toolkit.settings import from_table
from toolkit.table_rows import TableRows

SETTINGS = ({}, {"reward": {"entropy": 0.5}, "frontier": 3}, {"penalty": "sunar"}, {"order": "retriever"})


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_list_of_rounds_ranks_as_the_policy_does(settings: dict, tmp_path: Path) -> None:
    log = simulate_rounds(tmp_path / "log", examples=30, seed=5, model=RoundsModel(quality=0.5))
    frame = collect(log.scan("rounds", list(log.columns("rounds"))))
    gold = collect(log.scan("examples", ["example_id", "gold_documents"]))
    hits = {}
    for (example,), rows in frame.group_by("example_id"):
        mine = rows.sort("hop", "round")
        rounds = Rounds(TableRows(mine, np.array([0, len(mine)])), gold.filter(example_id=example)["gold_documents"])
        ranking = from_table(RoundRanking, settings)
        order, place = ranking.ranked_documents(rounds, negative=bool((rounds.relevance < 0).any()))
        documents, _ = rounds.merge_hops(order, place, 1)
        hits[example] = bool(rounds.is_gold[documents[:1]].any())
    policy = Retrieve(name="all", rounds=99, at=(1,), **settings)
    outcomes = replay.run(log, [policy], resamples=20).outcomes.collect()
    assert dict(outcomes.select("example_id", pl.col("hit_1") == 1).rows()) == hits
    assert 0 < sum(hits.values()) < len(hits)


def test_settings_that_do_not_fit() -> None:
    with refuses("conflict", "`penalty`", "`reward`"):
        RoundRanking(penalty="sunar", reward="single")
    with refuses("invalid", "`reward`"):
        from_table(RoundRanking, {"reward": "both"})
