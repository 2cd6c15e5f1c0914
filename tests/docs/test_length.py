"""The manual stays as long as someone reads: words of its pages, but for those that commands write."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIRST = ("your-file.md", "cookbook.md", "reading.md", "your-policies.md")
TABLES_BY_COMMAND = {"cli.md", "coverage.md"}
"""Pages whose tables commands write: `make options`, benchmarks/coverage.py. Pages of notebooks are written whole."""


def words(path: Path) -> int:
    """Words of a page that people wrote, code included; a word has a letter or a digit, as no bar of a table has."""
    lines = path.read_text(encoding="utf-8").splitlines()
    written = [line for line in lines if not (path.name in TABLES_BY_COMMAND and line.startswith("|"))]
    return sum(1 for line in written for word in line.split() if re.search(r"\w", word))


def test_bars_of_tables_are_no_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| key | default |\n| --- | --- |\n| `n` | 16 |\n\nA sum: a + b = c.\n", encoding="utf-8")
    assert words(page) == 4 + 5
    page = page.rename(tmp_path / "cli.md")
    assert words(page) == 5


def test_the_pages_to_read_first_are_short() -> None:
    assert sum(words(DOCS / name) for name in FIRST) <= 8_000


def test_the_manual_is_short() -> None:
    pages = {page.name: words(page) for page in DOCS.glob("*.md") if not page.name.startswith("notebook-")}
    assert sum(pages.values()) <= 60_000, sorted(pages.items(), key=lambda page: -page[1])


if __name__ == "__main__":
    counts = sorted((words(page), page.name) for page in DOCS.glob("*.md") if not page.name.startswith("notebook-"))
    for count, name in counts:
        print(f"{count:>8,}  {name}")
    print(f"{sum(count for count, _ in counts):>8,}  in all")
