"""What a run is made of, for run.json: policies as plain data, and versions."""

from __future__ import annotations

import platform
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

from replay.fits import FITS
from replay.policies import Policy
from replay.stops import STOPS

PACKAGES = ("thinkback", "polars", "numpy", "pyarrow", "duckdb")


def describe_policy(policy: Policy) -> dict[str, Any]:
    """A policy as plain data, every default filled in."""
    described = {"name": policy.name, "kind": policy.kind, "diagnostic": policy.diagnostic or None}
    return described | {f.name: _plain(getattr(policy, f.name)) for f in fields(policy) if f.name != "name"}


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        rule = next((name for name, kind in STOPS.items() if kind is type(value)), type(value).__name__)
        settings = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
        return settings if type(value) in FITS.values() else {"rule": rule} | settings
    return list(value) if isinstance(value, tuple) else value
