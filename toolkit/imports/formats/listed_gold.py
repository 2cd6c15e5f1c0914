"""References that are lists of right answers: an answer is compared with one reference, so one must be chosen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from toolkit.imports.formats.file_notes import FileNote
from toolkit.imports.formats.format import Row


def noting_lists(rows: Iterable[Row], task: str, notes: list[FileNote]) -> Iterator[Row]:
    """The rows as they are; a note where answers without a verdict are compared with lists of texts."""
    found = False
    for row in rows:
        found = found or (row["correct"] is None and not row["opaque"] and _is_list(row["gold"]))
        yield row
    if found:
        told = "the targets are lists, with which no answer is equal: name the element that counts, such as"
        notes.append(FileNote(task, f"{told} `--set 'examples.gold=gold[0]'`"))


def _is_list(gold: str | None) -> bool:
    """Whether a reference is JSON of several texts; `[1, 2]` may be an answer."""
    if gold is None or not gold.startswith("["):
        return False
    try:
        value = json.loads(gold)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
