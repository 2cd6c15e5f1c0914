"""What holds for the code as a whole: who imports whom, what an import costs, docstrings, packaging."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import generate
import replay
from tests.house import parsed

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("toolkit", "generate", "replay", "thinkback")
LONGEST_FILE = 700


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def pinned() -> dict[str, Version]:
    """Distribution -> version, as constraints.txt pins them."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("module", ["replay", "toolkit.stats", "toolkit.log"])
def test_import_is_light(module: str) -> None:
    heavy = ("scipy.stats", "sklearn", "xgboost", "matplotlib", "torch")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow  # `make lint` checks them, so `make test` does
def test_import_contracts_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def public_definitions(path: Path) -> Iterator[tuple[str, str | None]]:
    """(name, docstring) of a module and of its public functions and classes."""
    tree = parsed(path.read_text(encoding="utf-8"))
    where = path.relative_to(ROOT).as_posix()
    yield where, ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{where}: {node.name}", ast.get_docstring(node)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_docstrings(package: str) -> None:
    bare = [name for path in sources(package) for name, text in public_definitions(path) if not text]
    assert bare == []


ADVERBIALS = {
    *("About", "As", "At", "Below", "Above", "Between", "By", "For", "From", "In", "Of", "On", "Over", "Than", "That"),
    *("To", "Under", "With", "Within", "Without"),
}
"""Words that begin no subject: a docstring that begins with one leaves out what it speaks of."""


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_a_subject(package: str) -> None:
    definitions = ast.Module | ast.ClassDef | ast.FunctionDef
    without = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in sources(package)
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, definitions) and (text := ast.get_docstring(node)) and text.split()[0] in ADVERBIALS
    ]
    assert without == []


def test_files_stay_short() -> None:
    sizes = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*PACKAGES, "benchmarks")
    }
    assert {name: size for name, size in sizes.items() if size > LONGEST_FILE} == {}


def test_every_package_is_typed() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").is_file()] == []


def test_files_that_are_not_code_are_packaged() -> None:
    """A mapping file that `package-data` forgets is there in a checkout and missing once installed."""
    globs = project()["tool"]["setuptools"]["package-data"]
    forgotten = [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*"))
        if path.is_file() and path.suffix not in (".py", ".pyc")
        if not any(fnmatch(path.relative_to(ROOT / package).as_posix(), glob) for glob in globs[package])
    ]
    assert forgotten == []


def test_every_folder_of_code_is_a_package() -> None:
    folders = {path.parent for path in sources(*PACKAGES)}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_constraints_satisfy_the_bounds() -> None:
    settings = project()["project"]
    wanted = [*settings["dependencies"], *(r for extra in settings["optional-dependencies"].values() for r in extra)]
    versions = pinned()
    for requirement in map(Requirement, wanted):
        if requirement.name == "xgboost":  # the constraints take xgboost-cpu in its place
            assert "xgboost" not in versions
            continue
        if requirement.name == "torch":  # which build is right, the machine decides
            continue
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_users_get_lower_bounds_only() -> None:
    settings = project()["project"]
    wanted = [*settings["dependencies"], *(r for extra in settings["optional-dependencies"].values() for r in extra)]
    assert [r for r in wanted if any(part.operator != ">=" for part in Requirement(r).specifier)] == []


def test_constraints_name_no_address_and_no_torch() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert " @ " not in text
    assert "--" not in text
    assert "torch" not in pinned()


def test_no_file_names_a_machine_path() -> None:
    """Files hold for every machine: no home folder, no place of this checkout."""
    pattern = re.compile(r"(?<![\w.$}])/(home|root|Users|tmp|work)/\w")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in (*PACKAGES, "benchmarks", "docs", "tests", ".ci")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md", ".toml", ".json", ""} and path.is_file()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and path != Path(__file__).resolve()
    ]
    assert found == []


def test_versions_agree() -> None:
    version = project()["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run on quiet machines alone, so a name that moves away would be missed for long."""
    monkeypatch.syspath_prepend(str(path.parent))
    assert callable(runpy.run_path(str(path), run_name="imported")["main"])


@pytest.mark.parametrize("package", [generate, replay])
def test_no_function_hides_a_module_of_its_name(package: ModuleType) -> None:
    modules = {path.name.removesuffix(".py") for folder in package.__path__ for path in Path(folder).iterdir()}
    assert [name for name in modules - {"__init__"} if callable(getattr(package, name, None))] == []
