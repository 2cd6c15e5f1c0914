"""Which tests compare a sentence of the program: `python -m tests.wording` prints them.

A test compares a sentence where a text of its asserts, of `match=`, of its loops or of its parameters has three words
in a row that stand in one sentence of `tests/sentences.txt`. Aside are the names of cases (`ids`, keys of their
tables), reasons to skip and what an assert says when it fails. Some of the other texts are inputs that share words.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

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
    for path in sorted({*(ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests/test_wording.py"}):
        yield path.relative_to(ROOT).as_posix(), parsed(path.read_text(encoding="utf-8"))


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The test functions of a file."""
    for node in (node for one in tree.body for node in (one, *(one.body if isinstance(one, ast.ClassDef) else ()))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


@dataclass(frozen=True)
class _Module:
    """What the names of a file of tests stand for: its constants, and its functions that are no tests."""

    constants: dict[str, ast.expr]
    functions: dict[str, ast.FunctionDef]


CHECKS = ("refuses", "quotes", "noted", "says", "remarked", "file_notes")
"""The functions of tests/errors.py, whose arguments are what a test asks for."""
TEXTS = ast.Constant | ast.JoinedStr | ast.BinOp
"""What a text is written as."""


def _bindings(body: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Name -> what is assigned to it last; of a name in a loop what is gone through."""
    bound: dict[str, ast.expr] = {}
    for node in body:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.For(target=target, iter=value):
                bound |= {one.id: value for one in ast.walk(target) if isinstance(one, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                bound[name] = value
    return bound


@cache
def _module(tree: ast.Module) -> _Module:
    """The file's own constants and functions, and those that it has from other files of tests."""
    constants, functions = {}, {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tests.") and node.module != "tests.errors":
            path = (ROOT / str(node.module).replace(".", "/")).with_suffix(".py")
            names = {one.name for one in node.names}
            if path.exists():
                other = _module(parsed(path.read_text(encoding="utf-8")))
                constants |= {name: value for name, value in other.constants.items() if name in names}
                functions |= {name: value for name, value in other.functions.items() if name in names}
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
            functions[node.name] = node
    return _Module(constants | _bindings(tree.body), functions)


@cache
def _nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(node))


@cache
def _places(function: ast.FunctionDef) -> tuple[ast.AST, ...]:
    """What a function compares with: its asserts, arguments of checks, patterns, and what its loops go through."""
    places: list[ast.AST] = []
    for node in _nodes(function):
        match node:
            case ast.Assert(test=value) | ast.keyword(arg="match", value=value) | ast.For(iter=value):
                places.append(value)
            case ast.Call(func=ast.Name(id=name), args=args) if name in CHECKS:
                places += args
    return tuple(places)


def _literal(node: ast.expr) -> bool:
    """Whether an expression is a text or texts as they stand; of other calls the arguments may be inputs."""
    match node:
        case ast.Call(func=ast.Attribute(attr="join" | "format", value=value)):
            return _literal(value)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(map(_literal, items))
        case ast.Dict(values=items):
            return any(map(_literal, items))
        case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item) | ast.DictComp(value=item):
            return _literal(item)
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(left=first, right=second):
            return _literal(first) or _literal(second)
        case ast.Subscript(value=value):
            return _literal(value)
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.Name)


def _texts(test: ast.FunctionDef, module: _Module) -> Iterator[str]:
    """The texts that a test compares with, where they stand and behind names: of the function, of its file, of a
    parameter of a function that compares it.
    """
    places, seen = [*_places(test)], set[ast.AST]()
    bound = module.constants | _bindings(_nodes(test))
    tables = [module.constants[name] for one in test.decorator_list for name in _loaded(one) & module.constants.keys()]
    places += [*test.decorator_list, *tables]
    for node in _nodes(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in module.functions:
            places += _compared_arguments(node, module.functions[node.func.id])
    while new := [one for one in places if one not in seen]:
        seen |= {*new}
        names = {name for one in new for name in _loaded(one)}
        places += [bound[name] for name in sorted(names & bound.keys()) if _literal(bound[name])]
    cases = {id(node) for place in places for node in _names_of_cases(place)}
    cases |= {id(key) for table in tables if isinstance(table, ast.Dict) for key in table.keys}
    for place in places:
        nodes = (node for node in _nodes(place) if isinstance(node, TEXTS) and id(node) not in cases)
        yield from (text for node in nodes if (text := template(node)))


def _loaded(place: ast.AST) -> set[str]:
    return {node.id for node in _nodes(place) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _compared_arguments(call: ast.Call, function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function compares with, and the arguments of a call of it that it compares."""
    compared = [*_places(function)]
    yield from compared
    names = {name for place in compared for name in _loaded(place)}
    parameters = [one.arg for one in function.args.args]
    for place, value in enumerate(call.args):
        rest = function.args.vararg.arg if function.args.vararg else ""
        if (parameters[place] if place < len(parameters) else rest) in names:
            yield value
    yield from (one.value for one in call.keywords if one.arg in names)


def _names_of_cases(place: ast.AST) -> Iterator[ast.AST]:
    """The nodes that name a case or say why one is skipped."""
    for node in _nodes(place):
        if isinstance(node, ast.keyword) and node.arg in ("id", "ids", "reason"):
            yield from _nodes(node.value)


def comparing_tests() -> set[str]:
    """The test functions that do, as `FILE::NAME`."""
    golden = {
        three for line in GOLDEN.read_text(encoding="utf-8").splitlines() for three in phrases(line[line.find("  ") :])
    }
    tests = set[str]()
    for path, tree in modules():
        tests |= {
            f"{path}::{test.name}"
            for test in functions_of(tree)
            if any(three in golden for text in _texts(test, _module(tree)) for three in phrases(text))
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


def bare_refusals() -> list[str]:
    """The `refuses` of tests that ask for the code alone, as `FILE:LINE`."""
    return [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refuses"
        if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
    ]


def main() -> None:
    """Print these tests, and how many there are."""
    tests = comparing_tests()
    print(*sorted(tests), sep="\n")
    total = sum(sum(1 for _ in functions_of(tree)) for _, tree in modules())
    print(f"{len(tests):,} of {total:,} test functions compare a sentence")


if __name__ == "__main__":
    main()
