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
    """A function that moves a progress bar on by `done` finished units."""

    def __call__(self, done: float = 1, tokens: int = 0) -> None:
        """Count `done` more units, and the tokens that were written for them."""


def no_progress(done: float = 1, tokens: int = 0) -> None:
    """Do nothing: an `Advance` for work without a bar."""


@contextmanager
def progress(title: str, total: float, unit: str = "") -> Iterator[Advance]:
    """Shows a progress bar while the block runs: on stderr, if that is a terminal, or below a notebook's cell.

    >>> with progress("replaying", 3, "blocks") as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if not _has_viewer():
        yield no_progress
        return
    from rich import progress as parts
    from rich.console import Console
    from rich.markup import escape
    from rich.text import Text

    written = 0

    class Rate(parts.ProgressColumn):
        def render(self, task: parts.Task) -> Text:
            return Text(_rates_text(task.speed or 0.0, unit, written / (task.elapsed or 1.0)), style="cyan")

    console = Console(stderr=True)
    if console.is_jupyter:  # rich draws there with widgets alone, which few environments have
        with _notebook_bar(printable(title), total, printable(unit)) as count:
            yield count
        return
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn(), Rate())
    times = (parts.TimeElapsedColumn(), parts.TextColumn("left"), parts.TimeRemainingColumn())
    with parts.Progress(*columns, *times, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(escape(printable(title)), total=total)

        def advance(done: float = 1, tokens: int = 0) -> None:
            nonlocal written
            written += tokens
            bar.advance(task, done)

        yield advance


def _has_viewer() -> bool:
    """Whether somebody can see a bar: on a terminal, or where IPython runs."""
    if "IPython" in sys.modules:
        return True
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # what stands in its place may be no stream, or closed
        return False


@contextmanager
def _notebook_bar(title: str, total: float, unit: str) -> Iterator[Advance]:
    """Shows an HTML bar below a notebook's cell, and removes it when the work is done."""
    from IPython.display import display

    lock, began = Lock(), monotonic()
    finished, drawn, handle, written = 0.0, began, None, 0

    def advance(done: float = 1, tokens: int = 0) -> None:
        nonlocal finished, drawn, handle, written
        with lock:
            finished += done
            written += tokens
            now = monotonic()
            if now - drawn < PAUSE:
                return
            drawn = now
            bar = _bar_html(title, finished, total, unit, now - began, written)
            if handle is None:
                handle = display(bar, raw=True, display_id=True)
            else:
                handle.update(bar, raw=True)

    try:
        yield advance
    finally:
        if handle is not None:
            handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _rates_text(speed: float, unit: str, tokens: float) -> str:
    """Units and tokens a second; those that are 0 are not known."""
    return ", ".join(f"{rate:,.1f} {name}/s" for rate, name in ((speed, unit), (tokens, "tokens")) if rate)


def _bar_html(title: str, finished: float, total: float, unit: str, seconds: float, tokens: int = 0) -> dict[str, Any]:
    """The HTML of a notebook's bar, with rates and time left."""
    left = f"{seconds * (total - finished) / finished:,.0f} s left" if finished else ""
    rate = _rates_text(finished / seconds, unit, tokens / seconds)
    text = f"{title} {finished:,.0f}/{total:,.0f}, {rate}, {left}"
    bar = f'<progress max="{total:g}" value="{finished:g}"></progress>'
    return {"text/plain": text, "text/html": f"{bar} <small>{html.escape(text)}</small>"}
