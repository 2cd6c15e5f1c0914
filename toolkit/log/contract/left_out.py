"""Calls that failed when a log was generated, counted by cause in its manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

LEFT_OUT = "left_out"
"""The key of a manifest's `source`, and of its verifiers: calls that failed for good, by cause."""
SECTIONS = ("pools", "verifiers", "features", "hidden_states")


def calls_left_out(source: Any) -> Counter[str]:
    """The number of calls that failed for good, by cause (`400`, `prompt too long`), in a manifest's `source` and those
    merged into it. Copies of one log count once.
    """
    causes: dict[str, Mapping[str, Any]] = {}
    for part in source_parts(source):
        sections = (section for name in SECTIONS if isinstance(section := part.get(name), Mapping))
        for entry in (part, *(one for section in sections for one in section.values())):
            if isinstance(entry, Mapping) and isinstance(entry.get(LEFT_OUT), Mapping):
                same = [entry.get(key) for key in (LEFT_OUT, "settings", "failures", "skipped")]
                causes[json.dumps(same, sort_keys=True)] = entry[LEFT_OUT]
    counts: Counter[str] = Counter()
    for by_cause in causes.values():
        counts.update({cause: number for cause, number in by_cause.items() if type(number) is int and number > 0})
    return counts


def source_parts(source: Any) -> Iterator[Mapping[str, Any]]:
    """Yields a manifest's `source`, and the sources of the logs that it was merged from."""
    waiting = [source]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield part
            for name in ("merged", "joined"):
                listed = part.get(name)
                logs = listed if isinstance(listed, list) else []
                waiting += [log.get("source") for log in logs if isinstance(log, Mapping)]
