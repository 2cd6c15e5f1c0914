"""Several data sets of one log: a row each in one table, never pooled; and the study as a function."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from matplotlib.collections import PolyCollection

import thinkback as tb
from generate.simulation.claims import simulate_claims
from replay.data.contents import read_contents
from replay.studies.factcheck.figures import figures
from replay.studies.factcheck.published import published
from replay.studies.factcheck.runs import FactcheckSetting, datasets_without, label_spaces, only_pools
from replay.studies.factcheck.tables import quality_columns
from replay.studies.kit.published import PublishedDataset
from replay.studies.kit.report import UNDONE
from tests.errors import refuses, remarked
from tests.logs import log_tables
from tests.show.test_paper import NARROW, WIDE, assert_whole
from tests.show.whole import assert_paper
from tests.studies.claims import rows
from toolkit.log import collect, merge_logs, open_log, write_log
from toolkit.show.drawing.page import HIGHEST

SAME = ("table_5_1", "table_5_3", "table_5_6", "table_5_11", "table_B_1", "table_B_4", "paired", "budgets")
ASKED = {"where": "split = 'test'", "caps": [15], "orders": 2, "resamples": 20}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """45 claims of each simulated data set; of ClaimDecomp also 20 to learn from."""
    folder, made = tmp_path_factory.mktemp("parts"), []
    for name, dev in (("quantemp", 0), ("claimdecomp", 20)):
        log = simulate_claims(folder / f"whole-{name}", name, dev=dev)
        examples = collect(log.scan("examples"), log)
        few = examples.group_by("split", "gold", maintain_order=True).head(15)
        kept = pl.col("example_id").is_in(few["example_id"].implode())
        tables = {table: collect(log.scan(table), log).filter(kept) for table in log.shards}
        write_log(folder / name, name=name, tables=tables, simulated=True)
        made.append(folder / name)
    return made


@pytest.fixture(scope="module")
def both(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tb.StudyReport:
    merged = tmp_path_factory.mktemp("merged") / "two"
    merge_logs([str(path) for path in parts], merged, name="two")
    return tb.study_factcheck(
        str(merged), published=["quantemp", "claimdecomp"], dev="split = 'dev'", **(ASKED | {"where": "split = 'test'"})
    )


def of_own_pools(folder: Path, parts: list[Path]) -> Path:
    """Both data sets, the pool of each under a name of its own."""
    for path in parts:
        log = open_log(path)
        frames = log_tables(log)
        frames["traces"] = frames["traces"].with_columns(pool=pl.lit(f"of-{path.name}"))
        write_log(folder / path.name, name=path.name, tables=frames, simulated=True)
    merge_logs([str(folder / path.name) for path in parts], folder / "both")
    return folder / "both"


def test_each_data_set_has_its_own_pool_where_none_is_named(parts: list[Path], tmp_path: Path) -> None:
    log = open_log(of_own_pools(tmp_path, parts))
    known = read_contents(log).pools
    assert only_pools(log, None, known) == {"claimdecomp": "of-claimdecomp", "quantemp": "of-quantemp"}
    assert only_pools(log, "dataset = 'quantemp'", known) == {"quantemp": "of-quantemp"}
    two = collect(log.scan("traces"), log).with_columns(
        pool=pl.when(pl.col("sample_index") > 7).then(pl.lit("more")).otherwise("pool")
    )
    frames = log_tables(log)
    several = write_log(tmp_path / "several", name="several", tables=frames | {"traces": two}, simulated=True)
    assert only_pools(several, None, read_contents(several).pools) == {}
    with refuses("ambiguous", "3"):
        tb.study_factcheck(str(tmp_path / "several"))


def test_a_data_set_without_the_named_pool_is_left_out_and_named(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(of_own_pools(tmp_path, parts))
    log = open_log(path)
    assert datasets_without(log, None, "of-claimdecomp") == ("quantemp",)
    assert datasets_without(log, "dataset = 'quantemp'", "of-quantemp") == ()
    assert datasets_without(log, "dataset = 'quantemp'", "of-claimdecomp") == ()  # of no data set: refused as ever
    monkeypatch.setattr("replay.studies.factcheck.study.study_dataset", lambda log, dataset, *rest: dataset)
    monkeypatch.setattr(
        "replay.studies.factcheck.report.report_of",
        lambda studies, name, width, lacking: tb.StudyReport(" and ".join(studies), {}, {}),
    )
    assert tb.study_factcheck(path, **ASKED).title == "claimdecomp and quantemp"
    made = tb.study_factcheck(path, pool="of-claimdecomp", **ASKED)
    assert made.title == "claimdecomp"
    assert len(made.lead) == 1
    remarked(made.lead, "dataset_left_out", "`quantemp`", "`of-claimdecomp`")


@pytest.mark.slow
def test_pools_of_their_own_give_the_numbers_of_one_pool(parts: list[Path], tmp_path: Path) -> None:
    merge_logs([str(path) for path in parts], tmp_path / "one")
    made = [tb.study_factcheck(str(path), **ASKED) for path in (tmp_path / "one", of_own_pools(tmp_path, parts))]
    assert made[0].tables["table_5_2"].rows == made[1].tables["table_5_2"].rows
    assert [one["pool"] for one in made[1].record["datasets"].values()] == ["of-claimdecomp", "of-quantemp"]


@pytest.mark.slow
def test_every_row_is_that_of_its_data_set_alone(both: tb.StudyReport, parts: list[Path], tmp_path: Path) -> None:
    both.save(tmp_path / "both")
    assert_paper(tmp_path / "both")
    assert [one.dataset for one in both.parts] == ["claimdecomp", "quantemp"]
    for path in parts:
        alone = tb.study_factcheck(str(path), published=path.name, **ASKED)
        alone.save(tmp_path / path.name)
        for name in (
            "table_5_1",
            "table_5_3",
            "table_5_6",
            "table_5_11",
            "table_B_1",
            "table_B_4",
            "paired",
            "budgets",
        ):
            mine = [
                {key: value for key, value in row.items() if key != "Dataset"}
                for row in rows(tmp_path / "both" / f"{name}.csv")
                if row["Dataset"] == path.name
            ]
            own = [
                {key: value for key, value in row.items() if key != "Dataset"}
                for row in rows(tmp_path / path.name / f"{name}.csv")
            ]
            columns = mine[0].keys() & own[0].keys()
            assert len(columns) > 4
            assert [{c: row[c] for c in columns} for row in mine] == [{c: row[c] for c in columns} for row in own], name
    ours = {row["Dataset"]: row for row in rows(tmp_path / "both" / "table_5_3.csv")}
    assert ours["quantemp"]["operations_published"] != ours["claimdecomp"]["operations_published"]
    quantemp_alone = {row["Dataset"] for row in rows(tmp_path / "both" / "table_5_8.csv")}
    assert quantemp_alone == {"quantemp"}  # the only one with a second verifier


@pytest.mark.slow
def test_the_report_compiles_without_an_overfull_box(both: tb.StudyReport, tmp_path: Path) -> None:
    """As it stands, and its tables in articles of one column and of two."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed, so the LaTeX of studies is checked by widths alone")
    out = both.save(tmp_path / "out")
    inputs = "".join(rf"\input{{{path.stem}}}\clearpage " for path in sorted(out.glob("table_*.tex")))
    for name, options in (("one", ""), ("two", "twocolumn")):
        page = r"\usepackage[textwidth=6.75in]{geometry}" if options else ""
        head = rf"\documentclass[{options}]{{article}}{page}\usepackage{{booktabs,siunitx,textcomp}}"
        (out / f"{name}.tex").write_text(rf"{head}\begin{{document}}{inputs}\end{{document}}", encoding="utf-8")
    for name in ("report", "one", "two"):
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        ran = subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=240, check=False)
        assert ran.returncode == 0, ran.stdout[-2000:]
        assert "Overfull" not in ran.stdout, name


