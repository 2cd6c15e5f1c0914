"""The page about the command line and the commands themselves name the same things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from tests.docs.cli_tables import with_tables
from thinkback.app import app
from thinkback.options import table
from toolkit.imports import shipped_maps

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"


def commands(command: object = None, path: tuple[str, ...] = ("thinkback",)) -> Iterator[tuple[str, object]]:
    """(full name, command) of every command that does something."""
    command = command or typer.main.get_command(app)
    inner = getattr(command, "commands", {})
    for name, part in inner.items():
        if not part.hidden:
            yield from commands(part, (*path, name))
    if not inner:
        yield " ".join(path), command


COMMANDS = dict(commands())


def sections() -> dict[str, str]:
    """Command -> its section of the page, by headings of the form "## `thinkback NAME`"."""
    parts = re.split(r"^##+ `(thinkback[^`]*)`.*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ends = [re.split(r"^## ", text, flags=re.MULTILINE)[0] for text in parts[2::2]]
    return dict(zip(parts[1::2], ends, strict=True))


def options(name: str) -> set[str]:
    """Long names of a command's options."""
    found = {
        opt for p in COMMANDS[name].params if p.param_type_name == "option" for opt in (*p.opts, *p.secondary_opts)
    }
    return {opt for opt in found if opt.startswith("--")} - {"--help"}


def test_the_tables_are_those_that_the_commands_make() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run `make options`"


def test_every_argument_that_is_described_is_one() -> None:
    known = {name.removeprefix("thinkback "): {p.name for p in command.params} for name, command in COMMANDS.items()}
    rows = {name: set(table()[name]) for name in known if name in table()}
    assert {name: rows[name] - known[name] for name in rows if rows[name] - known[name]} == {}
    groups = {name.partition(" ")[0] for name in known if " " in name}
    assert {name for name in table() if name not in known} <= {"about", "examples", "every", *groups}
    assert set(table()["every"]) <= set().union(*known.values())


def test_every_command_has_its_section() -> None:
    assert sorted(sections()) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_described_and_no_other(name: str) -> None:
    rows = re.findall(r"^\| (`--[^|]*)\|", sections()[name], re.MULTILINE)
    described = {option for row in rows for option in re.findall(r"--[a-z][a-z-]*", row)}
    assert described == options(name)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example(name: str) -> None:
    examples = re.findall(r"^```console\n(.*?)^```", sections()[name], re.DOTALL | re.MULTILINE)
    assert any(re.search(rf"^\$ {name}\b", text, re.MULTILINE) for text in examples)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_has_help(name: str) -> None:
    command = COMMANDS[name]
    bare = [p.name for p in command.params if not getattr(p, "help", None) and p.name != "help"]
    assert command.help
    assert bare == []


def test_the_manual_lists_the_shipped_mappings() -> None:
    text = (ROOT / "docs" / "import-table.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| `(\w+)` \|", text.partition("## Mappings that ship")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert listed == list(shipped_maps())
