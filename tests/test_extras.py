"""A missing extra is loud where all are required, and what is required is what the tests look for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras import NEEDED, ROOT, VARIABLE, lacking, requirements


def test_a_missing_distribution_is_named_and_those_behind_an_extra_too() -> None:
    assert lacking(["numpy>=2", "no-such-thing>=1", "polars"]) == ["no-such-thing"]
    assert lacking(["pytest"]) == []
    # `rich` renders notebooks with a package of its extra `jupyter`, which nothing here asks for
    assert lacking(["rich[jupyter]"]) == ["ipywidgets"]


@pytest.mark.parametrize("value", ["required", ""])
def test_a_run_that_requires_what_is_missing_ends_before_its_first_test(tmp_path: Path, value: str) -> None:
    """With the installed packages of this run minus `math_verify`."""
    (tmp_path / "hide.py").write_text(
        "import importlib.metadata as m; real = m.Distribution.from_name.__func__\n"
        "def without(cls, name):\n"
        "    if name == 'math-verify':\n        raise m.PackageNotFoundError(name)\n"
        "    return real(cls, name)\n"
        "m.Distribution.from_name = classmethod(without)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "hide", "--collect-only", "tests/test_extras.py"]
    environment = {**os.environ, VARIABLE: value, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert (done.returncode == 4) == (value == "required"), done.stdout + done.stderr
    assert ("math-verify" in done.stderr) == (value == "required")


def test_make_and_the_tests_ask_for_the_same_extras() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^EXTRAS := (.+)$", text, re.MULTILINE).group(1).split(",") == list(NEEDED)
    recipes = re.findall(r"^test(?:-slow)?:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert len(recipes) == 2
    assert all(f"{VARIABLE}=required $(BIN)/python -m pytest" in recipe for recipe in recipes)


def test_the_plain_install_stays_without_models() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [plain] = re.findall(r"^\$\(VENV\)/installed:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert re.search(r"-e (.*)$", plain, re.MULTILINE).group(1) == "'.[xgboost-cpu]'"
    assert "EXTRAS" not in plain
    heavy = {"torch", "transformers", "tokenizers", "safetensors", "aiohttp", "math-verify"}
    assert heavy <= {re.split(r"[\[>]", one)[0] for one in requirements()}
