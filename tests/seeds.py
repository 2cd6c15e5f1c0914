"""Cases of parametrised tests: a few are tried by the quick suite, the rest by the slow one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(quick: int, cases: int | Sequence[Any]) -> list[Any]:
    """The first `quick` of some cases (a number: that many seeds), and the others marked as slow.

    A case that is a tuple has a value for each of several names.
    """
    rows = range(cases) if isinstance(cases, int) else cases
    return [*rows[:quick], *(_slow(*one) if isinstance(one, tuple) else _slow(one) for one in rows[quick:])]


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)
