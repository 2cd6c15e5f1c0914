"""How much of a difference between two policies is luck of the order in which the traces were logged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import polars as pl

from replay.data.contents import Contents, open_with_contents
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.policies.suite import ORDERS
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.passes import correctness_of_policies
from replay.runs.passes.ranges import over_evaluators
from toolkit.errors import counted, listed
from toolkit.log import AnyLog, Log, collect
from toolkit.notes import Note, note
from toolkit.stats import unit_numbers
from toolkit.stats.limits.planning import POWER, RANGE, DifferenceVariance, difference_variance

MOST_NAMED = 3
MOST_COMPARED, FEWEST_COMPARED = 1000, 20
"""The most and the fewest examples on which the logged order of a run is compared with all orders."""
MOST_DESCRIBED = 10_000
"""The most examples of a log that are used; of more, a seed draws so many."""
MOST_POLICIES = 20
"""The most policies compared this way, the first of a run."""
LEAST_TIMES = 1.1
"""The least factor by which intervals get narrower for a note to say so."""
FEWEST_TRACES = 4


@dataclass(frozen=True)
class _OrderVariances:
    """Variances, by policy, of the difference to the policy `first`: in the logged order, and over all orders."""

    first: str = ""
    variances: dict[str, tuple[DifferenceVariance, DifferenceVariance]] = field(default_factory=dict)

    @property
    def width_factors(self) -> dict[str, float]:
        """Policy -> the factor by which its interval is narrower over all orders."""
        return {name: sqrt(one.value / over.value) for name, (one, over) in self.variances.items()}

    def __bool__(self) -> bool:
        return max(self.width_factors.values(), default=0.0) > LEAST_TIMES

    def __str__(self) -> str:
        low, high = (
            f"{max(1.0, end):.2g}" for end in (min(self.width_factors.values()), max(self.width_factors.values()))
        )
        return f"{low} times" if low == high else f"{low} to {high} times"


def _order_variances(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, baseline: str | None
) -> _OrderVariances:
    """Variances of the differences between policies as they are, and between their means over all orders."""
    in_order = ((policy.name, one) for policy in policies if (one := policy.as_mean_over_all_orders()) is not None)
    exact = dict(itertools.islice(in_order, MOST_POLICIES))
    some = examples.gather_every(max(len(examples) // MOST_COMPARED, 1)).head(MOST_COMPARED)
    if not exact or len(some) < FEWEST_COMPARED:
        return _OrderVariances()
    logged = {policy.name: policy for policy in policies if policy.name in exact or policy.name == baseline}
    pairs = [*logged.values(), *(exact.get(name, policy) for name, policy in logged.items())]
    named = [policy.filled(name=str(number), against=None) for number, policy in enumerate(pairs)]
    parts = over_evaluators(log, contents, named, some, correctness_of_policies, "orders")
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
    return _OrderVariances(first, variances)


def order_notes(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, baseline: str | None
) -> Iterator[Note]:
    """Notes on policies that are means over orders, and on what all orders would gain for the others."""
    by_orders: dict[str, list[str]] = {}
    for policy in policies:
        if policy.mean_over_text:
            by_orders.setdefault(policy.mean_over_text, []).append(policy.name)
    if by_orders:
        parts = [f"over {orders}: {listed(names, MOST_NAMED)}" for orders, names in by_orders.items()]
        yield note("orders", f"means {'; '.join(parts)}", [name for names in by_orders.values() for name in names])
    if narrower := _order_variances(log, contents, policies, examples, baseline):
        names = list(narrower.width_factors)
        yield note(
            "logged_order",
            f"in the order in which the traces were logged: {listed(names, MOST_NAMED)}. Over all orders "
            f"(`expected = true`) intervals of differences to `{narrower.first}` would be {narrower} narrower",
            names,
        )


def order_gain_notes(log: AnyLog) -> Iterator[Note]:
    """Notes on the gain of exact means over all orders, by pool, for the vote of a half of its traces, or three,
    against that of a quarter; and on the smallest difference, between these or any two, that so many questions show.
    """
    log, contents = open_with_contents(log)
    examples = collect(log.scan("examples", ["example_id", "labels", "gold", "cluster"]), log).sort("example_id")
    some = examples
    if len(examples) > MOST_DESCRIBED:
        places = np.random.default_rng(0).choice(len(examples), MOST_DESCRIBED, replace=False)
        some = examples[np.sort(places)]
    shows = False
    for pool in sorted(contents.pools - contents.ordered_pools - contents.opaque):
        size = contents.sizes[pool]
        if size < FEWEST_TRACES or len(some) < FEWEST_COMPARED:
            continue
        few, many = (
            Sample(name=f"majority@{n}", pool=pool, max_traces=n, select="majority").resolve(contents)
            for n in (size // 4, max(size // 2, 3))  # a vote of two is right as often as one trace
        )
        pair = _in_one_and_over_all_orders(log, contents, (few, many), some)
        if pair is None:
            continue
        gain = _OrderVariances(few.name, {many.name: pair})
        if gain:
            text = f"the interval of {many.name} − {few.name} is {gain} narrower than in one order"
            where = f"pool `{pool}`: over all orders (`expected = true`)"
            yield note("logged_order", f"{where} {text}", [many.name])
        n = len(examples) * pair[0].questions // len(some)
        ends = [(detectable_points_text(variance, n), orders) for variance, orders in zip(pair, IN_ORDERS, strict=True)]
        known = [f"{points} {orders}" for points, orders in ends if points is not None]
        if known:
            shows = True
            text = f"show, with {100 * POWER:g} % power, {many.name} − {few.name} of {', or '.join(known)}"
            yield note("detectable", f"pool `{pool}`: {counted(n, 'question')} {text}")
    if not shows and len(examples) >= FEWEST_COMPARED and (text := smallest_detectable_text(len(examples))):
        yield note("detectable", text)


def _in_one_and_over_all_orders(
    log: Log, contents: Contents, pair: Sequence[Sample], examples: pl.DataFrame
) -> tuple[DifferenceVariance, DifferenceVariance] | None:
    """Variances of the difference of two policies in one order of the traces, as `thinkback plan` takes it from seeded
    ones, and over all; None where too few questions are judged, or the order makes no difference.
    """
    exact = [policy.as_mean_over_all_orders() or policy for policy in pair]
    seeded = [policy.as_mean_over_seeded_orders(contents, 1, seed) for seed in range(ORDERS) for policy in pair]
    named = [policy.filled(name=str(number), against=None) for number, policy in enumerate([*exact, *seeded])]
    parts = over_evaluators(log, contents, named, examples, correctness_of_policies, "orders")
    values, units = np.concatenate(parts, axis=1), unit_numbers(resampling_units(examples))
    over, single = values[1] - values[0], values[3::2] - values[2::2]
    if (~np.isnan(over)).sum() < FEWEST_COMPARED:
        return None
    one = difference_variance(single.mean(axis=0), within=single.var(axis=0), cluster=units)
    variance = difference_variance(over, cluster=units)
    return (one, variance) if variance.value > 0 else None


def detectable_points_text(variance: DifferenceVariance, questions: float, level: float = 0.95) -> str | None:
    """The smallest difference that so many questions show, in words, with its range where its ends differ in two
    digits; None where there is none.
    """
    difference = variance.detectable(questions, level=level)
    if difference is None:
        return None
    limits = (variance.detectable(questions, level=level, end=end) for end in (-1, 1))
    low, high = ("" if limit is None else _short_percent(limit) for limit in limits)
    ends = f" ({100 * RANGE:g} % range {low} to {high})" if low and high and low != high else ""
    return f"{_short_percent(difference)} points{ends}"


def _short_percent(share: float) -> str:
    return f"{100 * share:#.2g}".rstrip(".")


IN_ORDERS = "in one order", "over all orders"
TENTH = 0.1


def smallest_detectable_text(questions: int) -> str:
    """A sentence on the smallest difference between any two policies that so many questions show; empty without."""
    difference = DifferenceVariance(TENTH, 0.0, questions, questions, questions).detectable(questions)
    if difference is None:
        return ""
    text = f"{counted(questions, 'question')} show, with {100 * POWER:g} % power, a difference from"
    return f"{text} {100 * difference:.2g} points on between policies that differ on a tenth of them"
