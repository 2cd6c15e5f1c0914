"""Seeds of parametrised tests: a few are tried by the quick suite, the rest by the slow one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(quick: int, cases: int | Sequence[Any]) -> list[Any]:
    """The first `quick` of some cases (a number: that many seeds), and the others marked as slow."""
    rows = range(cases) if isinstance(cases, int) else cases
    return [*rows[:quick], *(pytest.param(one, marks=pytest.mark.slow) for one in rows[quick:])]
