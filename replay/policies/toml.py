"""Policies from TOML: `[[policy]]` tables, sweeps, run-wide settings, and a user's own rules.

A sweep is a list in place of a value: one policy per value, of several lists their product.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from replay.data.prices import Prices, read_prices
from replay.policies.base import KINDS, Policy, read_policy
from replay.policies.gates import COMBINED
from replay.policies.suite import Suite
from replay.sampling.user_rules import GivenRules, user_rules
from toolkit.arguments import WORDS, checked_argument, checks_arguments
from toolkit.documents import LiteralFloat, parse_toml, read_text
from toolkit.errors import (
    ConflictError,
    InvalidError,
    LimitError,
    NotFoundError,
    RequiredError,
    UnknownError,
    error_prefix,
    quote,
    require_known,
    suggest,
)

KEYS = ("policy", "measure", "cost", "prices")


MOST_POLICIES = 20_000


@dataclass(frozen=True)
class PolicyFile:
    """The policies of a file in its order, and its settings for the whole run. A standard suite also sets which
    examples are reported and the columns of their groups, and says what it leaves out.
    """

    policies: tuple[Policy, ...]
    measure: str | None = None
    prices: Prices | None = None
    where: str | None = None
    by: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    cost: str | None = None
    standard: bool = False  # the standard suite, which is compared with its vote over most traces by default

    def __post_init__(self) -> None:
        policies = checked_argument("policies", self.policies, Iterable[Policy])
        object.__setattr__(self, "policies", check_policy_names(_require_policies(policies)))
        checked_argument("measure", self.measure, str | None, WORDS["measure"])
        checked_argument("cost", self.cost, str | None, "the name of a cost")
        checked_argument("standard", self.standard, bool)
        checked_argument("prices", self.prices, Prices | None)
        checked_argument("where", self.where, str | None, WORDS["where"])
        object.__setattr__(self, "by", checked_argument("by", self.by, tuple[str, ...], "columns of examples"))


GivenPolicies = str | Path | PolicyFile | Suite | Policy | Iterable[Policy]
"""Types that a function takes for policies."""


@checks_arguments(source=WORDS["policies"])
def load_policies(source: GivenPolicies, rules: GivenRules = None) -> PolicyFile:
    """Policies from a TOML file (a path, or a text that holds a line break), from a suite, or as built in Python.

    `rules` is a Python file, or classes, with stopping rules and selects of the user's own.
    Raises ThinkbackError for anything misspelt, missing, doubled or of the wrong type.
    """
    rule_classes = user_rules(rules)
    if isinstance(source, PolicyFile):
        return source
    if isinstance(source, Suite):
        file = _parse_policy_file(source.text, "the suite", rule_classes)
        return replace(file, where=source.where, by=source.by, left_out=source.left_out, standard=True)
    if isinstance(source, Policy):
        return PolicyFile((source,))
    if isinstance(source, str | Path):
        if not str(source).strip():
            raise RequiredError("the policies are an empty text: name a TOML file, or write the text with its tables")
        inline = isinstance(source, str) and "\n" in source
        if not inline and "=" in str(source) and not Path(source).exists():
            raise NotFoundError(f"no file of policies is called `{source}`; a TOML text has several lines")
        text = str(source) if inline else read_text(source, f"the policies in {source}")
        return _parse_policy_file(text, "policies" if inline else str(source), rule_classes)
    return PolicyFile(tuple(source))


def _parse_policy_file(text: str, name: str, rule_classes: Mapping[str, type]) -> PolicyFile:
    document = parse_toml(text, name, parse_float=LiteralFloat)
    with error_prefix(f"{name}: "):
        for key, value in document.items():
            if key not in KEYS and value and isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
                raise UnknownError(f"`[[{key}]]` is no table of a policy file; write each policy under `[[policy]]`")
            require_known(key, KEYS, f"unknown key `{key}`")
        tables = document.get("policy")
        if not isinstance(tables, list) or not tables or not all(isinstance(t, Mapping) for t in tables):
            raise RequiredError("it has no policy; write each one as a table under `[[policy]]`")
        _check_number(tables)
        policies = [
            policy.filled(sweep=str(table.get("name", "")), sweep_size=size, swept=swept) if swept else policy
            for table in tables
            for entry, swept, size in _expand_sweep(table)
            for policy in [
                read_policy(_map_leaves(entry, _integer_literal_as_float), entry.get("name", ""), rule_classes)
            ]
        ]
        measure = document.get("measure")
        if measure is not None and not isinstance(measure, str):
            raise InvalidError(f"`measure` is {quote(measure)}; it takes the name of a column of traces")
        cost = document.get("cost")
        if cost is not None and not isinstance(cost, str):
            raise InvalidError(f'`cost` is {quote(cost)}; it takes the name of a cost, such as "tokens"')
        return PolicyFile(tuple(policies), measure, read_prices(document.get("prices")), cost=cost)


def _require_policies(items: Iterable[Any]) -> tuple[Policy, ...]:
    policies = tuple(items)
    for policy in policies:
        if not isinstance(policy, Policy):
            raise InvalidError(f"`policies` holds {quote(policy)}, which is no policy")
    return policies


def check_policy_names(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """The policies of a run. Raises where two have one name, or where `against` names none of them."""
    names = [p.name for p in policies]
    if not names:
        raise RequiredError("there is no policy to replay")
    known = set()
    for name in names:
        if name in known:
            raise ConflictError(f"two policies are named `{name}`; give each a name of its own")
        known.add(name)
    _check_labels(policies)
    for policy in policies:
        if policy.against is not None and policy.against not in known:
            raise policy.refusal(f"`against` names no policy: `{policy.against}`; {suggest(policy.against, names)}")
        if policy.against == policy.name:
            raise policy.refusal("`against` names itself")
    return tuple(policies)


def _check_labels(policies: Sequence[Policy]) -> None:
    """Raise where two policies, or two sweeps, would have the same name in tables and figures."""
    owners: dict[str, str] = {}
    for sweep, label in dict.fromkeys((policy.sweep, policy.label or policy.sweep) for policy in policies):
        if label in owners:
            raise ConflictError(f"tables would call `{owners[label]}` and `{sweep}` both `{label}`; change a `label`")
        owners[label] = sweep


def _integer_literal_as_float(value: Any) -> Any:
    """A number of a file as an ordinary float, once names have been made of its spelling."""
    return float(value) if isinstance(value, LiteralFloat) else value


def _expand_sweep(table: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[tuple[str, Any], ...], int]]:
    """The policies that a table with lists stands for, each as a table without lists, its keys and values, and their
    number.

    The name of each gets `[key=value, ...]` in the order written, inner keys with dots. Raises when a sweep makes more
    than MOST_POLICIES policies, saying how large it is.
    """
    if isinstance(table.get("name"), list):
        raise InvalidError(f"`name` is a list: {_text_as_written(table['name'])}; a sweep makes the names itself")
    swept = list(_sweep_lists((), table))
    size = prod(len(values) for _, values in swept)
    name = table.get("name", "a policy without a name")
    if size > MOST_POLICIES:
        parts = " x ".join(f"{len(values)} of `{'.'.join(path)}`" for path, values in swept)
        raise LimitError(
            f"policy `{name}`: its sweep makes {size:,} policies ({parts}); at most {MOST_POLICIES:,} are allowed"
        )
    if size == 0:
        empty = next(path for path, values in swept if not values)
        raise InvalidError(f"policy `{name}`: `{'.'.join(empty)}` is an empty list; give it at least one value")
    if not swept:
        yield dict(table), (), 1
        return
    plain = _map_leaves(table)
    for path, _ in swept:  # so that no copy carries the lists; keys keep their order
        _set_nested_value(plain, path, None)
    for choice in itertools.product(*(values for _, values in swept)):
        entry = _map_leaves(plain)
        settings = []
        for (path, _), value in zip(swept, choice, strict=True):
            _set_nested_value(entry, path, value)
            settings.append((".".join(path), value))
        entry["name"] = f"{name}[{', '.join(f'{key}={_text_as_written(value)}' for key, value in settings)}]"
        yield entry, tuple(settings), size


def _check_number(tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise where the tables of a file make more than MOST_POLICIES policies together."""
    count = sum(prod(len(values) for _, values in _sweep_lists((), table)) for table in tables)
    if len(tables) > 1 and count > MOST_POLICIES:
        raise LimitError(f"it makes {count:,} policies; at most {MOST_POLICIES:,} are allowed")


