"""Tables of what the policies of a run cost: seconds of each, and the best that could be had for no more tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from replay.analyses.rivals import best_for_no_more
from replay.studies.kit import columns
from replay.studies.kit.cells import PolicyCells, estimate
from replay.studies.kit.layout import DATASET
from replay.studies.kit.outcomes import RunOutcomes
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, listed, words
from toolkit.show import ShownInterval, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

Names = Callable[[Any], Collection[str]]
"""The policies of a data set that a table shows, by name."""


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
