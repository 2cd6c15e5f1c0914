"""A source that is read in blocks and imported part by part makes the log and the report of one read whole."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses, says
from tests.imports.makers import HEAD, TRACES, Bench, sample
from tests.imports.test_bad_input import refused
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.imports import ImportReport, import_table
from toolkit.imports.build import blocks
from toolkit.imports.rows import sorted_rows, sources
from toolkit.log import Log, open_log, validate_log


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and parts of a few rows, whatever the size of the source."""
    monkeypatch.setattr(blocks, "WHOLE_BYTES", -1)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 700)
    monkeypatch.setattr(sorted_rows, "BLOCK_BYTES", 900)


def imported(bench: Bench, source: str, mapping: str, name: str, **options: Any) -> tuple[Log, ImportReport]:
    out = bench.folder / name
    shutil.rmtree(out, ignore_errors=True)
    report = import_table([source], bench.mapping(mapping), out, **options)
    return open_log(out), report


def same(bench: Bench, source: str, mapping: str, *, shards: int = 2, **options: Any) -> Log:
    """Import in parts and whole, and compare everything that can be seen."""
    log, report = imported(bench, source, mapping, "parts", **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "WHOLE_BYTES", 2**40)
        whole, told = imported(bench, source, mapping, "whole", **options)
    assert replace(report, log=told.log, name=told.name) == told
    assert set(log.shards) == set(whole.shards)
    for table in whole.shards:
        found = [one.scan(table).collect() for one in (log, whole)]
        columns = sorted(found[1].columns)
        order = ["trace_id"] if "trace_id" in columns else ["example_id"]
        assert sorted(found[0].columns) == columns
        assert found[0].select(columns).sort(order).equals(found[1].select(columns).sort(order)), table
    assert len(log.shards["traces"]) >= shards
    assert validate_log(log).problems == ()
    assert log.manifest is not None
    assert whole.manifest is not None
    assert log.manifest.source == whole.manifest.source
    assert not [path for path in log_folder(log).iterdir() if path.name.startswith(".")]
    return log


def log_folder(log: Log) -> Path:
    return Path(log.address)


def rows_of(examples: int = 8, samples: int = 4, seed: int = 3) -> list[dict[str, Any]]:
    """Samples in turns, as a run makes them that asks every question once, and then again."""
    rng = random.Random(seed)
    rows = []
    for turn in range(samples):
        for number in rng.sample(range(examples), examples):
            answer = str(rng.randint(0, 2))
            rows.append({"id": f"e{number}", "q": f"Question {number}?", "gold": str(number % 3), "a": answer,
                         "i": turn, "ok": answer == str(number % 3), "score": rng.random(), "n": rng.randint(1, 99),
                         "l": [answer, "x"], "more": {"deep": [turn, number]}})  # fmt: skip
    return rows


def lines(bench: Bench, rows: list[dict[str, Any]], file: str = "samples.jsonl") -> str:
    path = bench.folder / file
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    return str(path)


MORE = (
    HEAD
    + TRACES.replace('"row order"', '"i"')
    + """correct = "ok"
completion_tokens = "n"
[traces.extra]
deep = "more.deep[1]"
[[verifiers]]
verifier = "'rm'"
score = "score"
[features]
digits = "LENGTH(a)"
"""
)
FLAT = MORE.replace('"more.deep[1]"', '"n * 2"').replace("LENGTH(a)", "n + 1")


FLAT_ROWS = [{name: value for name, value in row.items() if name not in ("l", "more")} for row in rows_of(30)]


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("file", seeds(1, ["samples.jsonl", "samples.jsonl.gz"]))
def test_lines(bench: Bench, file: str) -> None:
    same(bench, lines(bench, rows_of(), file), MORE, shards=3)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("file", seeds(1, ["samples.csv", "samples.parquet"]))
def test_tables(bench: Bench, file: str) -> None:
    same(bench, bench.rows(FLAT_ROWS, file), FLAT)


