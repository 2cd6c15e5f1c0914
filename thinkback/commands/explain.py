"""`thinkback explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from thinkback import options
from thinkback.options import option


def explain(
    log: options.Log,
    policies: options.Policies,
    policy: Annotated[str, option("--policy", "The policy to follow.", "NAME")],
    example: Annotated[str, option("--example", "The example_id to follow it on.", "ID")],
    repetition: Annotated[
        int, typer.Option("--repetition", min=0, help="Which of several random orders to show, from 0.")
    ] = 0,
    rules: options.Rules = None,
) -> None:
    """Follow one policy on one example.

    Prints step by step what it saw, what it paid, and why it ended.
    """
    from replay.runs.explain import explain as walk
    from thinkback import console
    from toolkit.show import table_of

    explained = walk(log, policies, policy, example, rules=rules, repetition=repetition)
    for line in explained.header:
        console.say(line)
    console.say()
    for stage in explained.stages:
        known = [column.name for column in stage.rows if stage.rows.is_empty() or column.null_count() < len(column)]
        console.show(table_of(stage.rows.select(known), stage.title))
        if stage.ending:
            console.say(stage.ending)
        console.say()
    console.say(explained.ending)
