"""The `thinkback` command: its subcommands, and what becomes of errors.

A mistake of the user is one line on stderr and exit code 2. Ctrl-C is 130. Anything else is a fault of the program
and keeps its traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from copy import copy
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name

from thinkback.commands import (
    compare,
    curves,
    dashboard,
    describe,
    explain,
    export,
    figure,
    fit,
    fit_verifier,
    frontier,
    gates,
    generate,
    import_,
    listen,
    merge,
    plan,
    query,
    replay,
    report,
    seal,
    simulate,
    study,
    suite,
    train,
    tune,
    validate,
)
from thinkback.console import complain
from thinkback.options import LazyCommand, table
from toolkit.errors import ThinkbackError


def examples_of(command: str) -> tuple[str, ...]:
    """The example command lines in the help of a command, or of a group of commands."""
    examples = table()["examples"]
    if command in examples:
        return tuple(examples[command])
    group, _, name = command.partition(" ")
    if group == "import" and name:
        return (f"thinkback import {name} PATH --out mylog",)
    if group == "study" and name:
        return (f"thinkback study {name} mylog --out {name}",)
    return tuple(lines[0] for one, lines in examples.items() if one.startswith(f"{command} "))


def _write_notes() -> None:
    """Sends the notes that the library logs to stderr, each line once."""
    import logging  # which registers an end of its own

    lines: set[str] = set()

    def write(record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if line not in lines:
            complain(f"note: {line}")
        lines.add(line)
        return False

    logging.getLogger("thinkback").filters = [write]


class _EndsWithExamples:
    """A mixin whose help ends with example command lines."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples unchanged, so that they can be copied."""
        path, at = [], ctx
        while at is not None and at.parent is not None:
            path.append(at.info_name)
            at = at.parent
        with formatter.section("Examples"):
            for line in examples_of(" ".join(reversed(path))):
                formatter.write("".join(f"  {part}\n" for part in line.split("\n")))


class _WithExamples(_EndsWithExamples, TyperCommand):
    """A command whose help ends with examples."""


class _GroupWithExamples(_EndsWithExamples, TyperGroup):
    """A group of commands whose help ends with examples."""


USER = 2
INTERRUPTED = 130
TERMINATED = 143
BROKEN_PIPE = 1
OPTIONS = {
    "n_folds": "--folds", "allow_keys": "--allow-key", "settings": "--set", "mapping": "--map", "against": "--with",
}  # fmt: skip
"""Options of commands that are not called as the argument of the function."""

PANELS = {
    "Begin here": ("import", "report", "replay", "tune"),
    "Make a log": ("generate", "listen", "train", "fit", "simulate"),
    "Look after a log": ("describe", "query", "validate", "seal", "merge", "export"),
    "Write and follow policies": ("suite", "check", "explain", "curves", "frontier", "plan"),
    "Show a result": ("dashboard", "compare", "figure"),
    "Fit verifiers and gates": ("fit-verifier", "fit-gate", "transfer"),
    "Reproduce a work": ("study",),
}
"""Heading of the help -> commands below it."""


