"""`thinkback report`."""

from __future__ import annotations

from pathlib import Path


def report(
    log: str,
    out: Path,
    policies: Path | None = None,
    baseline: str | None = None,
    where: str | None = None,
    rules: Path | None = None,
    strata: str | None = None,
    weigh: str | None = None,
    width: str = "6.75in",
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    force: bool = False,
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
    page = make(
        log, policies, where=where, baseline=baseline, rules=rules, strata=strata, weigh=weigh, seed=seed,
        resamples=resamples, level=level,
    )  # fmt: skip
    page.save(out, width=size, force=force)
    for sentence in page.lead:
        _say(sentence)
    for section in page.sections:
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
