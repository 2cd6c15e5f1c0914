"""No test is left out unseen: where every extra is required, a missing one ends the run. And one thread computes."""

from __future__ import annotations

import os

import pytest

from tests.extras import NEEDED, VARIABLE, lacking, requirements

# Workers that share a few cores would wait for each other's threads at every product of small matrices: half of the
# processor time of the tests of models. Read when NumPy and torch are loaded, here and in the processes of tests.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def pytest_configure() -> None:
    missing = lacking(requirements()) if os.environ.get(VARIABLE) == "required" else []
    if missing:
        raise pytest.UsageError(
            f"{', '.join(missing)}: not installed, so tests would be left out; pip install '.[{','.join(NEEDED)}]'"
        )
