"""What a study gives back: its tables and figures by name, and the folder that holds all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.runs.saved.provenance import write_record
from replay.studies.kit.cells import LEFT_OUT_FILE
from replay.studies.kit.sheet import P
from toolkit.files import replacing
from toolkit.show import Table, code_of, remark, table_of, write_report
from toolkit.show.drawing.page import WIDTH
from toolkit.show.tables.html import bullet_list, paragraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study: the data that it shows of a data set, how it is drawn, and why it may be missing."""

    title: str
    shows: Callable[[Any], Collection[Any]]
    draw: Callable[..., Figure]
    missing: str | Callable[[Any], str] = ""

    def draw_for(self, part: Any, width: float = WIDTH) -> Figure | None:
        """Draws the figure of a data set; None where there is nothing to show."""
        content, title = self.shows(part), f"{self.title}, {part.dataset}"
        return self.draw(content, title=title, simulated=part.simulated, width=width) if content else None


Figures = Mapping[str, StudyFigure]
"""Figures by the names of their files."""


def drawable_figures(figures: Figures, part: Any) -> list[str]:
    """Names the figures for which a data set has data."""
    return [key for key, figure in figures.items() if figure.shows(part)]


def undrawn_reasons(figures: Figures, part: Any, drawn: Collection[str]) -> Iterator[str]:
    """Yields the reason for each figure of a data set that is not drawn."""
    for key, figure in figures.items():
        if key not in drawn:
            why = figure.missing(part) if callable(figure.missing) else figure.missing
            yield remark(NO_FIGURE, f"{part.dataset}: no figure `{key}`: {why}")


def figures_by_dataset(parts: Sequence[P], draw: Callable[[P], Mapping[str, Figure | None]]) -> dict[str, Figure]:
    """Draws the figures of every data set, by file name; the name ends with the data set's where there are several."""
    suffixes = {part.dataset: "" if len(parts) == 1 else f"-{file_name(part.dataset)}" for part in parts}
    every = ((f"{key}{suffixes[part.dataset]}", figure) for part in parts for key, figure in draw(part).items())
    return {name: figure for name, figure in every if figure is not None}


def draw_figures(figures: Figures, parts: Sequence[P], width: float = WIDTH) -> dict[str, Figure]:
    """Draws every figure of the data sets, `width` inches wide, by the names of their files."""
    return figures_by_dataset(
        parts, lambda part: {key: figure.draw_for(part, width) for key, figure in figures.items()}
    )


def file_name(dataset: str) -> str:
    """Makes a data set's name safe for file names."""
    return "".join(sign if sign.isalnum() else "-" for sign in dataset)


