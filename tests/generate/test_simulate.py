"""The simulated log: it is a valid log, it follows its documented model, and its rows depend on nothing else."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.simulation.grid import label_names, simulate, simulate_tables
from generate.simulation.grid_model import FEATURES, VERIFIERS, Model
from tests.errors import refuses
from toolkit.log import open_log, validate_log

SETTINGS = {"examples": 4_000, "traces": 8, "labels": 3, "seed": 5}


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    return simulate_tables(**SETTINGS)


@pytest.fixture(scope="module")
def sampled(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return tables["traces"].filter(pl.col("pool") == "n8")


def auc(right: np.ndarray, score: np.ndarray) -> float:
    wins = (right[:, None] > right[None, :]) * (
        (score[:, None] > score[None, :]) + 0.5 * (score[:, None] == score[None, :])
    )
    return wins.sum() / (right.sum() * (~right).sum())


@pytest.mark.parametrize("labels", [0, 2, 5, 30])
def test_the_log_is_valid(tmp_path: Path, labels: int) -> None:
    log = simulate(tmp_path / "log", examples=300, traces=3, labels=labels, seed=1)
    assert validate_log(log).problems == ()
    assert log.sealed
    assert log.simulated
    assert log.rows("examples") == 300
    assert log.rows("traces") == 300 * (3 + 1)
    assert log.rows("features") == 300 * (3 + 1)


def test_the_manifest_documents_the_model(tmp_path: Path) -> None:
    simulate(tmp_path / "log", examples=10, traces=2, labels=2, seed=9)
    manifest = json.loads((tmp_path / "log" / "manifest.json").read_text())
    assert manifest["simulated"] is True
    assert manifest["source"]["model"] == asdict(Model())
    assert {key: manifest["source"][key] for key in ("examples", "traces", "labels", "seed")} == {
        "examples": 10,
        "traces": 2,
        "labels": 2,
        "seed": 9,
    }


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    def shards(name: str) -> dict[str, str]:
        simulate(tmp_path / name, examples=1_200, traces=2, labels=3, seed=4)
        files = sorted((tmp_path / name).rglob("*.parquet"))
        return {str(f.relative_to(tmp_path / name)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}

    assert shards("one") == shards("two")


def test_an_example_does_not_depend_on_how_many_there_are() -> None:
    few = simulate_tables(examples=7, traces=3, labels=0, seed=2)
    many = simulate_tables(examples=1_003, traces=3, labels=0, seed=2)
    ids = few["examples"]["example_id"]
    for table, frame in few.items():
        assert frame.sort(pl.all().exclude("labels")).equals(
            many[table].filter(pl.col("example_id").is_in(ids.implode())).sort(pl.all().exclude("labels"))
        )


def test_blocks_and_seeds_differ() -> None:
    tables = simulate_tables(examples=2_000, traces=1, labels=3, seed=0)
    gold = tables["examples"]["gold"]
    assert not gold[:1_000].equals(gold[1_000:])
    other = simulate_tables(examples=1_000, traces=1, labels=3, seed=1)
    assert not gold[:1_000].equals(other["examples"]["gold"])


def test_writing_in_shards_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generate.simulation.grid.ROWS_PER_SHARD", 1_000)
    simulate(tmp_path / "log", **SETTINGS)
    assert len(list((tmp_path / "log" / "traces").iterdir())) == 4
    written = open_log(tmp_path / "log").scan("traces").collect()
    whole = simulate_tables(**SETTINGS)["traces"]
    assert written.select(whole.columns).sort("trace_id").equals(whole.sort("trace_id"))


def test_answers_follow_the_rules_of_the_contract(tables: dict[str, pl.DataFrame]) -> None:
    joined = tables["traces"].join(tables["examples"], on="example_id")
    right = (pl.col("answer") == pl.col("gold")).fill_null(False)
    assert joined.select((pl.col("correct") == right).all()).item()
    assert joined.select(pl.col("answer").is_in(pl.col("labels")).all()).item()
    null = joined.filter(pl.col("answer").is_null())
    assert tables["verifications"].join(null, on="trace_id", how="semi").is_empty()
    assert tables["verifications"].height == 2 * (joined.height - null.height)


def test_difficulty_moves_accuracy_nulls_and_tokens(sampled: pl.DataFrame) -> None:
    by = sampled.group_by("example_id").agg(
        pl.col("correct").mean(), pl.col("answer").is_null().mean().alias("null"), pl.col("completion_tokens").mean()
    )
    assert 0.45 < by["correct"].mean() < 0.65
    assert by["correct"].std() > 0.2  # examples differ: a binomial of 8 alone would give .18
    easy, hard = by.filter(pl.col("correct") > 0.8), by.filter(pl.col("correct") < 0.3)
    assert easy["null"].mean() < hard["null"].mean()
    assert easy["completion_tokens"].mean() * 1.3 < hard["completion_tokens"].mean()


def test_wrong_answers_gather_on_one(sampled: pl.DataFrame) -> None:
    wrong = sampled.filter(~pl.col("correct") & pl.col("answer").is_not_null())
    top = wrong.group_by("example_id").agg(n=pl.len(), top=pl.col("answer").unique_counts().max())
    share = top.filter(pl.col("n") >= 4).select(pl.col("top").sum() / pl.col("n").sum()).item()
    # with 3 labels the attractive one gets .6 + .4/2 = .8 of the wrong answers; the larger of two counts a bit more
    assert 0.78 < share < 0.9


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_verifiers_have_their_stated_auc_within_examples(
    tables: dict[str, pl.DataFrame], sampled: pl.DataFrame, verifier: str
) -> None:
    scored = (
        tables["verifications"]
        .filter(pl.col("verifier") == verifier)
        .join(sampled.select("trace_id", "correct"), on="trace_id")
    )
    values = [
        auc(group["correct"].to_numpy(), group["score"].to_numpy())
        for _, group in scored.group_by("example_id")
        if 0 < group["correct"].sum() < group.height
    ]
    # the values' s.d. is about .35; 3,000 examples: four standard errors are about .026
    assert np.mean(values) == pytest.approx(getattr(Model(), verifier), abs=0.026)
    assert scored["score"].is_between(0, 1, closed="none").all()


def test_features_predict_the_strong_score(tables: dict[str, pl.DataFrame]) -> None:
    joined = tables["features"].join(tables["verifications"].filter(pl.col("verifier") == "strong"), on="trace_id")
    right = joined.join(tables["traces"].filter("correct"), on="trace_id", how="semi")
    correlations = [right.select(pl.corr(feature, "score", method="spearman")).item() for feature in FEATURES]
    assert correlations == sorted(correlations, reverse=True)
    assert 0.3 < correlations[0] < Model().claim_similarity
    assert correlations[-1] > 0.1


def test_limits_and_finalizers(sampled: pl.DataFrame) -> None:
    model = Model()
    cut = sampled.filter(pl.col("finish_reason") == "length")
    assert 0 < cut.height < 0.05 * sampled.height
    assert cut.filter(~pl.col("finalizer_used"))["answer"].null_count() == cut.filter(~pl.col("finalizer_used")).height
    assert cut.filter("finalizer_used")["completion_tokens"].unique().to_list() == [
        model.max_tokens + model.finalizer_tokens
    ]
    assert sampled.filter(pl.col("finish_reason") == "stop")["finalizer_used"].sum() == 0
    assert sampled["sum_logprob"].max() < 0


def test_pools(tables: dict[str, pl.DataFrame]) -> None:
    pools = tables["traces"].group_by("pool").agg(pl.len(), pl.col("temperature").first()).sort("pool")
    assert pools.rows() == [("n8", 32_000, pytest.approx(0.7)), ("probe", 4_000, 0.0)]
    assert 0.25 < (tables["examples"]["split"] == "dev").mean() < 0.35


def test_label_names() -> None:
    names = label_names(28)
    assert names[:2] + names[25:] == ["A", "B", "Z", "L27", "L28"]
    assert len(set(names)) == 28


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"examples": 0}, ("invalid", "`examples`")),
        ({"traces": 0}, ("invalid", "`traces`")),
        ({"labels": 1}, ("invalid", "`labels`")),
        ({"labels": -1}, ("invalid", "`labels`")),
        ({"seed": -1}, ("invalid", "`seed`")),
    ],
)
def test_sizes_that_make_no_sense(tmp_path: Path, wrong: dict[str, int], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        simulate(tmp_path / "log", **{"examples": 2, "traces": 2, "labels": 2, "seed": 0} | wrong)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_log_is_kept_unless_forced(tmp_path: Path) -> None:
    simulate(tmp_path / "log", examples=2, traces=1)
    with refuses("exists", "`force`"):
        simulate(tmp_path / "log", examples=3, traces=1)
    assert open_log(tmp_path / "log").rows("examples") == 2
    assert simulate(tmp_path / "log", examples=3, traces=1, force=True).rows("examples") == 3
