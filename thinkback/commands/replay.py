"""`thinkback replay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback import options
from thinkback.options import takes

if TYPE_CHECKING:
    from replay import Result

GROUPS, SUITE_GROUPS = 8, 3  # of `--by`, and of the standard suite, whose tables are printed too


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


@takes("replay.runs.result.run:run", without=("settings", "metrics", "block_examples"))
def replay(
    log: str,
    out: Path,
    policies: Path | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    rules: Path | None = None,
    *,
    traces: bool = False,
    texts: bool = False,
    with_curves: bool = False,
    headroom: bool = False,
    width: str = "6.75in",
    title: str = "",
    tex: Path | None = None,
    label: str | None = None,
    caption: str | None = None,
    rows: int | None = None,
    columns: str | None = None,
    force: bool = False,
    **given: Any,
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
    result = run(log, policies, baseline=baseline, rules=rules, **given)
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
