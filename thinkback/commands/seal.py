"""`thinkback seal`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thinkback.options import option, positional


def seal(
    log: Annotated[Path, positional("LOG", "A local log without a manifest.")],
    name: Annotated[str | None, option("--name", "Name of the log; by default its folder's.")] = None,
    license: Annotated[str | None, option("--license", "Licence of the data.")] = None,  # noqa: A002
    source: Annotated[str | None, option("--source", "How the log came about.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Mark the log as coming from a model of the world.")
    ] = False,
) -> None:
    """Seal a log that another tool wrote.

    Validates it, sorts its shards, and writes the manifest that lists them.
    """
    from thinkback import console
    from toolkit.log import seal_log

    details: dict[str, Any] = {"license": license, "source": source, "simulated": simulated}
    sealed = seal_log(log, name=name or log.resolve().name, **{key: value for key, value in details.items() if value})
    rows = ", ".join(f"{table} {sealed.rows(table):,}" for table in sealed.shards)
    console.say(f"sealed {log}: {rows}")
