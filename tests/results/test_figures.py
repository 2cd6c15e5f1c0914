"""The figures of a result: what they are drawn from, from a live result and from a saved one, and as files."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure
from polars.testing import assert_frame_equal

import replay
from generate.simulation.grid import simulate
from replay import Result
from replay.runs.figures.figures import FIGURES, check_figure_file, write_figure
from replay.runs.figures.score_data import _score_distribution
from replay.runs.saved.display import ranked_input, write_display
from tests.errors import refuses
from tests.logs import drawn
from tests.results.test_result import POLICIES
from toolkit.log import open_log, write_log
from toolkit.show import frontier_figure
from toolkit.show.tables.table_content import Number

SWEPT = """
[[policy]]
name = "by thirds"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { verifier = "strong", below = [0.3, 0.6] }
then = { kind = "sample", pool = "n6", max_traces = 6, select = "majority" }
"""


log = drawn(simulate, examples=60, traces=6, labels=3, seed=5)


@pytest.fixture(scope="module")
def result(log: Path) -> Result:
    return replay.run(log, POLICIES + SWEPT, baseline="best", resamples=60)


@pytest.fixture(scope="module")
def saved(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures") / "saved"
    result.save(folder, traces=True, headroom=True)
    return folder


OTHER_TABLES = {"positions", "recall", "buzzes"}
"""Figures of policies on guesses, rounds and checks, whose tests are beside those of their kinds."""


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in OTHER_TABLES])
def test_a_loaded_result_draws_what_the_live_one_does(result: Result, saved: Path, name: str) -> None:
    again = replay.load(saved)
    assert isinstance(again.figure(name, width="3.3in", title="Mine"), Figure)
    live, loaded = result.figure_data(name).frame, again.figure_data(name).frame
    if name == "scores":  # a saved result has the traces that were paid for
        assert live.columns == loaded.columns
    else:
        assert_frame_equal(live, loaded)
    drawn = result.figure(name)
    assert "simulated log" in {text.get_text() for text in drawn.texts}


def test_the_forest_has_the_limits_of_the_table_and_of_all_pairs(result: Result) -> None:
    own = result.figure_data("forest").frame
    told = result.ranks.filter(metric="accuracy").select("policy", "baseline_low", "baseline_high")
    joined = own.filter(pl.col("policy") != "best").join(told, on="policy").drop_nulls()
    assert joined.height >= 5
    assert joined["low"].to_list() == pytest.approx([100 * value for value in joined["baseline_low"]])
    assert joined["high"].to_list() == pytest.approx([100 * value for value in joined["baseline_high"]])
    other = {row["policy"]: row for row in result.figure_data("forest", baseline="first").frame.iter_rows(named=True)}
    for row in result.compare().pairs.filter(second="first").iter_rows(named=True):
        for key in ("difference", "low", "high"):
            assert other[row["first"]][key] == pytest.approx(100 * row[key])
    assert other["first"]["difference"] == 0
    assert other["oracle"]["low"] is None


def test_gates_begin_at_never(result: Result) -> None:
    frame = result.figure_data("gates").frame
    base = result.outcomes.filter(policy="by thirds[gate.below=0.3]").collect()["base_correct"].mean()
    first = frame.filter(policy="by thirds").row(0, named=True)
    assert first["intervention_rate"] == 0
    assert first["accuracy"] == pytest.approx(base)
    assert first["low"] < base < first["high"]
    never = frame.filter(policy="gated").row(0, named=True)  # acts where the base has no answer
    assert never["intervention_rate"] < 0.05
    assert frame.filter(policy="gated")["intervention_rate"][-1] == 1
    told = result.summary.filter(policy="by thirds[gate.below=0.6]", metric="accuracy").row(0, named=True)
    last = frame.filter(policy="by thirds").row(-1, named=True)
    assert (last["accuracy"], last["low"], last["high"]) == (told["estimate"], told["low"], told["high"])


def test_stopping_times_are_those_of_the_outcomes(result: Result) -> None:
    frame = result.figure_data("stopping").frame
    name = "margin[stop.margin=0.1]"
    paid = result.outcomes.filter(policy=name).collect()["traces"].value_counts().sort("traces")
    mine = frame.filter(policy=name)
    assert mine["traces"].to_list() == paid["traces"].to_list()
    assert mine["examples"].to_list() == paid["count"].to_list()
    assert mine["share"].sum() == pytest.approx(1)
    with refuses("unknown", "`margni`"):
        result.figure("stopping", policies=["margni"])
    assert len(result.figure("stopping", policies=["margin", "first"]).axes) == 3  # both settings of the sweep


def test_headroom_shows_the_accuracies_of_the_table(tmp_path: Path) -> None:
    """Of 80 examples 53 are 66.25 %: a tie, which is rounded in both places alike."""
    simulate(tmp_path / "log", examples=80, traces=6, labels=3, seed=3)
    found = replay.run(tmp_path / "log", POLICIES, baseline="best", resamples=20)
    drawn = found.figure("headroom", policies=["orders"])
    beside = [text.get_text().partition(" ")[0] for text in drawn.axes[1].get_yticklabels()]
    told = dict(found.summary.filter(metric="accuracy").select("policy", "estimate").iter_rows())
    assert told["orders"] == 53 / 80
    assert Number(1, 100.0).show(told["orders"]) in beside


def test_scores_come_from_the_log_or_from_the_saved_traces(
    result: Result, saved: Path, log: Path, tmp_path: Path
) -> None:
    whole = result.figure_data("scores").frame
    assert {*whole["verifier"]} >= {"strong"}
    for (_, _), rows in whole.partition_by("verifier", "slice", as_dict=True).items():
        assert rows["right"].sum() == pytest.approx(1)
        assert rows["wrong"].sum() == pytest.approx(1)
    assert_frame_equal(replay.load(saved).figure_data("scores", log=log).frame, whole)
    result.save(tmp_path / "bare")
    shutil.copytree(log, tmp_path / "log")
    bare = replay.load(tmp_path / "bare")
    bare.provenance["log"]["address"] = str(tmp_path / "gone")
    with refuses("unsuitable", "`log`"):
        bare.figure("scores")
    assert_frame_equal(bare.figure_data("scores", log=tmp_path / "log").frame, whole)
    simulate(tmp_path / "other", examples=60, traces=6, labels=3, seed=6)
    with refuses("mismatch", "`simulated-60x6-k3-s6`"):
        bare.figure("scores", log=tmp_path / "other")
    with refuses("unsuitable", "`headroom`"):
        bare.figure("headroom")


@pytest.mark.parametrize(
    ("name", "options", "refusal"),
    [
        ("forrest", {}, ("unknown", "`forrest`", "`forest`")),
        ("gates", {"baseline": "best"}, ("conflict", "`gates`", "`forest`", "`headroom`")),
        ("forest", {"baseline": "nobody"}, ("unknown", "`nobody`")),
        ("forest", {"baseline": "oracle"}, ("conflict", "`oracle`", "`headroom`")),
        ("frontier", {"width": "3.3"}, ("invalid", "`3.3`", "`3.3in`")),
        ("gates", {"policies": ["first"]}, ("unknown", "`first`")),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(
    result: Result, name: str, options: dict, refusal: tuple[str, ...]
) -> None:
    with refuses(*refusal) as refused:
        result.figure(name, **options)
    assert "\n" not in str(refused.value)


def test_a_run_without_gates_or_stops_says_so(log: Path) -> None:
    plain = replay.run(log, POLICIES.split("\n\n[[policy]]")[0], resamples=20)
    with refuses("empty", "`below = [0.2, 0.5]`", "`below = { quantiles = 10 }`"):
        plain.figure("gates")
    with refuses("empty", "traces"):
        plain.figure("stopping")
    with refuses("required", '`kind = "oracle"`', "`oracle`"):
        plain.figure("headroom")


def test_files_have_their_numbers_beside_them_and_come_all_or_none(result: Result, tmp_path: Path) -> None:
    data = result.figure_data("forest")
    write_figure(data, tmp_path / "forest", 3.3, "", simulated=True, force=False)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"forest.pdf", "forest.svg", "forest.png", "forest.csv"}
    with (tmp_path / "forest.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == data.frame.height
    assert {row["simulated"] for row in rows} == {"true"}
    with refuses("exists", "`force`"):
        write_figure(data, tmp_path / "forest.pdf", 3.3, "", simulated=True, force=False)
    with refuses("invalid", "`.pdf`", "`.svg`", "`.png`"):
        check_figure_file(tmp_path / "forest.jpg", False, ())

    def broken(**_: object) -> Figure:
        raise MemoryError

    with pytest.raises(MemoryError):
        write_figure(type(data)(data.frame, broken), tmp_path / "new", 3.3, "", simulated=True, force=False)
    assert {path.name for path in tmp_path.iterdir()} == names


def test_what_a_page_has_no_room_for_is_counted_and_the_baseline_stays(log: Path) -> None:
    many = "\n".join(
        f'[[policy]]\nname = "majority of {k} of the pool that has six traces of each example, number {i}"\n'
        f'kind = "sample"\npool = "n6"\nmax_traces = {k}\nselect = "majority"'
        for i in range(8)
        for k in (1, 3, 6)
    )
    found = replay.run(log, many, baseline="majority of 1 of the pool that has six traces of each example, number 7")
    drawn = found.figure("forest", width="3.3in")
    rows = [text.get_text().replace("\n", " ") for text in drawn.axes[0].get_yticklabels()]
    assert drawn.get_figheight() <= 8
    assert len(rows) < 24
    assert any("majority of 1 " in row and row.endswith("number 7") for row in rows)
    assert f"{24 - len(rows)} more policies in the" in " ".join(text.get_text() for text in drawn.texts)
    assert found.figure_data("forest").frame.height == 24


def test_the_forest_draws_what_is_not_told_apart_and_counts_the_rest(log: Path) -> None:
    sweep = "[[policy]]\nname = 'vote'\nkind = 'sample'\npool = 'n6'\nmax_traces = [1, 2, 3, 5, 6]\nselect = 'majority'"
    one = "[[policy]]\nname = 'one'\nkind = 'sample'\npool = 'probe'\nmax_traces = 1\nselect = 'first'"
    data = replay.run(log, sweep + "\n" + one, baseline="vote[max_traces=1]", resamples=60).figure_data("forest")
    holds_zero = data.frame.filter((pl.col("low") <= 0) & (pl.col("high") >= 0))["policy"].to_list()
    assert any(name.startswith("vote") for name in holds_zero)
    drawn = data.draw(width=6.75, title="")
    rows = {text.get_text().replace("\n", "") for text in drawn.axes[0].get_yticklabels()}
    assert {*holds_zero} <= rows
    rest = data.frame.height - len(rows)
    said = " ".join(text.get_text() for text in drawn.texts)
    assert (f"{rest} more" in said) == (rest > 0)
    assert "told apart" in said or not rest


def test_scores_stand_apart_by_data_set_for_verifiers_that_policies_read(log: Path, tmp_path: Path) -> None:
    tables = {name: open_log(log).scan(name).collect() for name in ("examples", "traces", "verifications")}
    place = pl.int_range(pl.len()) % 2 == 0
    dataset = pl.when(place).then(pl.lit("even")).otherwise(pl.lit("odd"))
    tables["examples"] = tables["examples"].with_columns(dataset=dataset)
    write_log(tmp_path / "two", name="two", tables=tables, simulated=True)
    data = replay.run(tmp_path / "two", POLICIES + SWEPT, baseline="best", resamples=20).figure_data("scores")
    assert {*data.frame["dataset"]} == {"even", "odd"}
    assert data.frame.group_by("verifier", "slice", "dataset").agg(pl.col("right").sum())["right"].to_list() == (
        pytest.approx([1.0] * data.frame.select("verifier", "slice", "dataset").n_unique())
    )
    panels = [axes.get_title(loc="left").replace("\n", " ") for axes in data.draw(width=6.75, title="").axes]
    assert len(panels) == 4
    assert all(panel.startswith("strong") for panel in panels)  # no policy reads another one
    assert [("even" in panel, "odd" in panel) for panel in panels] == [(True, False), (False, True)] * 2


def test_scores_are_those_that_the_named_policies_read(result: Result) -> None:
    whole = result.figure_data("scores").frame.select("verifier", "slice").unique()
    mine = result.figure_data("scores", policies=["by thirds"]).frame.select("verifier", "slice").unique()
    assert whole.height > mine.height
    assert sorted(mine.rows()) == [("strong", "n6"), ("strong", "probe")]
    with refuses("empty", "scores"):
        result.figure("scores", policies=["first"])
    with refuses("unknown", "`nobody`"):
        result.figure("scores", policies=["nobody"])


def test_the_front_is_that_of_the_policies_shown(result: Result) -> None:
    whole = result.figure_data("frontier").frame
    front = whole.filter("on_front")["policy"].to_list()
    others = whole.filter(~pl.col("on_front") & ~pl.col("diagnostic"))["policy"].to_list()
    data = result.figure_data("frontier", policies=others[:2])
    assert {*data.frame["policy"]} == {*others[:2]}
    assert not {*others[:2]} & {*front}
    assert data.frame["on_front"].any()
    said = " ".join(text.get_text() for text in data.draw(width=6.75, title="").texts)
    assert re.search(rf"\b2 of {len(result.policies)} policies\b", said)


def test_where_all_cost_the_same_there_is_no_front(log: Path) -> None:
    one = '[[policy]]\nname = "{0}"\nkind = "sample"\npool = "{0}"\nmax_traces = 1\nselect = "first"\n'
    found = replay.run(log, "".join(map(one.format, ("n6", "probe"))), cost="operations", resamples=20)
    for draw in (found.frontier, lambda: found.figure("frontier")):
        with refuses("empty", "operations"):
            draw()
    ranked = ranked_input(found)
    assert frontier_figure(ranked) is None


def test_a_replay_writes_the_numbers_of_its_front(result: Result, tmp_path: Path) -> None:
    write_display(result, ranked_input(result), tmp_path)
    with (tmp_path / "frontier.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    frame = result.figure_data("frontier").frame
    assert [row["policy"] for row in rows] == frame["policy"].to_list()
    assert [float(row["cost"]) for row in rows] == pytest.approx(frame["cost"].to_list())
    assert {row["simulated"] for row in rows} == {"true"}


def test_gates_end_at_always_where_that_is_a_policy(log: Path) -> None:
    then = '[[policy]]\nname = "then"\nkind = "sample"\npool = "n6"\nmax_traces = 6\nselect = "majority"\n'
    found = replay.run(log, SWEPT + then, resamples=20)
    last = found.figure_data("gates").frame.filter(policy="by thirds").row(-1, named=True)
    told = found.summary.filter(policy="then", metric="accuracy").row(0, named=True)
    assert last["intervention_rate"] == 1
    assert (last["accuracy"], last["low"], last["high"]) == (told["estimate"], told["low"], told["high"])


def test_a_verifier_of_few_scores_has_them_as_ticks() -> None:
    rows = pl.DataFrame({"score": [0.0, 1.0, 1.0], "correct": [0.0, 1.0, 1.0]})
    assert _score_distribution("judge", rows).values == (0.0, 1.0)
