"""Is the log in `out` of this recipe? If not: which setting differs, the first in the recipe's order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generate.journal.begun import difference
from generate.journal.database import BEGUN, FOLDER, Journal
from generate.journal.events import Answered
from toolkit.errors import ThinkbackError
from toolkit.log import open_log


def check_out(identity: Mapping[str, Any], out: Path) -> None:
    """ThinkbackError where `out` holds a complete log, of this recipe or of another, or something else."""
    if (out / "manifest.json").exists():
        log = open_log(out)
        source = log.manifest.source if log.manifest is not None else None
        before = source.get("settings") if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(before, Mapping):
            raise ThinkbackError(f"`{out}` is a log that no recipe made: name another `out`")
        _compare(identity, before, out)
        failed = len(source.get("failures") or ())
        calls = f"{failed:,} call{'s' if failed > 1 else ''} failed permanently (`source.failures` of its manifest)"
        raise ThinkbackError(
            f"`{out}` is complete (shard {before['shard']}: {log.rows('examples'):,} examples,"
            f" {log.rows('traces'):,} traces): nothing is left to generate"
            + (f"; {calls}: another `out` asks again" if failed else "")
        )
    if out.is_dir() and not (out / FOLDER).exists() and any(out.iterdir()):
        raise ThinkbackError(f"`{out}` holds something that no recipe made: name another `out`")


def check_begun(identity: Mapping[str, Any], journal: Journal) -> None:
    """ThinkbackError where the journal holds answers under other settings; else it is begun with these."""
    if next(journal.events(Answered), None) is not None:
        _compare(identity, journal.kept(BEGUN), journal.out)
    journal.keep(BEGUN, identity)


def _compare(now: Mapping[str, Any], before: Mapping[str, Any], out: Path) -> None:
    differs = difference(before, now)
    if differs is not None:
        raise ThinkbackError(f"`{out}` holds a log of other settings: {differs}; name another `out`")
