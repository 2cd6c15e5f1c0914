"""Arguments and options that several commands share: one name, one help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from toolkit.show import Table


def option(flag: str, help: str, metavar: str | None = None, **more: Any) -> Any:  # noqa: A002
    """An option that has no default to show."""
    return typer.Option(flag, help=help, metavar=metavar, show_default=False, **more)


def file_option(flag: str, help: str, metavar: str) -> Any:  # noqa: A002
    """An option that names an existing file."""
    return option(flag, help, metavar, exists=True, dir_okay=False)


def positional(metavar: str, help: str) -> Any:  # noqa: A002
    """An argument without an option's name."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Log = Annotated[str, positional("LOG", "A log: a folder, a glob of Parquet files or folders, or any fsspec address.")]
Recipe = Annotated[str, positional("RECIPE", "A recipe file, or the name of a shipped one.")]
Settings = Annotated[list[str] | None, option("--set", "A setting that replaces the recipe's.", "KEY=VALUE")]
AllowKeys = Annotated[
    list[str] | None, option("--allow-key", "A variable whose key may go to whatever server the recipe names.", "NAME")
]
WithFailures = Annotated[
    bool, typer.Option("--with-failures", help="Seal without the calls that failed, whatever the reason.")
]
OutFolder = Annotated[Path, option("--out", "Folder to write; refused when it exists.", "DIR")]
OutLog = Annotated[Path, option("--out", "Log to write; refused when it exists.", "LOG")]
LogName = Annotated[str | None, option("--name", "Name of the new log; by default its folder's.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what `--out` names, as a whole.")]
Policies = Annotated[Path, file_option("--policies", "The policies, in TOML.", "FILE.toml")]
Rules = Annotated[
    Path | None,
    file_option(
        "--rules",
        "Python file with stopping rules and selects of your own, which the policies may name. It is run.",
        "FILE.py",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything drawn at random.")]
Resamples = Annotated[int, typer.Option("--resamples", min=1, help="Bootstrap resamples.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals, between 0 and 1.")]
Kilowatts = Annotated[float, typer.Option("--kw", help="Power of the device, in kW.")]
EnergyPrice = Annotated[float, typer.Option("--eur-per-kwh", help="Price of energy, in € per kWh.")]
Width = Annotated[
    str,
    typer.Option(
        "--width", metavar="LENGTH", help="Width of figure and LaTeX table on paper: 3.3in, 84mm, 8.4cm, 240pt."
    ),
]
FigureWidth = Annotated[
    str, typer.Option("--width", metavar="LENGTH", help="Width of the figures on paper: 3.3in, 84mm, 8.4cm, 240pt.")
]
Tex = Annotated[Path | None, option("--tex", "Write the table to a LaTeX file, too, as wide as --width.", "FILE.tex")]


def _label(value: str | None) -> str | None:
    """A name that LaTeX can refer to, without `tab:`."""
    if value is None:
        return None
    name = value.removeprefix("tab:")
    if not re.fullmatch(r"[A-Za-z0-9:.+_-]+", name):
        raise typer.BadParameter(f"{value!r} has more than letters, digits and : . + - _, which LaTeX refers by")
    return name


Label = Annotated[
    str | None,
    option("--label", "What a paper refers to the LaTeX table of --tex by, after `tab:`.", "NAME", callback=_label),
]
Caption = Annotated[str | None, option("--caption", "Caption of the LaTeX table of --tex.", "TEXT")]
Columns = Annotated[
    str | None, option("--columns", "Columns of the table, by their headings or their names in CSV.", "NAME,…")
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the figure.", show_default=False)]
Where = Annotated[str | None, option("--where", "Condition on the columns of examples.", "SQL")]
StandsForBase = Annotated[
    str | None, option("--base", "Pool of the base attempts, if not called as the gate's.", "POOL")
]
StandsForPool = Annotated[str | None, option("--pool", "Pool of the revisions, if not called as the gate's.", "POOL")]
GateFile = Annotated[Path, file_option("--gate", "A gate that `thinkback fit-gate` wrote.", "GATE.json")]


def names(text: str | None) -> tuple[str, ...]:
    """The names of an option that takes several, separated by commas; none where it is not given."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))


def on_paper(tables: Mapping[str, Table], label: str | None, caption: str | None) -> dict[str, Table]:
    """Tables by the name of the first that is asked for, which begins those of the others, too, under its caption."""
    first = next(iter(tables))
    name = first if label is None else label
    made = {name + own.removeprefix(first): table for own, table in tables.items()}
    if caption is not None:
        made[name] = replace(made[name], title=caption)
    return made
