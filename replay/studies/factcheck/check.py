"""Published against simulated: the numbers that a simulation was fitted to, and how near they should lie.

They show that the fit holds, and nothing else; `heldout` has the numbers that it was not fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

from replay.studies.factcheck import runs
from replay.studies.factcheck.buckets import trace_buckets
from replay.studies.factcheck.published import published
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, TOP, VERIFYING, VOTE, Methods
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError, argument
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.show import SIMULATED, Number, ShownInterval, Table, TableColumn, Tick

CAP = 15
QUALITY, CLASS_F1, TRACES, SHARE, CALLS = 1.5, 4.0, 0.6, 8.0, 6.0
"""Distances: points of accuracy and macro-F1, points of a class's F1, traces per claim, points, percent."""
RELAXED = {"claimdecomp": 2.0}
"""With 200 claims, twice as far."""
ERRORS = 2.0
"""No number may lie further off than so many sampling errors of the published one, at its number of claims."""
FASTER = "the simulated margins part a little sooner than the published ones"
STAYS = "the simulated surrogate leaves the first label later, so that more claims stop in the middle"
KNOWN = {
    ("quantemp", "5.3", ADAPTIVE, "traces per claim"): FASTER,
    ("quantemp", "5.6", ADAPTIVE, "verifier calls"): FASTER,
    ("quantemp", "5.6", SURROGATE, "verifier calls"): FASTER,
    ("quantemp", "B.1", ADAPTIVE, "claims with 6 to 10 traces, %"): FASTER,
    ("quantemp", "B.1", SURROGATE, "claims with 6 to 10 traces, %"): STAYS,
    ("quantemp", "B.1", SURROGATE, "claims with 11 to 15 traces, %"): STAYS,
}
"""Fitted numbers that are known to lie further off, and why: by data set, table, method and number."""
RESAMPLES = 200
LABELS = {"t_f1_pct": "f1:Supports", "f_f1_pct": "f1:Refutes", "c_f1_pct": "f1:Conflicting"}


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


def check_simulation(log: Log, name: str, pool: str) -> list[Line]:
    """Replay a simulated data set with the cap of 15 and compare it with the published numbers.

    A distance is at most `ERRORS` sampling errors. Raises ThinkbackError where the pool is smaller than that.
    """
    numbers, factor = published(name), RELAXED.get(name, 1.0)
    setting = runs.FactcheckSetting(
        pool, "lora", CLAIM_FEATURES, CAP, asked={"where": "split = 'test'", "resamples": RESAMPLES}
    )
    main = runs.replay_methods(log, setting)
    if main.missing:
        raise ThinkbackError(
            f"the published runs have {CAP} traces per claim: simulate at least as many {argument('traces')}"
        )
    lines = list(_main(main, numbers))
    if name == "quantemp":
        lines += _other(runs.replay_methods(log, replace(setting, verifier="deepseek")), numbers)
    return [_bounded(line, factor, KNOWN.get((name, line.table, line.method, line.what), "")) for line in lines]


def _bounded(line: Line, factor: float, known: str) -> Line:
    distance = None if line.distance is None else factor * line.distance
    if distance is not None and line.error is not None:
        distance = min(distance, ERRORS * line.error)
    return replace(line, distance=distance, known=known)


def sampling_error(cell: ShownInterval | None) -> float | None:
    """That of a number, from its 95% interval; None where it has none, or does not vary."""
    if cell is None or cell.low is None or cell.high is None or cell.high <= cell.low:
        return None
    return (cell.high - cell.low) / (2 * 1.959964)


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


def _main(main: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    for method in (TOP, VOTE, BEST):
        yield from _quality(main, numbers, "5.1", method, QUALITY, CLASS_F1)
    yield from _quality(main, numbers, "5.2", ADAPTIVE, None, None)
    yield from _traces(main, numbers, "5.3", ADAPTIVE)
    for method in VERIFYING:
        yield from _calls(main, numbers, "5.6", method)
    yield from _shares(main, numbers)


def _other(other: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    yield from _quality(other, numbers, "5.8", BEST, QUALITY, CLASS_F1)
    for method in (ADAPTIVE, SURROGATE):
        yield from _quality(other, numbers, "5.8", method, None, None)
    yield from _traces(other, numbers, "5.9", ADAPTIVE)
    for method in VERIFYING:
        yield from _calls(other, numbers, "5.9", method)


def _quality(
    methods: Methods, numbers: PublishedDataset, table: str, method: str, near: float | None, near_class: float | None
) -> Iterator[Line]:
    metrics = {"accuracy_pct": "accuracy", "macro_f1_pct": "macro_f1", **LABELS}
    for column, metric in metrics.items():
        wanted = numbers.value(table, column, method=method)
        found = methods.cell(method, metric, 100)
        if wanted is not None and found is not None:
            allowed = near_class if column in LABELS else near
            yield Line(table, method, f"{metric}, %", wanted, found.estimate, allowed, sampling_error(found))


def _traces(methods: Methods, numbers: PublishedDataset, table: str, method: str) -> Iterator[Line]:
    wanted, found = numbers.value(table, "traces_per_claim", method=method), methods.cell(method, "traces")
    if wanted is not None and found is not None:
        yield Line(table, method, "traces per claim", wanted, found.estimate, TRACES, sampling_error(found))


def _calls(methods: Methods, numbers: PublishedDataset, table: str, method: str) -> Iterator[Line]:
    wanted, found = (
        numbers.value(table, "verifier_calls", method=method),
        methods.cell(method, "verifications", methods.n),
    )
    if wanted is not None and found is not None:
        allowed, error = CALLS / 100 * wanted, sampling_error(found)
        yield Line(table, method, "verifier calls", wanted, found.estimate, allowed, error)


def _shares(main: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    for bucket in trace_buckets(main):
        keys = {"method": bucket.method, "traces_from": bucket.first, "traces_to": bucket.last}
        wanted = numbers.value("B.1", "claims", **keys)
        if wanted is not None:
            what = f"claims with {bucket.first} to {bucket.last} traces, %"
            share = wanted / main.n
            error = 100 * sqrt(share * (1 - share) / main.n)
            yield Line("B.1", bucket.method, what, 100 * share, 100 * bucket.share, SHARE, error)
