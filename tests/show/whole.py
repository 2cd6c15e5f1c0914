"""Whole tables in LaTeX: no row is wider than the page, no float is higher, and no column is missing."""

from __future__ import annotations

import re

from tests.show.test_latex import POINTS, wide
from toolkit.show.table_content import TableContent

TABULAR = re.compile(
    r"\\fontsize\{(\d+)\}\{([\d.]+)\}\\selectfont\n\\setlength\{\\tabcolsep\}\{([\d.]+)pt\}\n"
    r"\\begin\{tabular\}\{@\{\}(.*?)@\{\}\}\n(.*?)\\end\{tabular\}",
    re.DOTALL,
)
ALIGN = re.compile(r"[lrc]|S\[table-format=(\+?)(\d+)\.(\d+)(?:,retain-explicit-plus)?\]")


def assert_whole(table: TableContent, text: str, width: float) -> None:
    """A table in LaTeX fits pages of `width` inches, and shows every column of every row."""
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
            assert sum(wides) + 2 * float(separation) * (len(aligns) - 1) <= POINTS * width + 0.01, table.title
            for align, column in zip(aligns, zip(*rows, strict=True), strict=True):
                numbers = [cell for cell in column if align[0] == "S" and cell and cell[0] != "{"]
                assert all(re.fullmatch(r"[+-]?\d+\.\d+", number) for number in numbers)
            heads = tuple(tuple(row) for row in rows[: _heads(body)])
            shown[heads] = len(aligns)
        assert high < 500
    assert sum(shown.values()) >= sum(not column.beneath for column in table.columns)
    assert "Left out" not in text
    braces = re.sub(r"\\[{}]", "", text)
    assert braces.count("{") == braces.count("}")


def _heads(body: str) -> int:
    return sum(line.endswith(r"\\") for line in body.partition(r"\midrule")[0].splitlines())


def _wide(align: str, size: int) -> float:
    """Points that siunitx keeps for the numbers of a column."""
    found = ALIGN.fullmatch(align)
    if found is None or found[2] is None:
        return 0.0
    return wide(f"{'$-$' if found[1] else ''}{'0' * int(found[2])}.{'0' * int(found[3])}", size)
