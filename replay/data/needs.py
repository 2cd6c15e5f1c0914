"""What policies need of a log, as a value that adds up: pools, revisions, scores, columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_

Action = tuple[str, str, str | None]
"""Action, base pool, own pool of its revisions; None: any."""


@dataclass(frozen=True)
class Needs:
    """The parts of a log that are read; `needs | needs` is their union.

    `pools`: of first attempts. `actions`: revisions of sample 0 of one of these. `scores`: (slice, verifier), a slice
    being a pool or `slice_name` of an action. `trace_columns`, `features`, `example_columns`: further columns of these
    tables. `suffixes`: of so many last tokens the log-probabilities are added up. `cuts`: (pool, tokens) of traces that
    may be abandoned after so many tokens.
    """

    pools: frozenset[str] = frozenset()
    actions: frozenset[Action] = frozenset()
    scores: frozenset[tuple[str, str]] = frozenset()
    trace_columns: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    example_columns: frozenset[str] = frozenset()
    suffixes: frozenset[int] = frozenset()
    cuts: frozenset[tuple[str, int]] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(*(getattr(self, field.name) | getattr(other, field.name) for field in fields(Needs)))

    @property
    def slices(self) -> Mapping[Action, str]:
        """Name of the slice of each action."""
        return {action: slice_name(*action) for action in sorted(self.actions, key=str)}

    def verifiers(self, slice_: str) -> list[str]:
        """Verifiers whose scores are read on a slice."""
        return sorted(verifier for name, verifier in self.scores if name == slice_)


def together(needs: Iterable[Needs]) -> Needs:
    """Union of several needs."""
    return reduce(or_, needs, Needs())


def revisions(action: str, base: str, pool: str | None) -> Needs:
    """The revisions of a pool's sample 0, and that pool."""
    return Needs(pools=frozenset([base]), actions=frozenset([(action, base, pool)]))


def scores_on(slices: Collection[str], verifier: str) -> Needs:
    """The scores of a verifier on some slices."""
    return Needs(scores=frozenset((name, verifier) for name in slices))


def slice_name(action: str, base: str, pool: str | None = None) -> str:
    """Name of the slice of a block that holds the revisions of sample 0 of a pool."""
    return f"{action} of {base}" if pool is None else f"{action} of {base} in {pool}"
