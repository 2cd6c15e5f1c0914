"""Progress of long work: a bar with rate and time left on a terminal and in a notebook, silence in a pipe."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any, Protocol

from toolkit.printable import printable

PAUSE = 0.5
"""Seconds between two drawings of a notebook's bar; what takes less has none."""


class Advance(Protocol):
    """A function that advances a bar by `done` finished units."""

    def __call__(self, done: float = 1) -> None:
        """Count `done` more units."""


def uncounted(done: float = 1) -> None:
    """Do nothing: an `Advance` for work without a bar."""


@contextmanager
def progress(title: str, total: float, unit: str = "") -> Iterator[Advance]:
    """A bar while the block runs: on stderr, if that is a terminal, or below a notebook's cell.

    >>> with progress("replaying", 3, "blocks") as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if not _seen():
        yield uncounted
        return
    from rich import progress as parts
    from rich.console import Console
    from rich.markup import escape
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        def render(self, task: parts.Task) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else "", style="cyan")

    console = Console(stderr=True)
    if console.is_jupyter:  # rich draws there with widgets alone, which few environments have
        with _notebook_bar(printable(title), total, printable(unit)) as count:
            yield count
        return
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn(), Rate())
    times = (parts.TimeElapsedColumn(), parts.TextColumn("left"), parts.TimeRemainingColumn())
    with parts.Progress(*columns, *times, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(escape(printable(title)), total=total)

        def advance(done: float = 1) -> None:
            bar.advance(task, done)

        yield advance


def _seen() -> bool:
    """Whether somebody could see a bar: on a terminal, or where IPython runs."""
    if "IPython" in sys.modules:
        return True
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # what stands in its place may be no stream, or closed
        return False


@contextmanager
def _notebook_bar(title: str, total: float, unit: str) -> Iterator[Advance]:
    """A bar of HTML below the cell, which is empty again when the work is done."""
    from IPython.display import display

    lock, began = Lock(), monotonic()
    finished, drawn, handle = 0.0, began, None

    def advance(done: float = 1) -> None:
        nonlocal finished, drawn, handle
        with lock:
            finished += done
            now = monotonic()
            if now - drawn < PAUSE:
                return
            drawn = now
            bar = _drawn(title, finished, total, unit, now - began)
            if handle is None:
                handle = display(bar, raw=True, display_id=True)
            else:
                handle.update(bar, raw=True)

    try:
        yield advance
    finally:
        if handle is not None:
            handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _drawn(title: str, finished: float, total: float, unit: str, seconds: float) -> dict[str, Any]:
    """The HTML of a notebook's bar, with rate and time left."""
    left = f"{seconds * (total - finished) / finished:,.0f} s left" if finished else ""
    rate = f"{finished / seconds:,.1f} {unit}/s"
    text = f"{title} {finished:,.0f}/{total:,.0f}, {rate}, {left}"
    bar = f'<progress max="{total:g}" value="{finished:g}"></progress>'
    return {"text/plain": text, "text/html": f"{bar} <small>{html.escape(text)}</small>"}
