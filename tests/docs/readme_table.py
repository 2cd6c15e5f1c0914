"""Puts some rows of the table that `make demo` wrote into the README: `make readme`."""

from __future__ import annotations

import sys
from pathlib import Path

START, END = "<!-- what `make demo` prints -->", "<!-- end -->"
POLICIES = (
    "any of 16", "likeliest of 16", "adaptive consistency[stop.confidence=0.95]", "majority[max\\_traces=16]",
    "vote when unsure[gate.below=-3.0]", "greedy",
)  # fmt: skip
COLUMNS = ("policy", "accuracy %", "tokens", "Δ points", "leader")


def some(markdown: str) -> str:
    """The rows `POLICIES` of a Markdown table, in the table's order, with the columns `COLUMNS`.

    Raises:
        ValueError: the table lacks one of them.
    """
    cells = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in markdown.splitlines() if line[:1] == "|"]
    at = [cells[0].index(column) for column in COLUMNS]
    rows = [row for row in cells[2:] if row[at[0]] in POLICIES]
    if len(rows) != len(POLICIES):
        raise ValueError(f"the table has {[row[at[0]] for row in rows]} of {POLICIES}")
    return "\n".join(f"| {' | '.join(row[i] for i in at)} |" for row in (*cells[:2], *rows))


def with_table(readme: str, markdown: str) -> str:
    """The README with these rows between its two marks."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{some(markdown)}\n\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[2])
    table = Path(sys.argv[1]).read_text(encoding="utf-8")
    page.write_text(with_table(page.read_text(encoding="utf-8"), table), encoding="utf-8")
