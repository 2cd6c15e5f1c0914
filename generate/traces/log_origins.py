"""The origins of a log, from its manifest and those of the logs that it was merged from: pools and their prompts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from generate.engines.weights import ModelFiles
from generate.recipes.prompting import Template, parse_template
from toolkit.errors import RequiredError
from toolkit.log import Log

ANSWERED_FIELDS = ("attempt", "answer", "prompt")
"""The fields of a trace's prompt beside the columns of `examples`."""


def merged_sources(source: Any) -> Iterator[Mapping[str, Any]]:
    """Yields a manifest's `source`, and the sources of the logs that it was merged from."""
    if isinstance(source, Mapping):
        yield source
        for part in source.get("merged") or ():
            if isinstance(part, Mapping):
                yield from merged_sources(part.get("source"))


def joined_pools(log: Log) -> frozenset[str]:
    """The pools whose traces continue where the attempt that they revise stops, and so are read after it."""
    return frozenset(pool for pool, sampling in _pool_samplings(log) if sampling.get("joined") is True)


def stopped_pools(log: Log) -> frozenset[str]:
    """The pools whose samples also ended at stop texts. There `stop` does not mean that the model ended them."""
    return frozenset(pool for pool, sampling in _pool_samplings(log) if sampling.get("stop"))


def _pool_samplings(log: Log) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each pool's name with the settings it was sampled with."""
    samplings = ((pool, settings.get("sampling")) for pool, _, settings in _pool_sources(log))
    return ((pool, sampling) for pool, sampling in samplings if isinstance(sampling, Mapping))


def chat_template_of(log: Log, pools: Collection[str], files: ModelFiles) -> tuple[str | None, dict[str, Any]]:
    """The (chat template, its options) with which an engine ran this model for one of the pools. A template of None is
    the model's own.

    It is the model where the names are the same, or the weights: a folder and a hub call them differently.
    """
    for pool, source, pool_settings in _pool_sources(log):
        settings, prompts = (pool_settings.get(key, source.get(key)) for key in ("settings", "prompts"))
        if pool not in pools or not isinstance(settings, Mapping):
            continue
        name = settings.get("engine.chat_template")
        begin = "engine.template_options."
        options = {key.removeprefix(begin): value for key, value in settings.items() if key.startswith(begin)}
        if _is_same_model(pool_settings, files, by_weights=bool(name or options)):
            return (prompts.get(name) if isinstance(prompts, Mapping) and name else None), options
    return None, {}


def _is_same_model(pool_settings: Mapping[str, Any], files: ModelFiles, *, by_weights: bool) -> bool:
    """Whether a pool's model is that of the files. `by_weights`: compare hashes where the names differ."""
    if pool_settings.get("model") == files.name:
        return True
    engine = pool_settings.get("engine")
    known = engine.get("weights_sha256") if by_weights and isinstance(engine, Mapping) else None
    return known is not None and known == files.weights_sha256()


def _pool_sources(log: Log) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yields (pool, source, its settings) for each pool that a recipe made, in every log that was merged."""
    for source in merged_sources(log.manifest.source if log.manifest is not None else None):
        for pool, settings in (source.get("pools") or {}).items():
            if isinstance(settings, Mapping):
                yield pool, source, settings


def prompts_of_pools(
    log: Log, pools: Sequence[str], prompt: str | None, prompts: Mapping[str, str], read: Mapping[str, Template]
) -> dict[str, Template]:
    """The prompt of each pool: from `prompts`, else `prompt`, else the manifest's.

    `read`: the prompt files by name. ThinkbackError where none is known, or a field of one is filled by nothing.
    """
    logged = dict(_manifest_prompts(log))
    templates: dict[str, Template] = {}
    for pool in pools:
        name = prompts.get(pool, prompt)
        if name is not None:
            templates[pool] = read[name]
        elif pool in logged:
            templates[pool] = logged[pool]
        else:
            raise RequiredError(
                f"the log does not keep the prompt of the pool `{pool}`: name a prompt file for it in `prompts`"
            )
        templates[pool].check_fields([*log.columns("examples"), "labels", *ANSWERED_FIELDS])
    return templates


def _manifest_prompts(log: Log) -> Iterator[tuple[str, Template]]:
    """Yields (pool, prompt) from the manifest, and those of merged logs. A pool with two prompts is left out."""
    texts: dict[str, set[tuple[str, str]]] = {}
    for pool, source, settings in _pool_sources(log):
        prompts, name = settings.get("prompts", source.get("prompts")), settings.get("prompt")
        if isinstance(prompts, Mapping) and isinstance(name, str) and name in prompts:
            texts.setdefault(pool, set()).add((name, prompts[name]))
    for pool, named_texts in texts.items():
        if len({text for _, text in named_texts}) == 1:
            name, text = min(named_texts)
            yield pool, parse_template(name, text + "\n")
