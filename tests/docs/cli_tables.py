"""The option tables of docs/cli.md, made of the commands themselves: `python -m tests.docs.cli_tables docs/cli.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from thinkback.app import app
from thinkback.options import Described, described

HEADING = re.compile(r"^##+ `thinkback ([^`]*)`.*$", re.MULTILINE)
ROWS = re.compile(r"^\| option \| default \| meaning \|\n(?:\|.*\|\n)+", re.MULTILINE)


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(name, command) of every command that does something."""
    command = command or typer.main.get_command(app)
    inner = getattr(command, "commands", {})
    for name, part in inner.items():
        yield from commands(part, (*path, name))
    if not inner:
        yield " ".join(path), command


def table(name: str, command: Any) -> str:
    """The options of a command: flag, default, meaning."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.name == "help":
            continue
        said = described(name, parameter.name)
        flag = f"{parameter.opts[0]} {said.metavar}".strip()
        lines.append(f"| `{flag}` | {said.unless_given or _default(parameter)} | {said.manual or _sentence(said)} |")
    return "\n".join(lines) + "\n"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = getattr(parameter.default, "value", parameter.default)
    if value is None or value == "":
        return "none"
    if value is False:
        return "off"
    return f"`{value}`" if isinstance(value, str) else str(value)


def _sentence(said: Described) -> str:
    """Help as a cell: no full stop at its end, no capital at its beginning, and no default, which has a cell."""
    plain = re.sub(r" \[default: [^]]*\]", "", said.help).removesuffix(".")
    if said.unless_given:
        plain = re.sub(r"[;,] (?:by default|else) .*$", "", plain)
    return (
        plain
        if plain.startswith("Python") or (plain[:2].isalpha() and plain[:2].isupper())
        else plain[:1].lower() + plain[1:]
    )


def with_tables(page: str) -> str:
    """The page with every option table made anew; the words around them stay."""
    known = dict(commands())
    places = [*HEADING.finditer(page)]
    ends = [*(place.start() for place in places[1:]), len(page)]
    parts = [page[: places[0].start()]]
    for place, end in zip(places, ends, strict=True):
        section = page[place.start() : end]
        rows = ROWS.search(section) if place[1] in known else None
        if rows is not None:
            section = section[: rows.start()] + table(place[1], known[place[1]]) + section[rows.end() :]
        parts.append(section)
    return "".join(parts)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(with_tables(target.read_text(encoding="utf-8")), encoding="utf-8")
