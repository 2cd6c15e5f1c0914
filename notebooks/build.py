"""Runs the notebooks from their sources, each from an empty kernel: `make notebooks`.

Each source becomes a notebook with its outputs beside it, and a page of the manual with its pictures. Below the title
stand the finding and the picture of the cells tagged `finding`. Where a picture is lost nothing is written. With
`--check` nothing is written either: it is said where what is stored is not what a run gives. Pictures are counted, not
compared.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PICTURES = "notebooks"
NOTEBOOKS = (
    "first_ten_minutes",
    "fact_checking",
    "think_again",
    "latent_verifiers",
    "retrieval",
    "unfolding_text",
    "trust_the_numbers",
)
MARK = "<!-- made of notebooks/{name}.py by `make notebooks` -->"
LIMIT_S = 600
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
INLINE = "module://matplotlib_inline.backend_inline"
FINDING, OPENING = "finding", "opening"
"""The tag of the cells whose outputs open a notebook; the id of the cell that holds them."""
METADATA = {"kernelspec": KERNEL, "language_info": {"name": "python"}}


@dataclass(frozen=True)
class Page:
    """A notebook as a page of the manual, and its pictures by their paths below docs/."""

    text: str
    pictures: Mapping[str, bytes]


def source(name: str) -> nbformat.NotebookNode:
    """The notebook of a source, without outputs; equal sources make equal notebooks."""
    made = jupytext.reads((HERE / f"{name}.py").read_text(encoding="utf-8"), fmt="py:percent")
    made.metadata = nbformat.from_dict(METADATA)
    made.nbformat, made.nbformat_minor = 4, 5
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
    return made


def stored(name: str) -> nbformat.NotebookNode:
    """The notebook that is there, with its outputs."""
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def run(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Execute a notebook in its folder, in a kernel of its own, and keep what stays on the screen."""
    with tempfile.TemporaryDirectory() as own:  # nothing of the user's is read, nothing is left
        os.environ |= {"IPYTHONDIR": own, "JUPYTER_RUNTIME_DIR": own, "MPLBACKEND": INLINE}
        NotebookClient(
            notebook,
            kernel_name=KERNEL["name"],
            timeout=LIMIT_S,
            resources={"metadata": {"path": str(HERE)}},
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
        ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)  # a kernel adds its version
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _gone(output)]
            for output in cell.outputs:
                if len(output.get("data", {})) > 1:  # what has a better form needs no `repr`, which may hold a path
                    del output.data["text/plain"]
    return notebook


