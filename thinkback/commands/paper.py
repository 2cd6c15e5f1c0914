"""How a command's tables and figure look on paper: arguments that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from toolkit.show import Table

PAPER = "thinkback.commands.paper:Paper"


@dataclass(frozen=True)
class Paper:
    """How a command's output looks on paper: a figure's width and title, a table's columns, and its LaTeX file with the
    name to refer to it by.
    """

    width: str = "6.75in"
    title: str = ""
    tex: Path | None = None
    label: str | None = None
    caption: str | None = None
    columns: Sequence[str] = ()

    @classmethod
    def from_arguments(cls, given: dict[str, Any]) -> Self:
        """Takes the arguments for paper out of a command's `given`. ThinkbackError where the width is no length."""
        paper = cls(**{field.name: given.pop(field.name) for field in fields(cls) if field.name in given})
        _ = paper.inches
        return paper

    @cached_property
    def inches(self) -> float:
        from toolkit.show import width_in_inches

        return width_in_inches(self.width)

    @property
    def figure_arguments(self) -> dict[str, Any]:
        """The arguments of a figure: its title, and its width in inches."""
        return {"title": self.title, "width": self.inches}

    def with_chosen_columns(self, table: Table) -> Table:
        """The table with only the columns that the user chose."""
        return table.only(self.columns) if self.columns else table

    def write(self, tables: Mapping[str, Table], force: bool) -> None:
        """Writes tables to the LaTeX file, if the user asked for one.

        The name of the first begins those of the others, too; it has the caption.
        """
        from toolkit.show import write_latex

        if self.tex is None:
            return
        first = next(iter(tables))
        name = first if self.label is None else self.label
        named = {name + key.removeprefix(first): table for key, table in tables.items()}
        if self.caption is not None:
            named[name] = replace(named[name], title=self.caption)
        write_latex(self.tex, named, self.inches, force)
