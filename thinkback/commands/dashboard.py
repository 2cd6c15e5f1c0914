"""`thinkback dashboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from thinkback import options
from thinkback.options import option, positional


def dashboard(
    results: Annotated[list[Path], positional("RESULT…", "The folders of saved results.")],
    out: Annotated[Path, option("--out", "The page to write.", "FILE.html")],
    examples: Annotated[int, option("--examples", "Examples to show, at most; 2,000 unless given.", "N")] = 2000,
    no_texts: Annotated[bool, option("--no-texts", "Leave saved texts out: the page is then one file.")] = False,
    force: options.Force = False,
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
