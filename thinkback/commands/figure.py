"""`thinkback figure`."""

from __future__ import annotations

from pathlib import Path


def figure(
    result: Path,
    name: str,
    out: Path,
    width: str = "6.75in",
    title: str = "",
    baseline: str | None = None,
    oracle: str | None = None,
    policies: list[str] | None = None,
    cost: str | None = None,
    log: str | None = None,
    force: bool = False,
) -> None:
    """Draw a figure of a saved result.

    It is drawn as it will be printed, and its numbers are written as CSV beside it.

    frontier: accuracy against cost. forest: differences to a baseline with limits that hold for all of them at once.
    headroom: how much of each policy's gap is generation, stopping and selection. stopping: for how many traces each
    policy paid. scores: those of right and of wrong traces by verifier. gates: accuracy against intervention rate.
    positions: accuracy against the share of a text seen, of policies that answer while it unfolds. recall: that of
    documents over rounds paid. buzzes: where policies act on a text against where its error can first be seen.
    """
    from replay import load
    from replay.runs.figures.figures import check_figure_file, figure_kind, write_figure
    from thinkback import console
    from toolkit.show import width_in_inches

    size = width_in_inches(width)
    figure_kind(name)
    check_figure_file(out, force, (log,))
    saved = load(result)
    data = saved.figure_data(name, baseline=baseline, oracle=oracle, policies=tuple(policies or ()), cost=cost, log=log)
    paths = write_figure(data, out, size, title, saved.simulated, force)
    console.say(", ".join(map(str, paths)))
