"""The ablations of the study of latent verifiers: what a log allows is found, what it lacks is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.planted import PlantedModel, simulate_planted
from replay.analyses.strategies.votes_entropy import votes_entropy
from replay.latent import place_probes
from replay.latent.place_probes import equal_training_parts, placed_traces
from replay.studies.kit.report import draw_figures
from replay.studies.latent import study as studied
from replay.studies.latent.figures import FIGURES
from replay.studies.latent.report import study_latent
from replay.studies.latent.study import (
    FITTED,
    READERS,
    TEMPERATURES,
    TRANSFER,
    VOTES,
    LatentSetting,
    LatentStudy,
    ablations_of,
    study_log,
)
from replay.studies.latent.tables import ABLATION_SHEETS, _notes_on_measured_traces
from tests.errors import remarked
from tests.logs import log_tables, sealed, simulated_tables
from tests.seeds import seeds
from tests.show.test_paper import NARROW, WIDE, assert_whole
from thinkback.app import app
from toolkit.log import Log, collect, write_log
from toolkit.show import code_of
from toolkit.show.drawing.page import HIGHEST
from toolkit.stats import Settings

STATES = "hidden_states/planted"
ASKED = LatentSetting(("projection",), settings=Settings(resamples=50), orders=2, seeds=1)


def planted_tables(examples: int = 160, **model: object) -> dict[str, pl.DataFrame]:
    """Planted tables whose projection is a chance, with votes at two temperatures, two data sets, two readers, and
    revisions that are right where a number of the question says so.
    """
    planted = PlantedModel(places=2, dimensions=4, probe=True, **model)  # type: ignore[arg-type]
    tables = simulated_tables(simulate_planted, examples=examples, traces=4, seed=3, model=planted)
    tables["verifications"] = tables["verifications"].with_columns(score=1 / (1 + (-pl.col("score")).exp()))
    number = pl.col("example_id").str.slice(-9).cast(pl.Int64)
    name = pl.when(number % 4 < 2).then(pl.lit("easy")).otherwise(pl.lit("hard"))
    tables["examples"] = tables["examples"].with_columns(dataset=name)
    warm = pl.col("sample_index") % 2 == 0
    pools = (
        pl.when(pl.col("pool") == "probe").then(pl.lit("probe")).when(warm).then(pl.lit("t1")).otherwise(pl.lit("t5"))
    )
    degrees = pl.when(pl.col("pool") == "probe").then(0.0).when(warm).then(1.0).otherwise(0.5)
    tables["traces"] = tables["traces"].with_columns(
        pool=pools, temperature=degrees.cast(pl.Float32), sample_index=pl.col("sample_index") // 2
    )
    tables["traces"] = pl.concat([tables["traces"], _revised(tables)], how="diagonal")
    noise = np.random.default_rng(0).normal(size=(tables[STATES].height, 4)).astype(np.float16)
    blind = pl.Series(noise, dtype=tables[STATES].schema["state"])
    tables["hidden_states/blind"] = tables[STATES].with_columns(state=blind).filter(number >= 4)  # has fewer
    return tables


def _revised(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """A revision of each probe: of every third question right, else wrong."""
    gold = tables["examples"].select("example_id", "gold")
    probes = tables["traces"].filter(pool="probe").join(gold, on="example_id")
    right = pl.col("example_id").str.slice(-9).cast(pl.Int64) % 3 == 0
    return probes.with_columns(
        parent_id="trace_id",
        trace_id=pl.col("trace_id") + "-again",
        pool=pl.lit("again"),
        action=pl.lit("self_correct"),
        correct=right,
        answer=pl.when(right).then("gold").otherwise(pl.lit(None)),
    ).drop("gold")


SOURCE = {"simulation": "states"}
log = sealed(planted_tables, "ablated", source=SOURCE)


@pytest.fixture(scope="module")
def ablated(log: Log) -> tuple[LatentStudy, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studied, "find_spec", lambda name: None)  # torch takes seconds to import
        made = study_log(log, ASKED)
        return tuple(replace(one, ablations=ablations_of(one, made)) for one in made)


def test_everything_that_the_log_allows_is_found(ablated: tuple[LatentStudy, ...]) -> None:
    for study in ablated:
        made = study.ablations
        assert study.states == "planted"
        assert set(made.transfer) == {"easy", "hard"}
        assert {(one.trained, one.measured) for one in made.temperatures} >= {(0.5, 0.5), (0.5, 1.0), (1.0, 0.5)}
        assert len(made.locations) == 2
        assert {one.token for one in made.models} == {-2, -1}
        assert {one.temperature for one in made.votes} == {0.5, 1.0}
        assert [one.length for one in made.suffixes] == [1, 2]
        assert {one.model for one in made.models} == {"xgboost", "logistic", "mlp"}
        assert len(made.missing) == 1
        assert "swiglu" in next(iter(made.missing))


def test_differences_are_those_of_the_areas_on_the_same_traces(ablated: tuple[LatentStudy, ...]) -> None:
    """A verifier of its own part against each other one: temperatures with as many training rows each."""
    for study in ablated:
        made = study.ablations
        areas = {(one.trained, one.measured): one.area.estimate for one in made.temperatures}
        assert len({one.rows for one in made.temperatures}) == 1
        for one in made.temperatures:
            if one.trained == one.measured:
                assert one.behind is None
            else:
                assert one.behind.difference == pytest.approx(areas[one.measured, one.measured] - one.area.estimate)
        ((blind, less),) = made.readers_behind.items()
        assert less.difference == pytest.approx(made.readers["planted"].estimate - made.readers[blind].estimate)
        assert less.low > 0  # those states know nothing
        ((other, less),) = made.transfer_behind.items()
        assert less.difference == pytest.approx(made.transfer[study.dataset].estimate - made.transfer[other].estimate)
        assert less.low < 0 < less.high


def test_as_many_rows_are_drawn_from_as_many_questions_as_there_are(log: Log) -> None:
    ids = collect(log.scan("examples", ["example_id", "split"]), log)
    train, test = (ids.filter(split=name)["example_id"] for name in ("train", "test"))
    traces = placed_traces(log, "planted", train, test, 10_000)
    assert traces is not None
    parts = {name: traces.has_value("pool", name) for name in ("probe", "t1")}
    found = equal_training_parts(traces, parts, 0)
    assert {int(one.sum()) for one in found.values()} == {int((parts["probe"] & traces.train).sum())}
    for name, one in found.items():
        assert not (one & ~(parts[name] & traces.train)).any()
        assert len(np.unique(traces.unit[one])) == one.sum()  # one trace of each question, as of the probe


def test_a_reader_that_sees_nothing_tells_nothing(ablated: tuple[LatentStudy, ...]) -> None:
    for study in ablated:
        blind, own = study.ablations.readers["blind"], study.ablations.readers["planted"]
        assert blind.low < 0.5 < blind.high
        assert own.low > 0.55


def test_conditional_self_correction_is_that_of_a_plain_loop(ablated: tuple[LatentStudy, ...]) -> None:
    """Figure 4: from no probe that is revised to all of them, one line and the threshold of the other half."""
    for study in ablated:
        made, chosen = study.strategies, study.chosen
        assert made is not None
        assert made.probe is not None
        assert made.corrected is not None
        assert made.scores is not None
        assert chosen is not None
        (_, (line, best)), *_ = FIGURES["figure_4_self_correction"].shows(study)
        score, probe, again = (one[~chosen] for one in (made.scores["projection"], made.probe, made.corrected))
        assert (line.k[0], line.estimate[0]) == (1, pytest.approx(probe.mean()))
        assert (line.k[-1], line.estimate[-1]) == (2, pytest.approx(again.mean()))
        for samples, accuracy in zip([*line.k, *best.k], [*line.estimate, *best.estimate], strict=True):
            doubted = np.argsort(score, kind="stable")[: round((samples - 1) * len(score))]
            right = [again[at] if at in doubted else probe[at] for at in range(len(score))]
            assert accuracy == pytest.approx(np.mean(right))


@pytest.mark.parametrize("width", [NARROW, pytest.param(WIDE, marks=pytest.mark.slow)])
def test_figures_are_whole(ablated: tuple[LatentStudy, ...], width: float) -> None:
    made = draw_figures(FIGURES, ablated[:1], width)
    assert set(FIGURES) == set(made)
    for figure in made.values():
        assert figure.get_figwidth() == width
        assert figure.get_figheight() <= HIGHEST
        assert_whole(figure)


def test_what_a_log_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PlantedModel(places=1, dimensions=2)
    monkeypatch.setattr(studied, "find_spec", lambda name: None)
    drawn = simulate_planted(tmp_path / "drawn", examples=80, traces=3, seed=3, model=model)
    plain = study_log(drawn, ASKED)
    missing = ablations_of(plain[0], plain).missing
    assert {TEMPERATURES, TRANSFER, READERS, VOTES} <= set(missing)
    tables = log_tables(drawn)
    del tables[STATES]
    blind = study_log(write_log(tmp_path / "log", name="blind", tables=tables, source=SOURCE), ASKED)
    made = ablations_of(blind[0], blind)
    assert set(FITTED) <= set(made.missing)
    assert not made.locations
    assert made.entropy is not None


def test_entropy_is_that_of_a_plain_loop(log: Log) -> None:
    found = votes_entropy(log, "projection", pool="t1", probe="probe", where="split = 'test'")
    assert found is not None
    traces = collect(log.scan("traces", ["trace_id", "example_id", "pool", "answer"]), log).to_dicts()
    scores = dict(collect(log.scan("verifications", ["trace_id", "score"]), log).iter_rows())
    tests = set(collect(log.scan("examples", ["example_id", "split"]), log).filter(split="test")["example_id"])
    pairs = []
    for name in sorted(tests):
        votes = [one["answer"] for one in traces if one["example_id"] == name and one["pool"] == "t1"]
        (probe,) = [one["trace_id"] for one in traces if one["example_id"] == name and one["pool"] == "probe"]
        shares = [votes.count(answer) / len(votes) for answer in set(votes)]
        pairs.append((scores[probe], -sum(share * np.log(share) for share in shares) / np.log(len(votes))))
    pairs.sort()
    assert sum(one.questions for one in found.parts) == len(pairs)
    for at, part in enumerate(found.parts):
        own = pairs[at * len(pairs) // 5 : (at + 1) * len(pairs) // 5]
        assert part.entropy.estimate == pytest.approx(np.mean([entropy for _, entropy in own]))
        assert part.low == own[0][0]
    from scipy.stats import spearmanr

    assert found.correlation.estimate == pytest.approx(spearmanr(pairs).statistic)
    assert found.correlation.low < found.correlation.estimate < found.correlation.high


@pytest.mark.slow
@pytest.mark.usefixtures("svg_only")
def test_tables_and_figures_come_with_the_command(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words = ["study", "latent", log.address, "--out", str(tmp_path / "out"), "--verifier", "projection"]
    done = CliRunner().invoke(app, [*words, "--seeds", "1", "--orders", "2", "--resamples", "50"])
    assert done.exit_code == 0, done.output
    written = {file.stem for file in (tmp_path / "out").rglob("*.csv")}
    assert {sheet.name for sheet in ABLATION_SHEETS} <= written
    assert (tmp_path / "out" / "figure_2_and_8_temperatures-easy.svg").exists()


@pytest.mark.slow
def test_a_larger_planted_log_gives_what_is_known(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="ablated", tables=planted_tables(3_000, shared=0.0), source=SOURCE)
    report = study_latent(log, verifier="projection", resamples=200, orders=5, seeds=2)
    model = PlantedModel(places=2, dimensions=4, shared=0.0)
    for study in report.parts:
        made = study.ablations
        pooled = [(one.pooled, model.auc(1)) for one in made.locations]
        inside = [(one.within, model.auc_within(1)) for one in made.locations]
        warmth = [(one.area, model.auc(1)) for one in made.temperatures]
        for found, known in (*pooled, *inside, *warmth, *((one, model.auc(2)) for one in made.transfer.values())):
            assert found.low < known < found.high + 0.03  # trees fall short by up to that


def ids_of(log: Log, split: str) -> pl.Series:
    return collect(log.scan("examples"), log).filter(split=split)["example_id"]


@pytest.fixture(scope="module")
def cut_off(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Log:
    """The same, but for every third trace, which has no answer and is wrong."""
    tables = log_tables(log)
    number = pl.col("example_id").str.slice(-9).cast(pl.Int64) // 4
    third = ((number + pl.col("sample_index")) % 3 == 0) & (pl.col("action") == "solve")
    tables["traces"] = tables["traces"].with_columns(
        answer=pl.when(third).then(None).otherwise("answer"),
        correct=pl.when(third).then(pl.lit(value=False)).otherwise("correct"),
    )
    path = tmp_path_factory.mktemp("cut") / "log"
    return write_log(path, name="cut", tables=tables, source=SOURCE)


@pytest.mark.parametrize("answered", seeds(1, [False, True]))
def test_one_report_measures_one_set_of_traces(cut_off: Log, answered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 4's diagonal, the signals and the last suffix are of the same traces: all judged ones, or the answered."""
    monkeypatch.setattr(studied, "find_spec", lambda name: None)
    studies = study_log(cut_off, replace(ASKED, answered=answered, most=0))
    (study, *_) = studies
    made = ablations_of(study, studies)
    traces = collect(cut_off.scan("traces"), cut_off).filter(pool=study.main_pool.pool, action="solve")
    examples = collect(cut_off.scan("examples"), cut_off).filter(dataset=study.dataset, split="test")
    own = traces.join(examples, on="example_id", how="semi")
    wanted = own["answer"].count() if answered else own.height
    assert study.main_pool.verifier_auc.traces == made.measured == wanted
    assert {one.traces for one in made.suffixes} == {wanted}
    assert 0 < own["answer"].null_count() < own.height
    assert f"measured on {wanted:,} traces" in "\n".join(_notes_on_measured_traces(replace(study, ablations=made)))


