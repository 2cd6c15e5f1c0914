"""A mapping while it is made: each value with why it is there, and the file that is written of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.imports.guessing.columns import Column, Columns
from toolkit.imports.guessing.roles import plain_name
from toolkit.imports.guessing.shapes import Shape

GUESSED, DEFAULT, GIVEN = "guessed", "default", "given"


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
    given = {key: value for key, value in draft.given.items() if key not in ("examples", "traces", "answers")}
    for key, (value, why) in {**top, **{key: (value, GIVEN) for key, value in given.items()}}.items():
        lines.append(_mapping_line(key, value, why))
    several = len(draft.traces) > 1
    for name, tables in (
        ("examples", [draft.tables.get("examples", {})]),
        ("traces", [trace for trace, _ in draft.traces]),
        ("answers", [draft.tables.get("answers", {})]),
    ):
        if name == "answers":
            lines += _extra_lines(draft, "examples")
        for number, mine in enumerate(tables):
            given = {key: (value, GIVEN) for key, value in draft.given.get(name, {}).items()}
            table = {**mine, **{key: one for key, one in given.items() if (name, key) != ("examples", "extra")}}
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


def _extra_lines(draft: Draft, name: str) -> list[str]:
    given = {key: (value, GIVEN) for key, value in draft.given.get(name, {}).get("extra", {}).items()}
    extra = {**draft.tables.get(f"{name}.extra", {}), **given}
    lines = [_mapping_line(key, value, why) for key, (value, why) in extra.items()]
    return ["", f"[{name}.extra]", *lines] if extra else []


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


def key_of(column: Column) -> str:
    """The last name in a column's path."""
    return plain_name(column.name.rpartition(".")[2])


def constant_text(text: str) -> str:
    """The text without signs that would end a constant in a mapping's single quotes."""
    return text.replace("'", "’") or "table"
