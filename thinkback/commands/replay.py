"""`thinkback replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.commands.paper import PAPER, Paper
from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    from replay import Result

GROUPS, SUITE_GROUPS = 8, 3  # of `--by`, and of the standard suite, whose tables are printed too


@with_arguments_of("replay.runs.result.run:run", PAPER, without=("settings", "metrics", "block_examples"))
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
    questions: str = "drawn",
    rows: int | None = None,
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
    from replay.runs.compare.same_questions import FIXED, QUESTIONS
    from replay.runs.saved.display import SUITE_ON_PAPER
    from toolkit.errors import RequiredError, argument, require_known
    from toolkit.files import check_replaceable
    from toolkit.stats import check_margin

    if margin is not None:
        check_margin(margin)
        if baseline is None and policies is not None:
            raise RequiredError("`--margin` needs `--baseline`: name the policy that the others are compared with")
    most = SUITE_ON_PAPER if rows is None and policies is None else rows
    paper = Paper.from_arguments(given)
    for path in (out, paper.tex):
        if path is not None:
            check_replaceable(path, force, inputs=(log, policies, rules, given.get("prices")))
    result = run(log, policies, baseline=baseline, rules=rules, **given)
    require_known(questions, QUESTIONS, f"{argument('questions')} is `{questions}`")
    parts = {"traces": traces, "texts": texts, "curves": with_curves, "headroom": headroom}
    parts |= {"questions": questions == FIXED}
    _write_and_show(result, margin, parts, paper, most, out, force, policies is None)


def _write_and_show(
    result: Result,
    margin: float | None,
    parts: dict[str, Any],
    paper: Paper,
    rows: int | None,
    out: Path,
    force: bool,
    suite: bool,
) -> None:
    """Writes everything to the folder as a whole; then prints the tables and the names of the files."""
    from replay.runs.saved.display import ROWS, printed_tables, ranked_input, write_display
    from thinkback import console
    from toolkit.files import replacing
    from toolkit.show import table_of

    ranked = ranked_input(result, margin)
    room = result.headroom() if parts["headroom"] else None
    again = result.same_questions() if parts["questions"] else None
    with replacing(out, force) as folder:
        table, groups = write_display(result, ranked, folder, paper.inches, paper.title, paper.columns, rows)
        result.write(folder, **parts)
        if room is not None:
            (folder / "headroom.md").write_text(room.table(ROWS).markdown(), encoding="utf-8")
            (folder / "headroom.csv").write_text(room.table().csv(), encoding="utf-8")
        if again is not None:
            (folder / "same_questions.md").write_text(again.table(result.baseline).markdown(), encoding="utf-8")
            (folder / "same_questions.csv").write_text(table_of(again.frame).csv(), encoding="utf-8")
        files = sorted(path.name for path in folder.iterdir())
    paper.write({"policies": table}, force)
    few = len(groups) <= (SUITE_GROUPS if suite else GROUPS)
    printed = printed_tables(ranked, groups if few else [], suite, paper.columns)
    for number, one in enumerate(printed):
        if number:
            console.say()
        console.show(one)
    if room is not None:
        console.say()
        console.show(room.table(ROWS))
    if again is not None:
        console.say()
        console.show(again.table(result.baseline, ROWS))
    if not few:
        console.say(f"{len(groups)} groups: table_by.md ranks the policies in each.")
    console.say()
    console.say_folded(f"{out}/: {', '.join(files)}")
