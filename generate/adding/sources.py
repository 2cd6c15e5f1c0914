"""What the manifest says of how a log came about, and of the logs that it was merged from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.log import Log


def sources_of(source: Any) -> Iterator[Mapping[str, Any]]:
    """A manifest's `source`, and those of the logs that it was merged from."""
    if isinstance(source, Mapping):
        yield source
        for part in source.get("merged") or ():
            if isinstance(part, Mapping):
                yield from sources_of(part.get("source"))


def joined_pools(log: Log) -> frozenset[str]:
    """The pools whose traces go on where the attempt that they revise stops: they are read behind it."""
    found = set()
    for source in sources_of(log.manifest.source if log.manifest is not None else None):
        for pool, settings in (source.get("pools") or {}).items():
            sampling = settings.get("sampling") if isinstance(settings, Mapping) else None
            if isinstance(sampling, Mapping) and sampling.get("joined") is True:
                found.add(pool)
    return frozenset(found)