CHANGES = {
    "row order": ("", TRACES),
    "lists": ('explode = ["l"]', TRACES.replace('"row order"', '"i * 2 + element"').replace('"a"', '"l"')),
    "a condition": ("where = \"id <> 'e1'\"", TRACES),
    "no verdict, numbers": ("", TRACES + '[answers]\nkind = "number"'),
    "verdicts alone": ("", TRACES.replace('answer = "a"', 'correct = "ok"')),
    "contested verdicts": ("", TRACES + 'correct = "n > 50"\n[answers]\nconflicts = "keep"'),
    "opaque ones": ("", TRACES + 'correct = "n > 50"\n[answers]\nconflicts = "opaque"'),
    "two tables": ("", "[" + TRACES.strip().replace("[traces]", "[traces]]") + "\n[" + TRACES.strip()
                   .replace("[traces]", "[traces]]").replace("'p'", "'other'") + "\nwhere = \"id = 'e1'\""),
    "ids": ('ids = "gold"', TRACES),
}  # fmt: skip


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("case", seeds(4, list(CHANGES)))
def test_mappings(bench: Bench, case: str) -> None:
    top, traces = CHANGES[case]
    same(bench, lines(bench, rows_of()), f"\n{top}{HEAD}{traces}")


COARSE = {"one id for all": "'one'", "an id of many": "CONCAT('x', n % 2)", "an id in several parts": "CONCAT('y', i)"}


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("case", COARSE)
@pytest.mark.parametrize("ids", seeds(1, ["split", "gold", "trust"]))
def test_the_questions_of_one_id_are_parts_of_their_own(bench: Bench, case: str, ids: str) -> None:
    rows = [{**row, "gold": f"{row['gold']}.{'0' * (number % 3)}"} for number, row in enumerate(rows_of())]
    gold = "'1'" if ids == "trust" else "gold"
    head = HEAD.replace('"id"', f'"{COARSE[case]}"').replace('gold = "gold"', f'gold = "{gold}"')
    mapping = f'\nids = "{ids}"{head}{TRACES}[answers]\nkind = "number"'
    log = same(bench, lines(bench, rows), mapping, shards=1 if ids == "trust" else 2)
    assert log.rows("examples") == log.scan("examples").collect()["example_id"].n_unique()


@pytest.mark.usefixtures("in_parts")
def test_an_id_of_several_questions_is_counted_once(bench: Bench) -> None:
    _, report = imported(bench, lines(bench, rows_of()), HEAD.replace('"id"', "\"CONCAT('x', n - n)\"") + TRACES, "log")
    assert (report.ids_split, report.examples) == (1, 8)


