"""The study kit: tables as data, published numbers beside them, what is said around them, and the folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from replay.studies.kit.published import PublishedDataset, PublishedWork, published_beside, published_datasets
from replay.studies.kit.report import StudyFigure, StudyReport, drawable_figures, figures_by_dataset, undrawn_reasons
from replay.studies.kit.sheet import (
    Captions,
    DashReason,
    PublishedColumn,
    Row,
    Sheet,
    intervals,
    laid_out_table,
    merge_notes,
    numbers,
    rows_of_records,
    tables_of,
    with_published,
    words,
)
from tests.errors import refuses, remarked
from tests.studies.claims import rows
from toolkit.show import IntervalCell

SEVRA = PublishedWork(
    "sevra", {"math500": "MATH500", "gsm8k": "GSM8K", "math": "MATH"}, only={"20": "MATH500"}, prefixed=frozenset({"3"})
)


@dataclass(frozen=True)
class Part:
    dataset: str
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    value: float

    def cell(self, metric: str, scale: float = 1.0) -> IntervalCell | None:
        return IntervalCell(self.value, self.value - 0.1, self.value + 0.1).scaled(scale) if metric == "known" else None


def rows_of(part: Part) -> Iterator[Row]:
    row = SEVRA.row("2", part.dataset, policy="base 4096")
    yield Row(("base",), Policy(0.5), {"own": 7}, row)
    yield Row(("long",), Policy(0.25), {}, {}, frozenset())


PLAIN = Captions["Part"](simulated=False)
SHEET = Sheet[Part](
    "quality",
    "Quality",
    ("Policy",),
    (
        intervals("Accuracy", "accuracy_pct", 1, metric="known", scale=100, note="in percent"),
        numbers(
            "Tokens",
            "tokens",
            0,
            lambda row: 1000 * row.value,
            published_column=PublishedColumn("total_tokens", "paper's", apart=True),
        ),
        words("Own", "own"),
        numbers("Lacking", "lacking", metric="unknown"),
    ),
    rows_of,
    ("one", "two"),
    number="2",
)


def test_published_numbers_stand_beside_the_same_name_or_beside_the_only_data_set() -> None:
    """One meaning of `published` in all studies."""
    both = published_datasets(SEVRA, ["math500", "GSM8K"])
    assert [one.dataset for one in both] == ["MATH500", "GSM8K"]
    assert published_datasets(SEVRA, "math500") == both[:1]
    assert published_datasets(SEVRA, ()) == ()
    for alone in (True, False):
        assert published_beside(both, "MATH-500", alone) == both[0]
        assert published_beside(both, "sums", alone) is None
        assert published_beside((), "math500", alone) is None
    assert (published_beside(both[1:], "sums", True), published_beside(both[1:], "sums", False)) == (both[1], None)
    with refuses("unknown", "`math5000`", "`math500`"):
        published_datasets(SEVRA, "math5000")


def test_a_row_of_a_published_table_is_found_by_what_a_log_calls_its_data_set() -> None:
    assert SEVRA.row("2", "math-500", policy="base 4096")["accuracy_pct"] == 59.0
    assert SEVRA.row("2", "other", policy="base 4096") == {}
    assert SEVRA.row("2", "math500", policy=None) == {}
    assert SEVRA.row("3", "GSM8K", gate="cheap features") == {"accuracy_pct": 94.47, "verify_pct": 2.8}
    assert SEVRA.row("20", "math500", initial_budget_tokens=4096)["accuracy_pct"] == 59.0
    assert SEVRA.row("20", "gsm8k", initial_budget_tokens=4096) == {}
    assert SEVRA.row("99", "math500") == {}
    of = PublishedDataset(SEVRA, "MATH500")
    assert of.number_in_row("2", "accuracy_pct", policy="base 4096") == 59.0
    assert of.number_in_row("2", "nothing", policy="base 4096") is None


def test_one_data_set_is_named_in_the_title_alone() -> None:
    table = laid_out_table(SHEET, [Part("math500")], Captions(simulated=False, suffix=", log"))
    assert table.title == "Table 2: Quality, log"
    heads = ["Policy", "Accuracy", "Accuracy published", "difference", "Tokens", "Own", "Lacking", "paper's"]
    assert [column.name for column in table.columns] == heads
    base, long = table.rows
    assert base[:4] == ("base", IntervalCell(50.0, 40.0, 60.0), 59.0, -9.0)
    assert base[4:] == (500.0, 7, None, 4313)
    assert long[2:4] == (None, None)
    assert table.below == ("one", "two", "in percent")


def test_several_data_sets_stand_below_each_other_under_their_names() -> None:
    table = laid_out_table(SHEET, [Part("math500"), Part("sums")], Captions(simulated=True, dataset="dataset"))
    assert [row[:2] for row in table.rows] == [
        ("math500", "base"), ("math500", "long"), ("sums", "base"), ("sums", "long"),
    ]  # fmt: skip
    assert table.columns[0].key == "dataset"
    assert table.rows[2][3:5] == (None, None)
    assert len(table.above) == 1


def test_a_gap_is_told_where_it_makes_a_dash() -> None:
    gaps = (
        DashReason("of lacking", frozenset({"lacking"})),
        DashReason("of tokens", frozenset({"tokens"})),
        DashReason("always"),
    )
    table = laid_out_table(SHEET, [Part("math500")], Captions(simulated=False, gaps=lambda sheet, parts: gaps))
    assert table.below[3:] == ("of lacking", "always")


def test_what_holds_for_all_data_sets_is_said_once() -> None:
    parts = [Part("a", ("both", "one", "")), Part("b", ("both",))]
    assert merge_notes(parts, lambda part: part.lost) == ["both", "a: one"]
    assert merge_notes(parts[:1], lambda part: part.lost) == ["both", "one"]


def test_a_sheet_that_is_not_needed_is_no_table() -> None:
    never = Sheet[Part]("none", "None", (), (), rows_of, needed=lambda parts: False)
    assert list(tables_of([SHEET, never], [Part("math500")], PLAIN)) == ["quality"]


def test_rows_of_a_frame() -> None:
    found = [{"k": 1, "share": 0.5, "low": 0.25, "high": 0.75, "n": 3}]
    (row,) = rows_of_records(found, ("k",), "share", "pct")
    assert row.heads == (1,)
    assert row.values["pct"] == IntervalCell(50.0, 25.0, 75.0)
    assert row.values["n"] == 3


def test_a_report_is_saved_with_what_belongs_to_it(tmp_path: Path) -> None:
    drawn = []
    table = laid_out_table(SHEET, [Part("math500")], PLAIN)
    report = StudyReport(
        "A study", {"quality": table}, {"study": "a"}, lambda: drawn.append(1) or {},
        {"Notes": ["first", "second"], "None": []}, {"main": {"x-1": "no gold"}},
        files={"gate.json": "{}"}, simulated=True,
    )  # fmt: skip
    assert not drawn
    out = report.save(tmp_path / "out")
    assert drawn == [1]
    assert report.figures == {}
    assert drawn == [1]
    text = (out / "report.md").read_text()
    assert text.startswith("# A study\n\n## Notes\n\n- first\n- second\n")
    assert "None" not in text.partition("Table 2")[0]
    assert rows(out / "left_out.csv") == [
        {"run": "main", "example_id": "x-1", "reason": "no gold", "simulated": "true"}
    ]
    assert {"run.json", "gate.json", "quality.csv", "quality.md", "quality.tex"} <= {p.name for p in out.iterdir()}
    with refuses("exists", "`force`"):
        report.save(tmp_path / "out")


def test_reports_name_the_files_of_tables_for_programs(tmp_path: Path) -> None:
    sheets = SHEET, replace(SHEET, name="every", title="Every setting", printed=False)
    out = StudyReport("A study", tables_of(sheets, [Part("math500")], PLAIN), {}).save(tmp_path / "out")
    for name in ("report.md", "report.tex"):
        text = (out / name).read_text()
        assert text.count("Every setting") == 1
        assert "every.csv" in text
        assert "quality.csv" not in text
    assert "Every setting" in (out / "every.tex").read_text()


def test_figures_of_several_data_sets_have_their_names() -> None:
    def draw(part: Part) -> dict[str, str]:
        return {"front": part.dataset}

    assert figures_by_dataset([Part("a b")], draw) == {"front": "a b"}  # type: ignore[arg-type]
    assert figures_by_dataset([Part("a b"), Part("c")], draw) == {"front-a-b": "a b", "front-c": "c"}  # type: ignore[arg-type]


def test_a_works_numbers_stand_after_all_columns_where_some_row_has_them() -> None:
    general = replace(SHEET, columns=lambda parts: (numbers("Accuracy", "accuracy", metric="known"),), rows=rows_of)
    assert [one.name for one in laid_out_table(general, [Part("MATH500")], PLAIN).columns] == ["Policy", "Accuracy"]
    own = with_published(
        numbers("Accuracy", "accuracy", metric="known"), "accuracy_pct", "published %", "published_accuracy_pct"
    )
    table = laid_out_table(replace(general, columns=(own,)), [Part("MATH500")], PLAIN)
    assert [one.name for one in table.columns] == ["Policy", "Accuracy", "published %"]
    assert [row[-1] for row in table.rows] == [59.0, None]


def test_figures_that_are_not_drawn_say_why() -> None:
    figures = {
        "drawn": StudyFigure("Drawn", lambda part: [1], lambda shown, **keys: None, "never"),
        "plain": StudyFigure("Plain", lambda part: [], lambda shown, **keys: None, "no gate"),
        "told": StudyFigure("Told", lambda part: [], lambda shown, **keys: None, lambda part: ", ".join(part.lost)),
    }
    part = Part("a", ("no scores", "no tokens"))
    lines = list(undrawn_reasons(figures, part, drawable_figures(figures, part)))
    assert len(lines) == 2
    remarked(lines, "no_figure", "a: ", "`plain`", "no gate")
    remarked(lines, "no_figure", "a: ", "`told`", "no scores, no tokens")
