"""The manual stays as long as someone reads: words of its pages, but for those that commands write."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIRST = ("your-file.md", "cookbook.md", "reading.md", "your-policies.md")
TABLES_BY_COMMAND = {"cli.md", "coverage.md"}
"""Pages whose tables commands write: `make options`, benchmarks/coverage.py. Pages of notebooks are written whole."""


def words(path: Path) -> int:
    """Words of a page that people wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(len(line.split()) for line in lines if not (path.name in TABLES_BY_COMMAND and line.startswith("|")))


def test_the_pages_to_read_first_are_short() -> None:
    assert sum(words(DOCS / name) for name in FIRST) <= 8_000


def test_the_manual_is_short() -> None:
    pages = {page.name: words(page) for page in DOCS.glob("*.md") if not page.name.startswith("notebook-")}
    assert sum(pages.values()) <= 71_600, sorted(pages.items(), key=lambda page: -page[1])


if __name__ == "__main__":
    counts = sorted((words(page), page.name) for page in DOCS.glob("*.md") if not page.name.startswith("notebook-"))
    for count, name in counts:
        print(f"{count:>8,}  {name}")
    print(f"{sum(count for count, _ in counts):>8,}  in all")
