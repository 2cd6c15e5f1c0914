"""`thinkback seal`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def seal(
    log: Path,
    name: str | None = None,
    license: str | None = None,  # noqa: A002
    source: str | None = None,
    simulated: bool = False,
    with_failures: bool = False,
) -> None:
    """Seal a log that another tool wrote.

    Validates it, sorts its shards, and writes the manifest that lists them. With --with-failures, seals an unfinished
    run of `thinkback generate` without what was not answered.
    """
    from generate.sampling.sampling_run import is_unfinished
    from thinkback import console
    from toolkit.errors import ConflictError, IncompleteError
    from toolkit.log import seal_log

    if is_unfinished(log):
        if not with_failures:
            raise IncompleteError(
                f"`{log}` is an unfinished run: the same `thinkback generate` finishes it, or seal it without what was"
                " not answered: `--with-failures`"
            )
        if name or license or source or simulated:
            raise ConflictError("an unfinished run takes its name, licence and source from its recipe: leave them out")
        _seal_run(log)
        return
    details: dict[str, Any] = {"license": license, "source": source, "simulated": simulated}
    sealed = seal_log(log, name=name or log.resolve().name, **{key: value for key, value in details.items() if value})
    rows = ", ".join(f"{table} {sealed.rows(table):,}" for table in sealed.shards)
    console.say(f"sealed {log}: {rows}")


def _seal_run(log: Path) -> None:
    """Carries out `--with-failures`: seals an unfinished run without the calls that failed."""
    from generate.sampling.sampling_run import seal_unfinished
    from thinkback import console
    from thinkback.commands.generate import failure_line, say_generated

    done = seal_unfinished(log)
    say_generated(done, log)
    if done.failures:
        console.say(failure_line(done, log))
