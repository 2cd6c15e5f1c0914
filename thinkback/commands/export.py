"""`thinkback export`: one subcommand a foreign format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def table(log: str, out: Path, to: str | None = None, force: bool = False) -> None:
    """Write one flat table with a row for each trace.

    The columns are those of its example, its own, its scores by verifier, and its features.
    """
    from toolkit.errors import RequiredError
    from toolkit.exports import export_table
    from toolkit.log import open_log

    kind = to or out.suffix.removeprefix(".")
    if not kind:
        raise RequiredError(
            f"`{out}` has no ending that says its format: name it `{out}.parquet`, or add `--to parquet`"
        )
    _write(out, force, log, lambda path: export_table(open_log(log), path, kind))


def recovery(log: str, out: Path, base: str | None = None, pool: str | None = None, force: bool = False) -> None:
    """Write SeVRA's recovery rows.

    They are an accept row for each base attempt, and a row for each revision of it.
    """
    from toolkit.exports import export_recovery
    from toolkit.log import open_log

    _write(out, force, log, lambda path: export_recovery(open_log(log), base, path, pool=pool))


def replay(
    log: str,
    out: Path,
    action: str,
    verifier: str,
    base: str | None = None,
    pool: str | None = None,
    force: bool = False,
) -> None:
    """Write SeVRA's replay rows.

    They have base_correct, verified_correct, gate_score and verification_tokens.
    """
    from toolkit.exports import export_replay
    from toolkit.log import open_log

    _write(out, force, log, lambda path: export_replay(open_log(log), base, action, verifier, path, pool=pool))


def predictions(
    log: str,
    out: Path,
    gate: Path,
    where: str | None = None,
    base: str | None = None,
    pool: str | None = None,
    force: bool = False,
) -> None:
    """Write what a gate decides on each example.

    The rows are SeVRA's prediction rows.
    """
    from replay.gatefit.report import gate_decisions as compute
    from thinkback import console
    from toolkit.notes import warning

    seen = 0

    def write(path: Path) -> int:
        nonlocal seen
        rows = compute(log, gate, where, base=base, pool=pool)
        seen = sum(row["seen_by_gate"] for row in rows)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return len(rows)

    _write(out, force, log, write)
    if seen:
        console.say(
            warning(
                "gate_reused",
                f"{seen:,} of them are of questions that {gate} was fitted or tuned on (`seen_by_gate`), which flatter "
                "it: leave them out with `--where`",
            )
        )


def _write(out: Path, force: bool, log: str, write: Callable[[Path], int]) -> None:
    from thinkback import console
    from toolkit.files import check_replaceable, replacing_file

    check_replaceable(out, force, inputs=(log,))
    with replacing_file(out, force) as path:
        rows = write(path)
    console.say(f"wrote {out}: {rows:,} rows")
