"""`thinkback compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.commands.paper import PAPER, Paper
from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    from replay.runs.compare.compared import ComparedPolicies
    from toolkit.show import Table


@with_arguments_of(PAPER, without=("title",))
def compare(
    result: Path,
    first: str | None = None,
    second: str | None = None,
    other: Path | None = None,
    metric: str | None = None,
    cost: str | None = None,
    questions: str = "drawn",
    same_names: bool = False,
    out: Path | None = None,
    *,
    force: bool = False,
    **given: Any,
) -> None:
    """Compare the policies of a saved result pair by pair.

    Without names all pairs, with intervals that hold for all of them at once. With two names every metric of both, and
    the examples on which they differ. With --with, those of one result against those of another; with
    --same-names only those of one name.
    """
    from replay import load
    from replay.runs.saved.display import ROWS
    from thinkback import console
    from toolkit.files import check_replaceable

    paper = Paper.from_arguments(given)
    for path in (out, paper.tex):
        if path is not None:
            check_replaceable(path, force, inputs=(result, other))
    with_other = None if other is None else load(other)
    compared = load(result).compare(
        first, second, other=with_other, metric=metric, cost=cost, questions=questions, same_names=same_names
    )
    table = paper.with_chosen_columns(compared.table(ROWS))
    files = None if out is None else _write(compared, table, paper.inches, out, force)
    paper.write({"pairs": table}, force)
    console.show(table)
    examples = compared.examples_table(ROWS)
    if examples is not None:
        console.say()
        console.show(examples)
    if files is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _write(compared: ComparedPolicies, table: Table, width: float, out: Path, force: bool) -> list[str]:
    """Writes the tables, and all rows as CSV, to the folder; returns the names of the files."""
    from replay.runs.saved.display import ROWS
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
