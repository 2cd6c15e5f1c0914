"""Documents: the same findings in Markdown and in LaTeX, whatever the names in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import markdown
import pytest

from tests.show.test_latex import NASTY
from toolkit.show import save_figure, table_of
from toolkit.show.document import Document, PlacedFigure, PlacedTable, Section, as_latex, as_markdown
from toolkit.show.figures.forest import PolicyDifference, forest_figure


def document(name: str) -> Document:
    import polars as pl

    table = table_of(pl.DataFrame({"policy": [name, "b"], "n": [1, 2]}), f"Policies on {name}")
    return Document(
        title=f"Report on {name}",
        lead=(f"Of the log `{name}`.", name),
        sections=(Section(name, (f"`{name}` is [best] *really*.", "[0.1, 0.2] and ` alone", "A < B & C")),),
        tables=(PlacedTable("tables/policies", table),),
        figures=(PlacedFigure("figures/forest", f"Differences to {name}"),),
    )


def assert_sound(text: str) -> None:
    """Environments and braces are balanced, and every sign is one that LaTeX sets as it is."""
    open_ones: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        if kind == "begin":
            open_ones.append(name)
        else:
            assert open_ones.pop() == name
    assert open_ones == []
    assert text.count(r"\begin{document}") == 1
    bare = re.sub(r"\\[\\{}%&$#_]", "", text)
    depth = 0
    for line in bare.splitlines():
        line = line.partition("%")[0]  # a comment
        for sign in line:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            assert depth >= 0, line
        assert line.count("$") % 2 == 0, line
    assert depth == 0
    cells = re.sub(r"\\begin\{tabular\}.*?\\end\{tabular\}", "", bare, flags=re.DOTALL)
    assert not re.search(r"[&#^]", cells)
    assert re.search(r"[^\x00-\u017f]", text) is None


@pytest.mark.parametrize("name", ["plain", NASTY, "a" * 200, "[1]", "*starred*", "{open", r"\input{x}", "50 % $5"])
def test_no_name_is_a_command(name: str) -> None:
    made = document(name)
    text = as_latex(made)
    assert_sound(text)
    assert r"\input{" not in text
    page = markdown.markdown(as_markdown(made), extensions=["tables"])
    assert "<em>" not in page.replace("<em>Differences", "").replace("<p><em>", "")
    assert "<script" not in markdown.markdown(as_markdown(document("<script>")))


def test_names_in_backticks_are_code_and_other_signs_are_text() -> None:
    made = Document("t", ("`a_b*c*` beats *d* by_x_.",), ())
    page = markdown.markdown(as_markdown(made))
    assert "<code>a_b*c*</code> beats *d* by_x_." in page


@pytest.mark.slow
def test_latex_compiles(tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex is installed, so nothing is compiled; its structure is checked by the other tests")
    made = document(NASTY)
    (tmp_path / "figures").mkdir()
    save_figure(
        forest_figure([PolicyDifference("a", 0.1, 0.0, 0.2)], baseline="b"), tmp_path / "figures" / "forest.pdf"
    )
    (tmp_path / "report.tex").write_text(as_latex(made), encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
