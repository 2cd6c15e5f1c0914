"""What the manifest says of what was added: per verifier, kind of features and model of states, how it came about.

Under `source.verifiers`, `source.features` and `source.hidden_states`, by name: the settings, the model with its
weights' hash, prompts, versions and device, rows, wall-clock seconds, and the traces that have no row, or one that
lacks a value, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from generate.recipes.recipe import RUNNING
from generate.recipes.settings import flatten
from generate.sampling.manifest_source import versions_here
from generate.signals.additions import Addition, Additions, Asked, Features, Random, States, prompt_names
from generate.traces.sources import sources_of
from toolkit.errors import ThinkbackError

HASHES = ("weights_sha256", "base_weights_sha256", "sha256")
"""How steps call the hash of a model's weights."""


@dataclass
class Record:
    """What a run has to say of one step, for the traces that it `tried`. `skipped`: traces without a row, and why;
    `incomplete`: traces whose row lacks a value, and why; `unreadable`: traces; `unreadable_count`: judgements;
    `unreadable_tokens`: theirs, and those of first tries whose second failed.
    """

    tried: pl.Series
    rows: int = 0
    seconds: float = 0.0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    incomplete: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    unreadable_tokens: int = 0


def section_of(step: Addition) -> str:
    """Where the manifest's `source` keeps the step."""
    if isinstance(step, States):
        return "hidden_states"
    return "features" if isinstance(step, Features) else "verifiers"


def settings_of(step: Addition, additions: Additions) -> dict[str, Any]:
    """Everything that decides what a step writes, as dotted names and JSON values."""
    flat = flatten(step)
    own = getattr(step, "chat_template", None)
    if isinstance(step, Asked) and additions.engine is not None:
        own = additions.engine.settings.get("chat_template")
    if flat.get("end") == "auto":  # what logs were made with before there was a choice
        del flat["end"]
    for name in (*prompt_names(step), *([own] if own is not None else [])):
        text = additions.prompts[name].text
        flat[f"prompts.{name}"] = f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for name in ("model", "base"):
        if getattr(step, name, None):
            flat[name] = Path(getattr(step, name)).name
    if isinstance(step, Asked):
        engine = additions.engine_settings()
        flat |= {"seed": additions.seed, "engine.kind": engine.kind, "engine.model": Path(engine.model).name}
        flat |= flatten({k: v for k, v in engine.settings.items() if k not in RUNNING}, "engine")
    if isinstance(step, Random):
        flat["seed"] = additions.seed
    if isinstance(step, Features) and step.kind in ("claims", "peers") and additions.embedding is not None:
        flat["embedding.model"] = Path(additions.embedding.model).name
    return flat


def key_of(step: Addition, additions: Additions) -> str:
    """A name for the step's folder and its calls in the journal: with other settings it is another."""
    text = json.dumps(settings_of(step, additions), sort_keys=True, ensure_ascii=False)
    return f"{section_of(step)}-{step.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def recorded(source: Any, step: Addition, additions: Additions) -> list[Mapping[str, Any]]:
    """What the manifest says of a step of this name: nothing, one record, or those of the logs it was merged from.

    That other settings came to nothing, without a row, does not matter any more.
    """
    sections = (part.get(section_of(step)) for part in sources_of(source))
    found = (section.get(step.name) for section in sections if isinstance(section, Mapping))
    now = settings_of(step, additions)
    return [record for record in found if isinstance(record, Mapping) and _matters(record, now)]


