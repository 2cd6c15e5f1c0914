"""The outcomes of a block, column by column: those of each version of a policy, and those that versions share once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from replay.engine.outcome import Outcome
from toolkit.stats.metrics.spill import Floats, Ints, SpilledTable
from toolkit.stats.metrics.ways import Rows, SharedOutcomes


@dataclass(frozen=True, eq=False)
class OutcomeGroup:
    """Outcomes of some versions, by number: those of each on all examples, or one with the `ways` that all go."""

    versions: Ints
    outcomes: tuple[Outcome, ...]
    ways: SharedOutcomes | None = None

    @property
    def examples(self) -> NDArray[np.int32] | slice:
        """The number of the example of each place of the outcomes."""
        return slice(None) if self.ways is None else self.ways.example


def group_outcomes(outcomes: Sequence[tuple[Outcome, Ints | None]]) -> Iterator[OutcomeGroup]:
    """The versions that share an outcome, which has some examples (E,) of each; then those with one of their own."""
    sharing: dict[int, list[int]] = {}
    for number, (outcome, examples) in enumerate(outcomes):
        if examples is not None and (outcome.rows == 1).all():
            sharing.setdefault(id(outcome), []).append(number)
    grouped_numbers: set[int] = set()
    for numbers in sharing.values():
        ways = SharedOutcomes.from_rows(np.stack([np.asarray(outcomes[number][1]) for number in numbers]))
        if ways is not None and len(numbers) > 1:
            outcome = outcomes[numbers[0]][0]
            whole = len(ways[1]) == len(outcome.reason) and bool((np.diff(ways[1]) == 1).all())
            yield OutcomeGroup(np.array(numbers), (outcome if whole else outcome.at_examples(ways[1]),), ways[0])
            grouped_numbers.update(numbers)
    rest = [number for number in range(len(outcomes)) if number not in grouped_numbers]
    if rest:
        yield OutcomeGroup(np.array(rest), tuple(_outcome_at_examples(*outcomes[number]) for number in rest))


def _outcome_at_examples(outcome: Outcome, examples: Ints | None) -> Outcome:
    return outcome if examples is None else outcome.at_examples(examples)


@dataclass(frozen=True, eq=False)
class _GroupTables:
    """The columns of one group: (versions, E) each, or (1, W) with the ways of its versions."""

    versions: Ints
    ways: SharedOutcomes | None
    columns: Mapping[str, SpilledTable]

    def values(self, name: str, rows: Ints, start: int, stop: int) -> Floats:
        """A column of the versions at the places `rows`, ascending, and of some examples."""
        column = self.columns[name]
        if self.ways is None:
            return column.rows(rows, start, stop)
        return column.rows(np.zeros(1, np.int64))[0][self.ways.outcome_of_each_example(rows)[:, start:stop]]

    def outcome_numbers(self, rows: Ints, start: int, stop: int) -> Ints:
        """The numbers of the outcomes of versions and examples, (rows, examples)."""
        if self.ways is None:
            return rows[:, None] * self.width + np.arange(start, stop)
        return self.ways.outcome_of_each_example(rows)[:, start:stop].astype(np.int64)

    def at_rows(self, name: str, rows: Rows) -> Floats:
        """A column of the outcomes with these numbers (N,)."""
        if isinstance(rows, slice):
            if self.ways is not None:
                return self.columns[name].rows(np.zeros(1, np.int64), rows.start, rows.stop)[0]
            rows = np.arange(rows.start, rows.stop)
        which, place = np.divmod(rows, self.width)
        low, high = int(place.min(initial=self.width)), int(place.max(initial=0)) + 1
        if self.ways is not None:
            return self.columns[name].rows(np.zeros(1, np.int64), low, high)[0][rows - low]
        distinct, row = np.unique(which, return_inverse=True)
        return self.columns[name].rows(distinct, low, high)[row, place - low]

    @cached_property
    def width(self) -> int:
        return next(iter(self.columns.values())).width

    @property
    def size(self) -> int:
        """How many outcomes it holds."""
        return self.width * (len(self.versions) if self.ways is None else 1)


@dataclass(frozen=True, eq=False)
class OutcomeTables:
    """The columns of outcomes of V versions on E examples."""

    groups: tuple[_GroupTables, ...]

    @classmethod
    def of_groups(
        cls, groups: Sequence[OutcomeGroup], columns: Callable[[OutcomeGroup], Mapping[str, SpilledTable]]
    ) -> OutcomeTables:
        """The tables of groups, whose columns are computed by `columns`."""
        return cls(tuple(_GroupTables(group.versions, group.ways, columns(group)) for group in groups))

    def with_each_column(self, change: Callable[[SpilledTable], SpilledTable]) -> OutcomeTables:
        """The tables with each stored column as `change` gives it."""
        return OutcomeTables(
            tuple(
                replace(group, columns={name: change(column) for name, column in group.columns.items()})
                for group in self.groups
            )
        )

    @property
    def keys(self) -> Collection[str]:
        return self.groups[0].columns.keys()

    @property
    def has_shared_outcomes(self) -> bool:
        """Whether some versions share outcomes."""
        return any(group.ways is not None for group in self.groups)

    @cached_property
    def _group_and_place(self) -> tuple[Ints, Ints]:
        """The group of each version, and its place there, (V,) each."""
        size = sum(len(group.versions) for group in self.groups)
        number, place = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for which, group in enumerate(self.groups):
            number[group.versions], place[group.versions] = which, np.arange(len(group.versions))
        return number, place

    def values(self, name: str, versions: Ints, start: int, stop: int) -> Floats:
        """A column of some versions, ascending, on the examples from `start` up to `stop`, (versions, E)."""
        if len(self.groups) == 1:
            return self.groups[0].values(name, versions, start, stop)
        out = np.empty((len(versions), stop - start))
        for group, on, rows in self._versions_by_group(versions):
            out[on] = group.values(name, rows, start, stop)
        return out

    def _versions_by_group(self, versions: Ints) -> Iterator[tuple[_GroupTables, Ints, Ints]]:
        """The groups of some versions: which of them are in each, and their places there."""
        number, place = self._group_and_place
        for which, group in enumerate(self.groups):
            on = np.flatnonzero(number[versions] == which)
            if len(on):
                yield group, on, place[versions[on]]

    @cached_property
    def _first_outcome_of_group(self) -> Ints:
        return np.cumsum([0, *(group.size for group in self.groups)])

    def outcome_numbers(self, versions: Ints, start: int, stop: int) -> Ints:
        """The numbers of the outcomes of some versions on some examples, (versions, E); equal where they are shared."""
        out = np.empty((len(versions), stop - start), np.int64)
        begin = dict(zip(map(id, self.groups), self._first_outcome_of_group.tolist(), strict=False))
        for group, on, rows in self._versions_by_group(versions):
            out[on] = group.outcome_numbers(rows, start, stop) + begin[id(group)]
        return out

    def at_rows(self, name: str, rows: Rows) -> Floats:
        """A column of the outcomes with these numbers (N,)."""
        if len(self.groups) == 1:
            return self.groups[0].at_rows(name, rows)
        rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        out = np.empty(len(rows))
        which = np.searchsorted(self._first_outcome_of_group, rows, "right") - 1
        for number, group in enumerate(self.groups):
            on = which == number
            if on.any():
                out[on] = group.at_rows(name, rows[on] - self._first_outcome_of_group[number])
        return out
