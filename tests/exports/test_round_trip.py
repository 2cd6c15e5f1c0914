"""Rows that a mapping brings in and the export of a table takes out again are the rows that they were."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from toolkit.exports import export_table
from toolkit.imports import import_table
from toolkit.log import open_log

MAPPING = """
[examples]
example_id = "example_id"
dataset = "dataset"
split = "split"
question = "question"
gold = "gold"
[traces]
trace_id = "trace_id"
pool = "pool"
sample_index = "sample_index"
model = "model"
text = "text"
answer = "answer"
correct = "correct"
completion_tokens = "completion_tokens"
latency_s = "latency_s"
[[verifiers]]
verifier = "'v'"
score = '"score.v"'
"""
TYPES = {
    "example_id": pl.String, "dataset": pl.String, "split": pl.String, "question": pl.String, "gold": pl.String,
    "trace_id": pl.String, "pool": pl.String, "sample_index": pl.Int32, "model": pl.String, "text": pl.String,
    "answer": pl.String, "correct": pl.Boolean, "completion_tokens": pl.Int32, "latency_s": pl.Float32,
    "score.v": pl.Float64,
}  # fmt: skip
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=9).map("x{}y".format)
TRACES = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from("pq"), WORDS | st.none(), WORDS | st.none(),
        st.integers(0, 2**31 - 1) | st.none(), st.floats(0, 2**20, width=32) | st.none(), st.floats(-9, 9) | st.none(),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


def flat(traces: list[tuple[Any, ...]]) -> pl.DataFrame:
    """A row for each trace, numbered in its example and pool; equal answers are judged alike."""
    rows, numbers = [], dict[tuple[str, str], int]()
    for number, (example, pool, text, answer, tokens, seconds, score) in enumerate(traces):
        index = numbers[example, pool] = numbers.get((example, pool), -1) + 1
        head = (example, "d", "s", f"q {example}", "xgy", f"t{number}", pool, index, "m", text, answer)
        rows.append((*head, answer is not None and len(answer) % 2 == 0, tokens, seconds, score))
    return pl.DataFrame(rows, TYPES, orient="row")


@settings(max_examples=12, deadline=None)
@given(TRACES, st.sampled_from(["parquet", "jsonl"]))
def test_mapping_then_export_is_the_identity(traces: list[tuple[Any, ...]], to: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, rows = Path(place), flat(traces)
        source = folder / f"rows.{to}"
        rows.write_parquet(source) if to == "parquet" else rows.write_ndjson(source)
        (folder / "map.toml").write_text(MAPPING, encoding="utf-8")
        import_table([str(source)], folder / "map.toml", folder / "log")
        export_table(open_log(folder / "log"), folder / "again.parquet", "parquet")
        again = pl.read_parquet(folder / "again.parquet")
    missing = [pl.lit(None, TYPES[name]).alias(name) for name in TYPES if name not in again.columns]
    assert_frame_equal(again.with_columns(missing).select(list(TYPES)).cast(TYPES), rows, check_row_order=False)


@pytest.mark.parametrize("column", ["score.v", "text"])
def test_a_column_that_no_trace_has_comes_out_empty_or_not_at_all(column: str, tmp_path: Path) -> None:
    rows = flat([("a", "p", None, "xy", 3, 1.0, None), ("a", "p", None, "xy", 4, 1.0, None)])
    rows.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "map.toml").write_text(MAPPING, encoding="utf-8")
    import_table([str(tmp_path / "rows.parquet")], tmp_path / "map.toml", tmp_path / "log")
    export_table(open_log(tmp_path / "log"), tmp_path / "again.parquet", "parquet")
    again = pl.read_parquet(tmp_path / "again.parquet")
    assert column not in again.columns or again[column].is_null().all()
