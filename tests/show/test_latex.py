"""Tables in LaTeX: every row fits the page, by the metrics of LaTeX's own font, and no text is a command."""

import itertools
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import matplotlib as mpl
import pytest

from toolkit.show import (
    IntervalCell,
    Number,
    NumberWithInterval,
    PolicyRow,
    RankedInput,
    Table,
    TableColumn,
    Tick,
    Words,
    ranked_table,
)
from toolkit.show.tables.latex_text import as_tex, fold_lines, point_width, width_in_em

POINTS = 72.27
WIDTHS = (3.3, 4.77, 6.75)
NASTY = "a_b & c% $d$ #e {f} ~g ^h \\i <j> |k| \"l\" 'm' --n ``o'' ü ß α 中 [p] *q*"
SYMBOLS = {
    "Delta": 0.833, "bullet": 0.5, "dagger": 0.444, "geq": 0.778, "leq": 0.778, "texteuro": 0.8, "times": 0.778,
    "cdot": 0.278, "pm": 0.778, "ldots": 1.334, "textless": 0.778, "textgreater": 0.778, "textbar": 0.278, "quad": 1.0,
    "textbackslash": 0.5, "textasciitilde": 0.5, "textasciicircum": 0.5, "alpha": 0.64,
}  # fmt: skip


@cache
def metrics() -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """Widths and kerns of Computer Modern as its own metric file has them."""
    file = (Path(mpl.get_data_path()) / "fonts" / "afm" / "cmr10.afm").read_text()
    found = re.findall(r"^C (\d+) ; WX ([\d.]+) ; N (\w+)", file, re.MULTILINE)
    names = {name: chr(int(code)) for code, _, name in found}
    kerns = re.findall(r"^KPX (\w+) (\w+) ([-\d.]+)", file, re.MULTILINE)
    return (
        {chr(int(code)): float(width) / 1000 for code, width, _ in found},
        {(names[a], names[b]): float(by) / 1000 for a, b, by in kerns if a in names and b in names},
    )


def wide(cell: str, size: int) -> float:
    """Points of a cell of a LaTeX table."""
    letters, kerns = metrics()
    raised = re.findall(r"\\textsuperscript\{([a-z\d]+)\}", cell)
    cell = re.sub(r"\\textsuperscript\{[a-z\d]+\}", "", cell)
    total = 0.75 * sum(letters[sign] for mark in raised for sign in mark)
    for name in re.findall(r"\\([a-zA-Z]+)", cell):
        total += SYMBOLS[name]
    plain = re.sub(r"\\[a-zA-Z]+(\{\})?|\{\}", "", cell)
    total += 0.778 * plain.count("$-$")
    plain = (
        re.sub(r"\\([&%$#_{}])", r"\1", plain.replace("$-$", "").replace("$", "")).replace("ü", "u").replace("ß", "s")
    )
    total += sum(letters.get(sign, 0.333) for sign in plain)
    total += sum(kerns.get(pair, 0.0) for pair in itertools.pairwise(plain))
    return total * size * {10: 1.0, 9: 1.028, 8: 1.063}[size]


def assert_fits(text: str, width: float) -> list[list[str]]:
    """No row of the table is wider than the page, and no float higher; the first float's rows are given back."""
    every = []
    for float_ in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, re.DOTALL):
        found = re.search(
            r"\\fontsize\{(\d+)\}\{([\d.]+)\}\\selectfont\n\\setlength\{\\tabcolsep\}\{([\d.]+)pt\}\n"
            r"\\begin\{tabular\}\{@\{\}(\w+)@\{\}\}\n(.*?)\\end\{tabular\}",
            float_,
            re.DOTALL,
        )
        size, leading, separation, spec, body = found.groups()
        lines = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r"\\")]
        rows = [re.split(r"(?<!\\) ?& ?", line) for line in lines]
        assert {len(row) for row in rows} == {len(spec)}
        assert not any(line.startswith(("[", "*")) for line in lines)
        columns = [max(wide(cell, int(size)) for cell in column) for column in zip(*rows, strict=True)]
        assert sum(columns) + 2 * float(separation) * (len(spec) - 1) <= POINTS * width
        assert float(leading) * len(lines) < 500
        every.append(rows)
    return every[0]


