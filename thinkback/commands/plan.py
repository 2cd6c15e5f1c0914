"""`thinkback plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.commands.paper import PAPER, Paper
from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from replay.analyses.plan.plan import QuestionPlan

LIBRARY = "replay.analyses.plan.plan:plan"


@with_arguments_of(LIBRARY, PAPER)
def plan(
    log: str,
    first: str,
    second: str,
    policies: Path | None = None,
    rules: Path | None = None,
    out: Path | None = None,
    *,
    force: bool = False,
    **given: Any,
) -> None:
    """Print how many questions tell two policies apart.

    And how many samples of each, in one order and over all orders, with what they cost.

    The log is the pilot: it tells how much the difference varies from question to question, and with the order of a
    question's traces.
    """
    from replay.analyses.plan.plan import plan as compute
    from thinkback import console
    from toolkit.files import check_replaceable

    paper = Paper.from_arguments(given)
    for path in (out, paper.tex):
        if path is not None:
            check_replaceable(path, force, inputs=(log, policies, rules))
    planned = compute(log, first, second, policies, rules=rules, **given)
    table = paper.with_chosen_columns(planned.as_table())
    files = None if out is None else _write(planned, paper, out, force)
    paper.write({"plan": table}, force)
    console.show(table)
    console.say()
    console.say_folded(str(planned))
    if files is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _write(planned: QuestionPlan, paper: Paper, out: Path, force: bool) -> list[str]:
    """Writes tables and figure to the folder; returns the names of the files."""
    from toolkit.files import replacing
    from toolkit.show import save_formats, table_of, write_latex

    marks, table = {"simulated": "true"} if planned.simulated else {}, paper.with_chosen_columns(planned.as_table())
    with replacing(out, force) as folder:
        for name, frame in {"plan": planned.table, "curve": planned.curve}.items():
            (folder / f"{name}.csv").write_text(table_of(frame).csv(marks), encoding="utf-8")
        (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
        write_latex(folder / "table.tex", {"plan": table}, paper.inches)
        save_formats(_plan_figure(planned, **paper.figure_arguments), folder, "curve")
        return sorted(path.name for path in folder.iterdir())


def _plan_figure(planned: QuestionPlan, **look: Any) -> Figure:
    """Draws the detectable difference over the number of questions, with a line for each design."""
    import polars as pl

    from replay.analyses.plan.plan import POINT
    from toolkit.show import PlottedCurve, curves_figure

    parts = planned.curve.partition_by("orders", "samples", maintain_order=True)
    lines = []
    for design, rows in zip(planned.designs, parts, strict=True):
        known = rows.drop_nulls().with_columns(pl.col("detectable", "low", "high") * POINT)
        n, estimate, low, high = (tuple(known[name]) for name in ("questions", "detectable", "low", "high"))
        lines.append(PlottedCurve(design.name, n, estimate, low, high))
    return curves_figure(
        [("", lines)],
        x="questions",
        y="difference told apart, points",
        simulated=planned.simulated,
        level=planned.level,
        note=f"{100 * planned.power:g} % power; bands: 80 % of pilots like this one",
        reference=(planned.aim_text, planned.detect * POINT),
        **look,
    )
