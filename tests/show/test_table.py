"""The table writer: one set of rows, three ways of writing."""

import csv
import io
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import refuses
from toolkit.show import IntervalCell, Number, NumberWithInterval, Table, TableColumn, Tick, Words, bar_line, table_of
from toolkit.show.tables.table_content import PValue, count_in_equal_ranges
from toolkit.show.tables.terminal import fold_lines

WIDE = Table(
    "Title",
    (
        TableColumn("#", Number(0)),
        TableColumn("policy"),
        TableColumn("accuracy %", NumberWithInterval(1, 100)),
        TableColumn("tokens", Number(0), drop=1),
        TableColumn("calls", Number(2), drop=2),
        TableColumn("remark", Words(), beneath=True),
    ),
    (
        (1, "adaptive[max_traces=15, stop.margin=0.1]", IntervalCell(0.5, 0.4, 0.6), 12_345.6, 2.5, "a remark"),
        (2, "first", None, None, None, ""),
    ),
    above=("above",),
    below=("below",),
    strong=frozenset({0}),
)


@pytest.mark.parametrize(
    ("form", "value", "shown"),
    [
        (Number(0), 12_345.6, "12,346"),
        (Number(2, scale=100), 0.12345, "12.35"),
        (Number(2, significant=2), 0.000123, "0.00012"),
        (Number(2, significant=2), 0.523, "0.52"),
        (Number(2, significant=2), 0.0, "0.00"),
        (NumberWithInterval(3, significant=2), IntervalCell(0.00041, 0.00036, 0.00047), "0.00041 [0.00036, 0.00047]"),
        (NumberWithInterval(3, significant=2), IntervalCell(1.27, 1.2, 1.3), "1.270 [1.200, 1.300]"),
        (Number(1, signed=True), 0.25, "+0.3"),
        (Number(1, signed=True), -0.04, "0.0"),  # what rounds to zero has no sign
        (Number(1), -3, "−3.0"),
        (NumberWithInterval(1, 100), IntervalCell(0.5, 0.4, 0.6), "50.0 [40.0, 60.0]"),
        (NumberWithInterval(1, 100), IntervalCell(0.5), "50.0"),
        (NumberWithInterval(1, 100, signed=True), IntervalCell(-0.01, -0.02, 0.0, "†"), "−1.0 [−2.0, 0.0]†"),
        (Tick(), True, "●"),
        (Tick("yes", "no"), False, "no"),
        (Words(), "as [it] is", "as [it] is"),
    ],
)
def test_cells_for_people(form: object, value: object, shown: str) -> None:
    table = Table("", (TableColumn("x", form),), ((value,), (None,)))
    assert table.texts() == [[shown], ["–"]]


def test_csv_has_all_digits_and_empty_fields() -> None:
    rows = list(csv.reader(io.StringIO(WIDE.csv())))
    assert rows == [
        ["#", "policy", "accuracy %", "accuracy %_low", "accuracy %_high", "tokens", "calls", "remark"],
        ["1", "adaptive[max_traces=15, stop.margin=0.1]", "0.5", "0.4", "0.6", "12345.6", "2.5", "a remark"],
        ["2", "first", "", "", "", "", "", ""],
    ]


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), st.floats(allow_nan=False)
        ),
        max_size=5,
    )
)
def test_csv_is_read_back(rows: list[tuple[str, float]]) -> None:
    table = Table("", (TableColumn("name"), TableColumn("value", Number(1))), tuple(rows))
    _, *read = csv.reader(io.StringIO(table.csv(data=True), newline=""))
    assert [(name, float(value)) for name, value in read] == rows


def test_markdown_escapes_what_would_be_markup() -> None:
    table = Table("a|b", (TableColumn("x"),), (("p|q *r* _s_ <t> [u](v) `w`",),), below=("note `a_b` <c>",))
    assert table.markdown() == (
        "## a\\|b\n\n| x |\n| :-- |\n| p\\|q \\*r\\* \\_s\\_ &lt;t> [u]\\(v) \\`w\\` |\n\n- note `a_b` &lt;c>\n"
    )


@pytest.mark.parametrize("width", [200, 80, 60, 50, 40])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in WIDE.terminal(width).splitlines()) <= width


