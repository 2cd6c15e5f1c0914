"""Gates and routers from the tables of a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from replay.policies.gate_file import load_gate
from replay.policies.gates import AllOf, AnyOf, Gate, Reading
from replay.policies.interventions import Choice
from toolkit.errors import ThinkbackError, suggest

COMBINED: dict[str, type[AnyOf] | type[AllOf]] = {"any": AnyOf, "all": AllOf}


def gate_from(where: str, table: object) -> Gate:
    """A gate from its table; `where` names the policy in messages."""
    if not isinstance(table, Mapping):
        raise ThinkbackError(f'{where}: `gate` takes a table such as {{ verifier = "latent", below = 0.7 }}')
    combined = [key for key in COMBINED if key in table]
    if combined:
        key, parts = combined[0], table[combined[0]]
        if len(table) > 1:
            other = next(name for name in table if name != key)
            raise ThinkbackError(f"{where}: a gate with `{key}` has nothing beside it; it has `{other}`")
        if not isinstance(parts, list) or not parts:
            raise ThinkbackError(f"{where}: `{key}` takes a list of gates, each a table")
        return COMBINED[key](tuple(gate_from(where, part) for part in parts))
    known = [field.name for field in fields(Reading)]
    for key in table:
        if key not in known:
            raise ThinkbackError(f"{where}: unknown key `{key}` of a gate; {suggest(key, [*known, *COMBINED])}")
    values: dict[str, Any] = dict(table)
    if "file" in values:
        if not isinstance(values["file"], str):
            raise ThinkbackError(f"{where}: `file` is {values['file']!r}; it takes the address of a gate file")
        values["file"] = load_gate(values["file"])
    try:
        return Reading(**values)
    except ThinkbackError as error:
        raise ThinkbackError(f"{where}: {error}") from None


def choice_from(where: str, table: object) -> Choice:
    """A router from its table."""
    if not isinstance(table, Mapping) or "column" not in table:
        raise ThinkbackError(f'{where}: `route` takes a table such as {{ column = "router_score", at_least = 0.5 }}')
    known = [field.name for field in fields(Choice)]
    for key in table:
        if key not in known:
            raise ThinkbackError(f"{where}: unknown key `{key}` of `route`; {suggest(key, known)}")
    try:
        return Choice(**table)
    except ThinkbackError as error:
        raise ThinkbackError(f"{where}: {error}") from None
