"""How near a simulated log comes to a published work: numbers that it was fitted to, and those that test it.

A number that was fitted to has a distance within which it should lie, never further than `ERRORS` sampling errors of
the published one at its number of claims: that shows that the fit holds, and nothing else. A number that was not fails
where the mean over logs of several seeds lies further off than chance explains; a difference fails, too, where its sign
is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean

from toolkit.show import SIMULATED, Number, ShownInterval, Table, TableColumn, Tick, Words

ERRORS = 2.0
"""No number may lie further off than so many sampling errors of the published one."""


@dataclass(frozen=True)
class Line:
    """One number; `distance` is how far it may lie, in its own unit (None: it is only shown).

    `error`: the published number's sampling error, at its number of claims. `known`: why it lies further off.
    """

    table: str
    method: str
    what: str
    published: float
    simulated: float
    distance: float | None
    error: float | None = None
    known: str = ""

    @property
    def difference(self) -> float:
        """Simulated minus published."""
        return self.simulated - self.published

    @property
    def within(self) -> bool | None:
        """Whether it lies near enough."""
        return None if self.distance is None else abs(self.difference) <= self.distance + 1e-9


def bounded(line: Line, factor: float, known: str) -> Line:
    """A line whose distance is `factor` times as far, but within `ERRORS` sampling errors; `known`: why it fails."""
    distance = None if line.distance is None else factor * line.distance
    if distance is not None and line.error is not None:
        distance = min(distance, ERRORS * line.error)
    return replace(line, distance=distance, known=known)


def sampling_error(cell: ShownInterval | None) -> float | None:
    """That of a number, from its 95% interval; None where it has none, or does not vary."""
    if cell is None or cell.low is None or cell.high is None or cell.high <= cell.low:
        return None
    return (cell.high - cell.low) / (2 * 1.959964)


def share_error(share: float, n: int) -> float:
    """The sampling error of a share of n, in percent."""
    return 100 * sqrt(share * (1 - share) / n)


def check_table(lines: list[Line], title: str) -> Table:
    """Published, simulated, difference, and the distance allowed."""
    columns = (
        *(TableColumn(name) for name in ("table", "method", "number")),
        *(TableColumn(name, Number(2)) for name in ("published", "simulated")),
        TableColumn("difference", Number(2, signed=True)),
        TableColumn("sampling error", Number(2)),
        TableColumn("allowed", Number(2)),
        TableColumn("within", Tick("yes", "no")),
    )
    rows = tuple(
        (x.table, x.method, x.what, x.published, x.simulated, x.difference, x.error, x.distance, _verdict(x))
        for x in lines
    )
    known = tuple(f"{x.table}, {x.method}, {x.what}: {x.known}" for x in lines if x.within is False and x.known)
    return Table(title, columns, rows, above=(SIMULATED,), below=known)


def _verdict(line: Line) -> bool | str | None:
    return "known" if line.within is False and line.known else line.within


@dataclass(frozen=True)
class HeldOutNumber:
    """One number in one simulated log; `error`: its sampling error. `signed`: a difference, whose sign counts."""

    table: str
    method: str
    what: str
    published: float
    simulated: float
    error: float | None
    signed: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Which number it is."""
        return self.table, self.method, self.what


@dataclass(frozen=True)
class HeldOut:
    """One number in logs of several seeds: their mean and spread, and the published one's sampling error."""

    first: HeldOutNumber
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.values)

    @property
    def errors(self) -> float | None:
        """How many sampling errors the mean lies from the published number."""
        return (self.mean - self.first.published) / self.first.error if self.first.error else None

    @property
    def same_sign(self) -> int | None:
        """Seeds with the published sign; None for a number whose sign says nothing, or that is 0."""
        if not self.first.signed or self.first.published == 0:
            return None
        return sum(value * self.first.published > 0 for value in self.values)

    @property
    def held(self) -> bool | None:
        """Whether it lies within `ERRORS` sampling errors, and a difference has the published sign; None: unknown."""
        if self.errors is None:
            return None
        turned = self.same_sign is not None and self.mean * self.first.published <= 0
        return abs(self.errors) <= ERRORS and not turned


def over_seeds(logs: Iterable[Iterable[HeldOutNumber]]) -> list[HeldOut]:
    """The numbers found in logs of several seeds, each with its values in all of them.

    Sampling errors are those of the first log, which has the published number of claims.
    """
    found: dict[tuple[str, str, str], list[HeldOutNumber]] = {}
    for numbers in logs:
        for one in numbers:
            found.setdefault(one.key, []).append(one)
    return [HeldOut(every[0], tuple(one.simulated for one in every)) for every in found.values()]


def held_out_table(lines: list[HeldOut], title: str, reasons: Mapping[str, str]) -> Table:
    """Published, mean and spread over the seeds, and the difference in sampling errors of the published number.

    `reasons`: what is known of the numbers of each table that fail.
    """
    columns = (
        *(TableColumn(name) for name in ("table", "method", "number")),
        *(TableColumn(name, Number(2)) for name in ("published", "mean", "lowest", "highest")),
        TableColumn("sampling error", Number(2)),
        TableColumn("errors off", Number(1, signed=True)),
        TableColumn("seeds with its sign", Words()),
        TableColumn("held", Tick("yes", "no")),
    )
    rows = tuple(
        (
            *x.first.key, x.first.published, x.mean, min(x.values), max(x.values), x.first.error, x.errors,
            None if x.same_sign is None else f"{x.same_sign} of {len(x.values)}", x.held,
        )
        for x in lines
    )  # fmt: skip
    failed = dict.fromkeys(x.first.table for x in lines if x.held is False)
    below = tuple(f"{table}: {reasons[table]}" for table in failed)
    return Table(title, columns, rows, above=(SIMULATED,), below=below)


def held_out_line(
    table: str, method: str, what: str, wanted: float | None, cell: ShownInterval | None, signed: bool = False
) -> Iterator[HeldOutNumber]:
    """A number that was not fitted to, where it is published and the log has it."""
    if wanted is not None and cell is not None:
        yield HeldOutNumber(table, method, what, wanted, cell.estimate, sampling_error(cell), signed)
