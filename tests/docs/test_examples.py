"""Every example of the manual and the README works.

They are run page by page in a folder that holds `log`, a small simulated log (unless the page makes its own),
`folder`, the same one unsealed, `policies.toml`, a policy file for it, and the checkout's `data`.

A fenced block with a title is the file of that name. Otherwise `toml` is a policy file, which is replayed;
`python` is executed, the blocks of a page one after the other; in `console`, lines that begin with `$` are run, and
the lines that follow must stand in what is printed (`…` stands for any lines, and an error means exit code 2).
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import replay
from generate.simulation.grid import simulate
from tests.retrieval.makers import FOUR_ROUNDS, rounds_tables
from thinkback.app import app
from toolkit.imports.formats.format import FORMATS
from toolkit.log import write_log

ROOT = Path(__file__).resolve().parents[2]
OF_NOTEBOOKS = "<!-- made of notebooks/"
"""How the pages of notebooks begin; tests/notebooks runs these."""
LONGEST = {
    "buzz-study.md", "cli.md", "cookbook.md", "dashboard.md", "factcheck.md", "latent-study.md", "multihop-study.md",
    "policies.md",
    "python.md", "reading.md", "results.md", "thinking-again.md", "your-file.md", "your-policies.md",
}  # fmt: skip
"""Pages whose examples take more than three seconds of the ten minutes that the quick tests have, but the README."""
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if not path.read_text(encoding="utf-8").startswith(OF_NOTEBOOKS)
]
FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
MAKES_LOG = re.compile(r"^\$ thinkback .* --out log$", re.MULTILINE)
WIDTHS = {"cookbook.md": "80"}
"""Columns of the terminal on which a page's commands print, where not 140."""
ELSEWHERE = ("pip", "git", "python", "cd")  # commands that set up a machine: not run by a test


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    line: int
    language: str
    title: str | None
    text: str


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, rest, body = match.groups()
        title = re.search(r'title="([^"]+)"', rest)
        body = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(line, language, title.group(1) if title else None, body))
    return found


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples may use."""
    folder = tmp_path_factory.mktemp("manual")
    simulate(folder / "log", examples=60, traces=16, labels=3, seed=7)
    write_log(folder / "rounds", name="rounds", tables=rounds_tables(FOUR_ROUNDS, {"q": ["d4", "d5"]}))
    shutil.copytree(folder / "log", folder / "folder", ignore=shutil.ignore_patterns("manifest.json"))
    shutil.copy(ROOT / "docs" / "examples" / "policies.toml", folder / "policies.toml")
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    (folder / "data").symlink_to(ROOT / "data")
    return folder


@pytest.fixture
def here(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working directory with a copy of it."""
    shutil.copytree(pristine, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


def run_console(block: Block, where: str) -> None:
    """Run the commands of a block and compare what they print with what the manual shows."""
    for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        words = shlex.split(command)
        if words[0] == "thinkback":
            words, file = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
            done = CliRunner().invoke(app, words[1:])
            if file is not None:
                Path(file).write_text(done.stdout, encoding="utf-8")
            printed, fails = done.output, "error" in shown.lower().split(":")[0]
            assert done.exit_code == (2 if fails else 0), f"{where}: {command}\n{printed}\n{done.exception!r}"
        elif words[0] == "make":
            plan = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
            assert plan.returncode == 0, f"{where}: {command}\n{plan.stderr}"
            continue
        else:
            assert words[0] in ELSEWHERE, f"{where}: `{words[0]}` is not a command that this test knows"
            continue
        flat = " ".join(printed.split())
        for line in shown.splitlines():
            if line.strip() not in ("", "…"):
                assert " ".join(line.split()) in flat, f"{where}: {command}\nlacks {line!r} in\n{printed}"


def run_policies(block: Block) -> None:
    """Replay a policy file of the manual on the small log, or on the one of rounds."""
    Path("_policies.toml").write_text(block.text, encoding="utf-8")
    log = "rounds" if 'kind = "retrieve"' in block.text else "log"
    result = replay.run(log, "_policies.toml", resamples=200)
    named = {policy["name"] for policy in tomllib.loads(block.text)["policy"]}
    assert {name.partition("[")[0] for name in result.outcomes.collect()["policy"].unique()} == named


@pytest.mark.parametrize(
    "path", [pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in LONGEST)) for page in PAGES]
)
def test_examples_work(path: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("manual_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up by name
    monkeypatch.setenv("COLUMNS", WIDTHS.get(path.name, "140"))
    if any(MAKES_LOG.search(block.text) for block in blocks(path) if block.language == "console"):
        shutil.rmtree("log")
    for block in blocks(path):
        where = f"{path.name}:{block.line}"
        if block.title is not None:
            (here / block.title).parent.mkdir(parents=True, exist_ok=True)
            (here / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(path), "exec"), module.__dict__)
        elif block.language == "console":
            run_console(block, where)
        elif block.language == "toml":
            run_policies(block)
        else:
            assert block.language in ("text", "json"), f"{where}: a `{block.language}` block that no test runs"


@pytest.mark.parametrize("name", list(FORMATS))
def test_each_format_has_a_sample_and_its_command(name: str) -> None:
    page = "your-file.md" if name == "lm-eval" else f"import-{name}.md"  # lm-eval's page names the other
    found = blocks(ROOT / "docs" / page)
    assert any(block.title is not None or "write_parquet" in block.text for block in found)
    commands = [block.text for block in found if block.language == "console"]
    assert any(f"$ thinkback import {word} " in text for text in commands for word in (name, "auto"))


def test_blocks_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('a\n\n```toml title="x.toml"\na = 1\n```\n\n  ```python\n  b\n  ```\n', encoding="utf-8")
    assert blocks(page) == [Block(4, "toml", "x.toml", "a = 1\n"), Block(8, "python", None, "b\n")]
