"""Is the log in `--out` of this recipe? If not: which setting differs, the first in the recipe's order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generate.journal.store import FOLDER, JOURNAL, RECIPE
from toolkit.errors import ThinkbackError
from toolkit.log import open_log


def check_same(identity: Mapping[str, Any], out: Path) -> None:
    """ThinkbackError where `out` holds a log of other settings, or one that is whole: nothing is to be generated."""
    if not out.exists():
        return
    begun = out / FOLDER / RECIPE
    if (out / "manifest.json").exists():
        log = open_log(out)
        source = log.manifest.source if log.manifest is not None else None
        before = source.get("settings") if isinstance(source, Mapping) else None
        if not isinstance(before, Mapping):
            raise ThinkbackError(f"`{out}` is a log that no recipe made: name another --out")
        _compare(identity, before, out)
        failed = len(source.get("failures") or ()) if isinstance(source, Mapping) else 0
        calls = f"{failed:,} call{'s' if failed > 1 else ''} failed for good (`source.failures` of its manifest)"
        but = f"; {calls}: another --out asks again" if failed else ""
        raise ThinkbackError(
            f"`{out}` is complete (shard {before['shard']}: {log.rows('examples'):,} examples,"
            f" {log.rows('traces'):,} traces): nothing is left to generate{but}"
        )
    if begun.exists():
        try:
            before = json.loads(begun.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ThinkbackError(f"`{begun}` can't be read: {error}") from None
        if (out / FOLDER / JOURNAL).exists() and (out / FOLDER / JOURNAL).stat().st_size:
            _compare(identity, before, out)
    elif any(path.name != FOLDER for path in (out.iterdir() if out.is_dir() else ())):
        raise ThinkbackError(f"`{out}` holds something that no recipe made: name another --out")


def _compare(now: Mapping[str, Any], before: Mapping[str, Any], out: Path) -> None:
    for name in dict.fromkeys([*now, *before]):
        if now.get(name) != before.get(name):
            raise ThinkbackError(
                f"`{out}` holds a log of other settings: `{name}` is {_shown(before.get(name))} there and"
                f" {_shown(now.get(name))} here; name another --out"
            )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"
