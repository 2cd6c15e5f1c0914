"""Checks of the arguments of public functions by their type hints; an error is one line that names the argument."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from toolkit.errors import InvalidError, argument, quote
from toolkit.settings import NAMES, as_kind, is_sequence, kinds_of

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

NULL = "\0"
UNFIT = object()
"""Returned in place of a value that is not of the type."""
PLAIN = (bool, int, float, str)
SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
LISTS = (tuple, Sequence, Collection)
CONDITION = "an SQL condition on the columns of examples, such as \"split = 'test'\""
WORDS = {
    "log": 'the address of a log, an open log, or its tables as frames, such as {"examples": …, "traces": …}',
    "policies": "a policy file (a path), the text of one, or policies built in Python",
    "prices": "a TOML file with a table `[prices]`, or `Prices`",
    "rules": "a Python file, or classes, with stopping rules and selects of your own",
    **dict.fromkeys(("where", "on", "tune", "report", "train_on"), CONDITION),
    **dict.fromkeys(("baseline", "policy", "oracle", "first", "second"), "a policy's name"),
    **dict.fromkeys(("pool", "probe"), "a pool's name"),
    "verifier": "a verifier's name", "action": "an action's name", "metric": "the name of a metric",
    "measure": "the name of a column of traces", "example": "an example_id", "sql": "one SELECT",
}  # fmt: skip
"""Argument name -> what it takes, in words, in every function that has it."""


def checks_arguments(**takes: str) -> Callable[[Callable[Given, Returned]], Callable[Given, Returned]]:
    """A decorator that checks every argument against its annotation and converts it to plain types.

    numpy's numbers are taken for Python's, and lists for tuples. `takes` (argument -> words) says what an argument
    takes where neither its type nor its name does. A call with missing or unknown arguments raises Python's TypeError.
    """

    def decorate(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Given.args, **named: Given.kwargs) -> Returned:
            try:
                bound = signature.bind(*args, **named)
            except TypeError:
                return function(*args, **named)
            hints = _argument_types(function)
            for name, value in bound.arguments.items():
                if signature.parameters[name].kind not in SEVERAL:
                    words = takes.get(name) or WORDS.get(name, "")
                    bound.arguments[name] = checked_argument(name, value, hints.get(name, Any), words)
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


def checked_argument(name: str, given: Any, hint: Any, takes: str = "") -> Any:
    """The value in the plain types of an annotation. ThinkbackError names the argument whose value has another type."""
    kinds = kinds_of(hint)
    if Path in kinds and isinstance(given, str | os.PathLike) and NULL in str(given):
        raise InvalidError(f"{argument(name)} is {quote(str(given))}; no file or folder has a null byte in its name")
    for kind in kinds:
        value = _convert_to_kind(kind, given)
        if value is not UNFIT:
            return value
    raise InvalidError(f"{argument(name)} is {quote(given)}; it takes {takes or _kind_names(kinds)}")


def _convert_to_kind(kind: Any, given: Any) -> Any:
    """The value in one type, or UNFIT. A type that cannot be checked at run time accepts every value."""
    if kind is Any:
        return given
    if kind is type(None):
        return None if given is None else UNFIT
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN or (origin in LISTS and inner and inner[0] in PLAIN):
        value = as_kind(kind if kind in PLAIN else tuple[inner[0], ...], given)  # type: ignore[valid-type]
        return UNFIT if value is None else value
    if kind is Path:
        return given if isinstance(given, os.PathLike) else UNFIT
    known = origin or kind
    if not isinstance(known, type):
        return given
    if known is Iterable and not isinstance(given, Mapping) and not is_sequence(given):  # a text's letters are none
        return UNFIT
    return given if isinstance(given, known) else UNFIT


def _kind_names(kinds: Iterable[Any]) -> str:
    words = []
    for kind in kinds:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        listed = tuple[inner[0], ...] if origin in LISTS and inner else kind  # type: ignore[valid-type]
        if kind is not type(None):
            words.append(NAMES.get(listed) or f"a `{getattr(kind, '__name__', kind)}`")
    return " or ".join(dict.fromkeys(words))


@functools.cache
def _argument_types(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's arguments. The return type is left out, as its module may not be imported."""
    given = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    only = types.SimpleNamespace(__annotations__=given)
    return typing.get_type_hints(only, function.__globals__)
