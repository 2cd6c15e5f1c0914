"""The study of latent verifiers: planted logs give the verdicts that their parameters imply, whatever these are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import thinkback as tb
from generate.simulation.planted import PlantedModel, simulate_planted
from replay.analyses.strategies.strategies import MAJORITY, ORACLE, Strategy
from replay.data.conditions import ids_where
from replay.studies.kit.report import UNDONE, StudyReport
from replay.studies.latent.study import SCORED_SAMPLES, LatentStudy
from replay.studies.latent.verdicts import NO_LOGPROBS, OVER, Answer, StrategyGain, _gain_verdict, _VerdictQuestion
from tests.errors import refuses, remarked
from tests.logs import log_tables
from tests.seeds import seeds
from tests.show.whole import assert_paper
from toolkit.log import Log, collect, open_log, write_log
from toolkit.log.describe.verifier_quality import HONEST, WHOLE, quality_of_log
from toolkit.stats import PairedInterval

STRONG = PlantedModel(signal=1.5, logprob=0.3, probe=True)
WEAK = PlantedModel(signal=0.0, difficulty=0.0, logprob=0.8, probe=True)
QUICK = {"verifier": "projection", "ablations": False, "resamples": 200, "orders": 20}


def planted(path: Path, model: PlantedModel, examples: int = 1_600) -> Log:
    """A planted log whose projection is a chance, as scores of fitted verifiers are."""
    log = simulate_planted(path / "drawn", examples=examples, traces=8, seed=2, model=model)
    tables = {table: collect(log.scan(table), log) for table in log.shards if not table.startswith("hidden")}
    scores = tables["verifications"]["score"].to_numpy()
    tables["verifications"] = tables["verifications"].with_columns(score=pl.Series(1 / (1 + np.exp(-scores))))
    return write_log(path / "log", name="planted", tables=tables, source={"simulation": "states"})


@pytest.fixture(scope="module")
def strong(tmp_path_factory: pytest.TempPathFactory) -> StudyReport:
    return tb.study_latent(planted(tmp_path_factory.mktemp("strong"), STRONG), **QUICK)


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> StudyReport:
    return tb.study_latent(planted(tmp_path_factory.mktemp("weak"), WEAK), **QUICK)


def answers(report: StudyReport) -> dict[tuple[_VerdictQuestion, str], Answer]:
    """The verdicts on the one data set, by question and what they are over."""
    return {(one.question, one.over): one.answer for one in report.parts[0].verdicts}


def test_a_log_whose_states_know_more_than_its_log_probabilities(strong: StudyReport) -> None:
    assert STRONG.logprob_model is not None
    assert STRONG.auc() > STRONG.logprob_model.auc()
    found = answers(strong)
    assert {
        found[question, over] for question in (_VerdictQuestion.CHANCE, _VerdictQuestion.LOGPROBS) for over in OVER
    } == {Answer.YES}
    yes = (
        _VerdictQuestion.RANDOM,
        _VerdictQuestion.WEIGHTED,
        _VerdictQuestion.BEST,
        _VerdictQuestion.CONDITIONAL,
        _VerdictQuestion.COIN,
    )
    assert {found[question, ""] for question in yes} == {Answer.YES}
    assert found[_VerdictQuestion.ORACLE, ""] is Answer.NO


def test_a_log_whose_states_know_nothing(weak: StudyReport) -> None:
    assert WEAK.logprob_model is not None
    assert WEAK.auc() == pytest.approx(0.5)
    found = answers(weak)
    assert {found[_VerdictQuestion.CHANCE, over] for over in OVER} == {Answer.UNDECIDED}
    assert {found[_VerdictQuestion.LOGPROBS, over] for over in OVER} == {Answer.NO}
    assert {found[question, ""] for question in (_VerdictQuestion.BEST, _VerdictQuestion.CONDITIONAL)} == {Answer.NO}
    assert found[_VerdictQuestion.COIN, ""] is Answer.UNDECIDED


def test_differences_are_those_that_the_parameters_imply(strong: StudyReport) -> None:
    assert STRONG.logprob_model is not None
    implied = (STRONG.auc() - STRONG.logprob_model.auc(), STRONG.auc_within() - STRONG.logprob_model.auc_within())
    for over, difference in zip(OVER, implied, strict=True):
        pool = strong.parts[0].main_pool
        assert pool.auc_minus(pool.signals[WHOLE], over).difference == pytest.approx(difference, abs=0.03)


def test_areas_are_those_of_describe(strong: StudyReport) -> None:
    study: LatentStudy = strong.parts[0]
    described = {worth.pool: worth for _, worth in quality_of_log(study.log, pools=[pool.pool for pool in study.pools])}
    for pool in study.pools:
        for row in described[pool.pool].signals:
            if row.name in pool.signals and row.auc.estimate is not None:
                assert pool.signals[row.name].interval("pooled") == row.auc
                assert pool.signals[row.name].interval("within") == row.within
            if row.name == pool.verifier:
                assert row.over_random is None or pool.gain_over_random() == row.over_random


def test_gains_are_those_of_plain_loops(strong: StudyReport) -> None:
    """VerdictOn by question, on the half that settings were not chosen on."""
    study: LatentStudy = strong.parts[0]
    made, chosen = study.strategies, study.chosen
    assert made is not None
    assert made.probe is not None
    assert made.scores is not None
    assert chosen is not None
    score, votes = made.scores["projection"], made.plain[Strategy(MAJORITY)]
    for gain in study.gains.conditional:
        right, paid = [], []
        for at in np.flatnonzero(~chosen):
            doubted = score[at] < (gain.below or 0.0)
            right.append(votes[at, list(made.n).index(gain.n)] if doubted else made.probe[at])
            paid.append(1 + gain.n * doubted)
        assert gain.accuracy == pytest.approx(np.mean(right))
        assert gain.samples == pytest.approx(np.mean(paid))
        assert gain.difference.difference == pytest.approx(gain.accuracy - gain.against)
    last = study.gains.oracle[-1]
    assert last.against == pytest.approx(made.plain[Strategy(ORACLE)][~chosen, -1].mean())


def test_no_two_settings_act_alike(strong: StudyReport, weak: StudyReport) -> None:
    for study in (strong.parts[0], weak.parts[0]):
        score = study.strategies.scores["projection"][~study.chosen]
        acts = [(one.n, *(score < one.below)) for one in study.gains.conditional]
        assert len(set(acts)) == len(acts) == len(study.gains.coin) > 1


def of(difference: float, low: float, high: float, samples: float = 2.0) -> StrategyGain:
    return StrategyGain("one", samples, 1, 0.5, 0.5, PairedInterval(difference, low, high, None, 9, "t"))


ABOVE, BELOW, AROUND = of(0.2, 0.1, 0.3, 3.0), of(-0.2, -0.3, -0.1, 5.0), of(0.1, -0.1, 0.3)


@pytest.mark.parametrize(
    ("gains", "answer", "shown"),
    [
        ((ABOVE, AROUND), Answer.YES, 0.2),
        ((AROUND, BELOW), Answer.NO, -0.2),
        ((ABOVE, BELOW), Answer.PARTLY, 0.2),
        ((AROUND,), Answer.UNDECIDED, 0.1),
    ],
)
def test_a_verdict_on_all_settings_of_a_strategy(gains: tuple[StrategyGain, ...], answer: Answer, shown: float) -> None:
    found = _gain_verdict(_VerdictQuestion.CONDITIONAL, gains)
    assert found.answer is answer
    assert found.difference is not None
    assert found.difference.difference == shown
    assert found.gained == tuple(one.samples for one in gains if one is ABOVE)
    assert found.lost == tuple(one.samples for one in gains if one is BELOW)


def test_what_the_log_lacks_is_said(tmp_path: Path) -> None:
    """Without log-probabilities, a probe or states nothing is a silent dash."""
    log = simulate_planted(tmp_path / "log", examples=60, traces=4, seed=1)
    report = tb.study_latent(log, **QUICK)
    found = answers(report)
    assert found[_VerdictQuestion.LOGPROBS, "pooled"] is Answer.UNASKED
    assert found[_VerdictQuestion.CONDITIONAL, ""] is Answer.UNASKED
    why = {verdict.question: verdict.why for verdict in report.parts[0].verdicts}
    assert why[_VerdictQuestion.LOGPROBS] == NO_LOGPROBS
    assert "first attempts" in why[_VerdictQuestion.CONDITIONAL]
    remarked(report.tables["table_1"].below, "no_logprobs")
    assert "table_4" not in report.tables
    with refuses("unknown", "`latent`", "`verifier`"):
        tb.study_latent(log)
    with refuses("empty", "`where`"):
        tb.study_latent(log, **QUICK, where="split = 'train'")


def test_plain_voting_in_another_pool_is_a_rival_too(tmp_path: Path) -> None:
    """A pool that is right more often beats conditional voting on the largest one."""
    log = planted(tmp_path, replace(STRONG, places=1), examples=400)
    tables = log_tables(log)
    gold = tables["examples"].select("example_id", "gold")
    cold = (
        tables["traces"].filter((pl.col("pool") != "probe") & (pl.col("sample_index") < 4)).join(gold, on="example_id")
    )
    right = pl.col("example_id").str.slice(-2).cast(pl.Int64) < 97
    cold = cold.with_columns(
        pool=pl.lit("cold"), trace_id=pl.col("trace_id") + "-cold", correct=right,
        answer=pl.when(right).then("gold").otherwise(pl.lit(None)),
    )  # fmt: skip
    tables["traces"] = pl.concat([tables["traces"], cold.drop("gold")], how="diagonal")
    report = tb.study_latent(write_log(tmp_path / "two", name="two", tables=tables), **QUICK)
    found, study = answers(report), report.parts[0]
    assert found[_VerdictQuestion.CONDITIONAL, ""] is not Answer.NO
    assert found[_VerdictQuestion.ELSEWHERE, ""] is Answer.NO
    assert study.strategies is not None
    assert study.chosen is not None
    names = study.strategies.examples["example_id"].str.slice(-2).cast(pl.Int64)
    for one, plain in zip(study.gains.elsewhere, study.gains.conditional, strict=True):
        assert one.pool == "cold"
        assert one.against == pytest.approx((names < 97).to_numpy()[~study.chosen].mean())
        assert one.difference.difference == pytest.approx(plain.accuracy - one.against)
    assert "votes: of `n8`, first attempts: of `probe`" in report.tables["verdicts"].markdown()
    rivals = {verdict.against for verdict in study.verdicts if verdict.question is _VerdictQuestion.ELSEWHERE}
    assert all("cold" in rival for rival in rivals)


def test_votes_by_score_are_of_the_samples_that_have_scores(tmp_path: Path) -> None:
    """As a log without the other samples gives, and it is said."""
    log = planted(tmp_path, replace(STRONG, places=1), examples=200)
    tables = log_tables(log)
    later = tables["traces"].filter((pl.col("pool") != "probe") & (pl.col("sample_index") >= 4))["trace_id"].implode()
    tables["verifications"] = tables["verifications"].filter(~pl.col("trace_id").is_in(later))
    half = tb.study_latent(write_log(tmp_path / "half", name="half", tables=tables), **QUICK)
    tables["traces"] = tables["traces"].filter(~pl.col("trace_id").is_in(later))
    few = tb.study_latent(write_log(tmp_path / "few", name="few", tables=tables), **QUICK)
    assert half.parts[0].gains.weighted == few.parts[0].gains.weighted
    assert half.parts[0].gains.best == few.parts[0].gains.best
    assert [one.n for one in half.parts[0].gains.best] == [2, 4]
    assert half.parts[0].gains.oracle[-1].n == 8
    remarked(half.tables["votes_by_score"].below, SCORED_SAMPLES, "4")
    remarked(half.words[UNDONE], SCORED_SAMPLES, "4")
    assert few.parts[0].scored is None


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ({"pool": "nope"}, ("unknown", "`nope`")),
        ({"probe": "nope"}, ("unknown", "`nope`")),
        ({"probe": "n4"}, ("empty", "`n4`")),
        ({"action": "nope"}, ("unknown", "`nope`")),
        ({"on": "split = 'nope'"}, ("empty", "`on`", "`test`")),
        ({"seeds": 0}, ("invalid", "1")),
    ],
)
def test_a_name_that_the_log_lacks_is_refused(tmp_path: Path, named: dict[str, str], refusal: tuple[str, ...]) -> None:
    log = simulate_planted(tmp_path / "log", examples=40, traces=4, seed=1, model=replace(STRONG, places=1))
    with refuses(*refusal):
        tb.study_latent(log, **QUICK, **named)


@pytest.mark.parametrize("split", seeds(1, [True, False]))
def test_training_rows_are_nowhere_among_what_is_reported(tmp_path: Path, split: bool) -> None:
    """Where they are named, and where the log has no test split."""
    log = planted(tmp_path, replace(STRONG, places=1), examples=200)
    asked = QUICK | {"where": "true"}
    if not split:
        tables = log_tables(log)
        tables["examples"] = tables["examples"].with_columns(split=pl.col("split").replace("test", "dev"))
        log, asked = write_log(tmp_path / "other", name="other", tables=tables), QUICK
    report = tb.study_latent(log, **asked)
    study: LatentStudy = report.parts[0]
    train = collect(log.scan("examples", ["example_id", "split"]), log).filter(split="train")["example_id"]
    assert study.strategies is not None
    assert len(study.strategies.unit) == 100
    assert not study.strategies.examples["example_id"].is_in(train.implode()).any()
    assert ids_where(log, study.where, "where").is_in(train.implode()).sum() == 0
    remarked([line for lines in report.words.values() for line in lines], "training_rows", "100")


def test_a_verifier_of_each_data_set_is_the_first_that_scored_it(tmp_path: Path) -> None:
    log = open_log(planted(tmp_path, replace(STRONG, places=1), examples=120).address)
    tables = log_tables(log)
    odd = pl.col("example_id").str.slice(-1).cast(pl.Int32) % 4 < 2
    tables["examples"] = tables["examples"].with_columns(dataset=pl.when(odd).then(pl.lit("a")).otherwise(pl.lit("b")))
    tables["verifications"] = tables["verifications"].with_columns(
        verifier=pl.when(odd).then(pl.lit("one")).otherwise(pl.lit("two"))
    )
    several = write_log(tmp_path / "several", name="several", tables=tables)
    report = tb.study_latent(several, **QUICK | {"verifier": ["one", "two"]})
    assert [(study.dataset, study.main_pool.verifier) for study in report.parts] == [("a", "one"), ("b", "two")]
    assert HONEST not in report.parts[0].main_pool.signals


def test_the_folder_is_a_paper(strong: StudyReport, tmp_path: Path) -> None:
    folder = strong.save(tmp_path / "study")
    assert_paper(folder)
    told = (folder / "report.md").read_text(encoding="utf-8")
    assert f"{_VerdictQuestion.CONDITIONAL}? Yes: +" in told
    found = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert {one["verdict"] for one in found["verdicts"]} == {"yes", "no"}
    assert {"signals", "signals_within"} <= {path.stem for path in folder.glob("*.pdf")}
