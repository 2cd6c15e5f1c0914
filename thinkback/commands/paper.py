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
    """Width and title of a figure; columns of a table; its LaTeX file, with the name that a paper refers to it by."""

    width: str = "6.75in"
    title: str = ""
    tex: Path | None = None
    label: str | None = None
    caption: str | None = None
    columns: Sequence[str] = ()

    @classmethod
    def from_arguments(cls, given: dict[str, Any]) -> Self:
        """The arguments for paper, taken out of a command's. ThinkbackError where the width is no length."""
        paper = cls(**{one.name: given.pop(one.name) for one in fields(cls) if one.name in given})
        _ = paper.inches
        return paper

    @cached_property
    def inches(self) -> float:
        from toolkit.show import inches

        return inches(self.width)

    @property
    def figure(self) -> dict[str, Any]:
        """Title and width, in inches, as a figure takes them."""
        return {"title": self.title, "width": self.inches}

    def of(self, table: Table) -> Table:
        """The columns of a table that are asked for."""
        return table.only(self.columns) if self.columns else table

    def write(self, tables: Mapping[str, Table], force: bool) -> None:
        """Write tables to the LaTeX file, if one is asked for.

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
