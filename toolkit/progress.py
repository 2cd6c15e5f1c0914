"""Progress of long work: a bar with rate and time left on a terminal, silence in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Task as RichTask
    from rich.text import Text

    class Rate(TextColumn):
        def __init__(self) -> None:
            super().__init__("")

        def render(self, task: RichTask) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else "", style="cyan")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(done: float = 1) -> None:
            bar.advance(task, done)

        yield advance