def _text_as_written(value: object) -> str:
    """A value as the file wrote it: numbers to the letter, true and false in lower case."""
    if isinstance(value, LiteralFloat):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_text_as_written(v) for v in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}={_text_as_written(v)}' for k, v in value.items())}}}"
    return str(value)


def _sweep_lists(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """The lists in place of single values, each with the keys on the way to it; for gates of several a key is a place,
    from 0.

    Where the value of a policy's key is a list by nature, a list of lists is the sweep.
    """
    kind = table.get("kind")
    whole = KINDS[kind].lists if isinstance(kind, str) and kind in KINDS else Policy.lists
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _sweep_lists((*path, key), value)
        elif key in COMBINED and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
            for place, part in enumerate(value):
                yield from _sweep_lists((*path, key, str(place)), part)
        elif isinstance(value, list) and (key not in {*whole, *COMBINED} or any(isinstance(v, list) for v in value)):
            yield (*path, key), value


def _set_nested_value(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    inner: Any = table
    for key in path[:-1]:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    inner[path[-1]] = value


def _map_leaves(value: Any, leaf: Callable[[Any], Any] = lambda inner: inner) -> Any:
    """A copy of tables and lists, with `leaf` applied to every value in them."""
    if isinstance(value, Mapping):
        return {key: _map_leaves(inner, leaf) for key, inner in value.items()}
    return [_map_leaves(inner, leaf) for inner in value] if isinstance(value, list) else leaf(value)
