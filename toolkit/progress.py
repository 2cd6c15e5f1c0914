"""Progress of long work: a bar with rate and time left on a terminal, silence in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from toolkit.printable import printable


class Advance(Protocol):
    """Tells the bar that `done` more units of the work are finished."""

    def __call__(self, done: float = 1) -> None:
        """Count `done` more units."""
        ...


def uncounted(done: float = 1) -> None:
    """Counts nothing: for work that nobody watches."""


@contextmanager
def progress(title: str, total: float, unit: str = "") -> Iterator[Advance]:
    """A bar on stderr while the block runs, if stderr is a terminal.

    >>> with progress("replaying", 3, "blocks") as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    from rich import progress as parts
    from rich.console import Console
    from rich.markup import escape
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        def render(self, task: parts.Task) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else "", style="cyan")

    console = Console(stderr=True)
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn(), Rate())
    times = (parts.TimeElapsedColumn(), parts.TextColumn("left"), parts.TimeRemainingColumn())
    with parts.Progress(*columns, *times, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(escape(printable(title)), total=total)

        def advance(done: float = 1) -> None:
            bar.advance(task, done)

        yield advance