def test_a_narrow_terminal_stacks_then_drops() -> None:
    wide, narrow, slim = WIDE.terminal(120), WIDE.terminal(60), WIDE.terminal(52)
    assert "50.0 [40.0, 60.0]" in wide
    assert "  a remark" in wide
    assert "50.0 [40.0" not in narrow
    assert "[40.0, 60.0]" in narrow
    assert "12,346" in narrow
    assert "calls" in narrow
    assert re.search(r"hidden [a-z ]+: calls\.", slim.replace("\n", " "))
    assert "12,346" in slim


def test_a_terminal_without_room_beside_what_stands_before_a_name() -> None:
    columns = (TableColumn("a long heading", Number()), TableColumn("name"), TableColumn("n", Number(), core=True))
    text = Table("", columns, ((10**15, "majority", 10**12),)).terminal(20)
    assert "majority" in "".join(text.split())


def test_brackets_in_names_are_not_markup() -> None:
    assert "a[bold]b[/bold][red]" in Table("", (TableColumn("x"),), (("a[bold]b[/bold][red]",),)).terminal(80)


def test_colours_only_when_asked() -> None:
    assert "\x1b" not in WIDE.terminal(100)
    assert "\x1b[1m" in WIDE.terminal(100, color=True)


def test_a_table_without_rows_is_a_heading() -> None:
    empty = Table("T", (TableColumn("x"), TableColumn("y", Number(1))), ())
    assert empty.csv() == "x,y\n"
    assert empty.markdown().endswith("| x | y |\n| :-- | --: |\n")
    assert "x" in empty.terminal(40)


def test_frames_as_tables() -> None:
    frame = pl.DataFrame(
        {
            "name": ["a", None],
            "n": [1_000, None],
            "x": [0.12345, None],
            "whole": [2.0, None],
            "b": [True, False],
            "l": [[1, 2], None],
        }
    )
    lines = table_of(frame, decimals=2).markdown().splitlines()
    assert lines == [
        "| name | n | x | whole | b | l |",
        "| :-- | --: | --: | --: | :-: | :-- |",
        "| a | 1,000 | 0.12 | 2 | true | [1, 2] |",
        "| – | – | – | – | false | – |",
    ]


def test_bars() -> None:
    assert bar_line([0, 1, 8]) == " ▂█"
    assert bar_line([0, 0]) == "  "
    assert bar_line([]) == ""


def test_histograms_have_the_counts_of_all_values() -> None:
    assert count_in_equal_ranges([(1, 10), (2, 40), (4, 20)]) == [("1", 10), ("2", 40), ("3", 0), ("4", 20)]
    assert count_in_equal_ranges([(0, 1), (99, 2)], bins=4) == [("0–24", 1), ("25–49", 0), ("50–74", 0), ("75–99", 2)]


@given(st.dictionaries(st.integers(-50, 5_000), st.integers(0, 9), min_size=1), st.integers(1, 20))
def test_binning_loses_nothing(counts: dict[int, int], bins: int) -> None:
    rows = count_in_equal_ranges(sorted(counts.items()), bins)
    assert len(rows) <= bins
    assert sum(count for _, count in rows) == sum(counts.values())


def test_words_break_between_parts_of_a_name() -> None:
    assert fold_lines("adaptive consistency[stop.confidence=0.95]", 30) == [
        "adaptive consistency[",
        "stop.confidence=0.95]",
    ]
    assert fold_lines("  a remark that goes on\nnext", 12) == ["  a remark", "  that goes", "  on", "next"]
    assert fold_lines("", 5) == [""]
    assert fold_lines("abcdefgh", 3) == ["abc", "def", "gh"]


@given(st.text(st.sampled_from("ab [=,\n"), max_size=60), st.integers(1, 20))
def test_folding_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = fold_lines(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    longest = max((len(line) - len(line.lstrip()) for line in text.split("\n")), default=0)
    assert all(len(line) <= max(width, longest + 1) for line in lines)


def test_a_column_that_is_none_is_told_all_there_are() -> None:
    columns = tuple(TableColumn(f"c{place}", Number(0)) for place in range(20))
    table = Table("", (TableColumn("policy"), *columns), (("vote", *range(20)),))
    with refuses("unknown", "`c19`") as caught:
        table.only(["tokens"])
    assert "more" not in str(caught.value)
    with refuses("unknown", "`Δ points`"):
        table.only(["Δ points"])


def test_a_small_p_value_is_no_zero() -> None:
    assert [PValue().show(p) for p in (1e-9, 0.00007, 0.0001, 0.03125, 1.0)] == [
        "< .0001", "< .0001", "0.0001", "0.0313", "1.0000",
    ]  # fmt: skip
