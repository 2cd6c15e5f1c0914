"""What a dashboard draws of rounds and checks: the rows of drawn examples, and what each policy made of those it paid.

Rows are in the order of the examples, then of the table's keys; a policy's rows are numbers of these, each as its
distance to the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from replay.policies.base import Evaluator, Policy
from replay.runs.page.dashboard_data import Json, json_numbers
from replay.runs.saved.findings import Findings
from replay.runs.saved.saved_folder import SavedFolder
from replay.runs.saved.saved_rows import saved_block, saved_policy
from toolkit.printable import printable

LONGEST = 2_000
"""The most characters of what is told of a round."""


class TextNumbering(Protocol):
    """Gives each distinct text a number, -1 for none; of a longer one the page has `most` characters."""

    def __call__(self, word: str | None, most: int = ...) -> int: ...


def row_pictures(
    result: Findings, folder: SavedFolder, ids: Sequence[str], names: Sequence[str], number: TextNumbering
) -> Json | None:
    """The rows of the examples `ids` and what the policies, numbered as in `names`, made of them, by table; None where
    the result has no such rows.
    """
    records = {record.name: record for record in result.policies}
    policies = {name: saved_policy(records[name], folder) for name in names}
    by_table: dict[str, dict[str, Policy]] = {}
    for name, policy in policies.items():
        if policy is not None and policy.table in COLUMNS:
            by_table.setdefault(policy.table, {})[name] = policy
    order = pl.DataFrame({"example_id": ids}, schema={"example_id": pl.String}).with_row_index("place")
    examples = result.examples.join(order, on="example_id", how="inner").sort("place")
    return {
        table: _paid_table_rows(folder, table, examples, members, names, number) for table, members in by_table.items()
    } or None  # fmt: skip


def _paid_table_rows(
    folder: SavedFolder, table: str, examples: pl.DataFrame, policies: Mapping[str, Policy], names: Sequence[str],
    number: TextNumbering,
) -> Json:  # fmt: skip
    block = saved_block(folder, table, examples)
    pools = {pool: rows for (_, pool), rows in block.tables.items()}
    example = np.concatenate([rows.example for rows in pools.values()])
    order = np.argsort(example, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    starts = dict(zip(pools, np.cumsum([0, *(len(rows.frame) for rows in pools.values())]), strict=False))
    columns = {
        name: [value for rows in pools.values() for value in values(rows.frame, number)]
        for name, values in COLUMNS[table].items()
    }
    pool = np.repeat(np.arange(len(pools)), [len(rows.frame) for rows in pools.values()])
    evaluator, paid = Evaluator(block, list(policies.values())), []
    for name, policy in policies.items():
        mine = str(getattr(policy, "pool", ""))
        frame = policy.paid_rows(evaluator)
        frame = frame.with_columns(pl.Series("row", place[starts[mine] + frame["row"].to_numpy()])).sort("row")
        texts = [column for column in frame if column.dtype == pl.String]
        steps = np.diff(frame["row"].to_numpy(), prepend=0).tolist()
        others = {one.name: json_numbers(one.cast(pl.Float64)) for one in frame if one.dtype != pl.String}
        paid.append(others | {one.name: [number(text, LONGEST) for text in one] for one in texts}
                    | {"policy": names.index(name), "row": steps})  # fmt: skip
    by_place = {name: [values[one] for one in order] for name, values in columns.items()}
    return {"pools": [*map(printable, pools)], "example": example[order].tolist(), "pool": pool[order].tolist(),
            "paid": paid, **by_place}  # fmt: skip


def _reader(name: str) -> Callable[[pl.DataFrame, TextNumbering], list[Any]]:
    """Reads a column: numbers as they are, texts as numbers of texts."""

    def column_values(frame: pl.DataFrame, number: TextNumbering) -> list[Any]:
        if name not in frame.columns:
            return [None] * len(frame)
        column = frame[name]
        return [number(text) for text in column] if column.dtype == pl.String else json_numbers(column.cast(pl.Float64))

    return column_values


def _clusters(frame: pl.DataFrame, number: TextNumbering) -> list[Any]:
    """The clusters of each round, the most frequent first: [cluster, number of its first answer, answers]."""
    rounds = []
    for clusters, answers in frame.select("clusters", "answers").iter_rows():
        counts: dict[int, list[int]] = {}
        for cluster, answer in zip(clusters, answers, strict=True):
            counts.setdefault(cluster, [cluster, number(answer), 0])[2] += 1
        rounds.append(sorted(counts.values(), key=lambda one: (-one[2], one[0])))
    return rounds


COLUMNS: dict[str, dict[str, Callable[[pl.DataFrame, TextNumbering], list[Any]]]] = {
    "rounds": {
        "hop": _reader("hop"), "round": _reader("round"), "question": _reader("sub_question"), "answers": _clusters,
    },
    "checks": {
        name: _reader(column)
        for name, column in {
            "claim": "claim", "round": "round", "stage": "stage", "position": "position", "verdict": "verdict",
            "confidence": "confidence", "matches": "matches_error", "text": "claim_text",
        }.items()
    },
}  # fmt: skip
"""By table, the columns that a picture of it needs."""
