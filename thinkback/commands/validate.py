"""`thinkback validate`."""

from __future__ import annotations

import typer


def validate(log: str) -> None:
    """Check a log against the contract.

    Prints one line for every kind of fault; the exit code is 2 if there is any.
    """
    from thinkback import console
    from toolkit.log import open_log, validate_log

    opened = open_log(log)
    report = validate_log(opened)
    for note in report.notes:
        console.say(f"note: {note}")
    for problem in report.problems:
        console.complain(f"error: {problem}  [{problem.code}]")
    if not report.ok:
        raise typer.Exit(2)
    console.say(f"{log}: valid{' (simulated)' if opened.simulated else ''}")
