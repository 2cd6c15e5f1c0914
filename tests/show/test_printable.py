"""Nothing that a log, a policy or an error says steers a terminal, hides, runs in a spreadsheet or breaks a figure."""

from __future__ import annotations

import contextlib
import csv
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.notes import warning
from toolkit.printable import printable, spreadsheet_text
from toolkit.show import (
    FrontierPoint,
    Heat,
    IntervalCell,
    PlottedBand,
    PlottedCurve,
    ReliabilityPanel,
    Table,
    TableColumn,
    add_warnings,
    bands_figure,
    curves_figure,
    frontier,
    heat_figure,
    outcomes_figure,
    reliability_figure,
    save_figure,
    table_of,
    write_report,
)

HOSTILE = "a\x1b[2J\x1b]0;t\x07\x9b1m\u202e\u2066b\u200b\u2028\ufeff\u00ad\u115f\ufe0f\ud800\r\n\tc$\\frac{"
SIGNS = (
    "\x1b",
    "\x07",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
    "\ufeff",
    "\u00ad",
    "\u115f",
    "\ufe0f",
    "\ud800",
)


def harmless(text: str) -> bool:
    return all(line == printable(line) for line in text.split("\n"))


@pytest.mark.parametrize("sign", [*SIGNS, "\n", "\t", "\r", "\x00", "\x7f", "\x85", "\u3164", "\U000e0041"])
def test_what_acts_or_hides_is_spelled_out(sign: str) -> None:
    shown = printable(f"a{sign}b")
    assert shown.isascii()
    assert shown == f"a{sign.encode('unicode_escape').decode()}b"


@pytest.mark.parametrize("text", ["", "Café Ärger", "模型 – 7", "10\u00a0000", "λ ≥ 3 ● Δ", "😀", "a\\b", "العربية"])
def test_what_people_write_stays(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_printable_text_is_one_line_and_stays(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert len(once.splitlines()) <= 1
    assert all(sign.isprintable() or sign.isspace() for sign in once)


def test_every_form_of_a_table_is_harmless(tmp_path: Path) -> None:
    columns = (TableColumn(HOSTILE), TableColumn("b", key=HOSTILE), TableColumn("c", beneath=True))
    table = Table(HOSTILE, columns, ((HOSTILE, HOSTILE, HOSTILE),), above=(HOSTILE,), below=(HOSTILE,))
    forms = [table.terminal(80), table.markdown(), table.latex(), table.csv({"simulated": "true"})]
    write_report(tmp_path, title=HOSTILE, tables={"t": table}, figures={}, words={"Notes": f"- {HOSTILE}\n- b"})
    for text in (*forms, *(path.read_text("utf-8") for path in tmp_path.iterdir())):
        assert harmless(text)
        assert "\\x1b" in text or "textbackslash{}x1b" in text
    assert table_of(pl.DataFrame({"a": [HOSTILE[:8]]})).csv(data=True) == f"a\n{HOSTILE[:8]}\n"


@pytest.mark.parametrize("text", ["=cmd|calc!A1", "+1|x", "@SUM(A1)", "-2+3", "\t=1", "\r=1", "-", "＝1", "+A1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe_for_people_alone(text: str) -> None:
    table = table_of(pl.DataFrame({"name": [text]}))
    _, (shown,) = csv.reader(io.StringIO(table.csv()))
    assert shown == f"'{printable(text)}"
    _, (kept,) = csv.reader(io.StringIO(table.csv(data=True), newline=""))
    assert kept == text


@pytest.mark.parametrize("text", ["-3.2", "−3.2", "+5", "-1,000.5", "-1e-05", "-5%", "-.5", "-inf", "p=1", "'=1", "–"])
def test_numbers_and_other_texts_get_none(text: str) -> None:
    assert spreadsheet_text(text) == text


def test_numbers_of_a_table_stay_numbers() -> None:
    assert table_of(pl.DataFrame({"x": [-3.2, -1e-9]})).csv() == "x\n-3.2\n-1e-09\n"


def test_headings_of_a_spreadsheet_do_not_run_either() -> None:
    assert table_of(pl.DataFrame({"=1": ["a"]})).csv() == "'=1\na\n"


def test_errors_and_notes_are_one_harmless_line() -> None:
    for line in (str(ThinkbackError(HOSTILE)), str(warning("code", HOSTILE))):
        assert line == printable(line)
    assert warning("code", HOSTILE).record()["text"] == HOSTILE


@pytest.mark.parametrize("name", seeds(1, [HOSTILE, "模型 $x$ 😀", "$\\foo$"]))
def test_figures_write_any_name_without_a_warning(name: str, tmp_path: Path) -> None:
    interval = IntervalCell(0.5, 0.4, 0.6)
    points = [FrontierPoint(name, 1.0, 0.5, on_front=True), FrontierPoint("b", 2.0, 0.4, baseline=True)]
    figures = [
        frontier(points, title=name, cost=name, accuracy=name),
        curves_figure([(name, [PlottedCurve(name, (1, 2), (0.1, 0.2), (0, 0), (1, 1))])], title=name, x=name, y=name),
        heat_figure([Heat(name, (name,), (name,), ((1.0,),))], columns=1, title=name, x=name, y=name, note=name),
        outcomes_figure([(name, interval, interval)], title=name),
        bands_figure([PlottedBand(name, (0, 1), (0, 1), (0, 1), (0, 1))], title=name, x=name),
        reliability_figure([ReliabilityPanel(name, ((0.1, 0.2, 0.0, 0.3),), name)], title=name),
    ]
    for number, figure in enumerate(figures):
        path = tmp_path / f"{number}.svg"
        save_figure(add_warnings(figure, [name]), path)
        with contextlib.suppress(UnicodeDecodeError):
            assert harmless(path.read_text("utf-8"))
