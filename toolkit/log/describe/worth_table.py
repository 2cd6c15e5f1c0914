"""What verifiers are worth, as tables; and the rows of a log that they are measured on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import polars as pl

from toolkit.log.describe.scored_traces import MOST_TRACES, ScoredTraces, scored_traces
from toolkit.log.describe.worth import SignalWorth, Worth, worth_of
from toolkit.log.read.log import Log, collect

if TYPE_CHECKING:
    from toolkit.show import ShownInterval, Table
    from toolkit.stats.curves.arrays import Interval, PairedInterval

TRAIN, TEST = "train", "test"
ROWS = {
    **dict.fromkeys(("dataset", "pool", "signal", "metric"), pl.String),
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64), "n": pl.Int64, "p_value": pl.Float64,
    "remark": pl.String,
}  # fmt: skip
"""The columns of what signals are worth, as a frame."""
TEST_ROWS, OTHER_ROWS, ALL_ROWS = "the split `test`", "all that was not trained on", "all, which were trained on"


def worth_of_log(
    log: Log,
    train: pl.Series | None = None,
    reference: str | Collection[str] = (),
    pools: Collection[str] | None = None,
) -> Iterator[tuple[str, Worth]]:
    """What each signal is worth, by data set and pool, and in words which examples that is of.

    `train`: ids of the examples that something was fitted on, by default those of the split `train`. Measured are the
    test examples, where there are some, else all others; where all were fitted on, these. With a `reference`, of
    verifiers the first that has scores, only what one of them has scores of.
    """
    if not log.has("examples") or not log.has("traces"):
        return
    references = (reference,) if isinstance(reference, str) else reference
    frame = collect(log.scan("examples", ["example_id", "split"]), log)
    learnt = frame.filter(pl.col("split") == TRAIN)["example_id"] if train is None else train
    others = frame.filter(~pl.col("example_id").is_in(learnt.implode()))
    test = others.filter(pl.col("split") == TEST)
    reported, which = (test["example_id"], TEST_ROWS) if test.height else (others["example_id"], OTHER_ROWS)
    why = "no examples were fitted on" if train is not None else f"no example has the split `{TRAIN}`"
    if reported.is_empty():
        reported, learnt, why = frame["example_id"], learnt.clear(), "all examples were fitted on"
        which = ALL_ROWS
    fitted = {(one.dataset, one.pool): one for one in scored_traces(log, learnt, pools)} if len(learnt) else {}
    for traces in scored_traces(log, reported, pools):
        own = fitted.get((traces.dataset, traces.pool))
        told = why if not len(learnt) else "no training rows in this pool"
        first = next((name for name in references if name in traces.scores), None)
        if _anything(traces) and (first is not None or not references):
            yield which, worth_of(traces, own, first, told, simulated=log.simulated)


def worth_rows(worths: Iterable[Worth]) -> pl.DataFrame:
    """What signals are worth as numbers: dataset, pool, signal, metric, estimate, low, high, n, p_value, remark.

    `metric`: auc, auc_within, best_of_n, and the differences auc_difference, within_difference (to the reference) and
    over_random, which alone have a p-value.
    """
    rows = [
        {"dataset": worth.dataset, "pool": worth.pool, "signal": one.name, "metric": metric, **numbers,
         "remark": one.remark}
        for worth in worths
        for one in worth.signals
        for metric, numbers in _numbers(one)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=ROWS)


def _numbers(row: SignalWorth) -> Iterator[tuple[str, dict[str, float | None]]]:
    for metric, own in (("auc", row.auc), ("auc_within", row.within), ("best_of_n", row.best)):
        yield metric, {"estimate": own.estimate, "low": own.low, "high": own.high, "n": own.n}
    differences = (row.auc_difference, row.within_difference, row.over_random)
    for metric, pair in zip(("auc_difference", "within_difference", "over_random"), differences, strict=True):
        if pair is not None:
            told = {"low": pair.low, "high": pair.high, "n": pair.n, "p_value": pair.p_value}
            yield metric, {"estimate": pair.difference, **told}


def _anything(traces: ScoredTraces) -> bool:
    return bool(traces.scores) or traces.longest > 0 or not pl.Series(traces.whole).is_nan().all()


def worth_tables(worth: Worth, which: str) -> list[Table]:
    """The signals, and where log-probabilities of tokens are logged the suffixes."""
    from toolkit.notes import Severity
    from toolkit.show import SIMULATED, Number, NumberWithInterval, Table, TableColumn

    where = f"`{worth.dataset}`, pool `{worth.pool}`"
    area = NumberWithInterval(3)
    change, points = NumberWithInterval(3, signed=True), NumberWithInterval(1, 100, signed=True)
    share = NumberWithInterval(1, 100)
    to = worth.reference
    columns = (
        TableColumn("signal", key="signal"),
        TableColumn("traces", Number(0), "traces", drop=5),
        TableColumn("AUC", area, "auc", core=True),
        TableColumn("AUC within", area, "auc_within", core=True),
        TableColumn("Δ AUC", change, "auc_difference", drop=2),
        TableColumn("Δ within", change, "within_difference", drop=2),
        TableColumn("best of n %", share, "best", drop=3),
        TableColumn("Δ random", points, "over_random", drop=1),
        TableColumn("remark", key="remark", beneath=True),
    )
    below = [
        f"{worth.questions:,} questions, {worth.traces:,} judged traces with an answer, {worth.right:.1%} of them "
        f"right, of {which}; intervals of 95 %, by question or cluster",
        *(
            [f"{worth.left_out:,} more questions are left out: {MOST_TRACES:,} traces are compared"]
            * bool(worth.left_out)
        ),
        *([f"Δ AUC, Δ within: less those of `{to}`, on the traces that both score"] if to else []),
        "AUC within: mean over questions with right and wrong traces; Δ random: less a random pick of what is scored",
    ]
    made = Table(
        f"What tells right traces from wrong ones: {where}",
        columns,
        tuple(_cells(row) for row in worth.signals),
        above=(
            *([SIMULATED] if worth.simulated else []),
            *(str(note) for note in worth.notes if note.severity is Severity.WARNING),
        ),
        below=tuple(below),
    )
    if not worth.suffixes:
        return [made]
    shown = (0, 2, 3, 6, 7, 8)
    rows = tuple(tuple(_cells(row)[at] for at in shown) for row in worth.suffixes)
    lengths = (TableColumn("last tokens", key="k"), *(columns[at] for at in shown[1:]))
    longest = int(worth.suffixes[-1].name)
    told = (
        *([f"log-probabilities of tokens by the verifier `{worth.teller}`"] if worth.teller else ()),
        *([f"{len(rows)} of the {longest:,} lengths; the best is sought among all"] if len(rows) < longest else ()),
    )
    return [made, Table(f"Log-probability of the last tokens: {where}", lengths, rows, below=told)]


def _cells(row: SignalWorth) -> tuple[object, ...]:
    return (
        row.name, row.traces, _limits(row.auc), _limits(row.within), _difference(row.auc_difference),
        _difference(row.within_difference), _limits(row.best), _difference(row.over_random), row.remark,
    )  # fmt: skip


def _limits(found: Interval) -> ShownInterval | None:
    from toolkit.show import ShownInterval

    return ShownInterval.of((found.estimate, found.low, found.high))


def _difference(found: PairedInterval | None) -> ShownInterval | None:
    from toolkit.show import ShownInterval

    return None if found is None else ShownInterval.of((found.difference, found.low, found.high))
