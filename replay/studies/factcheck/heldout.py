"""Published numbers that no simulation was fitted to: what simulated logs of several seeds say of them.

This is the test of a simulation. A number fails where the mean over the seeds lies further from the published one than
chance explains at the published number of claims; a difference fails, too, where its sign is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean

from replay.analyses.budgets import ORDERS, budgets
from replay.studies.factcheck import runs
from replay.studies.factcheck.analyses import gold_within
from replay.studies.factcheck.buckets import trace_buckets
from replay.studies.factcheck.check import CAP, ERRORS, RESAMPLES, sampling_error
from replay.studies.factcheck.published import WORK, published
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE
from replay.studies.factcheck.surrogate_keys import BUDGETS, gap
from replay.studies.kit.published import PublishedDataset
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.show import SIMULATED, Number, ShownInterval, Table, TableColumn, Tick, Words

TRACES = {"quantemp": 40, "claimdecomp": 50}
"""Traces per claim that these tables take."""
SPLITS = {"quantemp": ("QuanTemp test", 15), "claimdecomp": ("ClaimDecomp test", 50)}
"""Rows of table B.4 that are of a simulated split, and the size of their pool."""
GOLD = {"quantemp": "QuanTemp claims with a gold-label trace among the first five attempts"}
"""What the thesis's text says of it (section 1.1.5), in per cent."""
EARLIER_RUN = "the published run of 40 traces is another one than that of 15, which was fitted to, and 2.4 points lower"
EXACT = "operations hardly vary, so that a slightly other share of missing labels or of margins that hold shows"
HARDNESS = "how hard a claim is and how soon its margin holds go together more loosely than in the published run"
UNSEEN = (
    "the label score of an answer that is not yet verified is not published, and decides signs (`budget_keys`); most "
    "published differences lie within two sampling errors of 0"
)
LUCK = "simulated labels vary more from trace to trace than the published ones"
REASONS = {"5.11": EARLIER_RUN, "5.12": EXACT, "B.1": HARDNESS, "B.4": UNSEEN, "gold": LUCK}
"""What is known of the numbers of each table that fail."""


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


def held_out(logs: Iterable[Log], name: str, pool: str) -> list[HeldOut]:
    """Every number that the simulation of a data set was not fitted to, in its logs of several seeds.

    Sampling errors are those of the first log, which has the published number of claims.
    """
    found: dict[tuple[str, str, str], list[HeldOutNumber]] = {}
    for log in logs:
        for one in _found(log, name, pool, resamples=1 if found else RESAMPLES):
            found.setdefault(one.key, []).append(one)
    return [HeldOut(every[0], tuple(one.simulated for one in every)) for every in found.values()]


def held_out_table(lines: list[HeldOut], title: str) -> Table:
    """Published, mean and spread over the seeds, and the difference in sampling errors of the published number."""
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
    below = tuple(f"{table}: {REASONS[table]}" for table in failed)
    return Table(title, columns, rows, above=(SIMULATED,), below=below)


def _found(log: Log, name: str, pool: str, resamples: int) -> Iterator[HeldOutNumber]:
    numbers, asked = published(name), {"where": "split = 'test'", "resamples": resamples}
    setting = runs.FactcheckSetting(pool, "lora", CLAIM_FEATURES, CAP, asked=asked)
    for bucket in trace_buckets(runs.replay_methods(log, setting)):
        keys = {"method": bucket.method, "traces_from": bucket.first, "traces_to": bucket.last}
        for what, cell, column in (
            ("method macro-F1, %", bucket.own, "method_macro_f1_pct"),
            ("exhaustive macro-F1, %", bucket.exhaustive, "exhaustive_macro_f1_pct"),
        ):
            wanted, which = numbers.value("B.1", column, **keys), f"{bucket.first} to {bucket.last} traces: {what}"
            yield from _line("B.1", bucket.method, which, wanted, cell)
    if name == "quantemp":
        yield from _larger_caps(log, setting, numbers)
    if name in GOLD:
        wanted = WORK.stated(GOLD[name])
        share = gold_within(log, setting, 5).filter(k=5).select("share", "low", "high").row(0)
        yield from _line("gold", "first 5 traces", "claims with a gold trace, %", wanted, ShownInterval.of(share, 100))
    yield from _signs(log, name, setting)


def _larger_caps(log: Log, setting: runs.FactcheckSetting, numbers: PublishedDataset) -> Iterator[HeldOutNumber]:
    for cap in (20, 30, 40):
        made = runs.replay_methods(
            log, runs.FactcheckSetting(setting.pool, setting.verifier, setting.features, cap, asked=setting.asked),
            (BEST, ADAPTIVE),
        )  # fmt: skip
        for method in (BEST, ADAPTIVE):
            keys = {"max_traces": cap, "method": method}
            for table, column, metric, scale in (
                ("5.11", "macro_f1_pct", "macro_f1", 100),
                ("5.12", "operations", "operations", made.n),
            ):
                wanted, what = numbers.value(table, column, **keys), f"{metric}, cap {cap}"
                yield from _line(table, method, what, wanted, made.cell(method, metric, scale))


def _signs(log: Log, name: str, setting: runs.FactcheckSetting) -> Iterator[HeldOutNumber]:
    pool, size = SPLITS[name]
    rows = {row["k"]: row for row in WORK.rows("B.4") if row["pool"] == pool}
    columns = {"generation": "generation_order_macro_f1_pct", "random, expected": "random_macro_f1_pct"}
    orders = {order: ORDERS[order] for order in (*columns, "surrogate")}
    made = budgets(
        log, verifier=setting.verifier, max_traces=size, pool=setting.pool, features=setting.features, orders=orders,
        budget=BUDGETS[size], **setting.asked,
    )  # fmt: skip
    for order, column in columns.items():
        for k in BUDGETS[size]:
            wanted, found = rows[k]["surrogate_macro_f1_pct"] - rows[k][column], gap(made, k, order)
            what = f"k = {k}: less {order}, points"
            yield from _line("B.4", SURROGATE, what, round(wanted, 2), None if found is None else found.points, True)


def _line(
    table: str, method: str, what: str, wanted: float | None, cell: ShownInterval | None, signed: bool = False
) -> Iterator[HeldOutNumber]:
    if wanted is not None and cell is not None:
        yield HeldOutNumber(table, method, what, wanted, cell.estimate, sampling_error(cell), signed)
