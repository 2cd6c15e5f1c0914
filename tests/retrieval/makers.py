"""Logs of retrieval rounds: written as short rows, and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from toolkit.log import Log, write_log

Row = dict[str, Any]
SCHEMA = {
    "example_id": pl.String, "pool": pl.String, "hop": pl.Int32, "round": pl.Int32, "sub_question": pl.String,
    "documents": pl.List(pl.String), "relevance": pl.List(pl.Float64), "retrieval_rank": pl.List(pl.Int32),
    "answers": pl.List(pl.String), "clusters": pl.List(pl.Int32), "answer_scores": pl.List(pl.Float64),
    "contradictions": pl.Int32, "calls": pl.Int32, "prompt_tokens": pl.Int32, "completion_tokens": pl.Int32,
    "latency_s": pl.Float32,
}  # fmt: skip
"""The columns of `rounds` that the tests have."""


def rounds_tables(rounds: Sequence[Row], golds: Mapping[str, list[str] | None]) -> dict[str, pl.DataFrame]:
    """Tables of a log of rounds; what a row does not say is null, its pool `r`, its hop 0."""
    examples = pl.DataFrame(
        {
            "example_id": list(golds), "dataset": "small", "split": "test", "question": "q",
            "gold_documents": pl.Series(list(golds.values()), dtype=pl.List(pl.String)),
        }
    )  # fmt: skip
    rows = [{"pool": "r", "hop": 0, **row} for row in rounds]
    return {"examples": examples, "rounds": pl.DataFrame(rows, schema=SCHEMA)}


def rounds_log(folder: Path, rounds: Sequence[Row], golds: Mapping[str, list[str] | None], **manifest: Any) -> Log:
    """The same, written and sealed under `folder`."""
    return write_log(folder / "log", name="rounds", tables=rounds_tables(rounds, golds), **manifest)


def one_round(example: str, number: int, documents: Mapping[str, float], clusters: Sequence[int], **more: Any) -> Row:
    """A round with answers called after their clusters; 2 calls, 10 + 5 tokens, 1.5 s."""
    return {
        "example_id": example, "round": number, "documents": list(documents), "relevance": list(documents.values()),
        "answers": [f"a{cluster}" for cluster in clusters], "clusters": list(clusters),
        "calls": 2, "prompt_tokens": 10, "completion_tokens": 5, "latency_s": 1.5, **more,
    }  # fmt: skip


PARIS, LYON, ROME = 0, 1, 2
FOUR_ROUNDS = [
    one_round("q", 0, {"d1": 0.9, "d2": 0.5}, [PARIS, PARIS, PARIS, LYON]),
    one_round("q", 1, {"d3": 0.8, "d2": 0.6}, [ROME, ROME, ROME, PARIS]),
    one_round("q", 2, {"d4": 0.45, "d5": 0.3}, [ROME, ROME, ROME, ROME]),
    one_round("q", 3, {"d6": 0.7}, []),
]
"""The example of docs/policies.md."""


@st.composite
def random_rounds(draw: st.DrawFn) -> tuple[list[Row], dict[str, list[str] | None]]:
    """Rounds of a few examples, some without any, and their gold documents."""
    few, names = st.integers(0, 3), st.sampled_from([f"d{i}" for i in range(8)])
    numbers = st.sampled_from([-2.5, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0] if draw(st.booleans()) else [0.0, 0.25, 0.5, 1.0])
    golds, rows = {}, list[Row]()
    for e in range(draw(st.integers(1, 4))):
        golds[f"e{e}"] = draw(st.none() | st.lists(names, max_size=3))
        for hop in range(draw(st.integers(0, 3))):
            for number in range(draw(st.integers(1, 5))):
                documents, clusters = draw(st.lists(names, max_size=4)), draw(st.lists(few, max_size=4))
                size, said = len(documents), len(clusters)
                rows.append({
                    "example_id": f"e{e}", "hop": hop, "round": number, "documents": documents,
                    "relevance": draw(st.lists(numbers, min_size=size, max_size=size)),
                    "retrieval_rank": draw(st.none() | st.lists(st.none() | few, min_size=size, max_size=size)),
                    "answers": draw(st.lists(st.sampled_from(["a", "b"]), min_size=said, max_size=said)),
                    "clusters": clusters,
                    "answer_scores": draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, -0.1]), min_size=said, max_size=said)
                                          | (st.none() if draw(few) == 0 else st.nothing())),
                    "contradictions": draw(st.none() | few), "calls": draw(st.sampled_from([1, 2, 3, None])),
                    "prompt_tokens": draw(few), "completion_tokens": draw(few),
                    "latency_s": draw(st.sampled_from([0.5, 1.25])),
                })  # fmt: skip
    return rows, golds


@st.composite
def random_policies(draw: st.DrawFn) -> Row:
    """The keys of a policy, some left out."""
    keys = {
        "frontier": st.integers(1, 4), "frontier_of": st.sampled_from(["hop", "round"]),
        "support": st.sampled_from(["sum", "last"]), "weights": st.just("answer_scores"),
        "relevance": st.sampled_from(["auto", "raw", "logistic"]), "order": st.sampled_from(["relevance", "retriever"]),
        "stable": st.integers(1, 4), "at": st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
        "penalty": st.just("sunar"), "multiplier": st.sampled_from([0.5, 1.0, 1.5, 4.0]),
        "reward": st.sampled_from(["single", "aligned", "first", {"entropy": 0.0}, {"entropy": 0.7}]),
    }  # fmt: skip
    given = {key: draw(values) for key, values in keys.items() if draw(st.booleans())}
    if "penalty" in given and draw(st.booleans()):
        del given["penalty"]
    if "penalty" in given:
        given = {key: value for key, value in given.items() if key not in ("multiplier", "reward")}
    return {"rounds": draw(st.integers(1, 6)), **given}
