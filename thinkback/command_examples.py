"""What the help of each command shows it being used for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from thinkback.options import table


def examples_of(command: str) -> tuple[str, ...]:
    """The command lines that the help of a command, or of a group of them, shows."""
    examples = table()["examples"]
    if command in examples:
        return tuple(examples[command])
    group, _, name = command.partition(" ")
    if group == "import" and name:
        return (f"thinkback import {name} PATH --out mylog",)
    return tuple(lines[0] for one, lines in examples.items() if one.startswith(f"{command} "))


class EndsWithExamples:
    """The end of a help."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write them as they are, for they are to be copied."""
        path, at = [], ctx
        while at is not None and at.parent is not None:
            path.append(at.info_name)
            at = at.parent
        with formatter.section("Examples"):
            for line in examples_of(" ".join(reversed(path))):
                formatter.write("".join(f"  {part}\n" for part in line.split("\n")))


class WithExamples(EndsWithExamples, TyperCommand):
    """A command whose help ends with examples."""


class GroupWithExamples(EndsWithExamples, TyperGroup):
    """A group of commands whose help ends with examples of them."""
