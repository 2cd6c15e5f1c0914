"""The shipped orders, selects and stops by name, and how a key of a policy names a rule, shipped or a user's.

A shipped rule is a class: with a base class that says more of it, or a frozen dataclass without one, as users write
them. A table holds its name and its parameters. What an order and a policy both call by a name, such as `ridge`, is a
key of the policy; a table under `order` may hold it too, and the order's own parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from importlib import import_module
from typing import Any

from replay.sampling.orders import ByScore, GenerationOrder, Order, RandomOrder
from replay.sampling.selects import Select, WrappedSelect
from replay.sampling.surrogate import SurrogateOrder
from replay.sampling.user_rules import SELECT_METHODS, SELECT_SHAPE, STOP_METHODS, STOP_SHAPE
from toolkit.errors import (
    ConflictError,
    InvalidError,
    RequiredError,
    UnknownError,
    listed,
    nearest,
    quote,
    require_known,
    suggest,
    user_code,
)
from toolkit.settings import from_table
from toolkit.stopping.declared import rule_name
from toolkit.stopping.stops import StopRule, WrappedStop
from toolkit.user_files import has_method

ORDERS: dict[str, type[Order]] = {
    order.name: order for order in (GenerationOrder, RandomOrder, SurrogateOrder, ByScore)
}
"""Order classes by name; an order's parameters are keys of the policy, with the same names."""

MODULES = ("replay.sampling.selects", "toolkit.stopping.stops")
"""Modules with shipped stops and selects."""


def _shipped_rules_with_methods(methods: Collection[str]) -> dict[str, type]:
    """The frozen dataclasses of the shipped modules that have one of these methods, by name."""
    rules = (rule for name in MODULES for rule in vars(import_module(name)).values() if has_method(rule, methods))
    return {rule_name(rule): rule for rule in rules if "__dataclass_params__" in vars(rule)}


SELECTS, STOPS = _shipped_rules_with_methods(SELECT_METHODS), _shipped_rules_with_methods(STOP_METHODS)

ORDER_TABLE = 'a table such as { rule = "surrogate", ridge = 0.5 }'


@dataclass(frozen=True)
class _RuleKey:
    """A key of a policy that names a rule, and how its value becomes one. `base`: our base class; `wrapper`: the class
    that puts other rules into its form; `methods`: a rule has one of these; `shape`, `example`: a rule and its table in
    words.
    """

    base: type[Any]
    known: dict[str, type]
    wrapper: type[Any]
    methods: tuple[str, ...]
    shape: str
    example: str

    def read_rule(self, value: Any, rules: Mapping[str, type] | None = None) -> Any:
        """The rule from a policy's value: its name, its table or itself; `rules` are the user's by class name."""
        if isinstance(value, self.base):
            return value
        if isinstance(value, str | Mapping):
            return self._from_table(value, rules or {})
        if has_method(type(value), self.methods):
            return self.wrapper(value)
        if isinstance(value, type) and has_method(value, self.methods):
            raise InvalidError(
                f"`{self.base.key}` is the class `{value.__name__}`; it takes a rule: `{value.__name__}(…)`"
            )
        raise InvalidError(
            f"`{self.base.key}` is {quote(value)}; it takes one of {listed(list(self.known))}, {self.example}, or one "
            f"of your own: {self.shape}"
        )

    def _from_table(self, given: str | Mapping[str, Any], rules: Mapping[str, type]) -> Any:
        key, table = self.base.key, {"rule": given} if isinstance(given, str) else given
        if "rule" not in table:
            for other in (other for other in table if nearest(str(other), ["rule"])):
                raise UnknownError(f"unknown key `{other}` of `{key}`; did you mean `rule`? It takes {self.example}")
            raise RequiredError(f"`{key}` has no `rule`; it takes {self.example}")
        if not isinstance(table["rule"], str):
            raise InvalidError(
                f"`{key}.rule` is {quote(table['rule'])}; it takes the name of a rule, as in {self.example}"
            )
        name, values = str(table["rule"]), {other: value for other, value in table.items() if other != "rule"}
        known = self.known | {other: rule for other, rule in rules.items() if has_method(rule, self.methods)}
        require_known(name, known, f"unknown {self.base.noun} `{name}`")
        if values and not fields(known[name]):
            raise ConflictError(f"{key} `{name}` has no parameters; leave out {listed(list(values))}")
        with user_code(f"{self.base.noun} `{name}`"):
            return self.read_rule(from_table(known[name], values, key))


STOP = _RuleKey(
    StopRule, STOPS, WrappedStop, STOP_METHODS, STOP_SHAPE, 'a table such as { rule = "margin", margin = 0.15 }'
)
SELECT = _RuleKey(
    Select, SELECTS, WrappedSelect, SELECT_METHODS, SELECT_SHAPE, 'a table such as { rule = "Mine", k = 3 }'
)


def read_select(value: Any, rules: Mapping[str, type] | None = None) -> Select | str:
    """A select as a policy stores it: the name of a shipped one without parameters, else the rule."""
    rule: Select = SELECT.read_rule(value, rules)
    return str(rule) if SELECTS.get(str(rule)) is type(rule) and not vars(rule) else rule


def rule_of_select(select: Select | str) -> Select:
    """The select that a policy means, by its name or itself."""
    rule: Select = SELECT.read_rule(select)
    return rule


def with_order_keys(table: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """A policy's table, with the `keys` of its table under `order` moved up to the policy."""
    order = table.get("order")
    if not isinstance(order, Mapping):
        return table
    name = _require_known_order(order.get("rule"), order)
    values = {key: value for key, value in order.items() if key != "rule"}
    for key in values:
        require_known(key, _parameter_names(ORDERS[name]), f"unknown key `{key}` in `order`")
        if key in table:
            raise ConflictError(f"`{key}` stands in the policy and in its `order`; leave out one of them")
    parameters = {key: value for key, value in values.items() if key not in keys}
    shared = {key: value for key, value in values.items() if key in keys}
    return {**table, **shared, "order": from_table(ORDERS[name], parameters, "order") if parameters else name}


def read_order(value: Any, keys: Collection[str]) -> str | Order:
    """An order as a policy with these keys stores it: a name, or an order with parameters."""
    if not isinstance(value, Order):
        return _require_known_order(value, value)
    both = [field for field in fields(value) if field.name in keys]  # type: ignore[arg-type]
    for field in both:
        if field.default is MISSING or getattr(value, field.name) != field.default:
            raise ConflictError(f"`{field.name}` of `order` is a key of the policy: write it in the policy")
    has_parameters = len(both) < len(_parameter_names(type(value)))
    return value if has_parameters or ORDERS.get(value.name) is not type(value) else value.name


def rule_of_order(order: str | Order, keys: Mapping[str, Any]) -> Order:
    """The order with its parameters; those that are keys of the policy come from `keys`."""
    kind = ORDERS[order] if isinstance(order, str) else type(order)
    shared = {name: keys[name] for name in _parameter_names(kind) if name in keys}
    return kind(**shared) if isinstance(order, str) else replace(order, **shared)  # type: ignore[type-var]


def _parameter_names(kind: type[Order]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]


def _require_known_order(name: object, value: object) -> str:
    if not isinstance(name, str):
        raise InvalidError(f"`order` is {quote(value)}; it takes one of {listed(list(ORDERS))}, or {ORDER_TABLE}")
    if name not in ORDERS:
        raise UnknownError(f"`order` is {quote(name)}; {suggest(name, ORDERS)}")
    return name
