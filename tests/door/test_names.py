"""`import thinkback as tb`: every name is there, lazily, and importing the door costs next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import replay
import thinkback as tb

ROOT = Path(__file__).resolve().parents[2]


def ran(code: str, folder: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


@pytest.mark.parametrize("name", tb.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(tb, name) is not None
    assert name in dir(tb)


def test_importing_the_door_imports_nothing_of_ours() -> None:
    heavy = ("polars", "numpy", "torch", "toolkit", "replay", "generate")
    code = f"import sys, thinkback as tb; dir(tb); print([name for name in {heavy!r} if name in sys.modules])"
    assert ran(code) == "[]"
    assert ran("import sys, thinkback as tb; tb.ThinkbackError; print('polars' in sys.modules)") == "False"


def test_names_are_imported_from_the_door_too() -> None:
    code = "from thinkback import *; from thinkback import run, Sample; print(run.__module__, Sample.kind)"
    assert ran(code) == "replay.runs.result.run sample"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="`rum`"):
        tb.rum  # noqa: B018
    assert not hasattr(tb, "__wrapped__")


def test_checkers_see_the_names_that_programs_get() -> None:
    tree = ast.parse((ROOT / "thinkback" / "__init__.py").read_text(encoding="utf-8"))
    told = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: line.module for line in told.body for alias in line.names}  # type: ignore[attr-defined]
    assert seen == {name: tb.HOMES.get(name, "replay") for name in tb.__all__}
    assert sorted(tb.__all__) == tb.__all__


def test_the_doors_names_are_those_of_the_packages() -> None:
    shared = set(tb.__all__) & set(replay.__all__)
    assert {"Act", "Oracle", "Route", "Sample", "When", "run", "tune", "explain"} <= shared
    assert all(getattr(tb, name) is getattr(replay, name) for name in shared)
