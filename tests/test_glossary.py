"""Names keep to the glossary: its second table has the words that none may have."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.draw import documented
from tests.house import DEFINITIONS, PACKAGES, ROOT, parsed
from tests.sentences import SCRIPT

GLOSSARY = ROOT / "GLOSSARY.md"
SCRIPTS = ROOT / "toolkit/show/dashboard/assets"
BOUND = re.compile(
    r"\b(?:const|let|var)\s+([\w$]+|[{\[][^=;]*?[}\]])\s*(?:=|of|in|;|,)|\bfunction\s*([\w$]*)\s*\(([^)]*)\)"
    r"|\bclass\s+([\w$]+)|\(([^()]*)\)\s*=>|([\w$]+)\s*=>|([\w$]+)\s*:(?!:)"
)
"""What binds names in a script: declarations, functions with their parameters, classes, keys."""
VAGUE = {"one": 1065, "known": 377, "others": 117, "drawn": 141, "given": 141, "lacking": 64, "held": 60}
"""Last words of names that say nothing, of the glossary's third table, and how often they still stand in the packages:
fewer lower the number, and nothing raises it.
"""
IN_SCRIPTS, IN_HELPERS = 60, 68
"""How many names of the page's scripts, and of functions and classes that tests use, still have an avoided word."""
PREPOSITIONS = {
    "Of", "In", "On", "With", "From", "For", "By", "To", "As", "At", "Where", "When", "If", "Without", "After",
    "Before", "Below", "Above", "Beside", "Among", "Until", "Through",
}  # fmt: skip
"""What a docstring that has no subject begins with."""


def avoided() -> dict[str, str]:
    """Avoided word -> the better ones."""
    text = GLOSSARY.read_text(encoding="utf-8").partition("## Words that names avoid")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z_, ]+) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return {word.strip(): better for words, better in rows if words != "avoid" for word in words.split(",")}


def names(tree: ast.AST, place: str = "") -> Iterator[tuple[str, str]]:
    """The names that a tree binds, each with the function or class that it is bound in: functions, classes, parameters,
    variables, fields, attributes, and the keywords of calls, which name columns of frames, too.
    """
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield place, name
                yield from names(node, f"{place}.{name}".removeprefix("."))
                continue
            case (
                ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
                | ast.alias(asname=str(name))
                | ast.keyword(arg=str(name))
            ):
                yield place, name
        yield from names(node, place)


def script_names(source: str) -> Iterator[str]:
    """The names that a script binds, without those in its comments and strings."""
    bare = SCRIPT.sub(lambda match: '""' if match.lastgroup else " ", source)
    for match in BOUND.finditer(bare):
        for text in filter(None, match.groups()):
            yield from re.findall(r"[A-Za-z_$][\w$]*", re.sub("=[^,]*", "", text))


def packages_names() -> Iterator[str]:
    """Each name as often as the packages bind it."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from (name for _, name in names(parsed(path.read_text(encoding="utf-8"))))


@functools.cache
def words(name: str) -> set[str]:
    """The words of a name, singular, and pairs of neighbours. `not_found` is aside, as the code of an error is
    `not-found`, which the glossary says.
    """
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("not_found", ""))
    return {*parts, *(part.removesuffix("s") for part in parts), *map("_".join, itertools.pairwise(parts))}


def test_names_keep_to_the_glossary() -> None:
    avoid, faults = avoided(), []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT)
            faults += [f"{file}: the name of a folder or file" for part in file.parts if words(part) & avoid.keys()]
            for place, name in dict.fromkeys(names(parsed(path.read_text(encoding="utf-8")))):
                better = [avoid[word] for word in words(name) & avoid.keys()]
                faults += [f"{file} {place} {name}: write {', '.join(better)}"] if better else []
    assert faults == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(told): pass", "def f(*, told=1): pass", "told = 1", "class A:\n    told: int", "self.told = 1",
        "frame.select(told=1)", "for told in x: pass", "[1 for told in x]", "import x as told", "with x as told: pass",
        "try: x\nexcept E as told: x", "match x:\n    case [told, *rest]: x", "(told := 1)", "lambda told: 1",
    ],
)  # fmt: skip
def test_every_way_to_bind_a_name_is_seen(source: str) -> None:
    assert "told" in {name for _, name in names(ast.parse(source))}


def test_names_of_scripts_and_of_what_tests_use_have_ever_fewer_avoided_words() -> None:
    avoid = avoided().keys()
    scripts = {
        (path.name, name)
        for path in sorted(SCRIPTS.glob("*.js"))
        for name in script_names(path.read_text(encoding="utf-8"))
        if words(name) & avoid
    }
    helpers = {
        (path, node.name)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, DEFINITIONS) and not node.name.startswith("test_") and words(node.name) & avoid
    }
    assert (len(scripts) <= IN_SCRIPTS, len(helpers) <= IN_HELPERS) == (True, True), (scripts, helpers)


def test_words_that_say_nothing_become_fewer() -> None:
    """A name ends with the word, as `one`, `_known` and `rows_given` do; `one_column` says something."""
    ends = Counter(
        re.findall("[a-z]+|$", re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower())[-2:][0] for name in packages_names()
    )
    assert {word: ends[word] for word, most in VAGUE.items() if ends[word] > most} == {}, "the glossary has better ones"


def test_names_of_scripts_are_seen() -> None:
    source = (
        "const a = 1; const {b, c} = f(d); function g(h, i = 2) {} class J {} (k, l) => m; n => 1; o({p: 'q'}); // s: 1"
    )
    assert {"a", "b", "c", "g", "h", "i", "J", "k", "l", "n", "p"} <= {*script_names(source)}
    assert not {"q", "s"} & {*script_names(source)}


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    texts = documented().items()
    assert [place for place, (text, _) in texts if text.partition(" ")[0] in PREPOSITIONS] == []


def test_the_table_is_read() -> None:
    assert avoided()["told"] == avoided()["said"]
    assert words("_given_upRows") >= {"given_up", "row", "rows"}
