"""What commands print: tables on standard output, as wide as the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from toolkit.errors import in_short
from toolkit.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.show import Table

PIPE_WIDTH = 160  # where there is no terminal whose width could be asked; COLUMNS overrules it


def on_terminal() -> bool:
    """Whether a person is looking at standard output."""
    return sys.stdout.isatty()


def width() -> int:
    """Characters a line: the terminal's, else COLUMNS, else 160."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def colorful() -> bool:
    """Colours only on a terminal, and not where NO_COLOR or a dumb terminal forbids them."""
    return on_terminal() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def show(table: Table) -> None:
    """Print a table."""
    print(table.terminal(width(), colorful()), end="")


def say(line: object = "") -> None:
    """Print a line, none of whose characters does more than show itself."""
    print(printable(str(line)))


def say_folded(line: str) -> None:
    """Print a line; on a terminal as several, where it is longer than one, none of which breaks a word."""
    room = width() if on_terminal() else len(line) + 1
    print(textwrap.fill(printable(line), room, break_long_words=False, break_on_hyphens=False))


def say_report(folder: Path) -> None:
    """Print where a study was written to."""
    say(f"{folder}/report.md holds every table and figure; each is a file of its own too")


def complain(line: object) -> None:
    """The same on stderr, cut where it quotes something long."""
    print(in_short(str(line)), file=sys.stderr)
