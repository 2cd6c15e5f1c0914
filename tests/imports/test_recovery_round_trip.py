"""What returns of a log that went out as recovery rows: what gates read, to the last value, and what is left behind."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import replay
from toolkit.exports import export_recovery
from toolkit.imports import import_recovery
from toolkit.log import collect, open_log, validate_log, write_log

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "log"
EXAMPLE = ["example_id", "dataset", "split", "question", "gold", "labels", "cluster"]
TRACE = [
    "example_id", "action", "sample_index", "model", "text", "answer", "correct", "max_tokens", "prompt_tokens",
    "completion_tokens", "tokens_estimated", "finish_reason", "finalizer_used", "latency_s", "device_s", "sum_logprob",
]  # fmt: skip
INVALID = """
[[policy]]
name = "when invalid"
kind = "when"
base = { kind = "sample", pool = "short", max_traces = 1, select = "first" }
gate = { signal = "invalid", at_least = 1 }
then = { kind = "act", action = "active_verify", base = "short" }
"""


def carried(log: Path, tmp_path: Path) -> Path:
    export_recovery(open_log(log), "short", tmp_path / "rows.jsonl")
    import_recovery([str(tmp_path / "rows.jsonl")], tmp_path / "back")
    assert validate_log(open_log(tmp_path / "back")).ok
    return tmp_path / "back"


def table(log: Path, name: str, columns: list[str]) -> pl.DataFrame:
    opened = open_log(log)
    frame = collect(opened.scan(name, columns), opened)
    return frame.sort([c for c in ("example_id", "action", "sample_index") if c in columns])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty examples of each data set of the log in `data/`, which has no features: `short` and its revisions."""
    log = open_log(SHIPPED)
    examples = collect(log.scan("examples"), log).group_by("dataset", maintain_order=True).head(60)
    traces = collect(log.scan("traces"), log).join(examples.select("example_id"), on="example_id")
    traces = traces.filter((pl.col("pool") == "short") | (pl.col("action") != "solve"))
    own = examples.with_columns(cluster=pl.col("example_id").str.slice(-1))
    path = tmp_path_factory.mktemp("real") / "log"
    scores = traces.select("trace_id", "example_id", verifier=pl.lit("length"), score=pl.col("completion_tokens") / 160)
    write_log(path, name="real", tables={"examples": own, "traces": traces, "verifications": scores})
    return path


def test_a_real_log_returns_in_all_that_rows_tell(real: Path, tmp_path: Path) -> None:
    back = carried(real, tmp_path)
    assert table(back, "examples", EXAMPLE).equals(table(real, "examples", EXAMPLE))
    own = table(real, "traces", TRACE)
    assert own["sum_logprob"].null_count() == own["latency_s"].null_count() == own["max_tokens"].null_count() == 0
    assert table(back, "traces", TRACE).equals(own)
    assert not open_log(back).has("features")


def test_single_log_probabilities_and_verifications_stay_behind(real: Path, tmp_path: Path) -> None:
    assert "token_logprobs" in open_log(real).columns("traces")
    assert open_log(real).has("verifications")
    back = open_log(carried(real, tmp_path))
    assert "token_logprobs" not in back.columns("traces")
    assert not back.has("verifications")


def labelled(path: Path) -> Path:
    """Six examples with labels A and B, of which A is right; the first three answer Z, a revision helps one in two."""
    ids = [f"e{i}" for i in range(6)]
    space = {"gold": "A", "labels": [["A", "B"]] * 6}
    examples = pl.DataFrame({"example_id": ids, "dataset": "d", "split": "test", "question": ids, **space})
    bases = [("short", "solve", name, 0, None, "Z" if i < 3 else "A") for i, name in enumerate(ids)]
    revised = [("rev", "active_verify", name, j, f"{name} short 0", "BA"[j]) for name in ids for j in range(2)]
    keys = ["pool", "action", "example_id", "sample_index", "parent_id", "answer"]
    traces = pl.DataFrame([*bases, *revised], schema=keys, orient="row").with_columns(
        trace_id=pl.format("{} {} {}", "example_id", "pool", "sample_index"),
        model=pl.lit("m"),
        correct=pl.col("answer") == "A",
    )
    completions = traces.with_columns(completion_tokens=pl.lit(7, pl.Int32))
    write_log(path, name="labelled", tables={"examples": examples, "traces": completions})
    return path


def test_answers_outside_the_label_space_stay_outside(tmp_path: Path) -> None:
    """Three of six base answers are no label, so a gate on `invalid` fires on half, before as after."""
    log = labelled(tmp_path / "log")
    for one in (log, carried(log, tmp_path)):
        found = replay.run(one, INVALID, resamples=20).outcomes.collect()
        assert found["intervened"].mean() == 0.5


def test_completion_tokens_return_where_the_prompt_is_not_counted(tmp_path: Path) -> None:
    back = table(carried(labelled(tmp_path / "log"), tmp_path), "traces", TRACE)
    assert set(back["completion_tokens"]) == {7}
    assert set(back["prompt_tokens"]) == {None}
