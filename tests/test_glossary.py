"""Names keep to the glossary: its second table has the words that none may have."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house import PACKAGES, ROOT

GLOSSARY = ROOT / "GLOSSARY.md"
EXCEPTIONS = Path(__file__).with_name("glossary_exceptions.txt")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def avoided() -> dict[str, str]:
    """Avoided word -> the better ones."""
    text = GLOSSARY.read_text(encoding="utf-8").partition("## Words that names avoid")[2]
    rows = re.findall(r"^\| ([a-z_, ]+) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return {word.strip(): better for words, better in rows if words != "avoid" for word in words.split(",")}


def names(tree: ast.AST, place: str = "") -> Iterator[tuple[str, str]]:
    """The names that a tree binds, each with the function or class that it is bound in."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield place, name
                yield from names(node, f"{place}.{name}".removeprefix("."))
                continue
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield place, name
        yield from names(node, place)


def words(name: str) -> set[str]:
    """The words of a name, singular, and pairs of neighbours; `not found` is the code of an error."""
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("not_found", ""))
    return {*parts, *(part.removesuffix("s") for part in parts), *map("_".join, itertools.pairwise(parts))}


def dialect() -> Iterator[str]:
    """Each name with an avoided word, as a line of the exceptions."""
    avoid = avoided()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for place, name in dict.fromkeys(names(tree)):
                if words(name) & avoid.keys():
                    yield f"{path.relative_to(ROOT)} {place} {name}".replace("  ", " ")


def test_names_keep_to_the_glossary() -> None:
    known, avoid = set(EXCEPTIONS.read_text(encoding="utf-8").splitlines()), avoided()
    new = [
        f"{line}: write {', '.join(avoid[word] for word in words(line.split()[-1]) & avoid.keys())}"
        for line in dialect()
        if line not in known
    ]
    assert new == []


def test_the_exceptions_only_shrink() -> None:
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    assert sorted(set(lines) - set(dialect())) == [], "these are mended: take them out of the list"


def test_the_table_is_read() -> None:
    assert avoided()["told"] == avoided()["said"]
    assert words("_given_upRows") >= {"given_up", "row", "rows"}
