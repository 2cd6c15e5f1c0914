"""What a study gives back: its tables and figures by name, and the folder that holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.runs.saved.provenance import write_record
from replay.studies.kit.gaps import P, write_left_out
from toolkit.files import replacing
from toolkit.show import Table, write_report
from toolkit.show.tables.html import bullets, paragraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_dataset(parts: Sequence[P], draw: Callable[[P], Mapping[str, Figure]]) -> dict[str, Figure]:
    """The figures of every data set, by the names of their files, which end with its name where there are several."""
    made: dict[str, Figure] = {}
    for part in parts:
        named = filed(part.dataset)
        made |= {key if len(parts) == 1 else f"{key}-{named}": figure for key, figure in draw(part).items()}
    return made


def around(parts: Sequence[Any], width: float) -> dict[str, Any]:
    """What every figure of some data sets (with `setting` and `simulated`) is drawn with."""
    return {"level": parts[0].setting.settings.level, "simulated": parts[0].simulated, "width": width}


def filed(dataset: str) -> str:
    """A data set's name in the names of files."""
    return "".join(sign if sign.isalnum() else "-" for sign in dataset)


def record_of(study: str, parts: Sequence[P], record: Callable[[P], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What run.json holds of a study: the record of its data set, or those of all where there are several."""
    if len(parts) == 1:
        return record(parts[0])
    return {"study": study, "datasets": {part.dataset: record(part) for part in parts}}


@dataclass(frozen=True)
class StudyReport:
    """A study of one log. `tables` are by the names of their files, and so are `figures`, drawn when first asked for.

    `words` are the lists of the report that come before its tables, by heading. `record` is run.json. `left_out` maps
    runs, which column `left_out_by` names, to the examples that each leaves out, with the reason. `files` are texts of
    further files, `after` is Markdown at the end of the report, and `paper` are lists that
    report.tex has in its place. `told` is said on the screen, `screen` shown there.
    `parts`: what was found on each data set.
    """

    title: str
    tables: Mapping[str, Table]
    draw: Callable[[], Mapping[str, Figure]]
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out_by: str = "run"
    files: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    paper: Mapping[str, Sequence[str]] = field(default_factory=dict)
    told: Sequence[str] = ()
    screen: Sequence[Table] = ()
    simulated: bool = False
    parts: Sequence[Any] = field(default=(), repr=False)

    @cached_property
    def figures(self) -> Mapping[str, Figure]:
        """The figures by the names of their files."""
        return self.draw()

    def __str__(self) -> str:
        return f"{self.title}: {len(self.tables)} tables, {', '.join(self.tables)}"

    def _repr_html_(self) -> str:
        there = bullets("`tables`", map("`{}`".format, self.tables))
        return "".join([paragraph(self.title), *map(paragraph, self.told), *(one.html() for one in self.screen), there])

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write everything to a folder, which is refused where it exists unless `force`.

        Tables as Markdown, LaTeX and CSV, figures as PDF, SVG and PNG, report.md, report.tex, run.json and, where
        examples are left out, left_out.csv.
        """
        out = Path(folder)
        with replacing(out, force) as made:
            write_report(
                made, title=self.title, tables=self.tables, figures=self.figures, words=_lists(self.words),
                simulated=self.simulated, paper=_lists(self.paper),
            )  # fmt: skip
            if self.after:
                with (made / "report.md").open("a", encoding="utf-8") as report:
                    report.write(f"\n{self.after}")
            if self.record:
                write_record(made, self.record)
            write_left_out(made, self.left_out_by, self.left_out, self.simulated)
            for name, text in self.files.items():
                (made / name).write_text(text, encoding="utf-8")
        return out


def _lists(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Lists of a report in Markdown, by heading; none that is empty."""
    return {name: "\n".join(f"- {line}" for line in lines) for name, lines in words.items() if lines}
