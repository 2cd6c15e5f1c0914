"""No test is left out unseen: where every extra is required, a missing one ends the run. And one thread computes."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator

import pytest
import typer
import typer.testing

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


def pytest_collection_finish() -> None:
    """What the imports made stays to the end, so the collector need not walk it again at every full collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_tree_of_commands() -> Iterator[None]:
    """Typer's runner makes all commands of an app anew at every call, which costs more than most of them do."""
    whole = typer.testing._get_command
    known = functools.cache(lambda app, size: whole(app))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", lambda app: known(app, _size(app)))
        yield


def _size(app: typer.Typer) -> int:
    """How many commands an app has, those of its groups too: a test may add one."""
    return len(app.registered_commands) + sum(_size(group.typer_instance) for group in app.registered_groups)
