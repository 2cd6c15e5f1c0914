"""Orders as policies hold them: by name, or with parameters that are no keys of the policy.

What an order and a policy both call by a name, such as `ridge`, is a key of the policy. A table under `order` may hold
it too; what else it holds are the order's own parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from replay.sampling.known import ORDERS
from replay.sampling.orders import Order
from toolkit.errors import ThinkbackError, listed, require_known, shown, suggest
from toolkit.settings import from_table

TABLE = 'a table such as { rule = "surrogate", ridge = 0.5 }'


def with_order_keys(table: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """A policy's table in which a table under `order` has given the policy its `keys`, and kept the order's own."""
    given = table.get("order")
    if not isinstance(given, Mapping):
        return table
    name = _known(given.get("rule"), given)
    values = {key: value for key, value in given.items() if key != "rule"}
    for key in values:
        require_known(key, _parameters(ORDERS[name]), f"unknown key `{key}` in `order`")
        if key in table:
            raise ThinkbackError(f"`{key}` stands in the policy and in its `order`; leave out one of them")
    own = {key: value for key, value in values.items() if key not in keys}
    shared = {key: value for key, value in values.items() if key in keys}
    return {**table, **shared, "order": from_table(ORDERS[name], own, "order") if own else name}


def order_given(given: Any, keys: Collection[str]) -> str | Order:
    """An order as a policy with these keys holds it: a name, or an order with parameters of its own."""
    if not isinstance(given, Order):
        return _known(given, given)
    both = [field for field in fields(given) if field.name in keys]  # type: ignore[arg-type]
    for field in both:
        if field.default is MISSING or getattr(given, field.name) != field.default:
            raise ThinkbackError(f"`{field.name}` of `order` is a key of the policy: give it there")
    own = len(both) < len(_parameters(type(given)))
    return given if own or ORDERS.get(given.name) is not type(given) else given.name


def order_of(given: str | Order, keys: Mapping[str, Any]) -> Order:
    """The order with its parameters, those that are keys of the policy from there."""
    kind = ORDERS[given] if isinstance(given, str) else type(given)
    shared = {name: keys[name] for name in _parameters(kind) if name in keys}
    return kind(**shared) if isinstance(given, str) else replace(given, **shared)  # type: ignore[type-var]


def _parameters(kind: type[Order]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]


def _known(name: object, given: object) -> str:
    if not isinstance(name, str):
        raise ThinkbackError(f"`order` is {shown(given)}; it takes one of {listed(list(ORDERS))}, or {TABLE}")
    if name not in ORDERS:
        raise ThinkbackError(f"`order` is {shown(name)}; {suggest(name, ORDERS)}")
    return name
