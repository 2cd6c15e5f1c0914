"""`thinkback import`: one subcommand a foreign format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import toolkit

if TYPE_CHECKING:
    from toolkit.imports import ImportReport, RecoveryReport


FORMATS = tuple(sorted(file.stem for file in Path(toolkit.__path__[0], "imports/formats/maps").glob("*.toml")))
"""The formats that have a command of their own, a mapping file each; what they are is read when one is called."""


AUTO = """Import files of a known format, recognised by what they hold.

The command prints the format. Write its name in the place of `auto` to be certain.
"""


def format_command(format_name: str, description: str = "") -> Callable[..., None]:
    """Makes the command that imports a known format, or `auto`."""

    def command(
        paths: list[str],
        out: Path,
        name: str | None = None,
        rejudge: bool = False,
        settings: list[str] | None = None,
        force: bool = False,
    ) -> None:
        _import_format(format_name, paths, out, name, rejudge, settings, force)

    command.__doc__ = description or f"Import files of {format_name}."
    return command


def _import_format(
    format_name: str, paths: Sequence[str], out: Path, name: str | None, rejudge: bool,
    settings: Sequence[str] | None, force: bool,
) -> None:  # fmt: skip
    from toolkit.imports import import_format

    def write(folder: Path) -> ImportReport:
        return import_format(format_name, paths, folder, title=name, rejudge=rejudge, settings=settings or ())

    _import_and_report(paths, out, force, write, "examples", "traces", "verifications")


def table(
    sources: list[str],
    mapping: str | None = None,
    out: Path | None = None,
    name: str | None = None,
    rejudge: bool = False,
    settings: list[str] | None = None,
    guess: bool = False,
    force: bool = False,
) -> None:
    """Import JSONL, CSV or Parquet tables.

    They hold one row per sample, or list columns with all samples of a question. Without --map, what the columns mean
    is guessed from their names and contents; the mapping is printed.
    """
    from thinkback import console
    from toolkit.errors import RequiredError, argument
    from toolkit.imports import guess_mapping, import_any
    from toolkit.imports.guessing.anything import CORRECTION

    if guess:
        for line in guess_mapping(sources, settings or ()).text.splitlines():
            console.say(line)
        return
    if out is None:
        raise RequiredError(
            f"{argument('out')} is missing: name the folder of the log; `--guess` prints a mapping alone"
        )

    def write(folder: Path) -> ImportReport:
        done = import_any(
            sources, folder, mapping=mapping, name=name, rejudge=rejudge, settings=settings or (), formats=False
        )
        if done.mapping is not None:
            for line in (*done.mapping.splitlines(), CORRECTION.format(file="what --guess prints")):
                console.say(line)
        return done.report

    _import_and_report(
        (*sources, *([mapping] if mapping else [])), out, force, write, "examples", "traces", "verifications"
    )


def import_recovery_rows(
    sources: list[str],
    out: Path,
    name: str | None = None,
    split: str | None = None,
    base: str | None = None,
    exclude_incomplete: bool = False,
    drop_repeats: bool = False,
    force: bool = False,
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

    _import_and_report(sources, out, force, write, "examples", "traces")


def import_replay_rows(
    sources: list[str], out: Path, name: str | None = None, action: str = "active_verify", force: bool = False
) -> None:
    """Import SeVRA's replay rows.

    They have base_correct, verified_correct, gate_score and verification_tokens per example. The scores become those of
    the verifier `gate`.
    """
    from toolkit.imports import import_replay

    def write(folder: Path) -> RecoveryReport:
        return import_replay(sources, folder, name=name, action=action)

    _import_and_report(sources, out, force, write, "examples", "traces")


FURTHER = ("rounds", "checks")
"""Tables of which a line is said only where there are rows."""


def _import_and_report(
    inputs: Sequence[str], out: Path, force: bool, write: Callable[[Path], ImportReport | RecoveryReport], *written: str
) -> None:
    """Write a log as a whole, then print its notes and how many rows of what it has."""
    from thinkback import console
    from toolkit.errors import counted
    from toolkit.files import check_replaceable, move_into_parent, replacing

    check_replaceable(out, force, inputs=inputs)
    with replacing(out, force) as folder:
        report = write(folder / "log")
        move_into_parent(folder / "log")
    for note in report.lines():
        console.say(note)
    rows = {name: getattr(report, name) for name in written}
    rows |= {name: count for name in FURTHER if (count := getattr(report, name, 0))}
    console.say(f"wrote {out}: {', '.join(counted(count, name.removesuffix('s')) for name, count in rows.items())}")
