"""Draws texts and names of the program for a reader who has not seen the code: `python -m tests.draw SEED OUT`.

Twenty sentences and twenty docstrings stand in `OUT/texts.txt`, to be paraphrased, and forty names in `OUT/names.txt`,
to be explained: each with its module and as its definition begins, with parameters or fields and their types, since
nobody meets a name without them. `OUT/key.txt` has where each stands and the docstring that says what a name means.
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

from tests.house import DEFINITIONS, PACKAGES, ROOT, parsed
from tests.sentences import sentences

HALF = 20
WORDS = 6
"""The shortest sentence: labels and headings say nothing by themselves."""


def definition_line(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """How a definition begins: a function with its parameters and what it returns, a class with its fields."""
    if isinstance(node, ast.ClassDef):
        fields = (ast.unparse(one).split(" = ")[0] for one in node.body if isinstance(one, ast.AnnAssign))
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))}) {'; '.join(fields)}".rstrip()
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def documented() -> dict[str, tuple[str, str]]:
    """Place of a function, class or method, with colons before names -> its docstring and its definition in a line;
    those without a docstring are left out.
    """
    docstrings: dict[str, tuple[str, str]] = {}

    def visit(tree: ast.AST, place: str) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, DEFINITIONS):
                if text := ast.get_docstring(node):
                    docstrings[f"{place}:{node.name}"] = " ".join(text.split()), definition_line(node)
                if isinstance(node, ast.ClassDef):
                    visit(node, f"{place}:{node.name}")

    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            visit(parsed(path.read_text(encoding="utf-8")), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    return docstrings


def main(seed: int, out: Path) -> None:
    """Write the three files of a draw."""
    rng, places = random.Random(seed), documented()
    lines = [tuple(line.split("  ", 1)) for line in sentences().splitlines()]
    texts = rng.sample([one for one in lines if len(one[1].split()) >= WORDS], HALF)
    texts += [(place, places[place][0]) for place in rng.sample(sorted(places), HALF)]
    names = rng.sample(sorted(places), 2 * HALF)
    numbered = [f"{number}. {text}" for number, (_, text) in enumerate(texts, 1)]
    key = [f"text {number}. {place}" for number, (place, _) in enumerate(texts, 1)]
    key += [f"name {number}. {place}: {places[place][0]}" for number, place in enumerate(names, 1)]
    out.mkdir(parents=True, exist_ok=True)
    for name, written in {"texts": numbered, "key": key}.items():
        (out / f"{name}.txt").write_text(f"seed {seed}\n" + "\n".join(written) + "\n", encoding="utf-8")
    listed = "\n".join(f"{number}. {name}\n    {places[name][1]}" for number, name in enumerate(names, 1))
    (out / "names.txt").write_text(f"seed {seed}\n{listed}\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
