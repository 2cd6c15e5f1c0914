"""Which tests compare a sentence of the program: `python -m tests.wording` prints them.

A test compares a sentence where a text of its asserts, of `match=`, of its loops or of its parameters has three words
in a row that stand in one sentence of `tests/sentences.txt`. Aside are the names of cases (`ids`, keys of their
tables), reasons to skip and what an assert says when it fails. Some of the other texts are inputs that share words.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.house import ROOT, parsed
from tests.sentences import GOLDEN, template


def phrases(text: str) -> Iterator[tuple[str, ...]]:
    """Three words in a row, in small letters; whatever else stands between them parts them."""
    words = re.findall(r"[a-z][a-z'’-]*|[^a-z\s]+", text.lower())
    for three in zip(words, words[1:], words[2:], strict=False):
        if all(word[0].isalpha() for word in three):
            yield three


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Each file of tests by its path below the repository, with its syntax tree."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        yield path.relative_to(ROOT).as_posix(), parsed(path.read_text(encoding="utf-8"))


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The test functions of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def _texts(test: ast.FunctionDef, tables: dict[str, ast.AST]) -> Iterator[str]:
    places: list[ast.AST] = []
    for one in test.decorator_list:
        places += [
            one,
            *(tables[node.id] for node in ast.walk(one) if isinstance(node, ast.Name) and node.id in tables),
        ]
    for node in ast.walk(test):
        match node:
            case ast.Assert(test=value):
                places.append(value)
            case ast.keyword(arg="match", value=value) | ast.For(iter=value):
                places.append(value)
    names = {id(node) for place in places for node in _names_of_cases(place)}
    for place in places:
        nodes = (node for node in ast.walk(place) if isinstance(node, ast.expr) and id(node) not in names)
        yield from (text for node in nodes if (text := template(node)))


def _names_of_cases(place: ast.AST) -> Iterator[ast.AST]:
    """The nodes that name a case or say why one is skipped."""
    if isinstance(place, ast.Assign | ast.AnnAssign) and isinstance(place.value, ast.Dict):
        yield from place.value.keys
    for node in ast.walk(place):
        if isinstance(node, ast.keyword) and node.arg in ("id", "ids", "reason"):
            yield from ast.walk(node.value)


def comparing_tests() -> set[str]:
    """The test functions that do, as `FILE::NAME`."""
    golden = {
        three for line in GOLDEN.read_text(encoding="utf-8").splitlines() for three in phrases(line[line.find("  ") :])
    }
    tests = set[str]()
    for path, tree in modules():
        tables: dict[str, ast.AST] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                name = node.targets[0] if isinstance(node, ast.Assign) else node.target
                tables[ast.unparse(name)] = node
        tests |= {
            f"{path}::{test.name}"
            for test in functions_of(tree)
            if any(three in golden for text in _texts(test, tables) for three in phrases(text))
        }
    return tests


def sentences_of_match() -> Counter[str]:
    """How many `match=` of each file are a phrase: two words with a blank between them."""
    counts: Counter[str] = Counter()
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("raises", "warns"):
                given = [one.value for one in node.keywords if one.arg == "match"]
                counts[path] += sum((text := template(one)) is None or " " in text for one in given)
    return +counts


def main() -> None:
    """Print these tests, and how many there are."""
    tests = comparing_tests()
    print(*sorted(tests), sep="\n")
    total = sum(sum(1 for _ in functions_of(tree)) for _, tree in modules())
    print(f"{len(tests):,} of {total:,} test functions compare a sentence")


if __name__ == "__main__":
    main()
