"""The orders, selects and stops by the names that policy files give them."""

from __future__ import annotations

from replay.sampling.orders import ByScore, Generation, Order, RandomOrder
from replay.sampling.selects import BestOfN, First, Majority, Select, WeightedVote
from replay.sampling.stops import Agreement, Budget, Margin, Never, StopRule, Window
from replay.sampling.surrogate import Surrogate

ORDERS: dict[str, type[Order]] = {order.name: order for order in (Generation, RandomOrder, Surrogate, ByScore)}
"""An order's parameters are keys of the policy, with the same names."""

SELECTS: dict[str, Select] = {"first": First(), "majority": Majority(), "best": BestOfN(), "weighted": WeightedVote()}

STOPS: dict[str, type[StopRule]] = {rule.name: rule for rule in (Never, Budget, Margin, Agreement, Window)}
