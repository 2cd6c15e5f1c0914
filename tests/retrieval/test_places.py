"""Places of gold documents are counted; the ranking is sorted: both must agree. And the figure of recall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.chains import READERS, ChainsModel
from generate.simulation.rounds import RoundsModel, simulate_rounds
from replay.kinds.retrieve import Retrieve
from tests.errors import refuses
from toolkit.rounds.frontier import Rounds, same_text_numbers
from toolkit.table_rows import TableRows


def random_rounds(rng: np.random.Generator, repeats: float) -> Rounds:
    """Rounds of four examples; documents are of few names with a chance of `repeats`, else of their own."""
    rows, golds = [], []
    for example in range(4):
        names: list[str] = []
        for hop in range(rng.integers(1, 4)):
            for number in range(rng.integers(1, 4)):
                drawn = [
                    f"x{rng.integers(0, 6)}" if rng.random() < repeats else f"d{len(names)}-{place}"
                    for place in range(rng.integers(0, 5))
                ]
                names += (documents := list(dict.fromkeys(drawn)))
                rows.append({"e": example, "hop": hop, "round": number, "documents": documents})
        golds.append(rng.choice(names, min(3, len(names)), replace=False).tolist() if names else [])
    frame = pl.DataFrame(rows, schema_overrides={"documents": pl.List(pl.String)})
    offsets = np.concatenate([[0], np.cumsum(np.bincount(frame["e"].to_numpy(), minlength=4))])
    return Rounds(TableRows(frame.drop("e"), offsets), pl.Series(golds, dtype=pl.List(pl.String)))


@pytest.mark.parametrize("repeats", [0.0, 0.4])
def test_counted_places_are_those_of_the_ranking(repeats: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        rounds = random_rounds(rng, repeats)
        keys = rng.integers(0, 4, len(rounds.documents)).astype(float)
        keys[rng.random(len(keys)) < 0.2] = np.inf  # as first-stage ranks that are not logged
        paid, most = rounds.step_in_hop < rng.integers(1, 4), int(rng.integers(1, 8))
        documents, places = rounds.merge_hops(*rounds.rank_documents(keys, paid), most)
        on = rounds.is_gold[documents] & (places < most)
        example = rounds.rows.example[rounds.document_row[documents[on]]]
        counted, place = rounds.gold_places(keys, paid, most)
        within = place < most
        assert sorted(zip(counted[within], place[within], strict=True)) == sorted(zip(example, places[on], strict=True))


def test_texts_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, owner = pl.Series(["a", "b", "a", "a"]), np.array([0, 0, 0, 1])
    monkeypatch.setattr(pl.Series, "hash", lambda self: pl.Series([7] * len(self), dtype=pl.UInt64))
    numbers = same_text_numbers(texts, owner)
    assert numbers[0] == numbers[2]
    assert len({*numbers.tolist()}) == 3


def test_recall_over_rounds(tmp_path: Path) -> None:
    """A line a sweep, over the rounds paid; more rounds of plain re-ranking never lose gold documents by much."""
    log = simulate_rounds(tmp_path / "log", examples=60, seed=3, model=RoundsModel(quality=2.0))
    ways = [Retrieve(name=f"plain[rounds={n}]", sweep="plain", rounds=n, multiplier=1.0) for n in (1, 3, 6)]
    result = replay.run(log, ways, resamples=20)
    frame = result.figure_data("recall").frame
    assert set(frame["metric"]) == {"hit_1", "hit_10", "recall_1", "recall_10"}
    recall = frame.filter(metric="recall_10").sort("rounds")
    assert recall["rounds"].to_list() == [2.0, 6.0, 12.0]
    assert recall["estimate"].is_sorted()
    assert result.figure("recall") is not None
    with refuses("empty", "buzz"):
        result.figure_data("buzzes")


def test_chains_have_the_planted_differences(tmp_path: Path) -> None:
    """Gold evidence, the larger reader and the stronger verifier are better; agreement helps evidence."""
    model = ChainsModel(chains=4)
    log = simulate_rounds(tmp_path / "log", examples=400, seed=5, chains=model)
    right = log.scan("traces").group_by("pool").agg(pl.col("correct").mean()).collect()
    share = dict(right.iter_rows())
    for reader in READERS:
        assert share[f"gold-{reader}"] > share[f"rewarded-{reader}"] > share[f"relevance-{reader}"]
    for evidence in ("gold", "rewarded", "relevance"):
        assert share[f"{evidence}-large"] - share[f"{evidence}-small"] == pytest.approx(model.reader, abs=0.06)
    assert share["gold-small"] == pytest.approx(model.skill + model.use, abs=0.05)
    scores = log.scan("verifications").join(log.scan("traces", ["trace_id", "correct"]), on="trace_id").collect()
    gaps = scores.group_by("verifier").agg(
        gap=pl.col("score").filter(pl.col("correct")).mean() - pl.col("score").filter(~pl.col("correct")).mean()
    )
    gap = dict(gaps.iter_rows())
    assert gap["strong"] > gap["weak"] > 0