@pytest.mark.slow
def test_what_is_said_of_one_data_set_has_its_name(both: tb.StudyReport) -> None:
    remarked(both.tables["table_5_8"].below, "one_verifier", "claimdecomp: ")
    assert "(`--dev`, in Python `dev`)" in both.tables["variants"].markdown()
    policies = [(row[0], row[1]) for row in both.tables["variants"].rows]
    assert ("claimdecomp", "prior: linear") in policies
    assert ("quantemp", "prior: linear") not in policies  # no claims of `dev` are of it
    assert set(both.record["datasets"]) == {"claimdecomp", "quantemp"}
    assert "Notes, quantemp" in both.words
    assert {"sensitivity_macro_f1-claimdecomp", "sensitivity_macro_f1-quantemp"} <= both.figures.keys()


@pytest.mark.slow
def test_figures_have_the_data_sets_and_the_validation_split_side_by_side(both: tb.StudyReport) -> None:
    headings = [axes.get_title(loc="left").replace("\n", " ") for axes in both.figures["figure_5_2"].axes]
    assert headings == ["claimdecomp, 15 traces", "quantemp, 15 traces", "quantemp, validation, 50 traces"]
    assert [axes.get_title(loc="left") for axes in both.figures["figure_5_1"].axes] == ["claimdecomp", "quantemp"]
    hollow = [line for line in both.figures["figure_5_2"].axes[1].get_lines() if len(line.get_xdata()) == 1]
    assert len(hollow) == 3 * 5  # of each order at k = 3, 5, 7, 10 and 15
    assert [line.get_ydata()[0] for line in hollow[::5]] == pytest.approx([46.42, 47.06, 47.14])  # table B.4, k = 3
    assert len(both.figures["figure_5_2_differences"].axes) == 2 * 3
    lines = both.words[UNDONE]
    remarked(lines, "no_figure", "claimdecomp: figure 5.2", "ClaimDecomp test, 50 traces")
    remarked(lines, "unpublished", "quantemp: figure 5.1", "surrogate-guided")


