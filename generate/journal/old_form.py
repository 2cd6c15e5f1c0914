"""Journals as they were before SQLite: a line of JSON for each event. What an unfinished run left goes on.

A line has the members of a call: example_id, pool, indices, completions, failure, elapsed_s. Those of a signal say by
`pool` what happened, KEY being the name of its folder: `KEY` a trace without a row, `KEY/ask` a call, `KEY/seconds` a
block that is done, whose `indices` hold the tokens of calls that came to nothing, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generate.journal.events import Answered, BlockDone, Event, Incomplete, Skipped, Unreadable, completion_of
from toolkit.errors import ThinkbackError
from toolkit.log import ADDING

OLD = "journal.jsonl"
_KEPT = {"begun": "recipe.json", "models": "models.json"}


def old_events(out: Path, path: Path) -> Iterator[Event]:
    """The events of the journal of `out`; a last line that was cut off is none."""
    key = out.name if out.parent.parent.name == ADDING else None
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield from _events(json.loads(line), key)
        except (ValueError, KeyError, TypeError):
            raise ThinkbackError(
                f"`{path}`, line {number}, is damaged: restore the file, or generate into another `out`"
            ) from None


def kept_in(folder: Path) -> dict[str, dict[str, Any]]:
    """What was kept in files beside the journal, by the names of today."""
    found = {}
    for name, file in _KEPT.items():
        path = folder / file
        try:
            if path.exists():
                found[name] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ThinkbackError(f"`{path}` can't be read: {error}") from None
    return found


def _events(line: Mapping[str, Any], key: str | None) -> Iterator[Event]:
    about, pool, failure = line["example_id"], line["pool"], line.get("failure")
    indices, elapsed = line["indices"], float(line["elapsed_s"])
    happened = None if key is None else pool.removeprefix(key)
    if happened == "":
        yield Skipped(about, failure or "")
    elif happened == "/incomplete":
        yield Incomplete(about, failure or "")
    elif happened == "/unreadable":
        yield Unreadable(about, bool(sum(indices)))
    elif happened == "/seconds":
        yield BlockDone(elapsed, sum(indices))
    else:
        made = [None] * len(indices) if failure is not None else [completion_of(one) for one in line["completions"]]
        for number, (index, completion) in enumerate(zip(indices, made, strict=True)):
            own = "" if happened == "/ask" else pool
            yield Answered(about, own, index, failure, elapsed if number == 0 else 0.0, completion)
