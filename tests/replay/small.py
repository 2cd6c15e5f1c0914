"""Tiny logs for the hand-worked tests: traces written as short rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from replay import Sample
from toolkit.log import Log, write_log

Trace = tuple[str | None, float | None]  # answer, score by verifier `v` (None: not verified)

GOLDS: dict[str, str | None] = {"e1": "A", "e2": "B", "e3": "A"}
POOL: dict[str, Sequence[Trace]] = {
    "e1": [("A", 0.4), ("B", 0.6), ("A", 0.5)],
    "e2": [("B", 0.9), (None, None), ("B", 0.2)],
    "e3": [("B", 0.7), ("B", 0.1), ("A", 0.9)],
}
FIRST = Sample(name="first", max_traces=1, select="first")
BEST = Sample(name="best", max_traces=3, verifier="v")


def tables(
    pools: dict[str, dict[str, Sequence[Trace]]], golds: dict[str, str | None], labels: list[str] | None = None
) -> dict[str, pl.DataFrame]:
    """Tables of a log from `{pool: {example: [(answer, score), ...]}}`; every trace costs 10 + 5 tokens, 1 s."""
    examples = [
        {
            "example_id": e,
            "dataset": "small",
            "split": "test",
            "question": f"question {e}",
            "gold": gold,
            "labels": labels,
        }
        for e, gold in golds.items()
    ]
    traces: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for pool, members in pools.items():
        for example, rows in members.items():
            for index, (answer, score) in enumerate(rows):
                name, gold = f"{example}/{pool}/{index}", golds[example]
                traces.append(
                    {
                        "trace_id": name, "example_id": example, "pool": pool, "action": "solve", "parent_id": None,
                        "sample_index": index, "model": "m", "answer": answer,
                        "correct": None if gold is None else answer == gold,
                        "prompt_tokens": 10, "completion_tokens": 5, "latency_s": 1.0 + index, "device_s": 0.5,
                        "finish_reason": "stop", "finalizer_used": False,
                    }
                )  # fmt: skip
                if score is not None:
                    scores.append(
                        {"trace_id": name, "example_id": example, "verifier": "v", "score": score,
                         "prompt_tokens": 3, "completion_tokens": 1, "latency_s": 0.25, "device_s": 0.125}
                    )  # fmt: skip
    made = {"examples": pl.DataFrame(examples, schema_overrides={"gold": pl.String, "labels": pl.List(pl.String)})}
    made["traces"] = pl.DataFrame(
        traces, schema_overrides={"answer": pl.String, "correct": pl.Boolean, "parent_id": pl.String}
    )
    if scores:
        made["verifications"] = pl.DataFrame(scores)
    return made


def log(
    folder: Path,
    members: dict[str, dict[str, Sequence[Trace]]],
    golds: dict[str, str | None],
    labels: list[str] | None = None,
    **manifest: Any,
) -> Log:
    """The same, written and sealed under `folder`."""
    return write_log(folder / "log", name="small", tables=tables(members, golds, labels), **manifest)
