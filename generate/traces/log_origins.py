"""What the manifest says of how a log came about, and of the logs that it was merged from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from generate.engines.weights import ModelFiles
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
    return frozenset(pool for pool, _, sampling in _samplings(log) if sampling.get("joined") is True)


def stopped_pools(log: Log) -> frozenset[str]:
    """The pools whose samples ended at stop texts too: `stop` does not say there that the model ended them."""
    return frozenset(pool for pool, _, sampling in _samplings(log) if sampling.get("stop"))


def chat_of(log: Log, pools: Collection[str], files: ModelFiles) -> tuple[str | None, dict[str, Any]]:
    """(chat template, its options) with which an engine ran this model for one of the pools; None is its own.

    It is the model where the names are the same, or the weights: a folder and a hub call them differently.
    """
    for pool, source, _ in _samplings(log):
        settings, kept = source.get("settings"), source.get("prompts")
        if pool not in pools or not isinstance(settings, Mapping):
            continue
        name = settings.get("engine.chat_template")
        begin = "engine.template_options."
        options = {key.removeprefix(begin): value for key, value in settings.items() if key.startswith(begin)}
        if _same(source["pools"][pool], files, by_weights=bool(name or options)):
            return (kept.get(name) if isinstance(kept, Mapping) and name else None), options
    return None, {}


def _same(made: Mapping[str, Any], files: ModelFiles, *, by_weights: bool) -> bool:
    """Whether the model of a pool is the one of the files; `by_weights`: hash them where the names differ."""
    if made.get("model") == files.name:
        return True
    engine = made.get("engine")
    known = engine.get("weights_sha256") if by_weights and isinstance(engine, Mapping) else None
    return known is not None and known == files.weights_sha256()


def _samplings(log: Log) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """(pool, source, sampling) of every pool that a recipe made, in every log that this was merged from."""
    for source in sources_of(log.manifest.source if log.manifest is not None else None):
        for pool, settings in (source.get("pools") or {}).items():
            sampling = settings.get("sampling") if isinstance(settings, Mapping) else None
            if isinstance(settings, Mapping):
                yield pool, source, sampling if isinstance(sampling, Mapping) else {}
