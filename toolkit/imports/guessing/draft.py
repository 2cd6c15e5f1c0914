"""A mapping while it is made: each value with why it is there, and the file that is written of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.imports.guessing.columns import Column, Columns
from toolkit.imports.guessing.shapes import Shape

GUESSED, DEFAULT, GIVEN = "guessed", "default", "given"
TABLES: Mapping[tuple[str, ...], tuple[str, ...]] = {(): ("examples", "traces", "answers"), ("examples",): ("extra",)}
"""The tables in a table of a mapping that are written apart."""


@dataclass
class Draft:
    """A mapping while it is guessed. Each value has the reason for it; `remarks` are sentences to write beside."""

    given: dict[str, Any]
    tables: dict[str, dict[str, tuple[Any, str]]] = field(default_factory=dict)
    traces: list[tuple[dict[str, tuple[Any, str]], list[tuple[str, str]]]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def is_given(self, key: str) -> bool:
        """Whether the user's settings give this key."""
        table, _, name = key.partition(".")
        return name in self.given.get(table, {}) if name else key in self.given

    def given_table(self, *path: str) -> dict[str, tuple[Any, str]]:
        """The keys of a table that the user's settings give, without the tables in it."""
        table: Mapping[str, Any] = self.given
        for part in path:
            table = table.get(part, {})
        return {key: (value, GIVEN) for key, value in table.items() if key not in TABLES.get(path, ())}

    def set_guess(self, key: str, value: Any, why: str) -> None:
        """Sets a key with the reason for it, unless the user's settings give it."""
        table, _, name = key.rpartition(".")
        if not self.is_given(key):
            self.tables.setdefault(table, {})[name] = (value, why)

    def put_default(self, key: str, value: Any) -> None:
        """Sets a key to a default, unless it has a value already."""
        table, _, name = key.rpartition(".")
        if name not in self.tables.get(table, {}):
            self.set_guess(key, value, DEFAULT)


def mapping_text(draft: Draft, shape: Shape, columns: Columns) -> str:
    """The text of the guessed mapping file. Each line has the reason for its value as a comment."""
    lines = ["# Guessed from names and contents: change what is wrong, and give this file with --map."]
    top = {**shape.top, **draft.tables.get("", {})}
    for key, (value, why) in {**top, **draft.given_table()}.items():
        lines.append(_mapping_line(key, value, why))
    several = len(draft.traces) > 1
    for name, tables in (
        ("examples", [draft.tables.get("examples", {})]),
        ("traces", [trace for trace, _ in draft.traces]),
        ("answers", [draft.tables.get("answers", {})]),
    ):
        if name == "answers":
            lines += _extra_lines(draft)
        for number, mine in enumerate(tables):
            table = {**mine, **draft.given_table(name)}
            head = f"[[{name}]]" if several and name == "traces" else f"[{name}]"
            lines += ["", head, *(_mapping_line(key, value, why) for key, (value, why) in table.items())]
            for verifier, score in draft.traces[number][1] if name == "traces" else ():
                lines += [
                    "",
                    "[[traces.verifiers]]",
                    _mapping_line("verifier", f"'{constant_text(verifier)}'", GUESSED),
                    _mapping_line("score", score, GUESSED),
                ]
    unused = [one.value for one in columns.every if one.value not in columns.assigned]
    lines += ["", f"# not used: {', '.join(unused)}"] if unused else []
    lines += [f"# {remark}" for remark in draft.remarks]
    return "\n".join(lines) + "\n"


def _extra_lines(draft: Draft) -> list[str]:
    extra = {**draft.tables.get("examples.extra", {}), **draft.given_table("examples", "extra")}
    lines = [_mapping_line(key, value, why) for key, (value, why) in extra.items()]
    return ["", "[examples.extra]", *lines] if extra else []


def _mapping_line(key: str, value: Any, why: str) -> str:
    return f"{_toml_key(key)} = {_toml_value(value)}  # {why}"


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def reason_of(column: Column) -> str:
    """The reason why a column was given its role."""
    return f"{GUESSED} by its name, `{column.name}`, and contents" if column.name != column.value else GUESSED


def constant_text(text: str) -> str:
    """The text without signs that would end a constant in a mapping's single quotes."""
    return text.replace("'", "’") or "table"
