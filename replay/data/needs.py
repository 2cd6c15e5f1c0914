"""The parts of a log that policies read, as values that add up: pools, revisions, scores, columns, further tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_

from toolkit.log.contract.schema import keys_of, schema_of

Action = tuple[str, str, str | None]
"""Action, base pool, and pool of the revisions; None: any pool."""
TABLE_COSTS = ("calls", "queries", "prompt_tokens", "completion_tokens", "latency_s", "device_s")
"""The columns of a further table that may hold what a row cost."""


@dataclass(frozen=True)
class Needs:
    """The parts of a log that a policy reads; `needs | needs` is their union.

    `pools`: of first attempts. `actions`: revisions of sample 0 of one of these. `scores`: (slice, verifier), a slice
    being a pool or `slice_name` of an action. `trace_columns`, `features`, `example_columns`: further columns of these
    tables. `suffixes`: of so many last tokens the log-probabilities are added up. `cuts`: (pool, tokens) of traces that
    may be abandoned after so many tokens. `tables`: (table, pool, column) of the rows of further tables, as `rounds`.
    `answers`: those that policies may give although no trace has them. `answers_as`: columns of traces, of texts, that
    may stand in place of answers.
    """

    pools: frozenset[str] = frozenset()
    actions: frozenset[Action] = frozenset()
    scores: frozenset[tuple[str, str]] = frozenset()
    trace_columns: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    example_columns: frozenset[str] = frozenset()
    suffixes: frozenset[int] = frozenset()
    cuts: frozenset[tuple[str, int]] = frozenset()
    tables: frozenset[tuple[str, str, str]] = frozenset()
    answers: frozenset[str] = frozenset()
    answers_as: frozenset[str] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(*(getattr(self, field.name) | getattr(other, field.name) for field in fields(Needs)))

    @property
    def slices(self) -> Mapping[Action, str]:
        """Action -> the name of the slice of a block that holds its revisions."""
        return {action: slice_name(*action) for action in sorted(self.actions, key=str)}

    def verifiers_on_slice(self, slice_: str) -> list[str]:
        """Verifiers whose scores are read on a slice."""
        return sorted(verifier for name, verifier in self.scores if name == slice_)


def needs_of_all(needs: Iterable[Needs]) -> Needs:
    """The union of what several policies read."""
    return reduce(or_, needs, Needs())


def revision_needs(action: str, base: str, pool: str | None) -> Needs:
    """What an action on a pool's first trace reads: that pool, and its revisions."""
    return Needs(pools=frozenset([base]), actions=frozenset([(action, base, pool)]))


def needs_of_scores(slices: Collection[str], verifier: str) -> Needs:
    """What reading a verifier's scores on some slices needs."""
    return Needs(scores=frozenset((name, verifier) for name in slices))


def needs_of_rows(table: str, pool: str, *columns: str) -> Needs:
    """What reading some columns of a pool's rows in a further table needs, with its keys and what each row cost."""
    costs = [name for name in TABLE_COSTS if name in schema_of(table)]
    names = {*columns, *keys_of(table), *costs} - {"example_id", "pool"}
    return Needs(tables=frozenset((table, pool, name) for name in names))


def slice_name(action: str, base: str, pool: str | None = None) -> str:
    """The name of the slice of a block that holds an action's revisions of a pool's first trace."""
    return f"{action} of {base}" if pool is None else f"{action} of {base} in {pool}"
