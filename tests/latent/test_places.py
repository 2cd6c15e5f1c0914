"""Classifiers of one place each: as plain loops find them, and as a planted log's parameters imply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.simulation.planted import PlantedModel, simulate_planted
from replay.data.conditions import ids_where
from replay.latent import place_probes
from replay.latent.place_probes import (
    PROBE,
    PlacedTraces,
    _draw_questions,
    _draw_rows_by_right_share,
    _probe_scores,
    _training_rows_for_shares,
    auc_by_model_kind,
    auc_by_place,
    auc_by_right_share,
    auc_by_training_questions,
    mean_auc,
    mean_score_over_places,
    placed_traces,
    pooled_auc_of_score,
    restrict_traces,
    score_table,
    transfer_aucs,
)
from tests.logs import log_tables, sealed, simulated_tables
from toolkit.log import Log, collect, open_log, write_log
from toolkit.stats.curves.roc import InfluencedEstimate

MODEL = PlantedModel(places=2, dimensions=4, shared=0.0)
LOGISTIC = replace(PROBE, model="logistic")
STATES = "hidden_states/planted"
LIKE, UNLIKE = "like", "unlike"


def half_known_tables() -> dict[str, pl.DataFrame]:
    """Token -2 knows nothing; in the data set `unlike`, every third question, states are turned round."""
    tables = simulated_tables(simulate_planted, examples=600, traces=4, seed=5, model=MODEL)
    number = pl.col("example_id").str.slice(-9).cast(pl.Int64)
    tables["examples"] = tables["examples"].with_columns(
        dataset=pl.when(number % 3 == 0).then(pl.lit(UNLIKE)).otherwise(pl.lit(LIKE))
    )
    states = tables[STATES]
    values = states["state"].to_numpy().astype(np.float32)
    values[(states["token"] == -2).to_numpy()] = np.random.default_rng(0).normal(size=values.shape[1])
    values[states.select((number % 3 == 0).alias("turned"))["turned"].to_numpy()] *= -1
    tables[STATES] = states.with_columns(state=pl.Series(values.astype(np.float16), dtype=states.schema["state"]))
    return tables


log = sealed(half_known_tables, "places", source={"simulation": "states"})


def taken(log: Log, most: int = 10_000) -> PlacedTraces:
    made = placed_traces(
        log, "planted", ids_where(log, "split='train'", "on"), ids_where(log, "split='test'", "on"), most
    )
    assert made is not None
    return made


def of(traces: PlacedTraces, dataset: str) -> PlacedTraces:
    return restrict_traces(traces, traces.has_value("dataset", dataset))


def plain_rows(log: Log) -> list[dict[str, object]]:
    """Every state with what belongs to it, as a list of rows."""
    joined = log.scan(STATES).join(log.scan("traces", ["trace_id", "example_id", "correct"]), on="trace_id")
    examples = log.scan("examples", ["example_id", "split", "dataset"])
    return collect(joined.join(examples, on="example_id"), log).sort("trace_id").to_dicts()


def plain_area(rows: list[dict], token: int, trained: str, measured: str) -> float:
    """Of a logistic regression that is fitted and measured by loops."""
    from sklearn.linear_model import LogisticRegression

    own = [row for row in rows if row["token"] == token]
    fitted = [row for row in own if row["split"] == "train" and row["dataset"] == trained]
    asked = [row for row in own if row["split"] == "test" and row["dataset"] == measured]
    columns = list(zip(*(row["state"] for row in fitted), strict=True))
    centre = [float(np.mean(column)) for column in columns]
    scale = [float(np.std(column)) or 1.0 for column in columns]

    def read(row: dict) -> list[float]:
        return [(value - c) / s for value, c, s in zip(row["state"], centre, scale, strict=True)]

    model = LogisticRegression(max_iter=1_000, class_weight="balanced")
    model.fit([read(row) for row in fitted], [row["correct"] for row in fitted])
    chance = model.predict_proba([read(row) for row in asked])[:, 1]
    right = [c for c, row in zip(chance, asked, strict=True) if row["correct"]]
    wrong = [c for c, row in zip(chance, asked, strict=True) if not row["correct"]]
    wins = sum((a > b) + 0.5 * (a == b) for a in right for b in wrong)
    return wins / (len(right) * len(wrong))


def test_map_and_transfer_are_those_of_plain_loops(log: Log) -> None:
    traces, rows = taken(log), plain_rows(log)
    own = of(traces, LIKE)
    found = auc_by_place(own, score_table(own, own.train, own.states_at(), LOGISTIC))
    assert [(one.layer, one.token, one.traces) for one in found] == [(-1, -2, 800), (-1, -1, 800)]
    assert found[1].pooled.estimate == pytest.approx(plain_area(rows, -1, LIKE, LIKE), abs=2e-3)
    parts = {name: traces.has_value("dataset", name) for name in (LIKE, UNLIKE)}
    areas = transfer_aucs(traces, parts, [1], LOGISTIC)
    assert len(areas) == 4
    for (trained, measured), area in areas.items():
        assert area.estimate == pytest.approx(plain_area(rows, -1, trained, measured), abs=2e-3)


def test_the_place_that_knows_is_found_and_its_area_is_the_known_one(log: Log) -> None:
    own = of(taken(log), LIKE)
    blind, best = auc_by_place(own, score_table(own, own.train, own.states_at()))
    assert best.pooled.low is not None
    assert best.pooled.low < MODEL.auc(1) < best.pooled.high + 0.03  # trees fall a little short
    assert best.within.low < MODEL.auc_within(1) < best.within.high + 0.03
    assert blind.pooled.estimate == 0.5
    table = score_table(own, own.train, own.states_at(), LOGISTIC)
    assert pooled_auc_of_score(own, table[:, 1], ~own.train).estimate == pytest.approx(MODEL.auc(1), abs=0.03)


def test_what_is_turned_round_carries_over_turned_round(log: Log) -> None:
    """An area below one half is what it is."""
    traces = taken(log)
    parts = {name: traces.has_value("dataset", name) for name in (LIKE, UNLIKE)}
    for together in (False, True):
        areas = transfer_aucs(traces, parts, [1], LOGISTIC, together=together)
        assert areas[LIKE, LIKE].estimate > 0.75
        assert areas[LIKE, UNLIKE].estimate < 0.25
        assert areas[UNLIKE, UNLIKE].estimate > 0.75


def test_nothing_that_was_trained_on_is_scored(log: Log) -> None:
    own = of(taken(log), LIKE)
    table = score_table(own, own.train, own.states_at([1]), LOGISTIC)
    assert np.isnan(table[own.train]).all()
    assert np.isnan(table[:, 0]).all()
    assert not np.isnan(table[~own.train, 1]).any()
    np.testing.assert_array_equal(mean_score_over_places(table), mean_score_over_places(table, [1]))


def test_copies_of_questions_that_are_trained_on_are_not_measured(log: Log, tmp_path: Path) -> None:
    tables = log_tables(log)
    first = tables["examples"].filter(split="train")["question"][0]
    asked = tables["examples"].filter(split="test")["example_id"][0]
    same = pl.when(pl.col("example_id") == asked).then(pl.lit(first)).otherwise("question")
    tables["examples"] = tables["examples"].with_columns(question=same)
    write_log(tmp_path / "log", name="copies", tables=tables, source={"simulation": "states"})
    found = taken(open_log(tmp_path / "log"))
    assert asked not in found.keys["example_id"]
    assert len(taken(log).right) - len(found.right) == 4


def test_no_more_traces_are_taken_than_asked_for(log: Log) -> None:
    whole, some = taken(log), taken(log, 100)
    assert len(some.right) == 400
    assert some.left_out == len(whole.right) - 400
    assert taken(log, 100).keys.equals(some.keys)
    assert not np.isin(some.unit[some.train], some.unit[~some.train]).any()


def test_states_are_the_same_however_many_places_are_held(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = taken(log)
    whole = list(traces.states_at())
    monkeypatch.setattr(place_probes, "MEMORY_BYTES", 1)
    for one, other in zip(whole, traces.states_at(), strict=True):
        assert one.place == other.place
        np.testing.assert_array_equal(one.trace, other.trace)
        np.testing.assert_array_equal(one.state, other.state)


def test_too_little_to_train_on_gives_no_scores() -> None:
    rng = np.random.default_rng(0)
    state, every = rng.normal(size=(40, 3)).astype(np.float32), np.ones(40, bool)
    right = np.arange(40) % 2 == 0
    assert _probe_scores(state, right, np.arange(40), np.arange(40) < 19, every) is None
    assert _probe_scores(state, every, np.arange(40), every, every) is None
    assert _probe_scores(state, right, np.arange(40), every, every) is not None


def test_a_mean_of_areas_has_the_mean_of_their_influences() -> None:
    pair = InfluencedEstimate(0.6, np.array([0.1, -0.1]), 2), InfluencedEstimate(0.8, np.array([0.3, 0.1]), 2)
    mean = mean_auc([*pair, InfluencedEstimate(np.nan, np.zeros(2), 0)])
    assert mean.estimate == pytest.approx(0.7)
    np.testing.assert_allclose(mean.influence, [0.2, 0.0])


def test_rows_to_train_on_are_nested_and_of_the_share_that_is_asked_for(log: Log) -> None:
    own = of(taken(log), LIKE)
    few, more = _draw_questions(own, 20, 1), _draw_questions(own, 50, 1)
    assert len(np.unique(own.unit[few])) == 20
    assert not (few & ~more).any()
    rows = _training_rows_for_shares(own)
    right, wrong = int((own.train & own.right).sum()), int((own.train & ~own.right).sum())
    assert rows == int(min(right / 0.9, wrong / 0.95))
    for share in (0.05, 0.9):
        drawn = _draw_rows_by_right_share(own, share, rows, 0)
        assert drawn.sum() == rows
        assert own.right[drawn].sum() == round(share * rows)
        assert own.train[drawn].all()


def test_seeds_have_a_spread_around_their_mean(log: Log) -> None:
    own = of(taken(log), LIKE)
    sizes = list(auc_by_training_questions(own, [1], 2))
    assert [one.size for one in sizes] == [12, 25, 50, 100, 200]
    assert sizes[-1].median == sizes[-1].least == sizes[-1].most
    assert sizes[-1].rows == 800
    shares = list(auc_by_right_share(own, [1], 2))
    assert len({one.rows for one in shares}) == 1
    for one in (*sizes, *shares):
        assert one.least <= one.mean.estimate <= one.most
    assert sizes[-1].mean.estimate > sizes[0].mean.estimate
    models = list(auc_by_model_kind(own, [1], ["xgboost", "logistic"], 2))
    assert [(one.model, one.layer, one.token) for one in models] == [("xgboost", -1, -1), ("logistic", -1, -1)]
    assert models[1].median > models[0].median  # a direction across all dimensions
