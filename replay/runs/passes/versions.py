"""Versions of policies, all replayed in one pass: whether a ranking policy acts on an example is decided afterwards.

On each example, a policy with every threshold of a gate has one of two outcomes, that of never and that of always
acting, and so has an oracle that ranks all examples of a run. A policy that is compared with such an oracle has an
outcome for each of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from replay.engine.outcome import Outcome
from replay.kinds.when import ALL_ALONE
from replay.policies.base import Evaluator, ExampleRanking, Policy, SweptGate, policy_and_parts
from replay.runs.passes.outcome_tables import OutcomeTables
from toolkit.errors import AmbiguousError, InvalidError, listed, quote, require_known
from toolkit.stats.metrics.spill import Floats, Ints


def swept_gate_of(policy: Policy) -> SweptGate | None:
    """The gate of a policy with several thresholds; None for other policies.

    Raises ThinkbackError where it is of a part of the policy, or in a combined gate.
    """
    for part in policy_and_parts(policy):
        if part is not policy and part.swept_gate is not None:
            raise policy.refusal(ALL_ALONE)
    return policy.swept_gate


def policy_named(policies: Sequence[Policy], name: str) -> Policy:
    """The policy of a name; for one with several thresholds, with the threshold in the name's brackets.

    Raises ThinkbackError for a name that no policy has, or several have.
    """
    by_name = {policy.name: policy for policy in policies}
    whole = next((one for one in policies if name.startswith(f"{one.name}[gate.")), None)
    if name not in by_name and whole is not None and (gate := swept_gate_of(whole)) is not None:
        value = name.removesuffix("]").rpartition("=")[2]
        try:
            return replace(gate.at(float(value)), name=name)
        except ValueError:
            raise InvalidError(f"`{name}`: `{quote(value)}` is no threshold of `{whole.name}`") from None
    if len(settings := [one.name for one in policies if one.sweep == name and one.name != name]) > 1:
        raise AmbiguousError(f"`{name}` stands for several settings: name one, {listed(settings, 6)}")
    require_known(name, by_name, f"no policy is named `{name}`")
    if (gate := swept_gate_of(by_name[name])) is not None:
        key = "below" if gate.falling else "at_least"
        raise AmbiguousError(f"`{name}` stands for several thresholds: name one, as `{name}[gate.{key}=0.5]`")
    return by_name[name]


@dataclass(frozen=True, eq=False)
class PolicyVersions:
    """The versions of policies. `every`: each version's policy, and the ranking policies that act in it. `places` (P,
    4): of each policy the versions where neither acts, it acts, the policy that it is compared with acts, both act.
    """

    policies: tuple[Policy, ...]
    every: tuple[tuple[Policy, frozenset[str]], ...]
    places: Ints
    gates: Mapping[str, SweptGate]
    rankings: Mapping[str, ExampleRanking]

    @classmethod
    def versions_of_policies(cls, policies: Sequence[Policy]) -> PolicyVersions:
        """The versions of policies. Raises ThinkbackError where one is compared with a policy of many thresholds."""
        gates = {policy.name: gate for policy in policies if (gate := swept_gate_of(policy)) is not None}
        rankings = {policy.name: ranking for policy in policies if (ranking := policy.example_ranking) is not None}
        every: list[tuple[Policy, frozenset[str]]] = []
        places = []
        for policy in policies:
            if policy.against in gates:
                why = f"`against` names `{policy.against}`, which stands for several thresholds: name a policy with one"
                raise policy.refusal(why)
            sides = gates[policy.name].never_and_always() if policy.name in gates else (policy, policy)
            acts = {policy.name} & rankings.keys()
            rivals = {name for name in (policy.against,) if name in rankings}
            numbers: dict[tuple[bool, frozenset[str]], int] = {}
            row = []
            for other, itself in product((False, True), repeat=2):
                acting = frozenset((acts if itself else set()) | (rivals if other else set()))
                key = itself and policy.name in gates, acting
                if key not in numbers:
                    numbers[key] = len(every)
                    every.append((sides[key[0]], acting))
                row.append(numbers[key])
            places.append(row)
        return cls(tuple(policies), tuple(every), np.array(places, np.int64).reshape(-1, 4), gates, rankings)

    def numbers_of_sources(self, policies: Sequence[Policy]) -> dict[int, str]:
        """Number -> name of the policies, as given, that some reported ones come from."""
        known = {policy.name for policy in self.policies}
        names = {policy.name if policy.name in known else policy.sweep for policy in policies}
        return {n: p.name for n, p in enumerate(self.policies) if p.name in names}

    @property
    def evaluated_policies(self) -> tuple[Policy, ...]:
        return tuple(policy for policy, _ in self.every)

    def outcomes(self, on: Evaluator) -> list[tuple[Outcome, Ints | None]]:
        """The outcome of each version on a block, and where several versions share one, which of its examples (E,) are
        this version's; else None.
        """
        worlds = {acting: on.with_acting(acting) for _, acting in self.every}
        every = ((worlds[acting], policy) for policy, acting in self.every)
        return [world.shared_outcome(policy) or (world.outcome_against_base(policy), None) for world, policy in every]


@dataclass(frozen=True, eq=False)
class ActingExamples:
    """The examples on which a policy acts: those whose `values` (N,) are below a threshold, or at least as high."""

    values: Floats
    falling: bool
    threshold: float

    def acting_mask(self, start: int, stop: int) -> np.ndarray:
        """Mask (E,) of the examples from `start` to `stop`."""
        here = self.values[start:stop]
        return here < self.threshold if self.falling else here >= self.threshold


@dataclass(frozen=True, eq=False)
class ReportedPolicies:
    """The policies of a result, and which version of each counts on each example.

    `places` (P, 4): as of `PolicyVersions`; `acting`: of policies for which it is not the first everywhere, where they
    themselves and where the policies that they are compared with act.
    """

    policies: tuple[Policy, ...]
    places: Ints
    acting: Mapping[int, tuple[ActingExamples | None, ActingExamples | None]] = field(default_factory=dict)

    def with_numbers(self, numbers: Sequence[int]) -> ReportedPolicies:
        """The reported policies with these numbers."""
        acting = {place: self.acting[number] for place, number in enumerate(numbers) if number in self.acting}
        return ReportedPolicies(tuple(self.policies[number] for number in numbers), self.places[list(numbers)], acting)

    def version_by_example(self, policy: int, start: int, stop: int) -> Ints:
        """The version (E,) of a policy that counts on each example from `start` to `stop`."""
        itself, other = self.acting.get(policy, (None, None))
        which = np.zeros(stop - start, np.int64)
        for weight, one in ((1, itself), (2, other)):
            which += 0 if one is None else weight * one.acting_mask(start, stop)
        return self.places[policy][which]

    def values(self, tables: OutcomeTables, column: str, policies: Ints, first: int, start: int, stop: int) -> Floats:
        """A column (policies, E) of a block whose first example is number `first` of all."""
        numbers = tables.values(column, self.places[policies, 0], start, stop)
        for row in np.flatnonzero(np.isin(policies, list(self.acting))) if self.acting else ():
            policy = int(policies[row])
            several, counts = self.places[policy], self.version_by_example(policy, first + start, first + stop)
            place = (counts[:, None] == several).argmax(axis=1)
            numbers[row] = tables.values(column, several, start, stop)[place, np.arange(len(place))]
        return numbers
