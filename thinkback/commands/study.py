"""`thinkback study`: one subcommand a published work, each in a file of its own beside this one."""

from __future__ import annotations

import typer

from thinkback.command_examples import GroupWithExamples, WithExamples
from thinkback.commands import study_factcheck, study_latent, study_recovery

study = typer.Typer(
    cls=GroupWithExamples,
    help="Write the tables and figures of a published work for a log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
study.command("factcheck", cls=WithExamples)(study_factcheck.factcheck)
study.command("latent", cls=WithExamples)(study_latent.latent)
study.command("recovery", cls=WithExamples)(study_recovery.recovery)
