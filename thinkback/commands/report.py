"""`thinkback report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from thinkback import options
from thinkback.options import file_option, option


def report(
    log: options.Log,
    out: options.OutFolder,
    policies: Annotated[
        Path | None, file_option("--policies", "The policies, in TOML; else the standard suite.", "FILE.toml")
    ] = None,
    baseline: Annotated[
        str | None, option("--baseline", "Policy that all are compared with; else the vote over most traces.", "NAME")
    ] = None,
    where: options.Where = None,
    rules: options.Rules = None,
    width: options.Width = "6.75in",
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    force: options.Force = False,
) -> None:
    """Write a report on a log.

    Looks at the log, replays the standard suite (or --policies), and writes one page of findings as Markdown and as
    LaTeX that compiles, with the tables, the figures and the saved result beside it.
    """
    from replay.analyses.report.report import report as make
    from thinkback import console
    from toolkit.files import check_replaceable
    from toolkit.show import inches

    size = inches(width)
    check_replaceable(out, force, inputs=(log, policies, rules))
    made = make(log, policies, where=where, baseline=baseline, rules=rules, seed=seed, resamples=resamples, level=level)
    made.save(out, width=size, force=force)
    for sentence in made.lead:
        _say(sentence)
    for section in made.sections:
        console.say()
        console.say(section.heading)
        for sentence in section.sentences:
            _say(f"- {sentence}")
    console.say()
    console.say(f"{out}/: report.md, report.tex, tables/, figures/, result/")


def _say(sentence: str) -> None:
    """Print a sentence; on a terminal on lines of its width."""
    from textwrap import wrap

    from thinkback import console
    from toolkit.printable import printable

    folded = wrap(printable(sentence), console.width(), subsequent_indent="  ", break_on_hyphens=False)
    for line in folded if console.on_terminal() else [sentence]:
        console.say(line)
