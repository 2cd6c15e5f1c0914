"""What commands print: tables on standard output, as wide as the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from toolkit.errors import shorten_message
from toolkit.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.show import Table

PIPE_WIDTH = 160  # where there is no terminal whose width could be asked; COLUMNS overrules it


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def width() -> int:
    """The number of characters in a line: the terminal's, else COLUMNS, else 160."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def colorful() -> bool:
    """Whether to print colours: only on a terminal, and not where NO_COLOR or a dumb terminal forbids them."""
    return on_terminal() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def show(table: Table) -> None:
    """Prints a table."""
    print(table.terminal(width(), colorful()), end="")


def say(line: object = "") -> None:
    """Prints a line after making its characters safe, so that none controls the terminal."""
    print(printable(str(line)))


def say_folded(line: str) -> None:
    """Prints a line; on a terminal it is broken between words into lines that fit."""
    room = width() if on_terminal() else len(line) + 1
    print(textwrap.fill(printable(line), room, break_long_words=False, break_on_hyphens=False))


def say_report(folder: Path) -> None:
    """Prints where a study was written to."""
    say(f"{folder}/report.md holds every table and figure; each is a file of its own too")


def complain(line: object) -> None:
    """Prints a line to stderr in safe characters, with long quotations cut."""
    print(shorten_message(str(line)), file=sys.stderr)