def with_opening(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """The notebook with a cell below its title: the first text and the first picture of the cells tagged `finding`.

    ValueError where either is missing.
    """
    outputs = [
        output.get("data", {})
        for cell in notebook.cells
        if FINDING in cell.metadata.get("tags", [])
        for output in cell.outputs
    ]
    texts = [data["text/markdown"] for data in outputs if "text/markdown" in data]
    images = [data["image/png"] for data in outputs if "image/png" in data]
    if not texts or not images:
        raise ValueError(f"{name}: its cells tagged `{FINDING}` give no {'picture' if texts else 'text'}")
    opening = nbformat.v4.new_markdown_cell(f"{texts[0]}\n\n![The finding](attachment:{OPENING}.png)", id=OPENING)
    opening.attachments = {f"{OPENING}.png": {"image/png": images[0]}}
    notebook.cells.insert(1, opening)
    return notebook


def lost_pictures(before: nbformat.NotebookNode, after: nbformat.NotebookNode) -> list[str]:
    """The last lines of cells that have fewer pictures than they had with the same source, or none for `plt.show()`."""
    had = {cell.source: _picture_count(cell) for cell in before.cells}
    return [
        cell.source.splitlines()[-1]
        for cell in after.cells
        if _picture_count(cell) < max(had.get(cell.source, 0), int("plt.show()" in cell.source))
    ]


def _picture_count(cell: nbformat.NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def _gone(output: nbformat.NotebookNode) -> bool:
    """Whether a bar was there and has gone."""
    return "data" in output and not any(output.data.values())


def seen(notebook: nbformat.NotebookNode) -> list[str]:
    """What a notebook says: its sources and its outputs in text, and where pictures are."""
    told = []
    for cell in notebook.cells:
        told.append(f"{cell.cell_type} {cell.metadata.get('tags', [])}\n{cell.source}")
        for output in cell.get("outputs", []):
            told += [f"{kind}\n{text}" for kind, text in sorted(_texts(output))]
    return told


def _texts(output: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if output["output_type"] == "stream":
        yield output["name"], output["text"]
    elif output["output_type"] == "error":
        yield "error", "\n".join(output["traceback"])
    for kind, content in output.get("data", {}).items():
        yield kind, "a picture" if kind.startswith("image/") else content


def page(notebook: nbformat.NotebookNode, name: str) -> Page:
    """The page of the manual: prose, code and outputs; links into the manual stay within it."""
    slug, pictures = name.replace("_", "-"), dict[str, bytes]()
    parts, heading = [MARK.format(name=name)], name
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = _linked(cell.source)
            for file, forms in cell.get("attachments", {}).items():
                path = f"{PICTURES}/{slug}-{len(pictures) + 1}.png"
                pictures[path] = b64decode(forms["image/png"])
                prose = prose.replace(f"attachment:{file}", path)
            parts.append(prose)
            heading = ([heading, *re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)])[-1]
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            shown = dict(_texts(output))
            if "image/png" in shown:
                image = b64decode(output["data"]["image/png"])
                known = (path for path, data in pictures.items() if data == image)  # that of the opening
                path = next(known, f"{PICTURES}/{slug}-{len(pictures) + 1}.png")
                pictures[path] = image
                parts.append(f"![{heading}]({path})")
            elif "text/markdown" in shown:
                parts.append(shown["text/markdown"])
            elif "text/html" in shown:
                parts.append(shown["text/html"])
            else:
                parts.append("```text\n" + "\n".join(shown.values()).rstrip() + "\n```")
    return Page("\n\n".join(parts) + "\n", pictures)


def _linked(prose: str) -> str:
    """Prose whose links lead to pages of the manual."""
    within = prose.replace("](../docs/", "](")
    return re.sub(r"\]\((\w+)\.ipynb\)", lambda found: f"]({page_path(found[1]).name})", within)


def page_path(name: str) -> Path:
    """Where the page of a notebook is."""
    return DOCS / f"notebook-{name.replace('_', '-')}.md"


def write(name: str) -> None:
    """Run a source, and write its notebook, its page and its pictures. ValueError, and nothing is written, where a
    picture is lost.
    """
    made = run(source(name))
    lost = lost_pictures(stored(name) if (HERE / f"{name}.ipynb").exists() else source(name), made)
    if lost:
        raise ValueError(f"{name}: no picture below {', '.join(f'`{line}`' for line in lost)}")
    made = with_opening(made, name)
    nbformat.write(made, HERE / f"{name}.ipynb")
    told = page(made, name)
    page_path(name).write_text(told.text, encoding="utf-8")
    (DOCS / PICTURES).mkdir(exist_ok=True)
    for old in (DOCS / PICTURES).glob(f"{name.replace('_', '-')}-*.png"):
        old.unlink()
    for path, data in told.pictures.items():
        (DOCS / path).write_bytes(data)


def drift(name: str) -> str:
    """How the first text of a run that is not as it is stored differs from it, line by line; nothing where all are."""
    made = with_opening(run(source(name)), name)
    for old, new in zip_longest(seen(stored(name)), seen(made), fillvalue=""):
        if old != new:
            return "\n".join(unified_diff(_lines(old), _lines(new), "stored", "a run", lineterm="", n=1))
    return ""


def _lines(text: str) -> list[str]:
    """A text's lines, of a table those of its cells."""
    return re.sub(r"(</t[dh]>)", r"\1\n", text).splitlines()


def main() -> int:
    """Write the notebooks that are named, or say what is not as a run gives it; by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", default=NOTEBOOKS)
    asked = parser.parse_args()
    try:
        for name in asked.names:
            if not asked.check:
                write(name)
            elif differing := drift(name):
                print(f"{name}: run `make notebooks`\n{differing}", file=sys.stderr)
                return 1
    except ValueError as lost:
        print(lost, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
