"""Draws texts and names of the program for a reader who has not seen the code: `python -m tests.draw SEED OUT`.

Twenty sentences and twenty docstrings stand in `OUT/texts.txt`, to be paraphrased, and forty names with their modules
in `OUT/names.txt`, to be explained. `OUT/key.txt` has where each stands and the docstring that says what a name means.
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


def documented() -> dict[str, str]:
    """Place of a function, class or method, with colons before names -> its docstring; others are left out."""
    docstrings: dict[str, str] = {}

    def visit(tree: ast.AST, place: str) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, DEFINITIONS):
                if text := ast.get_docstring(node):
                    docstrings[f"{place}:{node.name}"] = " ".join(text.split())
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
    texts += rng.sample(sorted(places.items()), HALF)
    names = rng.sample(sorted(places), 2 * HALF)
    numbered = [f"{number}. {text}" for number, (_, text) in enumerate(texts, 1)]
    key = [f"text {number}. {place}" for number, (place, _) in enumerate(texts, 1)]
    key += [f"name {number}. {place}: {places[place]}" for number, place in enumerate(names, 1)]
    out.mkdir(parents=True, exist_ok=True)
    for name, written in {"texts": numbered, "key": key}.items():
        (out / f"{name}.txt").write_text(f"seed {seed}\n" + "\n".join(written) + "\n", encoding="utf-8")
    listed = "\n".join(f"{number}. {name}" for number, name in enumerate(names, 1))
    (out / "names.txt").write_text(f"seed {seed}\n{listed}\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
