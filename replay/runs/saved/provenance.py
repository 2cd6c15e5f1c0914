"""The record of what a run used, for run.json: policies as plain data, and versions."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from replay.policies.base import Policy

PACKAGES = ("thinkback", "polars", "numpy", "pyarrow", "duckdb")


@dataclass(frozen=True)
class PolicyRecord:
    """A policy of a result: its name and kind, what it sees that no policy in service could, its sweep's name, size and
    its own values of the sweep's keys, what it is compared with by itself, what tables call it if not by its name,
    all of its settings as plain data, and whether it answers, so that its flips can be counted.
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
    answers: bool = True


def policy_record(policy: Policy) -> PolicyRecord:
    """A policy as data."""
    return PolicyRecord(
        policy.name, policy.kind, policy.diagnostic, policy.sweep, policy.sweep_size, policy.swept,
        policy.flip_baseline_name, policy.label, _describe_policy(policy), policy.answers,
    )  # fmt: skip


def usual_baseline(policies: Sequence[PolicyRecord]) -> str | None:
    """The name of the plain vote over most traces, else of a plain ranking, else of the last guess on whole questions,
    else of what acts at the first refutation; None if there is none of them.
    """
    votes = [
        (int(one.settings["max_traces"]), -number, one.name)
        for number, one in enumerate(policies)
        if one.settings.get("select") == "majority"
        and _has_no_stop_rule(one)
        and not one.diagnostic
        and isinstance(one.settings.get("max_traces"), int)
    ]
    real = [policy for policy in policies if not policy.diagnostic]
    plain = [one.name for one in real if one.settings.get("multiplier") == 1]
    last = [one.name for one in real if one.settings.get("select") == "last" and _has_no_stop_rule(one)]
    first = [one.name for one in real if FIRST_REFUTATION.items() <= one.settings.items()]
    return max(votes)[2] if votes else next(iter([*plain, *last, *first]), None)


FIRST_REFUTATION = {
    "confidence": 0.0, "patience": 1, "max_claims": None, "max_rounds": None, "revisions": None, "to_end": False,
}  # fmt: skip
"""The keys of what acts on the first claim that is refuted, whatever the confidence, and follows every claim."""


def _has_no_stop_rule(policy: PolicyRecord) -> bool:
    return policy.settings.get("stop") == {"rule": "none"}


def single_attempt_policy(policies: Sequence[PolicyRecord], baseline: str | None) -> str | None:
    """The name of the policy of one attempt at the baseline's pool, the exact mean if there is one; None without it, or
    if the baseline is it.
    """
    known = {policy.name: policy for policy in policies}
    settings = known[baseline].settings if baseline in known else {}
    plain = [
        (not one.settings.get("expected"), number, one.name)
        for number, one in enumerate(known.values())
        if not one.diagnostic
        and one.settings.get("max_traces") == 1
        and one.settings.get("pool") == settings.get("pool")
    ]
    few = settings.get("pool") is None or settings.get("max_traces") == 1
    return None if few or not plain else min(plain)[2]


def _describe_policy(policy: Policy) -> dict[str, Any]:
    """A policy as plain data, with every default filled in."""
    described = {"name": policy.name, "kind": policy.kind, "diagnostic": policy.diagnostic or None}
    settings = {
        f.name: _as_plain_data(getattr(policy, f.name)) for f in fields(policy) if f.name != "name" and f.compare
    }
    return described | {name: json_safe(value) for name, value in settings.items()}


def software_versions() -> dict[str, str]:
    """The versions of everything that the numbers depend on."""
    return {"python": platform.python_version()} | _package_versions()


@cache  # each takes a millisecond to read from the disk
def _package_versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record of a run or a study as run.json into a folder."""
    parts = (
        f"{_json_text(key)}: {_json_list(value) if isinstance(value, list) else _json_text(value)}"
        for key, value in record.items()
    )
    (folder / "run.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _json_list(values: list[Any]) -> str:
    """A list as JSON, one entry a line, so that each of a thousand policies is easy to see in the file."""
    return "[\n" + ",\n".join(map(_json_text, values)) + "\n]" if values else "[]"


def _json_text(value: Any) -> str:
    return json.dumps(json_safe(value), ensure_ascii=False, allow_nan=False)


def json_safe(value: Any) -> Any:
    """Data that every reader of JSON takes: infinities become the texts `inf` and `-inf`, NaN becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): json_safe(entry) for key, entry in value.items()}
    return [json_safe(entry) for entry in value] if isinstance(value, list | tuple) else value


def _as_plain_data(value: Any) -> Any:
    """A setting as plain data: its record, or for a dataclass its settings."""
    if isinstance(value, Policy):
        return _describe_policy(value)
    if hasattr(value, "record"):
        return value.record()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _as_plain_data(getattr(value, f.name)) for f in fields(value) if f.compare}
    return list(value) if isinstance(value, tuple) else value
