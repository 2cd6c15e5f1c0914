"""Parameters of simulated worlds from `KEY=VALUE` texts, as a command takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from generate.simulation.chains import ChainsModel
from generate.simulation.checks import POOL, CheckingModel, TextModel
from generate.simulation.rounds import RoundsModel
from toolkit import documents
from toolkit.errors import InvalidError, UnknownError, suggest
from toolkit.settings import from_table


def rounds_models(settings: Sequence[str]) -> tuple[RoundsModel, ChainsModel]:
    """The world of `simulate rounds`: `tie=-1`, `hops=3`, and of its chains: `chains=8`."""
    given = _settings_table(settings)
    _require_known(given, _field_names(RoundsModel) | _field_names(ChainsModel))
    chains = {key: given.pop(key) for key in _field_names(ChainsModel) if key in given}
    return from_table(RoundsModel, given), from_table(ChainsModel, chains)


def checks_models(settings: Sequence[str]) -> tuple[TextModel, dict[str, CheckingModel]]:
    """The parameters of `simulate checks`: of the texts, and of the systems that check them, by pool.

    `length=100` is of the texts, `checking=0.7` of every pool, and `other.checking=0.7` of a pool called `other`.
    """
    given = _settings_table(settings)
    texts = {key: given.pop(key) for key in _field_names(TextModel) if key in given}
    pools: dict[str, dict[str, Any]] = {POOL: {}}
    pools |= {key: dict(value) for key, value in given.items() if isinstance(value, Mapping)}
    shared = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    _require_known(shared, _field_names(TextModel) | _field_names(CheckingModel))
    models = {
        pool: from_table(CheckingModel, shared | settings_of_pool, pool) for pool, settings_of_pool in pools.items()
    }
    return from_table(TextModel, texts), models


def _require_known(given: Mapping[str, Any], known: set[str]) -> None:
    for key in given:
        if key not in known:
            raise UnknownError(f"`{key}` is no parameter of the simulation; {suggest(key, known)}")


def _field_names(model: type) -> set[str]:
    return {field.name for field in fields(model)}


def _settings_table(settings: Sequence[str]) -> dict[str, Any]:
    """The settings as a table; a dot in a key makes a table inside it."""
    table: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        names = key.strip().split(".")
        if not equals or not all(names) or len(names) > 2:
            raise InvalidError(f"`{text}`: write a setting as KEY=VALUE, as `rounds=8`")
        inner = table.setdefault(names[0], {}) if len(names) == 2 else table
        if not isinstance(inner, dict):
            raise InvalidError(f"`{text}`: `{names[0]}` has a value of its own already: give one of the two")
        inner[names[-1]] = documents.toml_value(value)
    return table
