"""What was imported by an older name is told its new one in one line."""

import importlib
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import generate
import replay

OLD = {
    "generate.claims": "generate.simulation.claims",
    "generate.signals.kinds": "generate.signals.additions",
    "generate.simulate": "generate.simulation.grid",
    "generate.simulate_recovery": "generate.simulation.recovery",
    "generate.simulation_model": "generate.simulation.grid_model",
    "replay.budgets": "replay.analyses.budgets.budgets",
    "replay.curves": "replay.runs.compare.curves",
    "replay.explain": "replay.runs.explain.explain",
    "replay.gate_file": "replay.policies.gate_file",
    "replay.gate_fitting": "replay.gatefit.fit",
    "replay.gate_report": "replay.gatefit.report",
    "replay.recommend": "replay.analyses.recommend.recommend",
}


@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_an_old_module_names_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^`{old}` is now `{new}`$"):
        importlib.import_module(old)
    importlib.import_module(new)


@pytest.mark.parametrize(("old", "new"), [("Reading", "Threshold"), ("Choice", "Router"), ("Rule", "StopRule")])
def test_an_old_class_names_the_new_one(old: str, new: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from replay import {old}\n", encoding="utf-8")
    with pytest.raises(ImportError, match=f"^`replay.{old}` is now `replay.{new}`$"):
        runpy.run_path(str(script))
    assert new in replay.__all__
    assert not hasattr(replay, old)


@pytest.mark.parametrize("package", [generate, replay])
def test_no_function_hides_a_module_of_its_name(package: ModuleType) -> None:
    modules = {path.name.removesuffix(".py") for folder in package.__path__ for path in Path(folder).iterdir()}
    assert [name for name in modules - {"__init__"} if callable(getattr(package, name, None))] == []
