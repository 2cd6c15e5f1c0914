"""`thinkback simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

from thinkback import options


def simulate(
    out: options.OutLog,
    examples: Annotated[int, typer.Option("--examples", metavar="N", help="Number of examples.")] = 1_000,
    traces: Annotated[int, typer.Option("--traces", metavar="N", help="Sampled traces per example.")] = 16,
    labels: Annotated[
        int, typer.Option("--labels", metavar="K", help="Size of the label space; 0: open numeric answers.")
    ] = 3,
    seed: options.Seed = 0,
    recovery: Annotated[
        bool,
        typer.Option("--recovery", help="Base attempts and what revising them does, in place of samples to verify."),
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="Name of the log.", show_default=False)] = None,
    force: options.Force = False,
) -> None:
    """Write a simulated log.

    Its pools are `n<traces>` and the greedy `probe`, its verifiers `strong` and `weak`; with --recovery they are
    `short`, `long`, `votes`, `probe` and revisions of `short`. It is for scale and demonstrations, and marked as
    simulated wherever it is shown.
    """
    from generate.simulate import simulate as run
    from generate.simulate_recovery import simulate_recovery
    from thinkback import console

    if recovery:
        log = simulate_recovery(out, examples=examples, seed=seed, name=name, force=force)
    else:
        log = run(out, examples=examples, traces=traces, labels=labels, seed=seed, name=name, force=force)
    console.say(f"wrote {out}: {log.rows('examples'):,} examples, {log.rows('traces'):,} traces (simulated)")
