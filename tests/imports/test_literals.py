"""Where a column of the log is text, a number is written as in the file, whatever is beside it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.imports.makers import HEAD, TRACES, Bench
from toolkit.imports import import_table
from toolkit.imports.files.literals import json_as_written, json_column, parse_json_literals
from toolkit.log import Log, open_log

# Answers and golds as JSON literals: 18 is right, 2.5 is not 2.50, and no float holds the long one.
LITERALS = [("18", "18"), ("2.5", "2.50"), ("9007199254740993", "9007199254740993"), ("1e2", '"1e2"')]
WANTED = [("18", True), ("2.5", False), ("9007199254740993", True), ("1e2", True)]


def lines(pairs: list[tuple[str, str]], start: int = 0) -> list[str]:
    return [f'{{"id": {i}, "q": "Q {i}", "gold": {g}, "a": {a}}}' for i, (a, g) in enumerate(pairs, start)]


def answers(log: Log) -> list[tuple]:
    return log.scan("traces").collect().sort("example_id").select("answer", "correct").rows()


@pytest.mark.parametrize("file", ["samples.jsonl", "samples.json"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_answers_keep_their_literals(bench: Bench, file: str, count: int) -> None:
    rows = lines(LITERALS[:count])
    path = bench.folder / file
    path.write_text("\n".join(rows) if file.endswith("l") else f"[{', '.join(rows)}]", encoding="utf-8")
    assert answers(bench.run(str(path), HEAD + TRACES)) == WANTED[:count]


def test_also_across_files(bench: Bench, tmp_path: Path) -> None:
    for number, pair in enumerate(LITERALS):
        (bench.folder / f"{number}.jsonl").write_text(lines([pair], number)[0], encoding="utf-8")
    import_table([str(bench.folder)], bench.mapping(HEAD + TRACES), tmp_path / "out")
    assert answers(open_log(tmp_path / "out")) == WANTED


def test_a_csv_beside_json_and_parquet(bench: Bench, tmp_path: Path) -> None:
    (bench.folder / "1.csv").write_text("id,q,gold,a\n1,Q 1,1.10,1.10\n2,Q 2,1.1,2\n", encoding="utf-8")
    (bench.folder / "2.jsonl").write_text(lines([("7", '"7"')], 3)[0], encoding="utf-8")
    pl.DataFrame({"id": ["x"], "q": ["Q x"], "gold": ["z"], "a": ["z"]}).write_parquet(bench.folder / "3.parquet")
    import_table([str(bench.folder)], bench.mapping(HEAD + TRACES), tmp_path / "out")
    assert answers(open_log(tmp_path / "out")) == [("1.10", True), ("2", False), ("7", True), ("z", True)]


@pytest.mark.parametrize("beside", ["1.5", '"x"', "[1]"])
def test_ids_keep_theirs(bench: Bench, beside: str) -> None:
    path = bench.folder / "samples.jsonl"
    rows = [f'{{"id": {i}, "q": "Q{n}", "gold": "1", "a": "1"}}' for n, i in enumerate(["1", "2.0", beside])]
    path.write_text("\n".join(rows), encoding="utf-8")
    log = bench.run(str(path), HEAD + TRACES)
    assert set(log.scan("examples").collect()["example_id"]) == {"1", "2.0", beside.strip('"')}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("o.a", ["18", "2.50"]),
        ("COALESCE(missing, a)", ["18", "2.50"]),
        ("CONCAT(a, ' m')", ["18 m", "2.50 m"]),
        ("CAST(a AS VARCHAR)", ["18", "2.50"]),
        ("NULLIF(a, -1)", ["18", "2.50"]),
        ("CASE WHEN a > 5 THEN a ELSE a + 1 END", ["18", "3.5"]),
        ("l[0]", ["18", "2.50"]),
        ("UPPER(a)", ["18", "2.50"]),
        # Compared as numbers, and passed on as they are written: as texts, 2.50 is above 18.
        ("CASE WHEN a > 5 THEN CONCAT(l[0], ' m') ELSE o.a END", ["18 m", "2.50"]),
        ("CASE WHEN a > 10.0 THEN 'large' ELSE 'small' END", ["large", "small"]),
        ("CAST(a AS INTEGER)", ["18", "2"]),
    ],
)
def test_expressions_that_pass_numbers_on_keep_them_too(bench: Bench, value: str, wanted: list[str]) -> None:
    rows = [f'{{"a": {a}, "o": {{"a": {a}}}, "l": [{a}, 1.0], "missing": null}}' for a in ("18", "2.50")]
    path = bench.folder / "samples.jsonl"
    full = [f'{{"id": {n}, "q": "Q", "gold": "1", {row[1:]}' for n, row in enumerate(rows)]
    path.write_text("\n".join(full), encoding="utf-8")
    log = bench.run(str(path), HEAD + TRACES.replace('"a"', json.dumps(value)))
    assert [answer for answer, _ in answers(log)] == wanted


@pytest.mark.parametrize("file", ["samples.jsonl", "samples.json", "samples.csv"])
def test_lists_that_are_opened_keep_theirs(bench: Bench, file: str) -> None:
    path = bench.folder / file
    content = '{"id": "e", "q": "Q", "gold": 18, "s": [18, 2.50, null, 9007199254740993]}'
    csv = 'id,q,gold,s\ne,Q,18,"[18, 2.50, null, 9007199254740993]"\n'
    path.write_text(csv if file.endswith("csv") else content, encoding="utf-8")
    log = bench.run(str(path), 'explode = ["s"]' + HEAD + TRACES.replace('"a"', '"s"'))
    found = log.scan("traces").collect().sort("sample_index").select("answer", "correct").rows()
    assert found == [("18", True), ("2.50", False), (None, False), ("9007199254740993", False)]


def test_texts_of_a_joined_file_stay_with_their_column(bench: Bench) -> None:
    (bench.folder / "more.csv").write_text("id,a,gold\ne,5.0,1.10\n", encoding="utf-8")
    rows = [{"id": "e", "q": "Q", "a": "text"}]
    join = 'join = { file = "more.csv", on = "id" }'
    log = bench.run(rows, join + HEAD + TRACES + '[traces.extra]\nother = "a_right"')
    assert log.scan("traces").select("answer", "other").collect().rows() == [("text", 5.0)]
    assert log.scan("examples").select("gold").collect().item() == "1.10"


def test_numbers_are_numbers_where_numbers_are_wanted(bench: Bench) -> None:
    rows = [
        f'{{"id": "e", "q": "Q", "gold": "1", "a": "1", "n": {n}, "s": {s}}}' for n, s in (("3.0", "1"), ("4", ".5"))
    ]
    path = bench.folder / "samples.jsonl"
    path.write_text("\n".join(rows).replace(" .5", " 0.5"), encoding="utf-8")
    verifier = '[[verifiers]]\nverifier = "\'rm\'"\nscore = "s"'
    log = bench.run(str(path), HEAD + TRACES + 'completion_tokens = "n"\n' + verifier)
    assert log.scan("traces").collect().sort("sample_index")["completion_tokens"].to_list() == [3, 4]
    assert log.scan("verifications").collect().sort("trace_id")["score"].to_list() == [1.0, 0.5]


def test_columns_of_parsed_json_lose_nothing() -> None:
    def made(*literals: str) -> tuple[list[object], list[object] | None]:
        held, kind = json_column("x", [parse_json_literals(text) for text in literals])
        return held.cast(kind).to_list(), None if held.dtype == kind else held.to_list()

    assert made("1", "2") == ([1, 2], None)
    assert made("1", "2.0") == ([1.0, 2.0], ["1", "2.0"])
    assert made("9007199254740993", "0.5") == (["9007199254740993", "0.5"], None)
    assert made("18446744073709551616", "null") == (["18446744073709551616", None], None)
    assert made("true", "1") == (["true", "1"], None)
    assert made("[1, 2.50]", "[3]") == ([[1.0, 2.5], [3.0]], [["1", "2.50"], ["3"]])
    # Each field for itself: the large integer beside a float does not make the object text.
    assert made('{"t": 9007199254740993, "s": 0.5}', "null") == (
        [{"t": 9007199254740993, "s": 0.5}, None],
        [{"t": "9007199254740993", "s": "0.5"}, None],
    )
    assert made('{"a": 1.10}', "3") == (['{"a": 1.10}', "3"], None)
    assert json_as_written(parse_json_literals('{"ä": [1.10, null, "x"]}')) == '{"ä": [1.10, null, "x"]}'


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_zstd_unpacks_every_format(bench: Bench, ending: str) -> None:
    rows = lines([("1", "1"), ("2", "1")])
    text = {"jsonl": "\n".join(rows), "json": f"[{','.join(rows)}]", "csv": "id,q,gold,a\n0,Q 0,1,1\n1,Q 1,1,2\n"}[
        ending
    ]
    path = bench.folder / f"samples.{ending}.zst"
    path.write_bytes(
        b"".join(pa.compress(part.encode(), codec="zstd", asbytes=True) for part in (text[:20], text[20:]))
    )
    assert answers(bench.run(str(path), HEAD + TRACES)) == [("1", True), ("2", False)]


def test_files_inside_an_archive(bench: Bench) -> None:
    with zipfile.ZipFile(bench.folder / "runs.zip", "w") as archive:
        archive.writestr("a.jsonl", lines([("1", "1")])[0])
        archive.writestr("b.jsonl", lines([("2", "1")], 1)[0])
    for number, address in enumerate(("zip://*.jsonl::", "zip://b.jsonl::")):
        log = bench.run(f"{address}{bench.folder / 'runs.zip'}", HEAD + TRACES)
        assert answers(log) == [("1", True), ("2", False)][number:]
        (bench.folder / "log").rename(bench.folder / f"done-{number}")


def test_the_first_integer_that_no_float_holds_keeps_its_digits(bench: Bench) -> None:
    path = bench.folder / "samples.jsonl"
    rows = (f'{{"id": "e", "q": "Q", "gold": "1", "a": "1", "n": {n}}}' for n in ("9007199254740993", "0.5"))
    path.write_text("\n".join(rows), encoding="utf-8")
    log = bench.run(str(path), HEAD + TRACES + '[traces.extra]\nseed = "n"')
    assert log.scan("traces").collect().sort("sample_index")["seed"].to_list() == ["9007199254740993", "0.5"]
