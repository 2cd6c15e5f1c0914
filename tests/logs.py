"""Small logs for the tests: every row that no test writes out itself, with its defaults, stands here.

`log` and `tables` make logs of short rows for policies; `examples`, `traces`, … are valid rows to start from;
`make_log` is a log of sums that recipes add to; `drawn` is a fixture of a simulated log, `sealed` one of a log of a
file's own tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replay import Sample
from toolkit.log import Log, collect, open_log, write_log

Trace = tuple[str | None, float | None]  # answer, score by verifier `v` (None: not verified)

GOLDS: Mapping[str, str | None] = MappingProxyType({"e1": "A", "e2": "B", "e3": "A"})
POOL: Mapping[str, Sequence[Trace]] = MappingProxyType(
    {
        "e1": (("A", 0.4), ("B", 0.6), ("A", 0.5)),
        "e2": (("B", 0.9), (None, None), ("B", 0.2)),
        "e3": (("B", 0.7), ("B", 0.1), ("A", 0.9)),
    }
)
FIRST = Sample(name="first", max_traces=1, select="first")
BEST = Sample(name="best", max_traces=3, verifier="v")
PROMPTS = {
    "solve.txt": "sum: {{question}}\n",
    "check.txt": "sum: {{question}}\n{{attempt}}\ncheck:\n",
    "score.txt": "sum: {{question}}\n{{attempt}}\nscore:\n",
    "sure.txt": "sum: {{question}}\n{{attempt}}\nsure 1-10:\n",
    "best.txt": "sum: {{question}}\n{{attempts}}\nbest:\n",
    "class.txt": "{{question}} {{answer}}\n{{attempt}}",
}
SOURCE = {
    "prompts": {"solve.txt": "sum: {{question}}", "check.txt": "sum: {{question}}\n{{attempt}}\ncheck:"},
    "pools": {"votes": {"prompt": "solve.txt"}, "verify": {"prompt": "check.txt"}},
}


def tables(
    pools: Mapping[str, Mapping[str, Sequence[Trace]]], golds: Mapping[str, str | None], labels: list[str] | None = None
) -> dict[str, pl.DataFrame]:
    """Tables of a log from `{pool: {example: [(answer, score), ...]}}`; every trace costs 10 + 5 tokens, 1 s."""
    questions = [
        {"example_id": e, "dataset": "small", "split": "test", "question": f"question {e}", "gold": gold,
         "labels": labels}
        for e, gold in golds.items()
    ]  # fmt: skip
    drawn_rows: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for pool, members in pools.items():
        for example, rows in members.items():
            for index, (answer, score) in enumerate(rows):
                name, gold = f"{example}/{pool}/{index}", golds[example]
                drawn_rows.append(
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
    types = {"answer": pl.String, "correct": pl.Boolean, "parent_id": pl.String}
    frames = {
        "examples": pl.DataFrame(questions, schema_overrides={"gold": pl.String, "labels": pl.List(pl.String)}),
        "traces": pl.DataFrame(drawn_rows, schema_overrides=types),
    }
    return frames | ({"verifications": pl.DataFrame(scores)} if scores else {})


def log(
    folder: Path,
    members: Mapping[str, Mapping[str, Sequence[Trace]]],
    golds: Mapping[str, str | None],
    labels: list[str] | None = None,
    **manifest: Any,
) -> Log:
    """The same, written and sealed under `folder`."""
    return write_log(folder / "log", name="small", tables=tables(members, golds, labels), **manifest)


def examples(**changes: Any) -> pl.DataFrame:
    """Two examples, one open and one with labels."""
    rows = {
        "example_id": ["q1", "q2"],
        "dataset": ["made", "made"],
        "split": ["test", "test"],
        "question": ["2 + 2?", "Is it so?"],
        "gold": ["4", "yes"],
        "labels": [None, ["yes", "no"]],
    }
    return pl.DataFrame(rows | changes, schema_overrides={"labels": pl.List(pl.String)})


def traces(**changes: Any) -> pl.DataFrame:
    """q1: two solves and a revision of the first; q2: two solves."""
    rows = {
        "trace_id": ["a0", "a1", "r0", "b0", "b1"],
        "example_id": ["q1", "q1", "q1", "q2", "q2"],
        "pool": ["n", "n", "rev", "n", "n"],
        "action": ["solve", "solve", "continue", "solve", "solve"],
        "parent_id": [None, None, "a0", None, None],
        "sample_index": [0, 1, 0, 0, 1],
        "model": ["m"] * 5,
        "answer": ["4", None, "4", "yes", "no"],
        "correct": [True, False, True, True, False],
        "prompt_tokens": [10, 10, 20, 11, 11],
        "completion_tokens": [5, 6, 7, 8, 9],
    }
    return pl.DataFrame(rows | changes)


def verifications(**changes: Any) -> pl.DataFrame:
    """All valid traces of both examples."""
    rows = {
        "trace_id": ["a0", "r0", "b0", "b1"],
        "verifier": ["v"] * 4,
        "example_id": ["q1", "q1", "q2", "q2"],
        "score": [0.9, 0.8, 0.7, 0.1],
    }
    return pl.DataFrame(rows | changes)


def rounds(**changes: Any) -> pl.DataFrame:
    rows = {
        "example_id": ["q1", "q1"],
        "pool": ["r", "r"],
        "hop": [0, 0],
        "round": [0, 1],
        "documents": [["d1", "d2"], ["d3"]],
        "relevance": [[0.5, 0.1], [0.2]],
        "answers": [["x", "y"], ["x"]],
        "clusters": [[0, 1], [0]],
    }
    return pl.DataFrame(rows | changes)


def checks(**changes: Any) -> pl.DataFrame:
    rows = {
        "example_id": ["q1"] * 3,
        "pool": ["c"] * 3,
        "claim": [0, 0, 1],
        "round": [0, 1, 0],
        "stage": ["stream"] * 3,
        "position": [5, 9, 12],
        "verdict": ["not_enough", "refuted", "none"],
        "queries": [1, 1, 0],
    }
    return pl.DataFrame(rows | changes)


def whole(**tables: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """A valid log of traces, with the tables named in place of its own."""
    return {"examples": examples(), "traces": traces(), "verifications": verifications()} | tables


def unfolding() -> dict[str, pl.DataFrame]:
    """A valid log with every column that only policies on rounds, checks and positions read."""
    texts = examples(
        golds=[["4", "IV"], None], length=[12, 5], gold_position=[8, None], gold_error=[True, False],
        human_positions=[[9, 12], []], human_corrects=[[True, False], []], gold_documents=[["d1"], None],
    )  # fmt: skip
    guesses = traces(
        position=[3, 12, None, 2, 2], documents=[["d1", "d3"], [], None, None, None],
        answer_cluster=["four", None, "four", "yes", "no"],
    )  # fmt: skip
    searched = rounds(
        answer_scores=[[0.5, 0.25], [1.0]], contradictions=[1, 0], retrieval_rank=[[0, None], [1]], calls=[2, 1]
    )
    checked = checks(
        matches_error=[True, True, None], gold_verdict=["refuted", "refuted", None], unit=[0, 0, 0],
        unit_words=[6, 6, 6], unit_entities=[1, 1, 1], confidence=[0.5, 0.9, None],
    )  # fmt: skip
    return whole(examples=texts, traces=guesses) | {"rounds": searched, "checks": checked}


def put(folder: Path, table: str, frame: pl.DataFrame | pa.Table, file: str = "part-0.parquet") -> Path:
    """Write a shard as another tool would: no checks, no sorting, whatever types the frame has."""
    home = folder / table
    home.mkdir(parents=True, exist_ok=True)
    arrow = frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame
    pq.write_table(arrow, home / file)
    return home / file


def put_all(folder: Path, tables: dict[str, pl.DataFrame]) -> Path:
    for table, frame in tables.items():
        put(folder, table, frame)
    return folder


def make_rows(count: int = 6, votes: int = 4) -> dict[str, pl.DataFrame]:
    """Tables of sums: `votes` attempts each, one of them revised. Every third attempt is off by one."""
    questions, attempts = [], []
    for number in range(count):
        name = f"s{number:03d}"
        total = 4 * number + 1
        questions.append({
            "example_id": name, "dataset": "sums", "split": ("train", "test")[number % 2],
            "question": f"{number} + {3 * number + 1}", "gold": str(total),
            "evidence": [f"the sum of {number} and {3 * number + 1} is {total}.", "sums are numbers."],
        })  # fmt: skip
        for index in range(votes):
            answer = str(total + ((number + index) % 3 == 0))
            text = f"{number} and {3 * number + 1}" + " more" * (index % 3) + f": {answer}"
            attempts.append(_attempt(name, "votes", index, text, answer, answer == str(total), None))
        first = attempts[-votes]
        fixed = str(total) if number % 4 else str(total + 1)
        attempts.append(_attempt(name, "verify", 0, f"so {fixed}", fixed, fixed == str(total), first["trace_id"]))
    return {
        "examples": pl.DataFrame(questions),
        "traces": pl.DataFrame(attempts, schema_overrides={"parent_id": pl.String}),
    }


def _attempt(
    example: str, pool: str, index: int, text: str, answer: str, correct: bool, parent: str | None
) -> dict[str, Any]:
    return {
        "trace_id": f"{example}/{pool}/{index}", "example_id": example, "pool": pool,
        "action": "solve" if parent is None else "active_verify", "parent_id": parent, "sample_index": index,
        "model": "hand", "text": text, "answer": answer, "correct": correct, "prompt_tokens": 10,
        "completion_tokens": len(text) + 1, "finish_reason": "stop", "finalizer_used": False,
        "sum_logprob": -0.5 * (len(text) + 1), "token_logprobs": [-0.5] * 4,
    }  # fmt: skip


def make_log(path: Path, count: int = 6, votes: int = 4, source: Any = SOURCE, **changed: pl.DataFrame) -> Log:
    """The log of sums, sealed."""
    tables = {**make_rows(count, votes), **changed}
    return write_log(path, name="sums", tables=tables, source=source)


def write_recipe(folder: Path, text: str, name: str = "add.toml") -> Path:
    """A recipe with its prompts in a folder."""
    for file, prompt in PROMPTS.items():
        (folder / file).write_text(prompt, encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def drawn(simulation: Callable[..., Any], *words: Any, opened: bool = False, **settings: Any) -> Any:
    """A fixture: the folder of a simulated log, or the log opened. Tests read it and write nothing into it.

    Equal settings are drawn once in a process, whichever files ask for them.
    """

    key = simulation, words, tuple(sorted(settings.items()))

    @pytest.fixture(scope="session")
    def simulated_log(tmp_path_factory: pytest.TempPathFactory) -> Path | Log:
        if key not in _DRAWN:
            _DRAWN[key] = tmp_path_factory.mktemp("drawn") / "log"
            simulation(_DRAWN[key], *words, **settings)
        return open_log(_DRAWN[key]) if opened else _DRAWN[key]

    return simulated_log


_DRAWN: dict[Any, Path] = {}


def sealed(rows: Callable[[], Mapping[str, pl.DataFrame]], name: str = "small", **manifest: Any) -> Any:
    """A fixture: the log of the tables that a function gives, written once for a file, whose tests only read it."""

    @pytest.fixture(scope="module")
    def written_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
        return write_log(tmp_path_factory.mktemp(name) / "log", name=name, tables=rows(), **manifest)

    return written_log


def log_tables(log: Log) -> dict[str, pl.DataFrame]:
    """All tables of a log, in memory."""
    return {table: collect(log.scan(table), log) for table in log.shards}


def simulated_tables(simulation: Callable[..., Log], **settings: Any) -> dict[str, pl.DataFrame]:
    """The tables of a simulated log that a test changes before it writes them."""
    with tempfile.TemporaryDirectory() as folder:
        return log_tables(simulation(Path(folder) / "log", **settings))
