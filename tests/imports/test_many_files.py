"""Files that are many, small, or wide: read as one where they can be, and only the columns that a mapping names."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import polars as pl
import pytest

from tests.errors import refuses
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports import import_table
from toolkit.imports.guessing.guess import guess_mapping
from toolkit.imports.rows import json_files, sources
from toolkit.log import open_log

CSV = 'path = "{id}.csv"' + HEAD + TRACES.replace('"row order"', '"s"')


def write(folder: Path, files: dict[str, str]) -> str:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, newline="")
    return str(folder)


def rows_of(bench: Bench, source: str, mapping: str, name: str) -> dict[str, object]:
    import_table([source], bench.mapping(mapping), bench.folder / name)
    log = open_log(bench.folder / name)
    return {table: log.scan(table).collect().to_dicts() for table in log.shards}


FILES = {
    "plain": {f"e{n}.csv": f"q,gold,a,s,other\nQ {n},1,{n % 3},0,x\nQ {n},1,1,1,x\n" for n in range(5)},
    "no end of line": {f"e{n}.csv": f"q,gold,a,s\nQ {n},1,{n},0" for n in range(4)},
    "other headers": {f"e{n}.csv": f"{'a,q' if n % 2 else 'q,a'},gold,s\nv,v,1,0\n" for n in range(4)},
    "quotes": {f"e{n}.csv": f'q,gold,a,s\n"Q\n{n}",1,{n},0\n' for n in range(4)},
    "numbers and texts": {f"e{n}.csv": f"q,gold,a,s\nQ {n},1,{['07', '1.0', 'x', '2'][n]},0\n" for n in range(4)},
    "ends of lines as Windows has them": {
        f"e{n}.csv": f'q,gold,a,s\r\n"Q ""{n}""\r\n\r\n",1,{n},0\r\n' for n in range(4)
    },
    "a quote within a field": {f"e{n}.csv": f'q,gold,a,s\nQ 5" by {n}",1,{n},0\n' for n in range(4)},
    "no rows in some": {f"e{n}.csv": "q,gold,a,s\n" + ("Q,1,2,0\n" if n % 2 else "") for n in range(4)},
}


@pytest.mark.parametrize("case", FILES)
def test_small_files_read_as_one_are_those_read_one_by_one(
    bench: Bench, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(bench.folder / "files", FILES[case])
    together = rows_of(bench, source, CSV, "together")
    monkeypatch.setattr(sources, "_SMALL", 0)
    assert together == rows_of(bench, source, CSV, "each")


@pytest.mark.parametrize("case", ["plain", "quotes", "ends of lines as Windows has them"])
def test_files_as_csv_writers_leave_them_are_read_as_one(
    bench: Bench, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(bench.folder / "files", FILES[case])
    monkeypatch.setattr(sources, "_READERS", {})  # without a reader of single files
    assert len(rows_of(bench, source, CSV, "together")["examples"]) == len(FILES[case])  # type: ignore[arg-type]


def test_small_files_of_json_lines_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [1, 2.50, "3", None]
    files = {f"f{n}.jsonl": json.dumps(sample(f"e{n}", a)) + "\n\n" for n, a in enumerate(values)}
    source = write(bench.folder / "files", files)
    together = rows_of(bench, source, HEAD + TRACES, "together")
    assert [row["answer"] for row in together["traces"]] == ["1", "2.5", "3", None]  # type: ignore[attr-defined]
    monkeypatch.setattr(sources, "_SMALL", 0)
    assert together == rows_of(bench, source, HEAD + TRACES, "each")


ROWS: dict[str, list[Any]] = {
    "a question each": [{"q": f"Q {n}", "gold": "1", "a": str(n % 3)} for n in range(4)],
    "lists": [[{"q": f"Q {n}", "gold": 1, "a": 1.5}, {"q": f"Q {n}", "gold": 1, "a": None}] for n in range(3)],
    "a list without rows": [[{"q": "Q", "gold": "1", "a": "1"}], [], [{"q": "R", "gold": "1", "a": "1"}]],
    "numbers and texts": [{"q": "Q", "gold": a, "a": a} for a in (1, 2.50, "3", None)],
    "fields that some have": [{"q": f"Q {n}", "gold": "1", "a": "1", f"f{n}": {str(n): n}} for n in range(4)],
}
DOCUMENTS = 'path = "{id}.json"' + HEAD + TRACES


@pytest.mark.parametrize("case", ROWS)
def test_small_documents_are_read_as_one(bench: Bench, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(bench.folder / "files", {f"e{n}.json": json.dumps(rows) for n, rows in enumerate(ROWS[case])})
    with monkeypatch.context() as alone:
        alone.setattr(sources, "_SMALL", 0)
        each = rows_of(bench, source, DOCUMENTS, "each")
    monkeypatch.setattr(sources, "_READERS", {})  # without a reader of single files
    assert rows_of(bench, source, DOCUMENTS, "together") == each


def test_a_file_that_cannot_be_read_is_named_among_small_ones(bench: Bench) -> None:
    lines = json.dumps(sample()) + "\n"
    source = write(bench.folder / "files", {"f0.jsonl": lines, "f1.jsonl": lines + "no JSON\n", "f2.jsonl": lines})
    with refuses("format", "line 2", "f1.jsonl"):
        import_table([source], bench.mapping(HEAD + TRACES), bench.folder / "log")


@pytest.mark.slow
def test_thousands_of_small_files_are_quick(bench: Bench) -> None:
    files = {f"e{n:05}.csv": f"q,gold,a,s\nQ {n},1,{n % 3},0\nQ {n},1,1,1\n" for n in range(8000)}
    source = write(bench.folder / "files", files)
    start = time.process_time()
    import_table([source], bench.mapping(CSV), bench.folder / "log")
    assert time.process_time() - start < 5  # 13 seconds where each was read by itself, and 1.2 where all are


def test_a_guess_takes_little_memory_for_each_of_many_files(bench: Bench) -> None:
    files = {f"e{n:05}.csv": f"pred,gold,k\n{n},{n},0\n1,{n},1\n" for n in range(2000)}
    source, before = write(bench.folder / "files", files), getrusage(RUSAGE_SELF).ru_maxrss
    assert '"example"' in guess_mapping([source]).text
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 150_000  # KB; it took more than twice, which grew as the square


def test_columns_that_no_value_names_are_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    files = {
        f"f{n}.jsonl": "".join(
            json.dumps({**sample(f"e{n}"), "votes": {f"{n} {rng.random()}": 1 for _ in range(40)}}) + "\n"
            for _ in range(20)
        )
        for n in range(10)
    }
    read = list[list[str]]()
    made = json_files.SourceTable

    def seen(frame, *args, **named):  # type: ignore[no-untyped-def]
        read.append(frame.columns)
        return made(frame, *args, **named)

    monkeypatch.setattr(json_files, "SourceTable", seen)
    import_table([write(bench.folder / "files", files)], bench.mapping(HEAD + TRACES), bench.folder / "log")
    assert read
    assert not any("votes" in columns for columns in read)


def test_types_of_columns_that_no_value_names_do_not_matter(bench: Bench) -> None:
    files = {f"f{n}.jsonl": json.dumps({**sample(f"e{n}"), "more": more}) for n, more in enumerate(["x", {"y": 1}])}
    source = write(bench.folder / "files", files)
    assert len(rows_of(bench, source, HEAD + TRACES, "log")["examples"]) == 2  # type: ignore[arg-type]


def test_a_column_of_different_types_is_named(bench: Bench) -> None:
    folder = bench.folder / "files"
    folder.mkdir()
    for number, odd in enumerate([pl.Series([0]).cast(pl.Date), pl.Series([[1]])]):
        pl.DataFrame([sample(f"e{number}")]).with_columns(odd.alias("odd")).write_parquet(folder / f"{number}.parquet")
    with refuses("mismatch", "odd"):
        import_table([str(folder)], bench.mapping(HEAD + TRACES + 'finish_reason = "odd"'), bench.folder / "log")


def test_a_column_that_was_not_read_is_still_suggested(bench: Bench) -> None:
    mapping = HEAD + TRACES.replace('answer = "a"', 'answer = "answr"')
    rows = [{**sample(), "answer": "1"}]
    with refuses("invalid", "answer"):
        bench.run(rows, mapping)  # type: ignore[arg-type]
