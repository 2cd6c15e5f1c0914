"""Names keep to the glossary: its second table has the words that none may have."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from tests.house import PACKAGES, ROOT, parsed

GLOSSARY = ROOT / "GLOSSARY.md"


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


def test_names_keep_to_the_glossary() -> None:
    avoid, faults = avoided(), []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for place, name in dict.fromkeys(names(parsed(path.read_text(encoding="utf-8")))):
                better = [avoid[word] for word in words(name) & avoid.keys()]
                faults += [f"{path.relative_to(ROOT)} {place} {name}: write {', '.join(better)}"] if better else []
    assert faults == []


def test_the_table_is_read() -> None:
    assert avoided()["told"] == avoided()["said"]
    assert words("_given_upRows") >= {"given_up", "row", "rows"}
