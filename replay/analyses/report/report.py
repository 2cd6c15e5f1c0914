"""From a log to a report: what it holds, what the standard suite reaches on it, and where the rest is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from replay.analyses.report.report_findings import ReportedFindings, first_attempt, one_attempt
from replay.analyses.report.verifier_areas import verifier_areas
from replay.data.conditions import CONDITION
from replay.policies.suite import suite
from replay.policies.toml import POLICIES, RULES, GivenPolicies, load_policies
from replay.runs.compare.headroom import Headroom
from replay.runs.figures.figure_data import FigureData
from replay.runs.figures.figures import FIGURES
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.runs.saved.provenance import largest_majority, policy_record
from replay.runs.saved.shown import group_inputs, ranked_input
from replay.sampling.own_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, counted, first_line
from toolkit.files import replacing
from toolkit.log import TAKES, AnyLog, Description, describe_log, open_log
from toolkit.printable import printable
from toolkit.show import (
    SIMULATED,
    WIDTH,
    ColumnNote,
    RankedInput,
    Table,
    inches,
    rank,
    ranked_table,
    save_formats,
    table_of,
)
from toolkit.show.document import Document, PlacedFigure, PlacedTable, Section, as_latex, as_markdown
from toolkit.show.tables.html import bullets, paragraph

ROWS, OF_FRONT = 15, 5
"""Rows of a table in the report itself, and further ones of the front, from its cheapest on; its CSV has all."""
FOLDERS = RESULT, TABLES, FIGURE_FILES = "result", "tables", "figures"


@dataclass(frozen=True, eq=False)
class LogReport:
    """What a log says: `sections` of findings, the `result` that they are taken from, and the log's `description`.

    `room` is None where there is no oracle. `figures` are those that apply, by name.
    """

    result: Result
    description: Description
    room: Headroom | None
    sections: tuple[Section, ...]
    lead: tuple[str, ...]
    figures: dict[str, FigureData]

    def __repr__(self) -> str:
        return "\n".join(printable(sentence) for section in self.sections for sentence in section.sentences)

    def _repr_html_(self) -> str:
        told = "".join(map(paragraph, self.lead)) + "".join(
            bullets(one.heading, one.sentences) for one in self.sections
        )
        return told + "".join(short.html() for _, short, _ in self._tables())

    def document(self) -> Document:
        """The findings, the tables and the figures as one document."""
        tables = tuple(PlacedTable(f"{TABLES}/{name}", short) for name, short, _ in self._tables())
        simulated = " (simulated log)" * self.result.simulated
        placed = (
            PlacedFigure(f"{FIGURE_FILES}/{name}", f"{_capital(FIGURES[name].shows)}{simulated}")
            for name in self.figures
        )
        return Document(f"Report on {self.result.log_name}", self.lead, self.sections, tables, tuple(placed))

    def _tables(self) -> Iterator[tuple[str, Table, Table]]:
        """Tables by name: as the report shows them, and whole."""
        results = ranked_input(self.result)
        named = {"policies": results}
        named |= {f"policies-{number}": one for number, one in enumerate(group_inputs(self.result, results), 1)}
        for name, one in named.items():
            whole = ranked_table(one)
            yield name, _short(whole, one, one_attempt(self.result.policies, one.baseline)), whole
        if self.room is not None:
            yield "headroom", self.room.table(ROWS), self.room.table()

    @checks_arguments()
    def save(self, directory: str | Path, *, width: str | float = WIDTH, force: bool = False) -> None:
        """Write report.md, report.tex, and the folders of tables, of figures (`width` wide) and of the saved result.

        Everything is written, or nothing. Raises ThinkbackError where the folder exists, unless `force` replaces it.
        """
        size = inches(width)
        with replacing(directory, force) as folder:
            for name in FOLDERS:
                (folder / name).mkdir()
            marks = {"simulated": "true"} if self.result.simulated else {}
            for name, short, whole in self._tables():
                (folder / TABLES / f"{name}.md").write_text(short.markdown(), encoding="utf-8")
                (folder / TABLES / f"{name}.tex").write_text(short.latex(f"tab:{name}", size), encoding="utf-8")
                (folder / TABLES / f"{name}.csv").write_text(whole.csv(), encoding="utf-8")
            described = "\n".join(table.markdown() for table in self.description.as_tables())
            (folder / TABLES / "log.md").write_text(described, encoding="utf-8")
            for name, data in self.figures.items():
                save_formats(data.draw(width=size, title=""), folder / FIGURE_FILES, name)
                (folder / FIGURE_FILES / f"{name}.csv").write_text(table_of(data.frame).csv(marks), encoding="utf-8")
            self.result.write(folder / RESULT, headroom=self.room is not None)
            document = self.document()
            (folder / "report.md").write_text(as_markdown(document), encoding="utf-8")
            (folder / "report.tex").write_text(as_latex(document), encoding="utf-8")


@checks_arguments(log=TAKES, policies=POLICIES, where=CONDITION, baseline="a policy's name", rules=RULES)
def report(
    log: AnyLog,
    policies: GivenPolicies | None = None,
    *,
    where: str | None = None,
    baseline: str | None = None,
    rules: GivenRules = None,
    **asked: Any,
) -> LogReport:
    """Look at a log, replay policies on it, by default the standard suite, and say what was found.

    Without `policies` the test examples are reported where the log has a test split, unless `where` says otherwise. The
    baseline is by default the plain vote over most traces; of a suite without votes its first attempt. What else is
    `asked` (settings, resamples, measure …) goes to `replay.run`. Raises ThinkbackError for anything wrong with the
    log, the policies or the settings.
    """
    opened = open_log(log)
    description = describe_log(opened)
    standard, missing = None, []
    if policies is None:
        standard = suite(opened, where)
        policies, missing = standard.text, [*standard.left_out]
        if where is None:
            where, asked = standard.where, {"by": standard.by} | asked
    file = load_policies(policies, rules)
    if baseline is None:
        records = [*map(policy_record, file.policies)]
        baseline = largest_majority(records)
        if baseline is None and standard is not None:
            baseline = first_attempt(records, description)
    result = run(opened, file, baseline=baseline, where=where, **asked)
    room, figures = _headroom(result), {}
    for name in FIGURES:
        try:
            figures[name] = result.figure_data(name)
        except ThinkbackError as error:
            if room is not None or name != "headroom":  # its own section says so
                missing.append(f"figure `{name}`: {first_line(error)}")
    areas = verifier_areas(opened, result) if description.verifiers.height else ()
    sections = ReportedFindings(result, description, room, areas, tuple(missing)).sections()
    lead = (*_lead(result, result.provenance["where"], standard is not None), *_marks(sections))
    return LogReport(result, description, room, sections, lead, figures)


def _headroom(result: Result) -> Headroom | None:
    """None where no policy is an oracle."""
    return result.headroom() if any(policy.diagnostic for policy in result.policies) else None


def _short(table: Table, results: RankedInput, attempt: str | None) -> Table:
    """The best rows, those of the baseline, of one `attempt` and of the front's cheap end, with the columns that a
    reader asks for first.
    """
    known = {column.key for column in table.columns}
    wanted = (results.metric, str(results.cost.metric), "difference", "p_adjusted", "on_front", "rank", "leader")
    narrow = table.only([key for key in wanted if key in known])
    rows = rank(results)
    front = sorted(
        (row.cost.estimate, place) for place, row in enumerate(rows) if row.on_front and row.cost and place >= ROWS
    )
    shown = {front[at][1] for at in np.linspace(0, len(front) - 1, min(OF_FRONT, len(front))).astype(int)}
    best = [
        place
        for place, row in enumerate(rows)
        if place < ROWS or place in shown or row.baseline or row.policy.name == attempt
    ]
    more = len(table.rows) - len(best)
    note = [ColumnNote(f"{counted(more, 'more policy', 'more policies')} in the CSV.")] if more else []
    strong, faint = (frozenset(best.index(i) for i in of if i in best) for of in (table.strong, table.faint))
    few = tuple(narrow.rows[place] for place in best)
    return replace(narrow, rows=few, strong=strong, faint=faint, below=(*note, *narrow.below))


def _lead(result: Result, where: str | None, standard: bool) -> Iterator[str]:
    if result.simulated:
        yield SIMULATED
    settings = result.summariser.settings
    policies = counted(len(result.policies), "policy", "policies") + " of the standard suite" * standard
    among = f" where `{where}`" if where else ""
    against = "" if result.baseline is None else f" The baseline is `{result.baseline}`."
    replayed = f"Replayed: {policies} on {counted(result.statistics.n, 'example')}{among}"
    intervals = f"{100 * settings.level:g} % intervals"
    drawn = f"{settings.resamples:,} resamples paired by example, seed {settings.seed}"
    yield f"{replayed} of the log `{result.log_name}`.{against} In brackets {intervals} ({drawn})."


def _marks(sections: Sequence[Section]) -> Iterator[str]:
    if any("†" in sentence for section in sections for sentence in section.sentences):
        yield "†: few examples tell the two apart, and the interval allows for that."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
