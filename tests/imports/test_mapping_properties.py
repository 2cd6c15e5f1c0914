"""Random tables come through a mapping unchanged, and no mapping ends in anything but one line."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import ThinkbackError
from toolkit.imports import import_table, read_mapping
from toolkit.log import collect, open_log

MAPPING = """
[examples]
example_id = "id"
dataset = "'d'"
split = "'test'"
question = "question"

[traces]
pool = "pool"
sample_index = "row order"
model = "'m'"
text = "text"
answer = "answer"
completion_tokens = "tokens"
correct = "right"
"""
KEYS = (
    "where",
    "explode",
    "join",
    "ids",
    "duplicates",
    "pools",
    "examples",
    "traces",
    "answers",
    "verifiers",
    "features",
)
WITHIN = ("example_id", "pool", "model", "answer", "kind", "read", "labels", "score", "file", "on", "x")
QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))

# White space at the ends of an answer is not part of it, and CSV has no texts that are empty: that is a missing value.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12).map(
    lambda text: f"x{text}y"
)
numbers = st.sampled_from(
    ["007", "1.10", "1e5", "-0", "12345678901234567890", "0.1", "1,000", "٣", "+5", "NaN", "true"]
)
rows = st.lists(
    st.fixed_dictionaries({
        "id": st.sampled_from(["a", "b", "c"]), "pool": st.sampled_from(["p", "q"]), "text": words | numbers,
        "answer": words | numbers, "tokens": st.integers(0, 2**31 - 1),
    }),
    min_size=1, max_size=8,
)  # fmt: skip


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def whole(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a question for each id, and a verdict that depends on the answer alone."""
    return [row | {"question": f"Q {row['id']}", "right": len(row["answer"]) % 2 == 0} for row in drawn]


def written(path: Path, table: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
            writer.writerows(table)
    return path


@QUICK
@given(rows, st.sampled_from([".jsonl", ".csv"]))
def test_values_arrive_unchanged(drawn: list[dict[str, Any]], suffix: str) -> None:
    table = whole(drawn)
    with folder() as here:
        (here / "map.toml").write_text(MAPPING)
        source = written(here / f"rows{suffix}", table)
        report = import_table([str(source)], here / "map.toml", here / "log")
        log = open_log(here / "log")
        traces = collect(log.scan("traces", list(log.columns("traces"))))
    assert (report.rows_read, report.traces) == (len(table), len(table))
    assert report.examples == len({row["id"] for row in table})
    names = ("text", "answer", "completion_tokens", "correct")
    for key in {(row["id"], row["pool"]) for row in table}:
        found = traces.filter(pl.col("example_id") == key[0], pl.col("pool") == key[1]).sort("sample_index")
        wanted = [row for row in table if (row["id"], row["pool"]) == key]
        assert found["sample_index"].to_list() == list(range(len(wanted)))
        given_rows = [(row["text"], row["answer"].strip(), row["tokens"], row["right"]) for row in wanted]
        assert found.select(names).rows() == given_rows


def refusal(run: Callable[[], object]) -> str:
    """The line with which something is refused; empty where it is not."""
    try:
        run()
    except ThinkbackError as error:
        return str(error)
    return ""


def in_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {in_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


leaves = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300, allow_nan=False) | words
leaves |= st.sampled_from(
    ["id", "answer", "'x'", "id || answer", "CAST(id AS INT)", "row order", "a.b", "(", "id = 'a'"]
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WITHIN), inner)
)


@settings(QUICK, max_examples=50)
@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_any_mapping_is_read_or_refused_in_one_line(mapping: dict[str, Any]) -> None:
    with folder() as here:
        (here / "map.toml").write_text("\n".join(f"{key} = {in_toml(value)}" for key, value in mapping.items()))
        assert "\n" not in refusal(lambda: read_mapping(here / "map.toml"))


@settings(QUICK, max_examples=25)
@given(st.sampled_from(["traces", "examples"]), st.sampled_from(WITHIN[:4]), values)
def test_any_value_of_a_mapping_is_taken_or_refused_in_one_line(table: str, key: str, value: Any) -> None:
    lines = [line for line in MAPPING.splitlines() if not line.startswith(f"{key} = ")]
    lines.insert(lines.index(f"[{table}]") + 1, f"{key} = {in_toml(value)}")
    with folder() as here:
        (here / "map.toml").write_text("\n".join(lines), encoding="utf-8")
        row = {"id": "a", "question": "Q", "pool": "p", "text": "t", "answer": "1", "tokens": 3, "right": True}
        source = written(here / "rows.jsonl", [row])
        said = refusal(lambda: import_table([str(source)], here / "map.toml", here / "log"))
        assert "\n" not in said
        assert (here / "log").exists() == (not said)
