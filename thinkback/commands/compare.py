"""`thinkback compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from thinkback import options

if TYPE_CHECKING:
    from replay.runs.compare.compared import ComparedPolicies
    from toolkit.show import Table


def compare(
    result: Path,
    first: str | None = None,
    second: str | None = None,
    other: Path | None = None,
    metric: str | None = None,
    out: Path | None = None,
    tex: Path | None = None,
    label: str | None = None,
    caption: str | None = None,
    columns: str | None = None,
    width: str = "6.75in",
    force: bool = False,
) -> None:
    """Compare the policies of a saved result pair by pair.

    Without names all pairs, with intervals that hold for all of them at once. With two names every metric of both, and
    the examples on which they differ. With --with, those of one result against those of another.
    """
    from replay import load
    from replay.runs.saved.shown import ROWS
    from thinkback import console
    from toolkit.files import check_replaceable
    from toolkit.show import inches, write_latex

    size = inches(width)
    for path in (out, tex):
        if path is not None:
            check_replaceable(path, force, inputs=(result, other))
    compared = load(result).compare(first, second, other=None if other is None else load(other), metric=metric)
    table = compared.table(ROWS)
    table = table.only(asked) if (asked := options.names(columns)) else table
    files = None if out is None else _write(compared, table, size, out, force)
    if tex is not None:
        write_latex(tex, options.on_paper({"pairs": table}, label, caption), size, force)
    console.show(table)
    examples = compared.examples_table(ROWS)
    if examples is not None:
        console.say()
        console.show(examples)
    if files is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _write(compared: ComparedPolicies, table: Table, width: float, out: Path, force: bool) -> list[str]:
    """Write the tables, and all rows as CSV, to the folder; the names of the files."""
    from replay.runs.saved.shown import ROWS
    from toolkit.files import replacing
    from toolkit.show import table_of, write_latex

    marks = {"simulated": "true"} if compared.simulated else {}
    frames = {"pairs": compared.pairs, "metrics": compared.metrics, "examples": compared.examples}
    tables = [table, compared.examples_table(ROWS)]
    with replacing(out, force) as folder:
        (folder / "table.md").write_text("\n".join(one.markdown() for one in tables if one is not None), "utf-8")
        write_latex(folder / "table.tex", {"pairs": table}, width)
        for name, frame in frames.items():
            if frame is not None:
                (folder / f"{name}.csv").write_text(table_of(frame).csv(marks), encoding="utf-8")
        return sorted(path.name for path in folder.iterdir())
