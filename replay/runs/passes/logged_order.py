"""How much of a difference between two policies is the luck of the order in which the traces were logged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import polars as pl

from replay.data.contents import Contents, opened
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.passes import correctness, evaluators
from toolkit.errors import counted, listed
from toolkit.log import AnyLog, Log, collect
from toolkit.notes import Note, note
from toolkit.stats import unit_numbers
from toolkit.stats.limits.planning import POWER, DifferenceVariance, difference_variance

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
    """Variances, by policy, of differences to the policy `first` in the logged order and over all orders."""

    first: str = ""
    variances: dict[str, tuple[DifferenceVariance, DifferenceVariance]] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, float]:
        """Factors, by policy, by which their intervals are narrower over all orders."""
        return {name: sqrt(one.value / over.value) for name, (one, over) in self.variances.items()}

    def __bool__(self) -> bool:
        return max(self.times.values(), default=0.0) > LEAST_TIMES

    def __str__(self) -> str:
        low, high = (f"{max(1.0, end):.2g}" for end in (min(self.times.values()), max(self.times.values())))
        return f"{low} times" if low == high else f"{low} to {high} times"


def _narrower(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, baseline: str | None
) -> _Narrower:
    """Variances of differences between policies as they are, and between their exact means."""
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
    variances, units = {}, unit_numbers(resampling_units(some))
    for name in (name for name in moved if name != first):
        one, over = plain[name] - plain[first], every[name] - every[first]
        unknown = np.where(np.isnan(one + over), np.nan, 0.0)
        pair = (difference_variance(one + unknown, cluster=units), difference_variance(over + unknown, cluster=units))
        if pair[1].questions >= FEWEST_COMPARED and pair[1].value > 0:
            variances[name] = pair
    return _Narrower(first, variances)


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
    """Notes on the gain of exact means over all orders, by pool: for the vote of a half against that of a quarter; and
    on the difference between the two, or between any two policies, that so many questions show.
    """
    log, contents = opened(log)
    examples = collect(log.scan("examples", ["example_id", "labels", "gold", "cluster"]), log).sort("example_id")
    shows = False
    for pool in sorted(contents.pools - contents.whole - contents.opaque):
        size = contents.sizes[pool]
        if size < FEWEST_TRACES:
            continue
        few, many = (
            Sample(name=f"majority@{n}", pool=pool, max_traces=n, select="majority").resolve(contents)
            for n in (size // 4, size // 2)
        )
        narrower = _narrower(log, contents, [few, many], examples, few.name)
        if narrower:
            text = f"the interval of {many.name} − {few.name} is {narrower} narrower than in the logged one"
            where = f"pool `{pool}`: over all orders (`expected = true`)"
            yield note("logged_order", f"{where} {text}", [many.name])
        for pair in narrower.variances.values():
            n = len(examples) * pair[0].questions // min(len(examples), MOST_COMPARED)
            differences = zip((one.detectable(n) for one in pair), IN_ORDERS, strict=True)
            known = [f"from {100 * one:.2g} points on {of}" for one, of in differences if one is not None]
            if known:
                shows = True
                text = f"show {many.name} − {few.name} with {100 * POWER:g} % power {', '.join(known)}"
                yield note("detectable", f"pool `{pool}`: {counted(n, 'question')} {text}")
    if not shows and len(examples) >= FEWEST_COMPARED and (text := any_detectable(len(examples))):
        yield note("detectable", text)


IN_ORDERS = "in the logged order", "over all orders"
TENTH = 0.1


def any_detectable(questions: int) -> str:
    """Sentence on the difference that so many questions show between any two policies; empty where there is none."""
    difference = DifferenceVariance(TENTH, 0.0, questions, questions, questions).detectable(questions)
    if difference is None:
        return ""
    text = f"{counted(questions, 'question')} show, with {100 * POWER:g} % power, a difference from"
    return f"{text} {100 * difference:.2g} points on between policies that differ on a tenth of them"
