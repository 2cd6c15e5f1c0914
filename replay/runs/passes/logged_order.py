"""How much of a difference between two policies is the luck of the order in which the traces were logged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from replay.data.contents import Contents, opened
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.runs.passes.passes import correctness, evaluators
from toolkit.errors import listed
from toolkit.log import AnyLog, Log, collect
from toolkit.notes import Note, note

MOST_NAMED = 3
MOST_COMPARED, FEWEST_COMPARED = 1000, 20
"""Examples on which the logged order is compared with all orders, at most and at least."""
MOST_POLICIES = 20
"""Policies of which that is done, the first of a run."""
LEAST_TIMES = 1.1
"""Least factor by which intervals are narrower where a note says so."""
FEWEST_TRACES = 4


@dataclass(frozen=True)
class _Narrower:
    """Factors, by policy, by which intervals of differences to the policy `first` are narrower over all orders."""

    first: str = ""
    times: dict[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return max(self.times.values(), default=0.0) > LEAST_TIMES

    def __str__(self) -> str:
        low, high = (f"{max(1.0, end):.2g}" for end in (min(self.times.values()), max(self.times.values())))
        return f"{low} times" if low == high else f"{low} to {high} times"


def _narrower(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, baseline: str | None
) -> _Narrower:
    """Standard deviations of differences between policies as they are, over those between their exact means."""
    in_order = ((policy.name, one) for policy in policies if (one := policy.over_all_orders()) is not None)
    exact = dict(itertools.islice(in_order, MOST_POLICIES))
    some = examples.head(MOST_COMPARED)
    if not exact or len(some) < FEWEST_COMPARED:
        return _Narrower()
    logged = {policy.name: policy for policy in policies if policy.name in exact or policy.name == baseline}
    pairs = [*logged.values(), *(exact.get(name, policy) for name, policy in logged.items())]
    named = [policy.filled(name=str(number), against=None) for number, policy in enumerate(pairs)]
    parts = [correctness(on) for on in evaluators(log, contents, named, some, "orders")]
    plain, every = (dict(zip(logged, half, strict=True)) for half in np.split(np.concatenate(parts, axis=1), 2))
    moved = [name for name in exact if not np.array_equal(plain[name], every[name], equal_nan=True)]
    first = baseline if baseline is not None and baseline in logged else next(iter(moved), "")
    times = {}
    for name in (name for name in moved if name != first):
        one, over = plain[name] - plain[first], every[name] - every[first]
        known = ~np.isnan(one + over)
        if known.sum() >= FEWEST_COMPARED and over[known].std() > 0:
            times[name] = float(one[known].std() / over[known].std())
    return _Narrower(first, times)


def order_notes(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, baseline: str | None
) -> Iterator[Note]:
    """Notes on policies that are means over orders; of those that keep the logged one, what all orders would gain."""
    by_orders: dict[str, list[str]] = {}
    for policy in policies:
        if policy.mean_over:
            by_orders.setdefault(policy.mean_over, []).append(policy.name)
    if by_orders:
        parts = [f"over {orders}: {listed(names, MOST_NAMED)}" for orders, names in by_orders.items()]
        yield note("orders", f"means {'; '.join(parts)}", [name for names in by_orders.values() for name in names])
    if narrower := _narrower(log, contents, policies, examples, baseline):
        names = list(narrower.times)
        yield note(
            "logged_order",
            f"{listed(names, MOST_NAMED)} keep the order in which the traces were logged. Over all orders "
            f"(`expected = true`) intervals of their differences to `{narrower.first}` would be {narrower} narrower",
            names,
        )


def gains_of_orders(log: AnyLog) -> Iterator[Note]:
    """Notes on the gain of exact means over all orders, by pool: for the vote of a half against that of a quarter."""
    log, contents = opened(log)
    examples = collect(log.scan("examples", ["example_id", "labels", "gold", "cluster"]), log).sort("example_id")
    for pool in sorted(contents.pools - contents.whole - contents.opaque):
        size = contents.sizes[pool]
        if size < FEWEST_TRACES:
            continue
        few, many = (
            Sample(name=f"majority@{n}", pool=pool, max_traces=n, select="majority").resolve(contents)
            for n in (size // 4, size // 2)
        )
        if narrower := _narrower(log, contents, [few, many], examples, few.name):
            text = f"the interval of {many.name} − {few.name} is {narrower} narrower than in the logged one"
            where = f"pool `{pool}`: over all orders (`expected = true`)"
            yield note("logged_order", f"{where} {text}", [many.name])
