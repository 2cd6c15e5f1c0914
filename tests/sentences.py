"""Every sentence that stands in the four packages, in one file: `make sentences` writes it, so that its diff shows what
changed in words.

A line is a module, and a text of three words or more with `{…}` where a value stands. Docstrings are aside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house import PACKAGES, ROOT, parsed

GOLDEN = Path(__file__).with_name("sentences.txt")
WORDS = 3


def template(node: ast.expr) -> str | None:
    """A text as it stands in the source, with what is filled in; None where it is no literal."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part) or "" for part in parts)
        case ast.FormattedValue():
            return "{…}"
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            texts = template(first), template(second)
            return None if None in texts else "".join(text or "" for text in texts)
    return None


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts below a node, the outermost of each, without docstrings and the strings that explain a constant."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        text = template(child) if isinstance(child, ast.expr) else None
        if text is None:
            yield from _texts(child)
        elif len(text.split()) >= WORDS:
            yield " ".join(text.split())


def sentences() -> str:
    """The file as it should be."""
    lines = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            lines += [f"{module}  {text}" for text in _texts(parsed(path.read_text(encoding="utf-8")))]
    return "\n".join(sorted(set(lines))) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(sentences(), encoding="utf-8")