def record_of(
    study: str, parts: Sequence[P], entries: Callable[[P], Mapping[str, Any]], run: Callable[[P], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Returns the content of a study's run.json: the record of its only data set, or those of all by name.

    A record begins with the study and its log; then stand the study's `entries` entries and those of its run.
    """
    records = {part.dataset: {"study": study, "log": None, **entries(part), **run(part)} for part in parts}
    return next(iter(records.values())) if len(parts) == 1 else {"study": study, "datasets": records}


def log_line(provenance: Mapping[str, Any], simulated: bool) -> str:
    """Names the log of a run and its hash, as a line of a report."""
    log = provenance["log"]
    return f"log: {log['name']}{' (simulated)' if simulated else ''}, SHA-256 {log.get('sha256', 'unknown')}"


def intervals_line(provenance: Mapping[str, Any]) -> str:
    """Says how the intervals of a run are computed, as a line of a report."""
    return f"intervals: {provenance['resamples']:,} resamples, level {provenance['level']:g}, seed {provenance['seed']}"


NOTES_FILE = "notes.json"
NO_FIGURE = "no_figure"
"""Code of a line on a figure that is not drawn, or lacks something."""
UNDONE = "What could not be done"
"""Heading of a report's list of what is missing."""


@dataclass(frozen=True)
class StudyReport:
    """The results of a study of one log: tables and figures by the names of their files, lists of lines, and the run's
    record.

    `words` are the lists of the report that come before its tables, by heading. `record` is run.json. `left_out` maps
    runs, which column `left_out_by` names, to the examples that each leaves out, with the reason. `files` are texts of
    further files, `after` is Markdown at the end of the report, and `paper` are lists that
    report.tex has in its place. `lead` are the lines on the screen and `screen` its tables, which stand
    after them, or before them where `screen_first`. `parts`: the results on each data set.
    """

    title: str
    tables: Mapping[str, Table]
    record: Mapping[str, Any]
    draw: Callable[[], Mapping[str, Figure]] = dict
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out_by: str = "run"
    files: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    paper: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lead: Sequence[str] = ()
    screen: Sequence[Table] = ()
    screen_first: bool = False
    simulated: bool = False
    parts: Sequence[Any] = field(default=(), repr=False)

    @cached_property
    def figures(self) -> Mapping[str, Figure]:
        return self.draw()

    def notes(self) -> list[dict[str, Any]]:
        """Returns the lines that have a code, each with its code and the tables and lists (`at`) where it stands."""
        lines = {name: (*table.above, *table.below) for name, table in self.tables.items()} | dict(self.words)
        places: dict[tuple[str, str], list[str]] = {}
        for name, group in lines.items():
            for line in dict.fromkeys(group):
                if code := code_of(line):
                    places.setdefault((code, str(line)), []).append(name)
        return [{"code": code, "text": text, "at": names} for (code, text), names in places.items()]

    def __str__(self) -> str:
        return f"{self.title}: {len(self.tables)} tables, {', '.join(self.tables)}"

    def _repr_html_(self) -> str:
        there = bullet_list("`tables`", map("`{}`".format, self.tables))
        return "".join([paragraph(self.title), *map(paragraph, self.lead), *(one.html() for one in self.screen), there])

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write everything to a folder, which is refused where it exists unless `force`.

        Tables as Markdown, LaTeX and CSV, figures as PDF, SVG and PNG, report.md, report.tex, run.json, notes.json
        and, where examples are left out, left_out.csv.
        """
        out = Path(folder)
        with replacing(out, force) as target:
            write_report(
                target, title=self.title, tables=self.tables, figures=self.figures, words=_markdown_lists(self.words),
                simulated=self.simulated, paper=_markdown_lists(self.paper),
            )  # fmt: skip
            if self.after:
                with (target / "report.md").open("a", encoding="utf-8") as report:
                    report.write(f"\n{self.after}")
            write_record(target, self.record)
            notes = json.dumps(self.notes(), indent=2, ensure_ascii=False)
            (target / NOTES_FILE).write_text(f"{notes}\n", encoding="utf-8")
            _write_left_out(target, self.left_out_by, self.left_out, self.simulated)
            for name, text in self.files.items():
                (target / name).write_text(text, encoding="utf-8")
        return out


def _markdown_lists(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Writes lists of lines as Markdown, by heading; empty lists are left out."""
    return {name: "\n".join(f"- {line}" for line in lines) for name, lines in words.items() if lines}


def _write_left_out(folder: Path, key: str, excluded: Mapping[str, Mapping[str, str]], simulated: bool) -> None:
    """Writes the examples that runs leave out to left_out.csv, one row each with its reason; no file where there are
    none.

    `excluded` maps each run, which column `key` names, to reasons by example_id.
    """
    rows = [(run, name, why) for run, reasons in excluded.items() for name, why in sorted(reasons.items())]
    if not rows:
        return
    frame = pl.DataFrame(rows, schema=[key, "example_id", "reason"], orient="row")
    text = table_of(frame).csv({"simulated": "true"} if simulated else {})
    (folder / LEFT_OUT_FILE).write_text(text, encoding="utf-8")
