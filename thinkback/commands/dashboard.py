"""`thinkback dashboard`."""

from __future__ import annotations

from pathlib import Path


def dashboard(
    results: list[Path], out: Path, examples: int = 2000, no_texts: bool = False, force: bool = False
) -> None:
    """Write a page for a browser from saved results.

    It works from disk and offline: the ranked table, accuracy against cost, sliders for what was swept, differences,
    headroom, and what each policy did with every example, with the traces in order where they were saved.
    """
    from replay import load
    from replay.runs.page.dashboard import write_dashboard
    from thinkback import console

    paths = write_dashboard([load(one) for one in results], out, texts=not no_texts, examples=examples, force=force)
    console.say(", ".join(map(str, paths)))