def _matters(record: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return record.get("rows") != 0 or record.get("settings") == now


def settled(records: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Traces that were tried and can have no row."""
    skipped = (one["trace_id"] for record in records for one in record.get("skipped", ()))
    unread = (name for record in records for name in record.get("unreadable", {}).get("traces", ()))
    return frozenset([*skipped, *unread])


def check_settings(records: Sequence[Mapping[str, Any]], step: Addition, additions: Additions) -> None:
    """ThinkbackError where all that the log holds of this name was made with other settings."""
    now = settings_of(step, additions)
    others = [record.get("settings") or {} for record in records]
    if now in others:
        return
    before = others[0]
    for name in dict.fromkeys([*now, *before]):
        if now.get(name) != before.get(name):
            raise ThinkbackError(
                f"the log holds `{step.name}` ({section_of(step)}) made with other settings: `{name}` is"
                f" {json.dumps(before.get(name), ensure_ascii=False)} there and"
                f" {json.dumps(now.get(name), ensure_ascii=False)} here; give the new one another `name`"
            )


def marks_of(described: Mapping[str, Any]) -> dict[str, str]:
    """What a model is known by, whatever its folder is called: hashes of weights, and prompts. Of a step's own account
    of itself; hashes that are not known are left out.
    """
    found: dict[str, str] = {}
    for name, value in described.items():
        if isinstance(value, Mapping) and name != "versions":
            found |= {f"{name}.{inner}": mark for inner, mark in marks_of(value).items()}
            if name == "prompts":
                found |= {f"{name}.{pool}": str(text) for pool, text in value.items()}
        elif (name in HASHES or name == "prompt") and isinstance(value, str):
            found[name] = value
    return found


def check_marks(
    records: Sequence[Mapping[str, Any]], step: Addition, additions: Additions, marks: Mapping[str, str]
) -> None:
    """ThinkbackError where what the log holds of this step is by other weights, or was asked by another prompt."""
    now = settings_of(step, additions)
    for record in records:
        before = marks_of(record)
        name = differing(before, marks)
        if name is not None and record.get("settings") == now:
            raise ThinkbackError(
                f"the log holds `{step.name}` ({section_of(step)}) by another model or prompt: `{name}` is"
                f" {_short(before[name])} there and {_short(marks[name])} here; give the new one another `name`"
            )


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first mark that both have and that differs."""
    return next((name for name in now if name in before and before[name] != now[name]), None)


def _short(mark: str) -> str:
    return json.dumps(mark if len(mark) <= 16 else f"{mark[:15]}…", ensure_ascii=False)


def with_records(
    source: Any, additions: Additions, made: Sequence[tuple[Addition, Record, Mapping[str, Any]]]
) -> dict[str, Any]:
    """The manifest's `source` with what was added. Parts of one step, from several runs or shards, are summed up."""
    whole = dict(source) if isinstance(source, Mapping) else {} if source is None else {"log": source}
    for step, record, described in made:
        section = dict(whole.get(section_of(step)) or {})
        before = section.get(step.name) or {}
        before = before if _matters(before, settings_of(step, additions)) else {}
        check_marks([before], step, additions, marks_of(described))  # a shard may have come meanwhile
        entry: dict[str, Any] = {
            "added_by": "thinkback generate --on",
            "recipe": additions.name,
            "kind": step.kind,
            "seed": additions.seed,
            **described,
            "versions": {**versions_here(), **_versions(described)},
            "settings": settings_of(step, additions),
            "rows": before.get("rows", 0) + record.rows,
            "wall_clock_s": round(before.get("wall_clock_s", 0.0) + record.seconds, 3),
        }
        for name, found in (("skipped", record.skipped), ("incomplete", record.incomplete.items())):
            tried = frozenset(record.tried) if before.get(name) else frozenset()
            standing = [one for one in before.get(name, ()) if one["trace_id"] not in tried]
            listed = [*standing, *({"trace_id": t, "reason": r} for t, r in found)]
            if listed:
                entry[name] = listed
        old = before.get("unreadable") or {}
        traces = [*old.get("traces", ()), *record.unreadable]
        tokens = old.get("tokens", 0) + record.unreadable_tokens
        if traces or tokens:
            count = old.get("count", 0) + record.unreadable_count
            entry["unreadable"] = {"count": count, "tokens": tokens, "traces": traces}
        section[step.name] = entry
        whole[section_of(step)] = section
    return whole


def _versions(described: Mapping[str, Any]) -> Mapping[str, Any]:
    found = described.get("versions")
    return found if isinstance(found, Mapping) else {}
