"""Every kind of error has a code of its own, which the manual names."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import generate.engines.base
import generate.signals.signal  # noqa: F401
import toolkit.log  # noqa: F401
from generate.engines.base import EngineError
from generate.retrieval.http_search import SearchError
from tests.house import House, house, parsed
from toolkit.errors import ThinkbackError

DOCS = Path(__file__).resolve().parents[1] / "docs"
MANUAL = DOCS / "python.md"
PROBLEMS = {"Problem": 4, "_ValueRule": 1, "add_rows": 2, "_raise_first": 5}
"""What makes a problem of a log, and the place of the code among its arguments."""


def kinds(kind: type[ThinkbackError]) -> list[type[ThinkbackError]]:
    return [one for each in kind.__subclasses__() for one in (each, *kinds(each))]


def test_the_manual_has_every_code_and_no_two_kinds_share_one() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `(\w+Error)` \|", MANUAL.read_text(encoding="utf-8"), re.MULTILINE))
    assert SearchError.code == "search"  # of a module that not every test imports
    ours = [one for one in kinds(ThinkbackError) if not one.__module__.startswith("tests")]
    assert rows == {one.code: one.__name__ for one in ours}
    assert len(rows) == len(ours)


def given(ours: House, calls: dict[str, int | str]) -> Iterator[str]:
    """The codes that the packages write out, at a place of the arguments of some calls or under a name."""
    texts = [text for text in ours.sources.values() if any(f"{name}(" in text for name in calls)]
    for text in texts:  # to parse and walk all would take seconds
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Call):
                place = calls.get(getattr(node.func, "id", getattr(node.func, "attr", "")), "")
                named = [one.value for one in node.keywords if one.arg == place]
                args = [*node.args[place : place + 1]] if isinstance(place, int) else named
                yield from (one.value for one in args if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_the_manual_has_the_codes_of_logs_and_engines_and_of_problems() -> None:
    ours = {one.code for one in kinds(ThinkbackError)}
    tables = {
        page: set(re.findall("`([a-z-]+)`", (DOCS / page).read_text("utf-8"))) for page in ("log.md", "python.md")
    }
    packages = house()
    finer = set(given(packages, {"LogError": "code", "EngineError": "code"}))
    assert len(finer) > 10
    assert finer - ours <= tables["python.md"] | {"null"}
    problems = set(given(packages, dict(PROBLEMS)))
    assert len(problems) > 30
    assert problems <= tables["log.md"]


def test_an_error_has_a_finer_code_than_its_kind_and_keeps_it() -> None:
    error = EngineError("the key is wrong", code="key")
    assert (error.code, EngineError.code) == ("key", "engine")
    again = pickle.loads(pickle.dumps(error.with_subject("engine `openai`: ", "; set it")))
    assert (str(again), again.code) == ("engine `openai`: the key is wrong; set it", "key")


def test_an_error_about_something_keeps_its_kind() -> None:
    error = ThinkbackError("`x` is 3").with_subject("policy `p`: ")
    assert (str(error), error.code) == ("policy `p`: `x` is 3", "error")
