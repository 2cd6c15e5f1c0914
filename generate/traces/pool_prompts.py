"""The prompt of each pool: the recipe's own, or the one that the log's manifest keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from generate.recipes.prompting import Template, parse_template
from generate.traces.block import OWN_FIELDS, check_fields
from generate.traces.log_origins import sources_of
from toolkit.errors import ThinkbackError
from toolkit.log import Log


def prompts_of_pools(
    log: Log, pools: Sequence[str], prompt: str | None, prompts: Mapping[str, str], read: Mapping[str, Template]
) -> dict[str, Template]:
    """The prompt of every pool: that of `prompts`, else `prompt`, else the manifest's.

    `read`: the prompt files by name. ThinkbackError where none is known, or a field of one is filled by nothing.
    """
    kept = dict(kept_prompts(log))
    found: dict[str, Template] = {}
    for pool in pools:
        name = prompts.get(pool, prompt)
        if name is not None:
            found[pool] = read[name]
        elif pool in kept:
            found[pool] = kept[pool]
        else:
            raise ThinkbackError(
                f"the log does not keep the prompt of the pool `{pool}`: name a prompt file for it in `prompts`"
            )
        check_fields(found[pool], log, OWN_FIELDS)
    return found


def kept_prompts(log: Log) -> Iterator[tuple[str, Template]]:
    """(pool, prompt) as the manifest keeps them; of merged logs too. A pool with two prompts is left out."""
    texts: dict[str, set[tuple[str, str]]] = {}
    for source in sources_of(log.manifest.source if log.manifest is not None else None):
        kept = source.get("prompts")
        for pool, settings in (source.get("pools") or {}).items():
            name = settings.get("prompt") if isinstance(settings, Mapping) else None
            if isinstance(kept, Mapping) and isinstance(name, str) and name in kept:
                texts.setdefault(pool, set()).add((name, kept[name]))
    for pool, found in texts.items():
        if len({text for _, text in found}) == 1:
            name, text = min(found)
            yield pool, parse_template(name, text + "\n")


def template_of(prompts: Mapping[str, Template]) -> Callable[[str], Template]:
    """The prompt of a pool, which must be known."""

    def known(pool: str) -> Template:
        if pool not in prompts:
            raise ThinkbackError(
                f"the prompt of the pool `{pool}` is not known: name a prompt file for it in `prompts`"
            )
        return prompts[pool]

    return known
