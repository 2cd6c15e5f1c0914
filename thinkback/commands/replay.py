"""`thinkback replay`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinkback import options
from thinkback.options import file_option, option

if TYPE_CHECKING:
    from replay import Result

GROUPS, SUITE_GROUPS = 8, 3  # of `--by`, and of the standard suite, whose tables are printed too


class IntervalMethod(StrEnum):
    """How intervals are made from the resamples."""

    percentile = "percentile"
    bca = "bca"


@dataclass(frozen=True)
class Drawn:
    """How tables and figure look on paper: inches, a title where one is asked for, columns, and a LaTeX file."""

    width: float
    title: str
    columns: tuple[str, ...]
    tex: Path | None
    label: str | None
    caption: str | None
    rows: int | None


def replay(
    log: options.Log,
    out: options.OutFolder,
    policies: Annotated[
        Path | None, file_option("--policies", "The policies, in TOML; else the standard suite.", "FILE.toml")
    ] = None,
    baseline: Annotated[
        str | None,
        option("--baseline", "Policy that all are compared with; of the suite the vote over most traces.", "NAME"),
    ] = None,
    margin: Annotated[
        float | None,
        option("--margin", "Say which policies are not worse than the baseline by more than this (0.01: one point)."),
    ] = None,
    by: Annotated[
        str | None, option("--by", "Columns of examples whose groups are summarised too.", "COLUMN,…")
    ] = None,
    where: options.Where = None,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    method: Annotated[IntervalMethod, typer.Option("--method", help="Kind of interval.")] = IntervalMethod.percentile,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail where a policy would be dropped because the log covers too few examples."),
    ] = False,
    metric: Annotated[
        str | None, option("--metric", "Quality that ranks: accuracy, macro_f1, recall_5 … [default: accuracy]", "NAME")
    ] = None,
    cost: Annotated[
        str | None,
        option("--cost", "Cost of table and figure: tokens, completion tokens, calls, operations, seconds, €.", "NAME"),
    ] = None,
    measure: Annotated[
        str | None, option("--measure", "Column of traces (0 to 1) in place of `correct`.", "NAME")
    ] = None,
    rules: options.Rules = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Save what policies paid trace by trace, and where each stopped.")
    ] = False,
    texts: Annotated[bool, typer.Option("--texts", help="The same with questions and what the model wrote.")] = False,
    with_curves: Annotated[
        bool, typer.Option("--curves", help="Save pass@k, majority@k and best-of-k of every pool, too.")
    ] = False,
    headroom: Annotated[
        bool, typer.Option("--headroom", help="Show and save what lies between the policies and the oracle, too.")
    ] = False,
    width: options.Width = "6.75in",
    title: options.Title = "",
    tex: options.Tex = None,
    label: options.Label = None,
    caption: options.Caption = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", min=1, metavar="N", help="Rows of the LaTeX tables; of the suite 16.", show_default=False
        ),
    ] = None,
    columns: options.Columns = None,
    kw: options.Kilowatts = 0.25,
    eur_per_kwh: options.EnergyPrice = 0.25,
    force: options.Force = False,
) -> None:
    """Replay policies on a log and rank them.

    Without --policies, the standard suite that the log can answer (`thinkback suite LOG` prints it): on the test
    examples where the log has a test split, with a table a data set, unless --where or --by says otherwise.

    Writes the result, which `tb.load` reads (Parquet and JSON), the table (Markdown, CSV and LaTeX) and the
    cost-accuracy figure (PDF, SVG and PNG) to the folder of --out, and prints the table.
    """
    from replay import run
    from replay.runs.saved.shown import SUITE_ON_PAPER
    from toolkit.errors import ThinkbackError
    from toolkit.files import check_replaceable
    from toolkit.show import inches
    from toolkit.stats import check_margin

    if margin is not None:
        check_margin(margin)
        if baseline is None and policies is not None:
            raise ThinkbackError("`--margin` needs `--baseline`: name the policy that the others are compared with")
    most = SUITE_ON_PAPER if rows is None and policies is None else rows
    figure = Drawn(inches(width), title, options.names(columns), tex, label, caption, most)
    for path in (out, tex):
        if path is not None:
            check_replaceable(path, force, inputs=(log, policies, rules))
    result = run(
        log,
        policies,
        baseline=baseline,
        where=where,
        by=options.names(by),
        seed=seed,
        resamples=resamples,
        level=level,
        method=method.value,
        strict=strict,
        metric=metric,
        cost=cost,
        measure=measure,
        rules=rules,
        kw=kw,
        eur_per_kwh=eur_per_kwh,
    )
    parts = {"traces": traces, "texts": texts, "curves": with_curves, "headroom": headroom}
    _write_and_show(result, margin, parts, figure, out, force, policies is None)


def _write_and_show(
    result: Result, margin: float | None, parts: dict[str, bool], figure: Drawn, out: Path, force: bool, suite: bool
) -> None:
    """Write everything to the folder, as a whole, then print the tables and the names of the files."""
    from replay.runs.saved.shown import ROWS, printed_tables, ranked_input, write_shown
    from thinkback import console
    from toolkit.files import replacing
    from toolkit.show import write_latex

    ranked = ranked_input(result, margin)
    room = result.headroom() if parts["headroom"] else None
    with replacing(out, force) as folder:
        table, groups = write_shown(result, ranked, folder, figure.width, figure.title, figure.columns, figure.rows)
        result.write(folder, **parts)
        if room is not None:
            (folder / "headroom.md").write_text(room.table(ROWS).markdown(), encoding="utf-8")
            (folder / "headroom.csv").write_text(room.table().csv(), encoding="utf-8")
        files = sorted(path.name for path in folder.iterdir())
    if figure.tex is not None:
        tables = options.on_paper({"policies": table}, figure.label, figure.caption)
        write_latex(figure.tex, tables, figure.width, force)
    few = len(groups) <= (SUITE_GROUPS if suite else GROUPS)
    shown = printed_tables(ranked, groups if few else [], suite, figure.columns)
    for number, one in enumerate(shown):
        if number:
            console.say()
        console.show(one)
    if room is not None:
        console.say()
        console.show(room.table(ROWS))
    if not few:
        console.say(f"{len(groups)} groups: table_by.md ranks the policies in each.")
    console.say()
    console.say_folded(f"{out}/: {', '.join(files)}")
