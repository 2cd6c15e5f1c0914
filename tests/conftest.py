"""No test is left out unseen: where every extra is required, a missing one ends the run."""

from __future__ import annotations

import os

import pytest

from tests.extras import NEEDED, VARIABLE, lacking, requirements


def pytest_configure() -> None:
    missing = lacking(requirements()) if os.environ.get(VARIABLE) == "required" else []
    if missing:
        raise pytest.UsageError(
            f"{', '.join(missing)}: not installed, so tests would be left out; pip install '.[{','.join(NEEDED)}]'"
        )
