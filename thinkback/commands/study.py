"""`thinkback study`: one subcommand a published work, made of the signature of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from thinkback.options import with_arguments_of

STUDIES = {
    "buzz": "replay.studies.buzz.report:study_buzz",
    "factcheck": "replay.studies.factcheck.report:study_factcheck",
    "latent": "replay.studies.latent.report:study_latent",
    "multihop": "replay.studies.multihop.report:study_multihop",
    "recovery": "replay.studies.recovery.report:study_recovery",
}
"""Study -> the function that gives back its report. A new one is a folder of `replay/studies` and a line here."""


def _print_lines(lines: Iterable[str]) -> None:
    from thinkback import console

    for line in lines:
        console.say(line)


def study_command(function: str) -> Callable[..., None]:
    """Makes the command of a study: its function's arguments, `--out` and `--force`."""

    @with_arguments_of(function, without=("log",))
    def command(log: str, out: Path, *, force: bool = False, **given: Any) -> None:
        from thinkback import console
        from toolkit.files import check_replaceable

        files = [one for value in given.values() for one in (value if isinstance(value, list) else [value])]
        check_replaceable(out, force, inputs=(log, *(file for file in files if isinstance(file, Path))))
        module, _, name = function.partition(":")
        report = getattr(import_module(module), name)(log, **given)
        report.save(out, force)
        if not report.screen_first:
            _print_lines(report.lead)
        for table in report.screen:
            console.show(table)
            console.say()
        if report.screen_first:
            _print_lines(report.lead)
        console.say_report(out)

    return command
