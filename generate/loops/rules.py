"""Which loop a table `[[loop]]` means: one that ships, by its kind, or one of a user's, from a Python file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from generate.loops.answering import Answering
from generate.loops.beam import Beam
from generate.loops.forcing import Forcing
from generate.loops.listening import Listening
from generate.loops.loop import Loop
from generate.loops.retrieving import Retrieving
from generate.loops.revising import Revising
from generate.loops.text_verdicts import TextVerdicts
from generate.loops.tools import Tools
from toolkit.errors import InvalidError, NotFoundError, RequiredError, RuleError, UnknownError, suggest
from toolkit.settings import from_table
from toolkit.user_files import convert_parameters, has_method, load_file

KINDS: Mapping[str, type[Loop]] = {
    one.kind: one for one in (Forcing, Revising, Beam, Tools, Retrieving, Answering, Listening, TextVerdicts)
}
"""The loops that ship, by their kind in recipes."""
SHAPE = "a loop is a frozen dataclass with a method `run(self, example)`, which yields requests"


def load_from_file(rule: str, find: Callable[[str], Path], what: str) -> Any:
    """What a text such as `mine.py:Loop` names. ThinkbackError where the file or the name does not exist."""
    file, colon, name = rule.rpartition(":")
    if not colon or not file or not name:
        raise InvalidError(f"`{rule}`: write it as FILE.py:NAME")
    module = load_file(find(file), what)
    if not hasattr(module, name):
        raise UnknownError(f"`{rule}`: {file} has no `{name}`; {suggest(name, _class_names(module))}")
    return getattr(module, name)


def read_loop(
    kind: str | None, rule: str | None, settings: Mapping[str, Any], place: str, find: Callable[[str], Path]
) -> Any:
    """The loop of a recipe's table, with its settings checked. ThinkbackError where its name or these do not fit."""
    if rule is None:
        if kind is None:
            raise RequiredError(f"`{place}` needs a `kind`, or a `rule` of your own; {suggest('', KINDS)}")
        if kind not in KINDS:
            raise UnknownError(f"`{place}.kind` is `{kind}`; {suggest(kind, KINDS)}")
        return from_table(KINDS[kind], settings, place)
    if kind is not None:
        raise InvalidError(f"`{place}` has a `kind` and a `rule`: give one of them")
    try:
        cls = load_from_file(rule, find, "loops")
    except NotFoundError as error:
        raise error.with_subject(f"`{place}.rule`: ") from None
    if not has_method(cls, ("run",)):
        raise RuleError(f"`{place}.rule`: `{rule}` is no loop: {SHAPE}")
    return convert_parameters(from_table(cls, settings, place), f"`{rule}`")


def _class_names(module: Any) -> list[str]:
    return [name for name, item in vars(module).items() if getattr(item, "__module__", None) == module.__name__]
