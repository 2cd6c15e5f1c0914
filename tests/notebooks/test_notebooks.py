"""The notebooks are what their sources give, their prose states nothing by hand, and their pages are theirs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for needed in ("jupytext", "nbclient", "nbformat", "ipykernel"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: pip install '.[notebooks]'")

import nbformat  # noqa: E402

from notebooks import build  # noqa: E402
from notebooks.build import (  # noqa: E402
    DOCS,
    MARK,
    NOTEBOOKS,
    OPENING,
    PICTURES,
    lost_pictures,
    page,
    page_path,
    seen,
    source,
    stored,
    with_opening,
)

FIRST, *OTHERS = NOTEBOOKS
ELSEWHERE = re.compile(r"(?<![\w.$}])/(?:home|root|Users|tmp|work)/|https?://|\d\d:\d\d:\d\d")
"""What would be of one machine or of one moment."""


def test_every_source_is_a_notebook() -> None:
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.py")) == sorted([*NOTEBOOKS, "build"])
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_of_its_source(name: str) -> None:
    there, wanted = stored(name), source(name)
    assert [(cell.cell_type, cell.source) for cell in there.cells if cell.id != OPENING] == [
        (cell.cell_type, cell.source) for cell in wanted.cells
    ], "run `make notebooks`"
    assert there.metadata == wanted.metadata


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_prose_states_no_number_by_hand(name: str) -> None:
    for cell in source(name).cells:
        if cell.cell_type == "markdown":
            assert re.findall(r"\d+", re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell.source)) == []
            continue
        for call in ast.walk(ast.parse(cell.source)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Markdown":
                assert [part for part in _words(call) if re.search(r"\d", re.sub(r"`[^`]*`", "", part))] == []


def _words(call: ast.Call) -> list[str]:
    """Texts of what is told that stand in the source as they are; what braces compute is not among them."""
    computed = {id(part) for one in ast.walk(call) if isinstance(one, ast.FormattedValue) for part in ast.walk(one)}
    return [
        one.value
        for one in ast.walk(call)
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in computed
    ]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_is_stored_is_small_and_of_no_machine(name: str) -> None:
    notebook = stored(name)
    assert (ROOT / "notebooks" / f"{name}.ipynb").stat().st_size < 600_000
    told = seen(notebook)
    assert [text for text in told if ELSEWHERE.search(text)] == []
    assert [text for text in told if text.startswith("stderr")] == []
    shown = [
        cell for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert shown, "no figure"
    assert all(sum("image/png" in one.get("data", {}) for one in cell.outputs) == 1 for cell in shown)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_errors_are_one_line(name: str) -> None:
    errors = [one for cell in stored(name).cells for one in cell.get("outputs", []) if one.output_type == "error"]
    assert all(len(one.traceback) == 1 and re.match(r"\w+Error: ", one.traceback[0]) for one in errors)
    assert bool(errors) == (name == FIRST)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_page_is_of_the_notebook(name: str) -> None:
    made = page(stored(name), name)
    assert page_path(name).read_text(encoding="utf-8") == made.text, "run `make notebooks`"
    assert made.text.startswith(MARK.format(name=name))
    slug = name.replace("_", "-")
    there = {f"{PICTURES}/{path.name}": path.read_bytes() for path in (DOCS / PICTURES).glob(f"{slug}-*.png")}
    assert there == made.pictures


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_opens_with_its_finding_and_its_picture(name: str) -> None:
    cells = stored(name).cells
    assert cells[0].source.startswith("# ")
    assert cells[1].id == OPENING
    assert cells[1].source.startswith("**Finding.**")
    assert len([cell for cell in source(name).cells if "**Finding.**" in cell.source]) == 1
    [picture] = cells[1].attachments.values()
    assert picture["image/png"] in [
        output.data["image/png"]
        for cell in cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert page(stored(name), name).text.index("![The finding](notebooks/") < 3000


def _notebook(*sources: str) -> nbformat.NotebookNode:
    tags = {"tags": ["finding"]}
    cells = [
        nbformat.v4.new_markdown_cell("# Title"),
        *(nbformat.v4.new_code_cell(one, metadata=tags) for one in sources),
    ]
    return nbformat.v4.new_notebook(cells=cells)


DRAWS = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


def test_a_picture_is_drawn_whatever_backend_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    made = build.run(_notebook(DRAWS, "from IPython.display import Markdown\nMarkdown('**Finding.** Up.')"))
    assert lost_pictures(_notebook(DRAWS), made) == []
    opened = with_opening(made, "some")
    assert opened.cells[1].source == "**Finding.** Up.\n\n![The finding](attachment:opening.png)"
    told = page(opened, "some")
    assert len(told.pictures) == 1  # which stands twice
    assert told.text.count("(notebooks/some-1.png)") == 2


def test_where_a_picture_is_lost_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    without = stored(FIRST)
    del without.cells[1]
    drew = next(cell for cell in without.cells if "frontier()" in cell.source)
    drew.outputs = []
    assert lost_pictures(stored(FIRST), without) == ["result.frontier()"]
    assert lost_pictures(_notebook(), _notebook(DRAWS)) == ["plt.show()"]
    monkeypatch.setattr(build, "run", lambda _: without)
    monkeypatch.setattr(sys, "argv", ["build", FIRST])
    before = page_path(FIRST).read_bytes()
    assert build.main() == 1
    assert "`result.frontier()`" in capsys.readouterr().err
    assert page_path(FIRST).read_bytes() == before
    with pytest.raises(ValueError, match="picture"):
        with_opening(without, FIRST)


def _check(name: str) -> None:
    """From an empty kernel, in a process of its own: warnings of Jupyter's are not ours."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "notebooks.build", "--check", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_drift_is_told_by_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "with_opening", lambda made, _: made)
    monkeypatch.setattr(build, "run", lambda _: stored(FIRST))
    assert build.drift(FIRST) == ""
    other = stored(FIRST)
    [table] = [one for cell in other.cells for one in cell.get("outputs", []) if "lead 3" in str(one.get("data"))]
    table.data["text/html"] = table.data["text/html"].replace("<td>lead 3</td>", "<td>lead 4</td>")
    monkeypatch.setattr(build, "run", lambda _: other)
    told = build.drift(FIRST).splitlines()
    [old, new] = [line for line in told[3:] if line[0] in "+-"]
    assert old.endswith("<td>lead 3</td>")
    assert new.endswith("<td>lead 4</td>")


@pytest.mark.slow
def test_the_first_gives_what_is_stored() -> None:
    _check(FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_the_others_give_what_is_stored(name: str) -> None:
    _check(name)
