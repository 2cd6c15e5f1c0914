"""`thinkback import`: one subcommand a foreign format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import toolkit
from thinkback import options
from thinkback.options import option, positional

if TYPE_CHECKING:
    from toolkit.imports import ImportReport, RecoveryReport


FORMATS = tuple(sorted(file.stem for file in Path(toolkit.__path__[0], "imports/formats/maps").glob("*.toml")))
"""The formats that have a command of their own, a mapping file each; what they are is read when one is called."""

Paths = Annotated[list[str], positional("PATH…", "Files, folders, globs, archives, or any fsspec address.")]
Settings = Annotated[list[str] | None, option("--set", "A setting that replaces the mapping's.", "KEY=VALUE")]
Rejudge = Annotated[
    bool, typer.Option("--rejudge", help="Compare the answers with gold again; the source's verdicts go.")
]
MapsName = Annotated[str | None, option("--name", "Name of the new log; by default the map's.")]


AUTO = """Import files of a known format, which is told by what they hold.

The command says what it took them for. The format's name in the place of `auto` says it for certain.
"""


def of_format(format_name: str, said: str = "") -> Callable[..., None]:
    """The command that imports a known format, or `auto`."""

    def command(
        paths: Paths,
        out: options.OutLog,
        name: MapsName = None,
        rejudge: Rejudge = False,
        settings: Settings = None,
        force: options.Force = False,
    ) -> None:
        _format(format_name, paths, out, name, rejudge, settings, force)

    command.__doc__ = said or f"Import files of {format_name}."
    return command


def _format(
    format_name: str,
    paths: Sequence[str],
    out: Path,
    name: str | None,
    rejudge: bool,
    settings: Sequence[str] | None,
    force: bool,
) -> None:
    from toolkit.imports import import_format

    def write(folder: Path) -> ImportReport:
        return import_format(format_name, paths, folder, title=name, rejudge=rejudge, settings=settings or ())

    _import(paths, out, force, write, "examples", "traces", "verifications")


def table(
    sources: Annotated[list[str], positional("SOURCE…", "JSONL, CSV or Parquet files, folders or globs.")],
    mapping: Annotated[
        str, option("--map", "What the columns mean: a file, or the name of an included one.", "MAP.toml")
    ],
    out: options.OutLog,
    name: MapsName = None,
    rejudge: Rejudge = False,
    settings: Settings = None,
    force: options.Force = False,
) -> None:
    """Import JSONL, CSV or Parquet tables.

    They hold one row per sample, or list columns with all samples of a question.
    """
    from toolkit.imports import import_table

    def write(folder: Path) -> ImportReport:
        return import_table(sources, mapping, folder, rejudge=rejudge, name=name, settings=settings or ())

    _import((*sources, mapping), out, force, write, "examples", "traces", "verifications")


Rows = Annotated[list[str], positional("SOURCE…", "JSONL files, folders or globs.")]
Name = Annotated[str | None, option("--name", "Name of the new log.")]


def recovery(
    sources: Rows,
    out: options.OutLog,
    name: Name = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", metavar="NAME", help="Split of the examples, where the rows name none.", show_default="test"
        ),
    ] = None,
    base: Annotated[
        str | None,
        option("--base", "Name of the pool of base attempts; by default the rows' base_pool, or base.", "POOL"),
    ] = None,
    exclude_incomplete: Annotated[
        bool, typer.Option("--exclude-incomplete", help="Leave out examples with a missing action, and name them.")
    ] = False,
    drop_repeats: Annotated[
        bool,
        typer.Option(
            "--drop-repeats", help="Of rows without a sample index that are equal throughout, keep the first."
        ),
    ] = False,
    force: options.Force = False,
) -> None:
    """Import SeVRA's recovery rows.

    They are one row per example and action, with an accept row for each base attempt. The log has a pool of these and,
    for each other action, revisions of it. Of rows with the same sample index the first wins.
    """
    from toolkit.imports import import_recovery

    def write(folder: Path) -> RecoveryReport:
        return import_recovery(
            sources, folder, name=name, split=split, exclude_incomplete=exclude_incomplete,
            drop_repeats=drop_repeats, base=base,
        )  # fmt: skip

    _import(sources, out, force, write, "examples", "traces")


def replay(
    sources: Rows,
    out: options.OutLog,
    name: Name = None,
    action: Annotated[str, typer.Option("--action", help="Action that the rows verify with.")] = "active_verify",
    force: options.Force = False,
) -> None:
    """Import SeVRA's replay rows.

    They have base_correct, verified_correct, gate_score and verification_tokens per example. The scores become those of
    the verifier `gate`.
    """
    from toolkit.imports import import_replay

    def write(folder: Path) -> RecoveryReport:
        return import_replay(sources, folder, name=name, action=action)

    _import(sources, out, force, write, "examples", "traces")


def _import(
    inputs: Sequence[str], out: Path, force: bool, write: Callable[[Path], ImportReport | RecoveryReport], *written: str
) -> None:
    """Write a log as a whole, then print its notes and how many rows of what it has."""
    from thinkback import console
    from toolkit.errors import counted
    from toolkit.files import check_replaceable, hoist, replacing

    check_replaceable(out, force, inputs=inputs)
    with replacing(out, force) as folder:
        report = write(folder / "log")
        hoist(folder / "log")
    for note in report.told():
        console.say(note)
    rows = (counted(getattr(report, name), name.removesuffix("s")) for name in written)
    console.say(f"wrote {out}: {', '.join(rows)}")
