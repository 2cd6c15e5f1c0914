"""The manifest's records of added signals: how each verifier, kind of features and hidden states was made.

Under `source.verifiers`, `source.features` and `source.hidden_states`, by name: the settings, the model with its
weights' hash, prompts, versions and device, rows, wall-clock seconds, and the traces that have no row, or one that
lacks a value, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from generate.engines.weights import platform_versions
from generate.journal.database import differing_key_text
from generate.signals.signal import Additions, TraceSignal
from generate.traces.log_origins import merged_sources
from toolkit.errors import ConflictError
from toolkit.log import LEFT_OUT


@dataclass
class SignalRecord:
    """A run's record of one signal, for the traces that it `tried`. `skipped`: traces without a row, and why;
    `incomplete`: traces whose row lacks a value, and why; `recounted`: traces whose text has another number of tokens
    than logged; `unreadable`: traces; `unreadable_count`: judgements; `lost_tokens`: theirs, and those of first tries
    whose second failed; `left_out`: skipped traces about which a call failed, by cause.
    """

    tried: pl.Series
    rows: int = 0
    seconds: float = 0.0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    incomplete: dict[str, str] = field(default_factory=dict)
    recounted: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    lost_tokens: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def signal_folder_name(step: TraceSignal, additions: Additions) -> str:
    """The name of a signal's folder, made from the signal's settings."""
    text = json.dumps(step.identity(additions), sort_keys=True, ensure_ascii=False)
    return f"{step.section}-{step.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def signal_records(source: Any, step: TraceSignal, additions: Additions) -> list[Mapping[str, Any]]:
    """The manifest's records under a signal's name: none, one, or those of the logs that it was merged from. Records of
    other settings without rows are left out.
    """
    sections = (part.get(step.section) for part in merged_sources(source))
    entries = (section.get(step.name) for section in sections if isinstance(section, Mapping))
    now = step.identity(additions)
    return [record for record in entries if isinstance(record, Mapping) and _has_rows_or_settings(record, now)]


def _has_rows_or_settings(record: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return record.get("rows") != 0 or record.get("settings") == now


def traces_without_row(records: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The traces that were tried and can have no row."""
    skipped = (one["trace_id"] for record in records for one in record.get("skipped", ()))
    unread = (name for record in records for name in record.get("unreadable", {}).get("traces", ()))
    return frozenset([*skipped, *unread])


def check_settings(records: Sequence[Mapping[str, Any]], step: TraceSignal, additions: Additions) -> None:
    """Raises ThinkbackError where all rows of this name were made with other settings."""
    now = step.identity(additions)
    others = [record.get("settings") or {} for record in records]
    if now in others:
        return
    differs = differing_key_text(others[0], now)
    what = f"`{step.name}` ({step.section}) made with other settings"
    raise ConflictError(f"the log holds {what}: {differs}; give the new one another `name`")


def check_same_model(
    records: Sequence[Mapping[str, Any]], step: TraceSignal, additions: Additions, described: Mapping[str, Any]
) -> None:
    """Raises ThinkbackError where the log's rows of this signal come from other weights or another prompt."""
    now, marks = step.identity(additions), step.weights_and_prompts(described)
    for record in records:
        differs = first_difference_text(step.weights_and_prompts(record), marks)
        if differs is not None and record.get("settings") == now:
            raise ConflictError(
                f"the log holds `{step.name}` ({step.section}) by another model or prompt: {differs}; give the new one"
                " another `name`"
            )


def first_difference_text(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The words for the first mark in which two records differ; None where none does."""
    return differing_key_text(before, now, [name for name in now if name in before], most=18)


def source_with_records(
    source: Any, additions: Additions, signals: Sequence[tuple[TraceSignal, SignalRecord, Mapping[str, Any]]]
) -> dict[str, Any]:
    """The manifest's `source` with the records of added signals, those of one from several runs or shards merged."""
    whole = dict(source) if isinstance(source, Mapping) else {} if source is None else {"log": source}
    for step, record, described in signals:
        section = dict(whole.get(step.section) or {})
        before = section.get(step.name) or {}
        before = before if _has_rows_or_settings(before, step.identity(additions)) else {}
        check_same_model([before], step, additions, described)  # a shard may have come meanwhile
        versions = described.get("versions")
        entry: dict[str, Any] = {
            "added_by": "thinkback generate --on",
            "recipe": additions.name,
            "kind": step.kind,
            "seed": additions.seed,
            **described,
            "versions": {**platform_versions(), **(versions if isinstance(versions, Mapping) else {})},
            "settings": step.identity(additions),
            "rows": before.get("rows", 0) + record.rows,
            "wall_clock_s": round(before.get("wall_clock_s", 0.0) + record.seconds, 3),
        }
        for name, reasons in (("skipped", record.skipped), ("incomplete", record.incomplete.items())):
            tried = frozenset(record.tried) if before.get(name) else frozenset()
            standing = [one for one in before.get(name, ()) if one["trace_id"] not in tried]
            listed = [*standing, *({"trace_id": t, "reason": r} for t, r in reasons)]
            if listed:
                entry[name] = listed
        if recounted := before.get("recounted", 0) + len(record.recounted):
            entry["recounted"] = recounted
        old = before.get("unreadable") or {}
        traces = [*old.get("traces", ()), *record.unreadable]
        tokens = old.get("tokens", 0) + record.lost_tokens
        if traces or tokens:
            count = old.get("count", 0) + record.unreadable_count
            entry["unreadable"] = {"count": count, "tokens": tokens, "traces": traces}
        left_out = Counter(before.get(LEFT_OUT)) + record.left_out
        if left_out:
            entry[LEFT_OUT] = dict(sorted(left_out.items()))
        section[step.name] = entry
        whole[step.section] = section
    return whole
