"""`thinkback figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from thinkback import options
from thinkback.options import option, positional


def figure(
    result: Annotated[Path, positional("RESULT", "The folder of a saved result.")],
    name: Annotated[str, positional("NAME", "frontier, forest, headroom, stopping, scores or gates.")],
    out: Annotated[Path, option("--out", "File to write: F.pdf, F.svg, F.png, or F for all of them.", "F")],
    width: options.Width = "6.75in",
    title: options.Title = "",
    baseline: Annotated[
        str | None, option("--baseline", "Of forest and headroom: the policy that others are compared with.", "NAME")
    ] = None,
    oracle: Annotated[str | None, option("--oracle", "Of headroom: where it ends.", "NAME")] = None,
    policies: Annotated[
        list[str] | None, option("--policy", "A policy or sweep to show; may be given several times.", "NAME")
    ] = None,
    cost: Annotated[str | None, option("--cost", "Of frontier: the cost of its axis.", "NAME")] = None,
    log: Annotated[str | None, option("--log", "Of scores: the log that was replayed.", "LOG")] = None,
    force: options.Force = False,
) -> None:
    """Draw a figure of a saved result.

    It is drawn as it will be printed, and its numbers are written as CSV beside it.

    frontier: accuracy against cost. forest: differences to a baseline with limits that hold for all of them at once.
    headroom: how much of each policy's gap is generation, stopping and selection. stopping: for how many traces each
    policy paid. scores: those of right and of wrong traces by verifier. gates: accuracy against intervention rate.
    """
    from replay import load
    from replay.runs.figures.figures import check_figure_file, figure_kind, write_figure
    from thinkback import console
    from toolkit.show import inches

    size = inches(width)
    figure_kind(name)
    check_figure_file(out, force, (log,))
    found = load(result)
    data = found.figure_data(name, baseline=baseline, oracle=oracle, policies=tuple(policies or ()), cost=cost, log=log)
    paths = write_figure(data, out, size, title, found.simulated, force)
    console.say(", ".join(map(str, paths)))
