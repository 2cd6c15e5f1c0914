"""`thinkback dashboard`."""

from __future__ import annotations

import sys
from pathlib import Path


def dashboard(
    results: list[Path] | None = None,
    out: Path | None = None,
    against: Path | None = None,
    examples: int = 2000,
    no_texts: bool = False,
    force: bool = False,
    serve: Path | None = None,
) -> None:
    """Write a page for a browser from saved results, or serve one of a log that is being generated.

    It works from disk and offline: the ranked table, accuracy against cost, sliders for what was swept, differences,
    headroom, and what each policy did with every example, with the traces in order where they were saved. With --with,
    the differences of two results, the questions whose outcome changed, and the texts side by side. --serve shows
    traces a minute, cost, failures and accuracies so far, at an address of this machine with a token in it.
    """
    from replay import load
    from replay.runs.page.dashboard import write_dashboard
    from thinkback import console
    from toolkit.errors import ConflictError, RequiredError

    if serve is not None:
        if results or out is not None or against is not None:
            raise ConflictError("`--serve LOG` shows a log and writes nothing: it takes neither results nor `--out`")
        serve_log(serve)
        return
    if not results or out is None:
        raise RequiredError("name the saved results and the page to write, `RESULT --out FILE.html`, or `--serve LOG`")
    other = None if against is None else load(against)
    paths = write_dashboard(
        [load(one) for one in results], out, against=other, texts=not no_texts, examples=examples, force=force
    )
    console.say(", ".join(map(str, paths)))


def serve_log(folder: Path) -> None:
    """Serve the page of a log that grows until Ctrl-C. ThinkbackError where there is no such folder."""
    from threading import Event, Thread

    from replay.runs.result.growing import AccuracyFollower
    from thinkback import console
    from thinkback.commands.growing_log import GrowingLog
    from toolkit.errors import NotFoundError
    from toolkit.show.dashboard.serving import PageServer, live_page_and_policy

    if not folder.is_dir():
        raise NotFoundError(f"`{folder}` is no folder: name the `--out` of a run that has begun, or a log")
    growing, stop = GrowingLog(folder, AccuracyFollower()), Event()
    document, policy = live_page_and_policy(f"{folder.resolve().name}, as it grows")
    with PageServer(document, policy, growing.state) as server:
        console.say(f"{server.address} (Ctrl-C ends)")
        sys.stdout.flush()  # for whoever reads it from a pipe
        follower = Thread(target=growing.follow, args=(stop,), daemon=True)
        follower.start()
        try:
            server.serve_forever()
        finally:
            stop.set()