class Commands(_GroupWithExamples):
    """The group of all commands, in the order of the help. It ends every failure as this module says."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [name for names in PANELS.values() for name in names if name in self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, names in PANELS.items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(100))
                for name in names
                if name in self.commands
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Runs one command line and exits with its code."""
        options["standalone_mode"] = False
        words = [_expand_home(word) for word in (sys.argv[1:] if args is None else args)]
        _write_notes()
        try:
            code = super().main(words, *rest, **options)
            sys.stdout.flush()
        except KeyboardInterrupt:
            _exit_with_error("interrupted", INTERRUPTED)
        except BrokenPipeError:
            # the reader has what it wanted; the interpreter must not complain when it flushes at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(BROKEN_PIPE)
        except Exception as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                print(error, file=sys.stderr)
                sys.exit(USER)
            line = _mistake_line(error)
            if line is None:
                raise
            _exit_with_error(line, USER)
        if code == INTERRUPTED:
            _exit_with_error("interrupted", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _expand_home(word: str) -> str:
    """A word of the command line with a path's `~/` expanded, also where shells don't: after `=` or in quotes."""
    option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{sign}{os.path.expanduser(value)}" if value.startswith("~/") else word  # noqa: PTH111


def _mistake_line(error: Exception) -> str | None:
    """The user's mistake in one line; None where the error is no mistake of the user."""
    if isinstance(error, ThinkbackError):
        return f"{' '.join(error.line_with(_option_of_argument).split())}  [{error.code}]"
    if isinstance(error, OSError) and error.strerror is not None:
        return f"`{error.filename}`: {error.strerror}" if error.filename is not None else error.strerror
    if hasattr(error, "format_message"):  # the parser's own errors, whichever copy of click typer carries
        context = getattr(error, "ctx", None)
        help_line = f"; see `{context.command_path} --help`" if context is not None else ""
        return " ".join(error.format_message().split()).rstrip(".") + help_line
    return None


def _option_of_argument(argument: str) -> str:
    return OPTIONS.get(argument, "--" + argument.replace("_", "-"))


def _exit_with_error(line: str, code: int) -> NoReturn:
    complain(f"error: {line}")
    sys.exit(code)


def _add_commands(group: typer.Typer, *commands: Callable[..., None], path: str = "") -> None:
    """Adds functions to a group as subcommands of their own names. `path`: the group's place among the commands."""
    for command in commands:
        _add_command(group, get_command_name(command.__name__), command, path)


def _add_command(
    group: typer.Typer, name: str, command: Callable[..., None], path: str = "", hidden: bool = False
) -> None:
    """Adds a function to a group as the subcommand `name`. A hidden one is described as `auto` is."""
    label = "auto" if hidden else name
    group.command(name, hidden=hidden, cls=_WithExamples)(LazyCommand(command, f"{path} {label}".strip()))


app = typer.Typer(
    cls=Commands,
    help="Replay test-time compute: log every trace and verifier score once, evaluate any policy on the log.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _command_group(name: str, words: str) -> typer.Typer:
    group = typer.Typer(cls=_GroupWithExamples, help=words, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


formats = ", ".join(import_.FORMATS)
importing = _command_group(
    "import", f"Make a log from foreign files. A known format is imported by its name: {formats}."
)
_add_command(importing, "auto", import_.format_command("auto", import_.AUTO), "import")
_add_commands(importing, import_.table, path="import")
_add_command(importing, "recovery", import_.import_recovery_rows, "import")
_add_command(importing, "replay", import_.import_replay_rows, "import")
for name in import_.FORMATS:
    _add_command(importing, name, import_.format_command(name), "import", hidden=True)
exporting = _command_group("export", "Write a log in a foreign format.")
_add_commands(exporting, export.table, export.recovery, export.replay, export.predictions, path="export")
_add_commands(
    app, train.train, generate.generate, listen.listen, fit.fit, simulate.simulate, validate.validate,
    describe.describe, query.query, seal.seal, merge.merge, suite.suite, suite.check, replay.replay, report.report,
    dashboard.dashboard,
    compare.compare, figure.figure, curves.curves, frontier.frontier, explain.explain, fit_verifier.fit_verifier,
    gates.fit_gate, gates.transfer,
    tune.tune, plan.plan,
)  # fmt: skip
studying = _command_group("study", "Write the tables and figures of a published work for a log.")
for name, function in study.STUDIES.items():
    _add_command(studying, name, study.study_command(function), "study")


def _print_version(version_only: bool) -> None:
    if version_only:
        from importlib.metadata import version

        print(f"thinkback {version('thinkback')}")
        raise typer.Exit


@app.callback()
def thinkback(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Replay test-time compute: log every trace and verifier score once, evaluate any policy on the log."""


def app_of(words: Sequence[str]) -> typer.Typer:
    """The app with only the command that the words begin with, since building all takes longer than running some.

    The whole app where they begin with anything else, such as a group or a name that is not known.
    """
    for command in app.registered_commands:
        name = command.name or get_command_name(command.callback.__name__ if command.callback is not None else "")
        if [name] == list(words[:1]):
            one = copy(app)
            one.registered_commands, one.registered_groups = [command], []
            return one
    return app


def main() -> NoReturn:
    """Runs the command line of this process."""
    # SIGTERM ends like Ctrl-C does: through the `finally`s, so that no half result stays behind
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still gets its table
    app_of(sys.argv[1:])(prog_name="thinkback")
    raise AssertionError("unreachable: the group exits")
