"""What a run is made of, for run.json: policies as plain data, and versions."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from replay.policies.base import Policy

PACKAGES = ("thinkback", "polars", "numpy", "pyarrow", "duckdb")


@dataclass(frozen=True)
class PolicyRecord:
    """A policy of a result: its name and kind, what it sees that no policy in service could, its sweep's name, size and
    its own values of the sweep's keys, what its flips are counted against, what tables call it if not by its name, and
    all of its settings as plain data.
    """

    name: str
    kind: str
    diagnostic: str = ""
    sweep: str = ""
    sweep_size: int = 1
    swept: tuple[tuple[str, Any], ...] = ()
    base: str = ""
    label: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def policy_record(policy: Policy) -> PolicyRecord:
    """A policy as data."""
    return PolicyRecord(
        policy.name, policy.kind, policy.diagnostic, policy.sweep, policy.sweep_size, policy.swept,
        policy.flips_against, policy.label, _describe_policy(policy),
    )  # fmt: skip


def largest_majority(policies: Iterable[PolicyRecord]) -> str | None:
    """The plain vote over most traces, by the settings of policies; None where none votes."""
    votes = [
        (int(one.settings["max_traces"]), -number, one.name)
        for number, one in enumerate(policies)
        if one.settings.get("select") == "majority"
        and one.settings.get("stop") == {"rule": "none"}
        and not one.diagnostic
        and isinstance(one.settings.get("max_traces"), int)
    ]
    return max(votes)[2] if votes else None


def _describe_policy(policy: Policy) -> dict[str, Any]:
    """A policy as plain data, every default filled in."""
    described = {"name": policy.name, "kind": policy.kind, "diagnostic": policy.diagnostic or None}
    settings = {f.name: _plain(getattr(policy, f.name)) for f in fields(policy) if f.name != "name" and f.compare}
    return described | {name: finite(value) for name, value in settings.items()}


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write what a run or a study is made of to run.json in a folder."""
    parts = (
        f"{_json(key)}: {_listed(value) if isinstance(value, list) else _json(value)}" for key, value in record.items()
    )
    (folder / "run.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _listed(values: list[Any]) -> str:
    """A list as JSON, an entry a line: of a thousand policies each can be found, and Python's fast writer is used."""
    return "[\n" + ",\n".join(map(_json, values)) + "\n]" if values else "[]"


def _json(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """Data that is JSON to every reader: infinities are the texts `inf` and `-inf`, what is no number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    return [finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    """A setting as plain data: what records itself does, and dataclasses give their settings."""
    if isinstance(value, Policy):
        return _describe_policy(value)
    if hasattr(value, "record"):
        return value.record()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    return list(value) if isinstance(value, tuple) else value
