"""A command's options: made of its own arguments, of those of the library's function that it calls, and of one table.

`arguments.toml` beside this file says what every argument means; nothing else does, and docs/cli.md is made of it. A
library's signature is read from its source, so that a command line imports nothing that it does not run.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thinkback.completing import completion

TABLE = Path(__file__).with_name("arguments.toml")
ROOT = Path(__file__).resolve().parents[1]
EVERY = "every"
LIBRARY = "library_arguments"
"""The attribute of a command that names the functions whose arguments it takes, too."""
PARAGRAPH = "\n\n"
PLAIN = {"bool": bool, "int": int, "float": float}


@dataclass(frozen=True)
class Described:
    """The entry of `arguments.toml` for an argument.

    help: in the terminal; manual: in docs/cli.md, where it says more; unless_given: what stands there for the default.
    file: names an existing file; repeat: may be given several times; negative: turns off what is on; choices: the words
    that it takes; label: a name that LaTeX refers by. value: the default where the library's is None; default: the
    default as it is shown. unnamed: what is wrong with it where no name is given. completes: the names that a shell
    completes in its place, by `completing.KINDS`.
    """

    help: str
    flag: str = ""
    positional: bool = False
    metavar: str = ""
    file: bool = False
    repeat: bool = False
    negative: bool = False
    choices: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    label: bool = False
    value: Any = None
    default: str = ""
    hide_default: bool = False
    manual: str = ""
    unless_given: str = ""
    unnamed: str = ""
    completes: str = ""


@functools.cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """The content of `arguments.toml`."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def described(command: str, argument: str) -> Described:
    """The entry for a command's argument (`study latent`): its own lines, then its group's, then the general ones."""
    lines = (table().get(name, {}).get(argument, {}) for name in (EVERY, command.partition(" ")[0], command))
    return Described(**{"help": "", **{key: value for line in lines for key, value in line.items()}})


