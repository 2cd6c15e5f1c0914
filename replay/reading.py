"""Policies from TOML: `[[policy]]` tables, sweeps, run-wide settings, and a user's own stopping rules."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from replay.fits import FITS
from replay.interventions import Act, Route, When
from replay.policies import Oracle, Policy, Sample
from replay.pool import Prices
from replay.reading_gates import choice_from, gate_from
from replay.stops import STOPS, Never, Rule, rule_parameters
from replay.sweeps import expand
from toolkit.errors import ThinkbackError, suggest
from toolkit.literal_float import LiteralFloat as Written

KINDS: dict[str, type[Policy]] = {"sample": Sample, "act": Act, "when": When, "route": Route, "oracle": Oracle}
INNER = {"base": "base", "then": "then", "else": "else_"}
"""Keys that hold a policy, and the fields that they become."""
_OWN = frozenset({"family", "tried"})


@dataclass(frozen=True)
class PolicyFile:
    """Policies in the order of the file, and what the file sets for the whole run."""

    policies: tuple[Policy, ...]
    measure: str | None = None
    prices: Prices | None = None


def load_policies(
    source: str | Path | PolicyFile | Policy | Iterable[Policy],
    rules: str | Path | Iterable[type[Rule]] | None = None,
) -> PolicyFile:
    """Policies from a TOML file (a path, or a text that holds a line break), or as built in Python.

    `rules` is a Python file, or classes, with stopping rules of the user's own.
    Raises ThinkbackError for anything misspelt, missing, doubled or of the wrong type.
    """
    if isinstance(source, PolicyFile):
        return source
    if isinstance(source, Policy):
        return PolicyFile(_checked((source,)))
    if isinstance(source, str | Path):
        text, name = _text(source)
        return _parse(text, name, STOPS | _own_rules(rules))
    return PolicyFile(_checked(tuple(source)))


def _text(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "\n" in source:
        return source, "policies"
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ThinkbackError(f"cannot read the policies in {source}: {reason}") from None


def _parse(text: str, name: str, stops: Mapping[str, type[Rule]]) -> PolicyFile:
    try:
        document = tomllib.loads(text, parse_float=Written)
    except tomllib.TOMLDecodeError as error:
        raise ThinkbackError(f"{name} is not valid TOML: {error}") from None
    try:
        for key in document:
            if key not in ("policy", "measure", "prices"):
                raise ThinkbackError(f"unknown key `{key}`; {suggest(key, ('policy', 'measure', 'prices'))}")
        tables = document.get("policy", [])
        if not isinstance(tables, list) or not all(isinstance(t, Mapping) for t in tables) or not tables:
            raise ThinkbackError("it has no policy; write each one as a table under `[[policy]]`")
        policies = [_policy(made, size, table, stops) for table in tables for made, size in expand(table)]
        measure = document.get("measure")
        if measure is not None and not isinstance(measure, str):
            raise ThinkbackError(f"`measure` is {measure!r}; it takes the name of a column of traces")
        return PolicyFile(_checked(policies), measure, _prices(document.get("prices")))
    except ThinkbackError as error:
        raise ThinkbackError(f"{name}: {error}") from None


def _policy(table: Mapping[str, Any], size: int, written: Mapping[str, Any], stops: Mapping[str, type[Rule]]) -> Policy:
    """A policy from its table; `written` is the table before its sweep was expanded into `size` policies."""
    name = table.get("name", "")
    where = f"policy `{name}`"
    kind = table.get("kind")
    if kind is None:
        raise ThinkbackError(f"{where} has no `kind`; {suggest('', KINDS)}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ThinkbackError(f"{where}: unknown kind `{kind}`; {suggest(str(kind), KINDS)}")
    made = {key: _plain(value) for key, value in table.items() if key != "kind"}
    allowed = [f.name.rstrip("_") for f in fields(KINDS[kind]) if f.name not in _OWN]
    for key in made:
        if key not in allowed:
            raise ThinkbackError(f"{where}: unknown key `{key}`; {suggest(key, [*allowed, 'kind'])}")
    for field in fields(KINDS[kind]):
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name.rstrip("_") not in made:
            raise ThinkbackError(f"{where}: `{field.name.rstrip('_')}` is required for a policy of kind `{kind}`")
    for key, field_name in INNER.items():
        if isinstance(made.get(key), Mapping):
            made[field_name] = _policy({"name": f"{name}: {key}", **made.pop(key)}, 1, {}, stops)
        elif key in made and field_name != key:
            made[field_name] = made.pop(key)
    if "stop" in made:
        made["stop"] = _stop(where, made["stop"], stops)
    if "gate" in made:
        made["gate"] = gate_from(where, made["gate"])
    if "route" in made:
        made["route"] = choice_from(where, made["route"])
    for key, fitted in FITS.items():
        if kind == "sample" and key in made:
            made[key] = _fitted(where, key, made[key], fitted)
    return KINDS[kind](**made, family=str(written.get("name", "")), tried=size)


def _fitted(where: str, key: str, table: object, kind: type) -> Any:
    """A table of settings for what is fitted on a development split."""
    known = [f.name for f in fields(kind) if f.compare]
    if not isinstance(table, Mapping):
        raise ThinkbackError(f"{where}: `{key}` takes a table with {', '.join(f'`{name}`' for name in known)}")
    for name in table:
        if name not in known:
            raise ThinkbackError(f"{where}: `{key}` has no `{name}`; {suggest(name, known)}")
    for f in fields(kind):
        if f.compare and f.default is MISSING and f.name not in table:
            raise ThinkbackError(f"{where}: `{key}` needs `{f.name}`")
    try:
        return kind(**table)
    except ThinkbackError as error:
        raise ThinkbackError(f"{where}: {error}") from None


def _stop(where: str, table: object, stops: Mapping[str, type[Rule]]) -> Rule:
    if table == "none":
        return Never()
    if not isinstance(table, Mapping) or not isinstance(table.get("rule"), str):
        raise ThinkbackError(f'{where}: `stop` takes a table such as {{ rule = "margin", margin = 0.15 }}')
    name = str(table["rule"])
    if name not in stops:
        raise ThinkbackError(f"{where}: unknown stopping rule `{name}`; {suggest(name, stops)}")
    values = {key: value for key, value in table.items() if key != "rule"}
    known = rule_parameters(stops[name])
    for key in values:
        if key not in known:
            raise ThinkbackError(f"{where}: stop `{name}` has no `{key}`; {suggest(key, known)}")
    for field in fields(stops[name]):  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING and field.name not in values:
            raise ThinkbackError(f"{where}: stop `{name}` needs `{field.name}`")
    try:
        return stops[name](**values)
    except ThinkbackError as error:
        raise ThinkbackError(f"{where}: {error}") from None


def _plain(value: Any) -> Any:
    """Numbers of the file as ordinary floats, once they are spelt in names."""
    if isinstance(value, Written):
        return float(value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    return value


def _checked(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    names = [p.name for p in policies]
    if not names:
        raise ThinkbackError("there is no policy to replay")
    known = set()
    for name in names:
        if name in known:
            raise ThinkbackError(f"two policies are named `{name}`; give each a name of its own")
        known.add(name)
    for policy in policies:
        if policy.against is not None and policy.against not in known:
            raise ThinkbackError(
                f"policy `{policy.name}`: `against` names no policy: `{policy.against}`; "
                f"{suggest(policy.against, names)}"
            )
        if policy.against == policy.name:
            raise ThinkbackError(f"policy `{policy.name}`: `against` names itself")
    return tuple(policies)


def load_prices(path: str | Path) -> Prices:
    """Prices alone, from the table `[prices]` of a TOML file. ThinkbackError where it has none."""
    text, name = _text(path)
    try:
        found = _prices(tomllib.loads(text).get("prices"))
    except (tomllib.TOMLDecodeError, ThinkbackError) as error:
        raise ThinkbackError(f"{name}: {error}") from None
    if found is None:
        raise ThinkbackError(f"{name} has no table `[prices]`")
    return found


def _prices(table: object) -> Prices | None:
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise ThinkbackError("`prices` takes a table of models and verifiers")
    prices = {}
    for name, entry in table.items():
        keys = ("prompt", "completion")
        if not isinstance(entry, Mapping) or set(entry) != set(keys):
            raise ThinkbackError(f"prices of `{name}`: give `prompt` and `completion`, per million tokens")
        if not all(isinstance(entry[k], int | float) and entry[k] >= 0 for k in keys):
            raise ThinkbackError(f"prices of `{name}`: `prompt` and `completion` take numbers of at least 0")
        prices[name] = (float(entry["prompt"]), float(entry["completion"]))
    return Prices(prices)


def _own_rules(rules: str | Path | Iterable[type[Rule]] | None) -> dict[str, type[Rule]]:
    """A user's stopping rules by class name: dataclasses with a method `holds`."""
    if rules is None:
        return {}
    if not isinstance(rules, str | Path):
        own = list(rules)
        for rule in own:
            if not _is_rule(rule):
                raise ThinkbackError(
                    f"{rule!r} is no stopping rule: a frozen dataclass with a method `holds(self, seen)`"
                )
        return {rule.__name__: rule for rule in own}
    path = Path(rules)
    if not path.is_file():
        raise ThinkbackError(f"no file of stopping rules at {path}")
    spec = importlib.util.spec_from_file_location(f"thinkback_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ThinkbackError(f"{path} is no Python file; stopping rules live in a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ThinkbackError(f"{path} does not load: {type(error).__name__}: {error}") from error
    found: dict[str, type[Rule]] = {
        name: cast(type[Rule], item)
        for name, item in inspect.getmembers(module, inspect.isclass)
        if _is_rule(item) and item.__module__ == module.__name__
    }
    if not found:
        raise ThinkbackError(f"{path} holds no stopping rule: a frozen dataclass with a method `holds(self, seen)`")
    return found


def _is_rule(item: object) -> bool:
    """Whether it is a frozen dataclass with a method `holds`."""
    frozen = getattr(getattr(item, "__dataclass_params__", None), "frozen", False)
    return inspect.isclass(item) and is_dataclass(item) and bool(frozen) and hasattr(item, "holds")
