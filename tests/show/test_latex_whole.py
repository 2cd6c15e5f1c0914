"""Tables in LaTeX from which nothing is left out: stacked parts, numbers aligned at their points."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.errors import numbers
from tests.show.test_latex import WIDTHS, table
from tests.show.whole import assert_whole
from toolkit.show import IntervalCell, Number, NumberWithInterval, Table, TableColumn
from toolkit.show.document import Document, PlacedTable, as_latex
from toolkit.show.tables.latex import _printed_table


def compared(rows: int) -> Table:
    """A data set and a method, and six numbers with published ones and differences."""
    columns = [TableColumn("Dataset"), TableColumn("Method")]
    for i in range(6):
        columns += [
            TableColumn(f"F1 of class {i}", NumberWithInterval(2), f"f{i}"),
            TableColumn(f"F1 of class {i} published", Number(2), f"f{i}_published", under=f"f{i}"),
            TableColumn("difference", Number(2, signed=True), f"f{i}_difference", printed=False),
        ]
    columns.append(TableColumn("change of the last", Number(1), "f5_change"))
    cells = (IntervalCell(33.03, 28.71, 38.31), 36.0, -2.97, IntervalCell(100.0), None, None)
    made = [("sums" if k % 2 else "claims", f"method {k}", *cells * 3, 1.5) for k in range(rows)]
    return Table("Table 5.1: Some numbers", tuple(columns), tuple(made), ("warned",), ("noted `x`",))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 6, 60])
def test_nothing_is_left_out_and_every_row_fits(rows: int, width: float) -> None:
    for made in (compared(rows), table(14, rows), table(2, rows)):
        text = made.latex("tab:x", width, whole=True)
        assert_whole(text, width, sum(not column.beneath for column in _printed_table(made).columns))
        assert text.count(r"\label{tab:x}") == 1
        assert len(re.findall(r"\\caption", text)) - len(re.findall(r"\\addtocounter", text)) == 1


def test_published_numbers_stand_below_ours_and_parts_repeat_no_more_than_tells_rows_apart() -> None:
    text = compared(3).latex(width=4.77, whole=True)
    assert text.startswith(r"% needs \usepackage{booktabs} \usepackage{siunitx} in ")
    assert numbers(text.splitlines()[0]) == ["4.77"]
    parts = re.findall(r"\\toprule\n(.*?)\\midrule\n(.*?)\\bottomrule", text, re.DOTALL)
    assert len(parts) > 1
    assert text.count(r"\begin{table*}") == 1
    for number, (heads, body) in enumerate(parts):
        first = heads.splitlines()[0].removesuffix(r" \\").split(" & ")
        assert first[: 1 if number else 2] == (["Method"] if number else ["Dataset", "Method"])
        assert len(re.findall(r"^(?:\w+ & )?method \d", body, re.MULTILINE)) == 3
    assert text.count("{(36.00)}") == 9
    assert re.search(r"\{\[28\.71, 38\.31\]\}.*\n.*\{\(36\.00\)\}", text)
    assert "difference" not in text
    assert text.count("in parentheses: published") == 1
    assert r"\caption{Some numbers; as table 5.1}" in text
    assert "33.03 & " in text
    assert "{[28.71," in text or "{[28.71, 38.31]}" in text


def test_what_was_asked_for_is_printed_and_published_numbers_without_ours_have_a_column() -> None:
    made = compared(2)
    assert [column.key for column in _printed_table(made).columns][2:] == [*(f"f{i}" for i in range(6)), "f5_change"]
    asked = made.only(["Method", "f0_published", "f0_difference"])
    assert [column.key for column in _printed_table(asked).columns][-2:] == ["f0_published", "f0_difference"]
    assert "36.00" in asked.latex(width=3.3)
    assert _printed_table(made).texts()[0][2:4] == ["33.03 [28.71, 38.31] (36.00)", "100.00"]
    assert "(36.00)" not in made.markdown() + made.csv()


def test_six_numbers_with_published_ones_take_one_page() -> None:
    text = compared(6).latex(width=4.77, whole=True)
    assert text.count(r"\begin{table") == 1
    assert text.count(r"\begin{tabular}") <= 2


def test_a_table_of_many_pages_ends_them_before_latex_holds_too_many_floats() -> None:
    text = compared(400).latex(width=3.3, whole=True)
    held = [part.count(r"\end{table}") for part in text.split(r"\clearpage")]
    assert len(held) > 2
    assert max(held) <= 12
    numbers = [int(n) for n in re.findall(r"^\w+ & method (\d+) &", text, re.MULTILINE)]
    assert numbers[:400] == list(range(400))


@pytest.mark.slow
def test_pdflatex_sets_whole_tables_without_an_overfull_box(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed, so whole tables are checked by widths alone")
    made = [PlacedTable(f"t{i}", one) for i, one in enumerate((compared(5), compared(60), table(14, 20)))]
    text = as_latex(Document("Whole", (), (), tuple(made), whole=True))
    narrow = text.replace(r"\documentclass[10pt]{article}", r"\documentclass[10pt,twocolumn]{article}")
    for name, source in (("one", text), ("two", narrow)):
        (tmp_path / f"{name}.tex").write_text(source, encoding="utf-8")
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        assert "Overfull" not in done.stdout