def with_arguments_of(
    *functions: str, without: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds the arguments of library functions (`module:name`) to a command that has `**given`.

    A dataclass has its fields for arguments. Not taken are those of `without`, nor those that the command has itself.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        setattr(command, LIBRARY, (functions, frozenset(without)))
        return command

    return decorate


class LazyCommand:
    """A command whose options are built only when typer asks for them, so that a call reads no other command's."""

    def __init__(self, function: Callable[..., None], name: str) -> None:
        self.function, self.name = function, name
        self.__name__ = function.__name__

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The command's help text; without one, the library function's docstring."""
        words = table()["about"].get(self.name) or self.function.__doc__
        if words:
            return str(words)
        functions, _ = getattr(self.function, LIBRARY)
        return PARAGRAPH.join((_docstring_of(functions[0]).partition(PARAGRAPH)[0], table()["about"][EVERY]))

    @functools.cached_property
    def options(self) -> tuple[list[inspect.Parameter], dict[str, Callable[[Any], Any]]]:
        """The command's parameters in typer's form, and the function that converts each for the library."""
        return _command_parameters(self.function, self.name)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature(self.options[0])

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {option.name: option.annotation for option in self.options[0]}

    def __call__(self, **given: Any) -> None:
        """Runs the command. Arguments that the user did not give are left to the library's defaults."""
        _, readers = self.options
        passed = {key: value for key, value in given.items() if key not in readers or value is not None}
        self.function(**{key: readers[key](value) if key in readers else value for key, value in passed.items()})


def _command_parameters(
    command: Callable[..., None], name: str
) -> tuple[list[inspect.Parameter], dict[str, Callable[[Any], Any]]]:
    """The command's parameters: its positional ones, those of the library's functions, and its keyword-only ones."""
    parameters = list(inspect.signature(command).parameters.values())
    hints = typing.get_type_hints(command)
    first: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    for parameter in parameters:
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            side = first if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD else last
            side.append(_typer_parameter(name, parameter.name, hints[parameter.name], parameter.default))
    middle, readers = [], {}
    functions, without = getattr(command, LIBRARY, ((), frozenset()))
    for argument, annotation, default in (
        read_argument for function in functions for read_argument in _read_arguments(function)
    ):
        if argument in without or argument in hints or argument in readers:
            continue
        description = described(name, argument)
        hint, readers[argument] = _converter_for(description, argument, annotation)
        value = description.value if default is None or isinstance(default, tuple) else default
        value = False if description.negative else hint(value) if description.choices else value
        middle.append(_typer_parameter(name, argument, hint if value is not None else hint | None, value))
    return [*first, *middle, *last], readers


def _typer_parameter(command: str, name: str, hint: Any, default: Any) -> inspect.Parameter:
    description = described(command, name)
    silent = default is None or default is False or default == "" or default is inspect.Parameter.empty
    more: dict[str, Any] = {"help": description.help, "metavar": description.metavar or None}
    more["show_default"] = description.default or not (description.hide_default or silent)
    if description.file:
        more |= {"exists": True, "dir_okay": False}
    if description.label:
        more["callback"] = _latex_label
    if description.completes:
        more["autocompletion"] = completion(description.completes)
    if description.min is not None or description.max is not None:
        more |= {"min": description.min, "max": description.max}
    flag = description.flag or "--" + name.replace("_", "-")
    option = typer.Argument(**more) if description.positional else typer.Option(flag, **more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


@functools.cache
def _read_definition(function: str) -> tuple[ast.FunctionDef | ast.ClassDef, ast.Module]:
    """The source of a library's function or dataclass (`module:name`), and of its module."""
    module, _, name = function.partition(":")
    tree = ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    definitions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return next(node for node in definitions if node.name == name), tree


def _docstring_of(function: str) -> str:
    return ast.get_docstring(_read_definition(function)[0]) or ""


@functools.cache
def _read_arguments(function: str) -> tuple[tuple[str, str, Any], ...]:
    """(name, annotation, default) of each argument of a function, or field of a dataclass, read from its source."""
    node, tree = _read_definition(function)
    constants = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    if isinstance(node, ast.ClassDef):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        return tuple(
            (ast.unparse(f.target), ast.unparse(f.annotation), _default_value(f.value, constants)) for f in fields
        )
    words = node.args
    first = [None] * (len(words.args) - len(words.defaults))
    pairs = [
        *zip(words.args, [*first, *words.defaults], strict=True),
        *zip(words.kwonlyargs, words.kw_defaults, strict=True),
    ]
    return tuple(
        (one.arg, ast.unparse(one.annotation) if one.annotation else "str", _default_value(default, constants))
        for one, default in pairs
    )


def _default_value(node: ast.expr | None, constants: Mapping[str, ast.expr]) -> Any:
    """The value of a default in a signature, which is a literal or a constant of the module."""
    if node is None:
        return inspect.Parameter.empty
    if isinstance(node, ast.Name):
        return _default_value(constants[node.id], constants) if node.id in constants else None
    if isinstance(node, ast.Tuple):
        return tuple(_default_value(elt, constants) for elt in node.elts)
    return ast.literal_eval(node)


def _converter_for(entry: Described, name: str, annotation: str) -> tuple[Any, Callable[[Any], Any]]:
    """The command line's type for a library's argument, and the function that converts it for the library."""
    words = set(re.findall(r"\w+", annotation))
    kind = str if "str" in words else next((plain for word, plain in PLAIN.items() if word in words), str)
    if entry.negative:
        return bool, lambda given: not given
    if entry.repeat:
        inner = Path if entry.file else str
        return list[inner], lambda given: given  # type: ignore[valid-type]
    if entry.file:
        return Path, lambda given: given
    if entry.choices:
        return StrEnum(name, {word: word for word in entry.choices}), lambda given: given.value
    if "Sequence" in annotation or "tuple" in annotation:
        several = functools.partial(_some_names, name, entry)
        return str, several if kind is str else functools.partial(numbers, kind, name)
    return kind, lambda given: given


def _latex_label(value: str | None) -> str | None:
    """A name for LaTeX references, without the prefix `tab:`."""
    if value is None:
        return None
    name = value.removeprefix("tab:")
    if not re.fullmatch(r"[A-Za-z0-9:.+_-]+", name):
        raise typer.BadParameter(f"{value!r} has more than letters, digits and : . + - _, which LaTeX refers by")
    return name


def names(text: str | None) -> tuple[str, ...]:
    """The names in an option that takes several, separated by commas; empty where it is not given."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))


def _some_names(argument_name: str, description: Described, text: str) -> tuple[str, ...]:
    """The names in such an option. ThinkbackError where a text holds no name, or a name is required."""
    given_names = names(text)
    if not given_names and (text or description.unnamed):
        from toolkit.errors import InvalidError, argument

        why = description.unnamed or f"is `{text}`; it takes names, separated by commas"
        raise InvalidError(f"{argument(argument_name)} {why}")
    return given_names


def numbers(kind: type[int] | type[float], argument_name: str, text: str | None) -> tuple[float, ...]:
    """The numbers in an option that takes several, separated by commas. ThinkbackError where one is no number."""
    try:
        return tuple(kind(name) for name in names(text))
    except ValueError:
        from toolkit.errors import InvalidError, argument

        takes = "integers, such as 1,2" if kind is int else "numbers, such as 0.5,0.9"
        raise InvalidError(f"{argument(argument_name)} is `{text}`; it takes {takes}") from None
