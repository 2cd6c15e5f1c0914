"""A user's own `replay`, `generate` or `toolkit` is named in one line, and is not imported."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import thinkback as tb
from tests.errors import quotes
from tests.logs import GOLDS, POOL, tables

ROOT = Path(__file__).resolve().parents[2]
USE = "import thinkback as tb\nprint('imported')\ntb.run\n"
# how a checkout that was installed with `pip install -e` is found: after all folders of sys.path were asked
EDITABLE = f"""
import importlib.machinery, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("thinkback", "replay", "toolkit", "generate"):
            return importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])

sys.meta_path.append(Finder)
"""


def process(*words: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


def named(line: str, place: Path, name: str) -> None:
    quotes(line, f"`{place}`", f"`{name}`", "rename")


def hide(folder: Path, name: str, form: str) -> Path:
    """A module of this name that must not be imported, as a file or as a package."""
    place = folder / (f"{name}.py" if form == "file" else name)
    file = place if form == "file" else place / "__init__.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("raise SystemExit('it was imported')\n", encoding="utf-8")
    return place


@pytest.mark.parametrize(("name", "form"), [("replay", "file"), ("generate", "package"), ("toolkit", "file")])
def test_a_script_is_told(tmp_path: Path, name: str, form: str) -> None:
    place = hide(tmp_path, name, form)
    (tmp_path / "script.py").write_text(USE, encoding="utf-8")
    done = process(str(tmp_path / "script.py"), folder=ROOT, path=str(ROOT))
    assert done.stdout == "imported\n"
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    named(done.stderr.splitlines()[-1], place, name)


@pytest.mark.parametrize(("name", "form"), [("replay", "file"), ("toolkit", "package"), ("generate", "file")])
def test_the_command_is_told(tmp_path: Path, name: str, form: str) -> None:
    place = hide(tmp_path, name, form)
    done = process("-m", "thinkback", "--version", folder=tmp_path, path=str(ROOT))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    named(done.stderr, place, name)


def test_what_the_path_puts_before_ours_is_found(tmp_path: Path) -> None:
    place = hide(tmp_path, "replay", "file")
    done = process("-m", "thinkback", "--version", folder=ROOT / "docs", path=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 2
    named(done.stderr, place, "replay")


def test_a_folder_without_a_module_hides_an_editable_install(tmp_path: Path) -> None:
    """`-S`: without what the environment itself has installed."""
    ask = f"{EDITABLE}\nfrom thinkback.shadowing import shadowing_line\nprint(shadowing_line())"
    done = process("-S", "-c", ask, folder=tmp_path, path="")
    assert (done.stdout, done.stderr) == ("None\n", "")
    (tmp_path / "replay").mkdir()
    done = process("-S", "-c", f"{EDITABLE}\n{USE}", folder=tmp_path, path="")
    named(done.stderr.splitlines()[-1], tmp_path / "replay", "replay")
    main = "from thinkback.__main__ import main; main()"
    done = process("-S", "-c", f"{EDITABLE}\n{main}", folder=tmp_path, path="")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    named(done.stderr, tmp_path / "replay", "replay")


def test_a_folder_without_a_module_hides_no_installed_package(tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    done = process("-m", "thinkback", "--version", folder=tmp_path, path=str(ROOT))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_that_was_imported_before_is_found(tmp_path: Path) -> None:
    place = tmp_path / "replay.py"
    place.write_text("", encoding="utf-8")
    done = process("-c", f"import replay\n{USE}", folder=tmp_path, path=str(ROOT))
    named(done.stderr.splitlines()[-1], place, "replay")


def test_a_pickled_result_opens_through_the_door(tmp_path: Path) -> None:
    vote = tb.Sample(name="vote", max_traces=3, select="majority")
    result = tb.run(tables({"pool": POOL}, GOLDS), [vote], resamples=5)
    for dumps in (pickle.dumps, ForkingPickler.dumps):
        assert pickle.loads(dumps(result)).leader == "vote"
        assert b"thinkback.pickles" in bytes(dumps(result))[:60]
    (tmp_path / "result").write_bytes(pickle.dumps(pickle.loads(pickle.dumps(result))))
    place = hide(tmp_path, "replay", "file")
    ask = "import pickle; pickle.load(open('result', 'rb'))"
    done = process("-c", ask, folder=tmp_path, path=str(ROOT))
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    named(done.stderr.splitlines()[-1], place, "replay")
