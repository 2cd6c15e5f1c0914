"""Verifiers that are asked about one trace: a judge, whose score is from 0 to 1, and self-reflection, from 1 to 10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from generate.signals.asked import AskedVerifier
from toolkit.settings import setting

SHARED: Mapping[str, Any] = {"lines": None, "first": None}
"""Settings of choices, which every verifier that is asked recorded when they had one class for all."""


@dataclass(frozen=True, kw_only=True)
class Judge(AskedVerifier):
    """Says a score in [0, 1]."""

    kind: str = setting("judge", choices=("judge",))

    recorded: ClassVar[Mapping[str, Any]] = SHARED


@dataclass(frozen=True, kw_only=True)
class Reflection(AskedVerifier):
    """Says a number from 1 to 10, which is kept as it is."""

    kind: str = setting("reflection", choices=("reflection",))

    recorded: ClassVar[Mapping[str, Any]] = SHARED
    low = 1.0
    high = 10.0
