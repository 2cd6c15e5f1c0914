"""Arguments and options that several commands share: one name, one help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A log: a folder, a glob of Parquet files or folders, or any fsspec address.",
        show_default=False,
    ),
]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder to write; refused when it exists.", show_default=False)
]
OutLog = Annotated[
    Path, typer.Option("--out", metavar="LOG", help="Log to write; refused when it exists.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace what `--out` names, as a whole.")]
Policies = Annotated[
    Path,
    typer.Option(
        "--policies",
        metavar="FILE.toml",
        exists=True,
        dir_okay=False,
        readable=True,
        help="The policies, in TOML.",
        show_default=False,
    ),
]
Rules = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FILE.py",
        exists=True,
        dir_okay=False,
        readable=True,
        help="Python file with stopping rules of your own, which the policies may name. It is run.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything drawn at random.")]
Resamples = Annotated[int, typer.Option("--resamples", min=1, help="Bootstrap resamples.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals, between 0 and 1.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Condition on the columns of examples.", show_default=False),
]
StandsForBase = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="POOL",
        help="Pool of the base attempts, if not called as the gate's.",
        show_default=False,
    ),
]
StandsForPool = Annotated[
    str | None,
    typer.Option(
        "--pool", metavar="POOL", help="Pool of the revisions, if not called as the gate's.", show_default=False
    ),
]
GateFile = Annotated[
    Path,
    typer.Option(
        "--gate",
        metavar="GATE.json",
        exists=True,
        dir_okay=False,
        readable=True,
        help="A gate that `thinkback fit-gate` wrote.",
        show_default=False,
    ),
]


def names(text: str | None) -> tuple[str, ...]:
    """The names of an option that takes several, separated by commas; none where it is not given."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))