def test_all_traces_and_places_are_taken_where_they_are_asked_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 traces of each part, at one place; what is left out stands with the width of an interval."""
    monkeypatch.setattr(studied, "find_spec", lambda name: None)
    studies = study_log(log, replace(ASKED, most=25, positions=1))
    few = ablations_of(studies[0], studies)
    assert (few.measured, len(few.places)) == (25, 1)
    remarked(few.notes, "traces_left_out", "`--most 0`", " wide")
    remarked(few.notes, "places_left_out", "1 of 2", "`--positions 0`", " wide")
    part = replace(studies[0], ablations=few)
    for sheet in (one for one in ABLATION_SHEETS if one.name in ("locations", "temperatures", "training_sizes")):
        told = [line for note in sheet.notes if callable(note) for line in note(part)]
        remarked(told, "traces_left_out")
        remarked(told, "places_left_out")
    studies = study_log(log, replace(ASKED, most=0, positions=0))
    every = ablations_of(studies[0], studies)
    assert every.measured > 25
    assert len(every.places) == 2
    assert not {"traces_left_out", "places_left_out"} & set(map(code_of, every.notes))
    assert (few.fewer, every.fewer) == (few.places, every.places)


def test_the_states_of_a_place_are_read_once_for_all_fits(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """States larger than memory: at most one place of them is held, and each is read once by a comparison."""
    train, rest = ids_of(log, "train"), ids_of(log, "test")
    traces = placed_traces(log, "planted", train, rest, 0)
    assert traces is not None
    monkeypatch.setattr(place_probes, "MEMORY_BYTES", 1)
    read = list[int]()
    batches = type(traces.states).read_batches

    def counting(self: object) -> object:
        read.append(1)
        return batches(self)  # type: ignore[arg-type]

    monkeypatch.setattr(type(traces.states), "read_batches", counting)
    sizes = list(place_probes.auc_by_training_questions(traces, [0, 1], seeds=2))
    assert len(sizes) > 1
    assert len(read) == 2  # once a place, not once a fit
