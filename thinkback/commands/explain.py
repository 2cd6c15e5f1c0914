"""`thinkback explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thinkback import options
from thinkback.options import option

if TYPE_CHECKING:
    import polars as pl


def explain(
    log: options.Log,
    policies: options.Policies,
    policy: Annotated[str, option("--policy", "The policy to follow.", "NAME")],
    example: Annotated[str, option("--example", "The example_id to follow it on.", "ID")],
    repetition: Annotated[
        int, typer.Option("--repetition", min=0, help="Which of several random orders to show, from 0.")
    ] = 0,
    texts: Annotated[
        bool, typer.Option("--texts", help="Print the texts of the traces that it looked at, too.")
    ] = False,
    rules: options.Rules = None,
    where: options.Where = None,
) -> None:
    """Follow one policy on one example.

    Prints step by step what it saw, what it paid, and why it ended.
    """
    from replay.runs.explain.explain import explain as walk
    from replay.runs.explain.explain import stage_table
    from thinkback import console

    explained = walk(log, policies, policy, example, rules=rules, where=where, repetition=repetition, texts=texts)
    for line in explained.header:
        console.say(line)
    console.say()
    for stage in explained.stages:
        console.show(stage_table(stage))
        if stage.ending:
            console.say_folded(stage.ending)
        console.say()
    if explained.texts is not None:
        _say_texts(explained.texts)
    for line in (*explained.notes, explained.ending):
        console.say_folded(line)


def _say_texts(texts: pl.DataFrame) -> None:
    """Each text under its trace, line by line and set in, so that nothing in it looks like the rest of the output."""
    from thinkback import console

    for row in texts.iter_rows(named=True):
        console.say(f"text of `{row['of']}` {row['sample']}" + ("" if row["text"] is not None else ": not logged"))
        for line in (row["text"] or "").split("\n"):
            console.say(f"    {line}")
    console.say()
