"""Whole tables in LaTeX: no row is wider than the page, no float is higher, and no column is missing."""

from __future__ import annotations

import re
from pathlib import Path

from tests.show.test_latex import POINTS, wide

TABULAR = re.compile(
    r"\\fontsize\{(\d+)\}\{([\d.]+)\}\\selectfont\n\\setlength\{\\tabcolsep\}\{([\d.]+)pt\}\n"
    r"\\begin\{tabular\}\{@\{\}(.*?)@\{\}\}\n(.*?)\\end\{tabular\}",
    re.DOTALL,
)
ALIGN = re.compile(r"[lrc]|S\[table-format=(\+?)(\d+)\.(\d+)(?:,retain-explicit-plus)?\]")


def assert_whole(text: str, width: float, columns: int) -> None:
    """A table in LaTeX fits pages of `width` inches, and shows all of its columns."""
    shown: dict[tuple[str, ...], int] = {}
    for float_ in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, re.DOTALL):
        high = 0.0
        for size, leading, separation, spec, body in TABULAR.findall(float_):
            aligns = [found[0] for found in ALIGN.finditer(spec)]
            assert "".join(aligns) == spec
            lines = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r"\\")]
            rows = [re.split(r"(?<!\\) ?& ?", line) for line in lines]
            assert {len(row) for row in rows} == {len(aligns)}
            high += float(leading) * len(lines)
            wides = [
                max(
                    _wide(align, int(size)),
                    *(wide(cell[1:-1] if align[0] == "S" and cell[:1] == "{" else cell, int(size)) for cell in column),
                )
                for align, column in zip(aligns, zip(*rows, strict=True), strict=True)
            ]
            assert sum(wides) + 2 * float(separation) * (len(aligns) - 1) <= POINTS * width + 0.01
            for align, column in zip(aligns, zip(*rows, strict=True), strict=True):
                numbers = [cell for cell in column if align[0] == "S" and cell and cell[0] != "{"]
                assert all(re.fullmatch(r"[+-]?\d+\.\d+", number) for number in numbers)
            heads = tuple(tuple(row) for row in rows[: _heads(body)])
            shown[heads] = len(aligns)
        assert high < 500
    assert sum(shown.values()) >= columns
    assert "Left out" not in text
    braces = re.sub(r"\\[{}]", "", text)
    assert braces.count("{") == braces.count("}")


def _in_cells(heading: str) -> bool:
    """Whether a column of Markdown is none of its own in LaTeX."""
    return heading == "difference" or heading.endswith(" published")


def _heads(body: str) -> int:
    return sum(line.endswith(r"\\") for line in body.partition(r"\midrule")[0].splitlines())


def _wide(align: str, size: int) -> float:
    """Points that siunitx keeps for the numbers of a column."""
    found = ALIGN.fullmatch(align)
    if found is None or found[2] is None:
        return 0.0
    return wide(f"{'$-$' if found[1] else ''}{'0' * int(found[2])}.{'0' * int(found[3])}", size)


def assert_paper(folder: Path) -> None:
    """Every table of a study fits the text of an article in one column, and so across one in two; none lacks a column.

    The report that stands alone has them all, for its own page.
    """
    tables = sorted(path for path in folder.glob("*.tex") if path.stem != "report")
    assert tables
    for path in tables:
        head = next(line for line in path.with_suffix(".md").read_text("utf-8").splitlines() if line.startswith("| "))
        names = re.findall(r"(?<=\| )[^|]*?(?= \|)", head)
        assert_whole(path.read_text("utf-8"), 345 / POINTS, sum(not _in_cells(name) for name in names))
    report = (folder / "report.tex").read_text("utf-8")
    assert report.startswith(r"\documentclass")
    unprinted = re.findall(r"^- .*`(\w+)\.csv`$", (folder / "report.md").read_text("utf-8"), re.MULTILINE)
    assert report.count(r"\label{tab:") == len(tables) - len(unprinted)
    assert report.count(r"\includegraphics") == len(list(folder.glob("*.svg")))
