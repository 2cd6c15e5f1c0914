"""Which orders, stops, selects and keys of a `sample` policy do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from replay.sampling.abandon import Abandon
from replay.sampling.orders import Order
from replay.sampling.prefix import SCORES
from replay.sampling.selects import Select
from replay.sampling.stops import StopRule


class Combination(Protocol):
    """The keys that are held against each other."""

    @property
    def max_traces(self) -> int:
        """The cap."""
        ...

    @property
    def verifier(self) -> str | None:
        """Whose scores are used."""
        ...

    @property
    def order(self) -> str | Order:
        """The order as it is given."""
        ...

    @property
    def ordering(self) -> Order:
        """The order with its parameters."""
        ...

    @property
    def select(self) -> str | Select:
        """The select as it is given."""
        ...

    @property
    def selector(self) -> Select:
        """The select rule."""
        ...

    @property
    def stop(self) -> StopRule:
        """The stopping rule."""
        ...

    @property
    def readers(self) -> Mapping[str, StopRule | Select | Order]:
        """Order, stop and select, as messages call them."""
        ...

    @property
    def verifies(self) -> bool:
        """Whether any of them reads scores."""
        ...

    @property
    def width(self) -> int:
        """Traces at a time."""
        ...

    @property
    def orders(self) -> int | None:
        """How many random orders it is a mean over."""
        ...

    @property
    def expected(self) -> bool:
        """Whether it is an exact mean."""
        ...

    @property
    def means_one(self) -> bool:
        """Whether that is of one sample."""
        ...

    @property
    def abandon(self) -> Abandon | None:
        """Which traces are given up early."""
        ...


def broken_combinations(policy: Combination) -> Iterator[str]:
    """Each way in which the keys of a policy contradict each other, in words."""
    order, select, stop = policy.ordering, policy.selector, policy.stop
    if select.one_trace and policy.max_traces != 1:
        yield f'`select = "{policy.select}"` needs `max_traces = 1`; it has {policy.max_traces}'
    if policy.verifies and policy.verifier is None:
        reader = next(what for what, part in policy.readers.items() if SCORES in part.reads)
        yield f"its {reader} reads scores, so it needs a `verifier`"
    if order.verifies_later and not stop.between_verifications:
        why = "because it is looked at after verifications and not after traces"
        yield f'`order = "{policy.order}"` needs stop `none`, `margin` or a budget of verifications, {why}'
    if order.verifies_later and SCORES not in select.reads:
        known = f"`best`, `weighted` or one of your own, not `{policy.select}`"
        yield f'`order = "{policy.order}"` needs a `select` that reads scores: {known}'
    if order.lazy and policy.width != 1:
        yield '`mode = "lazy"` generates trace by trace; leave out `width`, or use `mode = "pool"`'
    means_best = order.drawn and select.by_score and stop.verification_budget is not None
    if policy.expected and not (means_best or policy.means_one):
        whole = '`order = "random"`, `select = "best"` and a budget of verifications, or `select = "first"`'
        yield f"`expected` needs {whole} with neither order nor stop"
    if policy.expected and policy.orders is not None:
        yield "`expected` is already exact over all orders; leave out `orders`"
    if policy.abandon is not None and policy.verifies and policy.abandon.verifier == policy.verifier:
        why = "the one scores traces after their first tokens, the other whole ones"
        yield f"`abandon` and the policy have the same `verifier`, `{policy.verifier}`: {why}, so they are two"
