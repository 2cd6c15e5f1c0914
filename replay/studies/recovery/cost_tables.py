"""Tables of what the policies of a run cost: prices, seconds, and the best that could be had for no more tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from replay.analyses.recommend.rivals import best_for_no_more
from replay.studies.kit.cells import PolicyCells, estimate
from replay.studies.kit.layout import DATASET
from replay.studies.kit.sheet import Cells, Column, Row, Sheet, Value, intervals, listed, numbers, words
from replay.studies.recovery import columns
from replay.studies.recovery.outcomes import RunOutcomes
from toolkit.show import ShownInterval, TableColumn
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

Names = Callable[[Any], Collection[str]]
"""The policies of a data set that a table shows, by name."""


class OnBase(Cells, Protocol):
    """A policy, and the one whose cost its own is divided by."""

    @property
    def base(self) -> Cells:
        """That one."""
        ...


def price_sheet(prices: Sequence[float], kept: float, rows: Callable[[Any], Iterable[Row]]) -> Sheet[Any]:
    """What 1,000 requests cost at prices per million tokens, and relative to the base; rows are of OnBase.

    On a narrow page only the column of the price `kept` stays.
    """

    def relative(row: OnBase) -> float | None:
        base, tokens = (estimate(one.cell("total_tokens")) for one in (row.base, row))
        return tokens / base if tokens is not None and base else None

    def price_columns(studies: Sequence[Any]) -> list[Column]:
        costs = columns.priced(prices)
        known = any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies)
        return [
            columns.PLAIN_TOTAL_TOKENS, *(costs | {kept: replace(costs[kept], drop=0)}).values(),
            numbers("relative", "relative", value=relative),
            *([intervals("at the models' prices", "per_1000_priced", metric="cost_per_1000")] if known else []),
        ]  # fmt: skip

    return Sheet(
        "prices", "Cost of 1,000 requests", ("policy",), price_columns, rows,
        ("Average realised tokens times the price; no provider's quote. Total tokens: of one request. Prices: in any "
         "currency. Relative: to the base attempt.",),
        DATASET,
    )  # fmt: skip


def seconds_sheet(shown: Names) -> Sheet[Any]:
    """Seconds of the whole path of every policy."""

    def rows(study: RunOutcomes) -> Iterator[Row]:
        found = study.result.seconds.iter_rows(named=True)
        yield from listed((row for row in found if row["policy"] in shown(study)), ["policy"])

    def notes(studies: Sequence[Any]) -> Iterator[str]:
        yield (
            "One call after the other, finalizers included; samples of a vote as many at a time as `together` says. "
            "A mean over rollouts is one request."
        )
        for study in studies:
            yield from (f"{study.dataset}: {one.text}" for one in study.notes if one.code == BATCHED_SECONDS)

    return Sheet("seconds", "Seconds of the whole path", ("policy",), columns.SECONDS, rows, notes, DATASET)


def regret_sheet(name: str, title: str, head: str, shown: Names) -> Sheet[Any]:
    """How far each policy is behind the best one that costs at most as many tokens; `head` is what policies are of."""

    def rows(study: RunOutcomes) -> Iterator[Row]:
        joint = {policy: PolicyCells(study.result.statistics, policy) for policy in study.served(shown(study))}
        metrics = ("accuracy", "total_tokens")
        points = {policy: [estimate(one.cell(metric)) for metric in metrics] for policy, one in joint.items()}
        for policy, best in best_for_no_more({one: (x, y) for one, (x, y) in points.items()}).items():
            values = dict[str, Value]()
            if best is not None:
                values = {"regret": ShownInterval(0.0) if best == policy else study.paired(best, policy)[0]}
                values |= {"best": "" if best == policy else best, "on_front": "●" if best == policy else ""}
            yield Row((policy,), joint[policy], values)

    return Sheet(
        name, title, (TableColumn(head, key="policy"),),
        (
            columns.PLAIN_ACCURACY, columns.PLAIN_TOTAL_TOKENS, intervals("regret, points", "regret", shown=100),
            words("best for no more tokens", "best"), words("front", "on_front"),
        ),
        rows,
        ("Regret: how far the best policy that costs at most as many tokens is ahead, paired; 0 where that is "
         "itself.",),
        DATASET,
    )  # fmt: skip