@pytest.mark.usefixtures("in_parts")
def test_files_with_columns_of_their_path_and_a_file_beside(bench: Bench) -> None:
    for seed in (0, 1):
        (bench.folder / f"run{seed}").mkdir()
        lines(bench, rows_of(seed=seed), f"run{seed}/samples.jsonl")
    beside = [{"id": f"e{number}", "level": number * 1.5} for number in range(8)]
    (bench.folder / "run0" / "levels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in beside))
    mapping = MORE.replace("\"'p'\"", '"run"').replace("n * 2", "level").replace("more.deep[1]", "level")
    top = 'path = "{run}/samples.jsonl"\njoin = { file = "levels.jsonl", on = "id" }'
    log = same(bench, str(bench.folder / "run*" / "samples.jsonl"), f"\n{top}{mapping}")
    assert log.scan("traces").collect()["pool"].unique().sort().to_list() == ["run0", "run1"]


LATE = {
    "a column": (lambda row, number: {**row, "late": "x"} if number > 20 else row, "COALESCE(late, 'none')"),
    "a field": (lambda row, number: {**row, "more": {"deep": [1, 2], "late": number}} if number > 20 else row,
                "CONCAT(more.late, '!')"),
    "a fraction": (lambda row, number: {**row, "n": 1.50 if number == 25 else number}, "n"),
    "a text": (lambda row, number: {**row, "n": "many" if number == 25 else number}, "n"),
    "a large number": (lambda row, number: {**row, "n": 2**60 + 1 if number == 2 else number + 0.5}, "n"),
    "a list among texts": (lambda row, number: {**row, "n": [1, 2] if number == 25 else "x"}, "n"),
}  # fmt: skip


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("case", LATE)
def test_a_source_whose_types_come_late(bench: Bench, case: str) -> None:
    change, value = LATE[case]
    rows = [change(row, number) for number, row in enumerate(rows_of())]
    same(bench, lines(bench, rows), f'{HEAD}{TRACES}[traces.extra]\nmade = "{value}"', shards=1)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("texts", [("1.0", "1.00", "2"), ("1", "2", "007"), ("1.5", "2", ""), ("", "", "")])
def test_numbers_of_a_csv_file_are_those_of_the_whole_file(bench: Bench, texts: tuple[str, ...]) -> None:
    rows = [f"e{number % 9},Q{number % 9},1,{texts[min(number // 30, 2)]}" for number in range(90)]
    (bench.folder / "samples.csv").write_text("id,q,gold,a\n" + "\n".join(rows) + "\n")
    log = same(bench, str(bench.folder / "samples.csv"), HEAD + TRACES + '[traces.extra]\nmade = "a"')
    assert len(log.shards["traces"]) > 1


@pytest.mark.usefixtures("in_parts")
def test_an_expression_that_looks_at_other_rows_sees_all(bench: Bench) -> None:
    for value in ("MAX(n) OVER (PARTITION BY i)", "n - MAX(n)"):
        log = same(bench, lines(bench, rows_of()), f'{HEAD}{TRACES}[traces.extra]\nmost = "{value}"', shards=1)
        assert len(log.shards["traces"]) == 1


@pytest.mark.usefixtures("in_parts")
def test_mistakes_are_told_as_of_a_small_source(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [*rows_of(), sample("e9", "1", n=-5, i=0)]
    cases = [
        ("", TRACES + 'completion_tokens = "n"', bad),
        ("", TRACES + 'completion_tokens = "m"', rows_of()),
        ("", TRACES.replace('"a"', '"more.dep"'), rows_of()),
        ("where = \"a = '7'\"", TRACES, rows_of()),
        ("", TRACES + "where = \"a = '7'\"", rows_of()),
        ("", TRACES + 'trace_id = "\'same\'"', rows_of()),
        ("", TRACES + "text = \"CONCAT(a, CHR(0))\"", rows_of()),
        ("", TRACES, [*rows_of(), {"id": "e1", "q": "Question 1?", "gold": "2", "a": "1"}]),
        ("explode = [\"l\", \"a\"]", TRACES, rows_of()),
    ]  # fmt: skip
    for top, traces, rows in cases:
        mapping = f"\n{top}{HEAD}{traces}"
        told = [refused(bench, mapping, lines(bench, rows))]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(blocks, "WHOLE_BYTES", 2**40)
            told.append(refused(bench, mapping, lines(bench, rows)))
        if "'same'" in traces:  # which of the rows with one id is told of depends on the part that they are in
            told = [re.sub(r"row \d+", "row", str(one)) for one in told]
        assert str(told[0]) == str(told[1])


@pytest.mark.usefixtures("in_parts")
def test_a_broken_line_far_down_is_named(bench: Bench) -> None:
    file = Path(lines(bench, rows_of()))
    file.write_text(file.read_text() + "{\n")
    says(refused(bench, HEAD + TRACES, str(file)), "format", "line 33")
    assert not list(bench.folder.glob(".*"))


@pytest.mark.usefixtures("in_parts")
def test_rows_appended_twice_are_told_of(bench: Bench) -> None:
    rows = rows_of(5, 2)
    log = same(bench, lines(bench, rows + rows), HEAD + TRACES)
    assert log.rows("traces") == 20


def test_two_files_of_one_name_never_merge_in_silence(bench: Bench) -> None:
    for folder in ("a", "b"):
        (bench.folder / folder).mkdir()
        lines(bench, rows_of(), f"{folder}/samples.jsonl")
    numbered = HEAD + TRACES.replace('"row order"', '"i"')
    source = str(bench.folder / "?" / "samples.jsonl")
    says(refused(bench, numbered, source), "invalid", "32", "`p`", "`a/samples.jsonl`", "`b/samples.jsonl`")
    log, report = imported(bench, source, 'duplicates = "first"' + numbered, "first")
    assert (log.rows("traces"), report.duplicates_dropped) == (32, 32)
    log, report = imported(bench, source, HEAD + TRACES, "row-order")
    assert log.rows("traces") == 64
    assert [note for note in report.notes if note.startswith("64 traces") and "several files" in note]
    told = 'path = "{run}/*.jsonl"\n' + numbered.replace("\"'p'\"", '"run"')
    log, report = imported(bench, source, told, "apart")
    assert log.rows("traces") == 64
    assert not [note for note in report.notes if "several files" in note]


def test_samples_that_one_file_repeats_are_a_resumed_run(bench: Bench) -> None:
    rows = rows_of()
    _, report = imported(bench, lines(bench, rows + rows[:3]), HEAD + TRACES.replace('"row order"', '"i"'), "resumed")
    assert report.duplicates_dropped == 3


def test_a_large_source_is_known_by_its_size(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(blocks, "WHOLE_BYTES", 10)
    monkeypatch.setattr(blocks, "sort_rows", lambda *_: seen.append(1))
    imported(bench, lines(bench, rows_of()), HEAD + TRACES, "log")
    assert seen == [1]
    with refuses("not-found", "none.jsonl`"):
        import_table([str(bench.folder / "none.jsonl")], bench.mapping(HEAD + TRACES), bench.folder / "no")


@pytest.mark.usefixtures("in_parts")
def test_a_contested_verdict_counts_the_examples_that_were_seen(bench: Bench) -> None:
    rows = [{**row, "ok": number % 2 == 0, "a": "1"} for number, row in enumerate(rows_of())]
    error = refused(bench, HEAD + TRACES + 'correct = "ok"', lines(bench, rows))
    says(error, "invalid", "`1`")


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("file", ["samples.csv", "samples.parquet"])
def test_a_damaged_file_is_one_line(bench: Bench, file: str) -> None:
    path = Path(bench.rows(FLAT_ROWS, file))
    path.write_bytes(path.read_bytes()[:-60] + b"\x81" * 60)
    says(refused(bench, FLAT, str(path)), "format")


PIECES = (b"null", b"1.50", b'"x"', b"{}", b"[]", b"-1", b"true", b"\n", b",", b'"', b"1e400", b'{"z":1}', b"9" * 25)


@pytest.mark.slow
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("file", ["samples.csv", "samples.jsonl"])
@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_file_holds_the_outcome_is_that_of_a_small_source(bench: Bench, file: str, seed: int) -> None:
    rng = random.Random(seed)
    path = Path(lines(bench, rows_of()) if file.endswith("jsonl") else bench.rows(FLAT_ROWS, file))
    content, at = path.read_bytes(), rng.randrange(300, 3000)
    cut = rng.randrange(20)
    path.write_bytes(content[:at] + rng.choice(PIECES) + content[at + cut :])
    outcomes = []
    for limit in (-1, 2**40):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(blocks, "WHOLE_BYTES", limit)
            try:
                log, report = imported(bench, str(path), FLAT, f"log{limit}")
                outcomes.append((log.scan("traces").collect().sort("trace_id").to_dicts(), report.notes))
            except ThinkbackError as error:
                outcomes.append(str(error).partition("`: `")[0])
    assert outcomes[0] == outcomes[1]
    assert "\n" not in outcomes[0]


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("odd", [(3,), range(0, 32, 5)], ids=["in one part", "in several"])
def test_contested_verdicts_are_kept_in_whatever_part_they_are(bench: Bench, odd: Sequence[int]) -> None:
    rows = rows_of()
    for number in odd:
        rows[number] |= {"a": "1", "ok": not rows[number]["ok"]}
    log = same(bench, lines(bench, rows), MORE + '[answers]\nconflicts = "keep"\n')
    assert "contested" in log.scan("traces").collect_schema()


LOADED = """
import sys
from pathlib import Path
from toolkit.imports import import_table
from toolkit.log import collect, open_log
import_table([sys.argv[1]], Path(sys.argv[2]), sys.argv[3])
log = open_log(sys.argv[3])
assert collect(log.scan("traces"), log).height == 1
print([name for name in ("pandas", "scipy", "matplotlib") if name in sys.modules])
"""


def test_an_import_loads_nothing_that_it_does_not_need(bench: Bench) -> None:
    arguments = [bench.rows([sample()]), bench.mapping(HEAD + TRACES), str(bench.folder / "log")]
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