@pytest.mark.slow
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_every_figure_is_whole_and_has_no_band_on_a_band(both: tb.StudyReport, width: float) -> None:
    for name, figure in figures(both.parts, width).items():
        assert figure.get_figwidth() == width, name
        assert figure.get_figheight() <= HIGHEST, name
        assert_whole(figure)
        for axes in figure.axes:
            assert axes.get_legend() is None, name
            bands = [one for one in axes.collections if isinstance(one, PolyCollection)]
            assert len(bands) <= 1, name


def test_label_spaces_may_differ_between_data_sets_but_not_within() -> None:
    claims = pl.DataFrame({"dataset": ["a", "a", "b"], "labels": [["x", "y"], ["x", "y"], ["s", "t", "u"]]})
    assert label_spaces(claims, "the study") == {"a": ("x", "y"), "b": ("s", "t", "u")}
    mixed = claims.with_columns(dataset=pl.lit("a"))
    with refuses("unsuitable", "2"):
        label_spaces(mixed, "the study")
    lacking = pl.concat([claims, pl.DataFrame({"dataset": ["c"], "labels": [None]}, schema=claims.schema)])
    with refuses("unsuitable", "'a'"):
        label_spaces(lacking, "the study")


def test_a_class_that_a_data_set_has_not_is_a_dash_with_the_reason() -> None:
    def part(*labels: str) -> SimpleNamespace:
        return SimpleNamespace(labels=labels)

    thesis = part("true", "false", "conflicting")
    columns = quality_columns([thesis, thesis])  # type: ignore[list-item]
    assert [column.heading for column in columns] == ["T-F1", "F-F1", "C-F1", "M-F1", "W-F1", "Acc."]
    columns = quality_columns([thesis, part("true", "false")])  # type: ignore[list-item]
    assert [column.heading for column in columns[:3]] == ["F1 true", "F1 false", "F1 conflicting"]
    assert [column.note for column in columns[:2]] == ["", ""]
    assert "`conflicting`" in columns[2].note


def test_published_numbers_are_those_of_a_data_sets_own_name() -> None:
    setting = FactcheckSetting("n15", "lora", options={"where": "split = 'test'"})
    both = [published("quantemp"), published("claimdecomp")]

    def of(dataset: str, every: tuple[str, ...], known: list[PublishedDataset]) -> str | None:
        found = setting.for_dataset(None, dataset, every, known).published  # type: ignore[arg-type]
        return None if found is None else found.dataset

    assert of("claimdecomp", ("claimdecomp", "quantemp"), both) == "ClaimDecomp"
    assert of("claimdecomp", ("claimdecomp", "quantemp"), both[:1]) is None
    assert of("other", ("other", "quantemp"), both) is None
    assert of("other", ("other",), both[:1]) == "QuanTemp"  # of another data set, which a note says
    assert of("other", ("other",), both) is None
    assert setting.for_dataset(None, "a'b", ("a'b", "c"), []).where == "(split = 'test') AND dataset = 'a''b'"  # type: ignore[arg-type]


def test_what_the_function_refuses(parts: list[Path]) -> None:
    log = open_log(str(parts[1]))
    for given, refusal in (
        ({"caps": [15, 0]}, ("invalid", "`caps`", "1", "[15, 0]")),
        ({"orders": 0}, ("invalid", "`orders`", "0", "1")),
        ({"published": "quantemq"}, ("unknown", "`quantemq`")),
        ({"verifier": "loro"}, ("unknown", "`loro`")),
    ):
        with refuses(*refusal):
            tb.study_factcheck(log, **given)