def table(columns: int, names: int) -> Table:
    """A table like that of a run: names, accuracy with intervals, and other columns of falling need."""
    made = [TableColumn("#", Number(0)), TableColumn("policy"), TableColumn("accuracy %", NumberWithInterval(1, 100))]
    made += [
        TableColumn(f"column number {i}", NumberWithInterval(1, 100, signed=True), f"c{i}", drop=i)
        for i in range(columns)
    ]
    made += [TableColumn("ties", Tick(), drop=3), TableColumn("remark", Words(), beneath=True)]
    value = IntervalCell(-0.523, -0.61, 0.43, "†")
    long = ("adaptive consistency[stop.confidence=0.95, max_traces=16]", NASTY, "W" * 90, "[x] first", "vote")
    rows = [(i, long[i % 5], value, *[value] * columns, True, "diagnostic: sees gold" * (i % 2)) for i in range(names)]
    return Table("A table of `policies`", tuple(made), tuple(rows), above=("x" * 200,), below=("y" * 300, "`z` & more"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [0, 2, 6, 14])
def test_no_row_is_wider_than_the_page(columns: int, width: float) -> None:
    text = table(columns, 5).latex("tab:x", f"{width}in")
    rows = assert_fits(text, width)
    assert text.startswith(r"% needs \usepackage{booktabs} in ")
    assert (r"\begin{table*}" in text) == (width > 4)
    gone = re.search(r"Left out, since the page is narrow: (.*)\.\\par", text)
    assert len(rows[0]) + (len(gone[1].split("; ")) if gone else 0) == columns + 4


def test_the_least_needed_columns_go_first_and_are_named() -> None:
    text = table(6, 3).latex(width=3.3)
    left_out = re.search(r"Left out, since the page is narrow: (.*)\.\\par", text)[1].split("; ")
    assert {f"column number {i}" for i in (5, 4)} <= set(left_out)
    assert "column number 0" not in left_out


def test_a_ranked_table_fits_a_column(results: RankedInput) -> None:
    for width in WIDTHS:
        text = ranked_table(results).latex("tab:ranked", width)
        rows = assert_fits(text, width)
        assert "policy" in rows[0]
        assert "accuracy" in " ".join(rows[0])
    assert "Left out" in ranked_table(results).latex(width=3.3)
    assert isinstance(results.policies[0], PolicyRow)


def test_a_table_longer_than_a_page_goes_on_in_floats_of_one_number() -> None:
    text = table(6, 60).latex("tab:long", 3.3)
    assert_fits(text, 3.3)
    floats = text.split(r"\end{table}")[:-1]
    assert len(floats) > 3
    assert [r"\addtocounter{table}{-1}" in one for one in floats] == [False, *[True] * (len(floats) - 1)]
    assert text.count(r"\label{tab:long}") == 1
    assert text.count("(continued)") == len(floats) - 1
    assert text.count("yyy") == floats[-1].count("yyy")  # notes stand below the last
    numbers = [int(found) for found in re.findall(r"^(\d+) & ", text, re.MULTILINE)]
    assert numbers == list(range(60))


@pytest.mark.parametrize("rows", range(4, 40, 5))
def test_no_part_is_without_rows(rows: int) -> None:
    for width in WIDTHS:
        text = table(2, rows).latex(width=width)
        assert_fits(text, width)
        parts = [re.findall(r"^(\d+) & ", one, re.MULTILINE) for one in re.split(r"\\end\{table\*?\}", text)[:-1]]
        assert all(parts)
        assert [int(number) for part in parts for number in part] == list(range(rows))


def test_remarks_are_notes_with_letters() -> None:
    columns = (TableColumn("policy"), TableColumn("n", Number(0)), TableColumn("remark", beneath=True))
    rows = (("a", 1, "baseline"), ("b", 2, ""), ("c", 3, "sees gold"), ("d", 4, "baseline"))
    text = Table("T", columns, rows).latex()
    assert [row[0] for row in assert_fits(text, 6.75)[1:]] == [
        r"a\textsuperscript{a}", "b", r"c\textsuperscript{b}", r"d\textsuperscript{a}"
    ]  # fmt: skip
    assert r"\textsuperscript{a} baseline.\par" in text
    assert r"\textsuperscript{b} sees gold.\par" in text


def test_widths_are_those_of_computer_modern() -> None:
    letters, _ = metrics()
    for sign in map(chr, range(33, 127)):
        if sign not in '<>|_`"\\{}-':  # which LaTeX sets by commands, or in other fonts
            assert width_in_em(sign) / 1.03 == pytest.approx(letters[sign], abs=0.001), sign
    assert point_width("m", 8) == pytest.approx(8 * 1.063 * 1.03 * 0.833)


def test_what_latex_would_read_as_a_command_is_escaped() -> None:
    assert as_tex(r"a_b & 5% $x$ #1 {c} ~ ^ \ < > | --") == (
        r"a\_b \& 5\% \$x\$ \#1 \{c\} \textasciitilde{} \textasciicircum{} \textbackslash{} \textless{} \textgreater{} "
        r"\textbar{} -{}-"
    )
    assert as_tex("`a_b` and '") == r"`a\_b' and '"
    assert as_tex("Jürgen, α = 0.5, 中") == r"Jürgen, $\alpha$ = 0.5, \textbackslash{}u4e2d"
    assert width_in_em("中") == width_in_em(r"\u4e2d")


@pytest.mark.parametrize("text", ["a word and another", "W" * 60, "ac[stop.confidence=0.95, max_traces=16]", "", "one"])
def test_lines_are_folded(text: str) -> None:
    lines = fold_lines(text, 60, 8)
    for line in lines:
        assert point_width(line.strip(), 8) + point_width("m", 8) * line.startswith("  ") <= 61.5
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here: LaTeX is checked by widths alone")
@pytest.mark.parametrize(("options", "width"), [("", 4.77), ("twocolumn", 3.3), ("twocolumn", 4.77)])
def test_latex_compiles_without_lines_that_are_too_wide(options: str, width: float, tmp_path: Path) -> None:
    body = "\n".join(table(columns, 5).latex(f"tab:x{columns}", width) for columns in (0, 2, 6, 14))
    page = "\\usepackage[textwidth=6.75in]{geometry}" if options else ""  # columns of 3.3 in, 10 pt apart
    head = f"\\documentclass[{options}]{{article}}{page}\\usepackage{{booktabs,textcomp}}"
    document = f"{head}\\begin{{document}}\n{body}\\end{{document}}"
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert "Overfull \\hbox" not in ran.stdout
