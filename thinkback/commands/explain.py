"""`thinkback explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def explain(
    log: str,
    policy: str,
    example: str,
    policies: Path | None = None,
    repetition: int = 0,
    texts: bool = False,
    rules: Path | None = None,
    where: str | None = None,
) -> None:
    """Follow one policy on one example.

    Prints step by step what it saw, what it paid, and why it ended.
    """
    from replay.policies.suite import suite
    from replay.runs.explain.explain import explain as walk
    from replay.runs.explain.explain import stage_table
    from thinkback import console

    file = suite(log).text if policies is None else policies
    explained = walk(log, file, policy, example, rules=rules, where=where, repetition=repetition, texts=texts)
    for line in explained.header:
        console.say(line)
    console.say()
    for stage in explained.stages:
        console.show(stage_table(stage))
        if stage.ending:
            console.say_folded(stage.ending)
        console.say()
    if explained.texts is not None:
        _print_texts(explained.texts)
    for line in (*explained.notes, explained.ending):
        console.say_folded(line)


def _print_texts(texts: pl.DataFrame) -> None:
    """Prints each text under its trace, indented line by line, so that it cannot look like other output."""
    from thinkback import console

    for row in texts.iter_rows(named=True):
        console.say(f"text of `{row['of']}` {row['sample']}" + ("" if row["text"] is not None else ": not logged"))
        for line in (row["text"] or "").split("\n"):
            console.say(f"    {line}")
    console.say()
