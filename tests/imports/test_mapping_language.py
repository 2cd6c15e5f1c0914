"""What a mapping can say of lists in lists, other files, references, dates and ids; each on rows worked out by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import polars as pl
import pytest

from tests.errors import quotes, says
from tests.imports.makers import HEAD, TRACES, Bench, sample
from tests.imports.test_bad_input import refused

NUMBERED = TRACES.replace('"row order"', '"element"')


def answers(bench: Bench, rows: list[dict], mapping: str) -> list[tuple]:
    traces = bench.run(rows, "\n" + mapping).scan("traces").collect()
    return traces.sort("example_id", "sample_index").select("sample_index", "answer").rows()


def answered(value: str) -> str:
    return TRACES.replace('"a"', json.dumps(value))


NESTED = {"id": "e", "q": "Q", "gold": "1", "a": [["1", "2"], [], ["3"]], "b": [{"c": ["1"]}, {"c": ["2", "3"]}]}


@pytest.mark.parametrize(
    ("explode", "answer", "wanted"),
    [
        ('["a", "a"]', "a", [(0, "1"), (1, "2"), (2, "3")]),
        ('[["a"], ["a"]]', "a", [(0, "1"), (1, "2"), (2, "3")]),
        ('["a", {a = "a"}]', "a", [(0, "1"), (1, "2"), (2, "3")]),
        ('[["b"], {part = "b.c"}]', "part", [(0, "1"), (1, "2"), (2, "3")]),
        ('[{one = "b"}, {part = "one.c"}]', "'' || element || element_2", [(0, "00"), (1, "10"), (2, "11")]),
        ('{part = "b[1].c"}', "part", [(0, "2"), (1, "3")]),
    ],
)
def test_lists_in_lists_are_opened_one_after_another(bench: Bench, explode: str, answer: str, wanted: list) -> None:
    assert answers(bench, [NESTED], f"explode = {explode}{HEAD}{answered(answer)}") == wanted


def test_lists_opened_twice_side_by_side(bench: Bench) -> None:
    row = {**NESTED, "s": [[5, 6], [], [7]]}
    mapping = 'explode = [["a", "s"], ["a", "s"]]' + HEAD + TRACES.replace('"a"', "\"a || ':' || s\"")
    assert answers(bench, [row], mapping) == [(0, "1:5"), (1, "2:6"), (2, "3:7")]


@pytest.mark.parametrize(
    ("explode", "refusal"),
    [
        ('["a", "a", "a"]', ("invalid", "`explode`", "`a`")),
        ("[1]", ("invalid", "`explode`", "[1]")),
        ("[[1]]", ("invalid", "`explode`", "[1]")),
        ("{a = 1}", ("invalid", "`explode`", "'a'", "1")),
        ('["a","a","a","a","a","a","a","a","a"]', ("limit", "9", "8")),
        ('[["a"], ["x"]]', ("invalid", "`explode`", "`x`")),
    ],
)
def test_lists_that_cannot_be_opened(bench: Bench, explode: str, refusal: tuple[str, ...]) -> None:
    message = refused(bench, f"\nexplode = {explode}{HEAD}{NUMBERED}", [NESTED])
    says(message, *refusal)


JOINS = {
    "a column": ('"id"', {"id": "e1"}, {"id": "e1"}),
    "columns of other names": ('{ task_id = "id" }', {"id": "e1"}, {"task_id": "e1"}),
    "an expression": ("{ task_id = \"'HumanEval/' || n\" }", {"n": 1}, {"task_id": "HumanEval/1"}),
    "an expression of the file": ('{ "LOWER(name)" = "id" }', {"id": "e1"}, {"name": "E1"}),
    "a number and a text": ('{ nr = "n" }', {"n": 7}, {"nr": "7"}),
    "a zero-padded number": ("{ nr = \"LPAD(CAST(n AS VARCHAR), 3, '0')\" }", {"n": 7}, {"nr": "007"}),
    "a number out of a zero-padded one": ('{ nr = "CAST(n AS INTEGER)" }', {"n": "007"}, {"nr": 7}),
    "a field": ('{ nr = "o.l[-1]" }', {"o": {"l": [1, 2]}}, {"nr": 2}),
    "two": ('{ nr = "n", id = "id" }', {"id": "e1", "n": 1}, {"nr": 1, "id": "e1"}),
}


@pytest.mark.parametrize("case", JOINS)
def test_files_are_joined_by(bench: Bench, case: str) -> None:
    on, left, right = JOINS[case]
    (bench.folder / "beside.jsonl").write_text(
        json.dumps({**dict.fromkeys(right), "extra": "no"}) + "\n" + json.dumps({**right, "extra": "yes"})
    )
    join = f'join = {{ file = "beside.jsonl", on = {on} }}'
    rows = [{"id": "e1", "q": "Q", "gold": "1", **left}]
    assert answers(bench, rows, join + HEAD + TRACES.replace('"a"', '"extra"')) == [(0, "yes")]


@pytest.mark.parametrize("on", ["1", "[]", "{}", "[1]", "{ a = 1 }"])
def test_a_join_without_keys(bench: Bench, on: str) -> None:
    says(refused(bench, f'\njoin = {{ file = "samples.jsonl", on = {on} }}{HEAD}{TRACES}'), "invalid", "`join.on`")


def test_gold_is_read_as_answers_are(bench: Bench) -> None:
    rows = [
        sample("a", "The answer is 248.", gold="So 8 * 31 = <<8*31=248>>248 #### 248"),
        sample("b", "It is 7", gold="no mark"),
    ]
    rules = '[answers]\nkind = "number"\nread = ["last number"]\nread_gold = ["####"]'
    log = bench.run(rows, "\n" + HEAD + TRACES + rules)
    assert log.scan("examples").collect().sort("example_id")["gold"].to_list() == ["248", None]
    assert log.scan("traces").collect().sort("example_id")["correct"].to_list() == [True, None]
    assert bench.report is not None
    quotes(bench.report.notes[0], "1 example", "`answers.read_gold`")


def test_gold_is_read_by_the_same_pattern(bench: Bench) -> None:
    rules = "[answers]\nread_gold = [\"pattern\"]\npattern = 'is (\\w+)'"
    log = bench.run([sample("a", "x", gold="it is x")], "\n" + HEAD + TRACES + rules)
    assert log.scan("traces").collect()["correct"].to_list() == [True]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("finish - start", 1.5),
        ("EXTRACT(EPOCH FROM finish) - EXTRACT(EPOCH FROM start)", 1.5),
        ("EXTRACT(EPOCH FROM STRPTIME(iso, '%Y-%m-%dT%H:%M:%S')) - 1704164645", 2.0),
        ("STRPTIME(ended, '%+') - STRPTIME(begun, '%+')", 2.5),
        ("TIMESTAMP(iso) - TIMESTAMP('2024-01-02T03:04:05')", 2.0),
    ],
)
def test_seconds_of_dates(bench: Bench, value: str, wanted: float) -> None:
    start = datetime(2024, 1, 2, 3, 4, 5)
    row = sample(start=start, finish=start + timedelta(seconds=1.5), iso="2024-01-02T03:04:07")
    row |= {"begun": "2024-01-02T03:04:05Z", "ended": "2024-01-02T03:04:07.5Z"}
    source = bench.rows([row], "samples.parquet")
    log = bench.run(source, "\n" + HEAD + TRACES + f'latency_s = "{value}"')
    assert log.scan("traces").collect()["latency_s"].to_list() == [wanted]


@pytest.mark.parametrize("value", ["ended - begun", "ended - 1", "ended * 2", "1 / ended"])
def test_a_text_is_no_number_and_no_time_by_itself(bench: Bench, value: str) -> None:
    rows = [sample(begun="2024-01-02T03:04:05Z", ended="2024-01-02T03:04:07Z")]
    error = refused(bench, "\n" + HEAD + TRACES + f'latency_s = "{value}"', rows)
    says(error, "invalid", "CAST(column AS DOUBLE)", "STRPTIME(column, '%+')")


def test_a_date_is_text_in_one_form(bench: Bench) -> None:
    row = sample(day=datetime(2024, 1, 2))
    source = bench.rows([row], "samples.parquet")
    log = bench.run(source, "\n" + HEAD + TRACES + "[traces.extra]\nday = \"STRFTIME(day, '%Y-%m-%d')\"")
    assert log.scan("traces").collect()["day"].to_list() == ["2024-01-02"]


def test_one_id_and_question_with_two_golds(bench: Bench) -> None:
    rows = [sample("e", "1"), sample("e", "2", gold="2"), sample("f", "1")]
    says(refused(bench, "\n" + HEAD + TRACES, rows), "invalid", "`gold`", "`e`", "`1`", "`2`")
    log = bench.run(rows, '\nids = "gold"' + HEAD + TRACES)
    ids = log.scan("examples").collect().sort("example_id")
    assert ids["example_id"].str.replace(r"-[0-9a-f]{8}$", "-#").to_list() == ["e-#", "e-#", "f"]
    assert sorted(ids["gold"]) == ["1", "1", "2"]
    assert log.scan("traces").collect().filter(pl.col("correct")).height == 3
    assert bench.report is not None
    assert bench.report.ids_split == 1


GOLDS = HEAD.replace('gold = "gold"\n', 'golds = "golds"\n')


def test_every_right_answer_is_right_in_its_normal_form(bench: Bench) -> None:
    """Of several gold answers the first is `gold`; `1,000` and `1000` are one."""
    rows = [sample("e", answer, golds=["1,000", "7", "1000"]) for answer in ("7", "1000", "8")]
    rows += [sample("f", "8", golds=None), sample("g", "3", golds=[])]
    log = bench.run(rows, GOLDS + TRACES + '[answers]\nkind = "number"\n')
    examples = log.scan("examples", ["example_id", "gold", "golds"]).collect().sort("example_id")
    assert examples.rows() == [("e", "1000", ["1000", "7"]), ("f", None, None), ("g", None, None)]
    traces = log.scan("traces", ["example_id", "answer", "correct"]).collect()
    assert sorted(traces.rows(), key=str) == [
        ("e", "1000", True), ("e", "7", True), ("e", "8", False), ("f", "8", None), ("g", "3", None),
    ]  # fmt: skip


def test_a_gold_that_is_mapped_comes_before_the_others(bench: Bench) -> None:
    rows = [sample("e", answer, gold="5", golds=["4", "5"]) for answer in ("4", "5", "6")]
    log = bench.run(rows, HEAD + 'golds = "golds"\n' + TRACES, rejudge=True)
    assert log.scan("examples", ["gold", "golds"]).collect().rows() == [("5", ["5", "4"])]
    assert log.scan("traces", ["answer", "correct"]).collect().rows() == [("4", True), ("5", True), ("6", False)]


def test_people_documents_and_clusters_are_mapped(bench: Bench) -> None:
    rows = [sample("e", "1", at=[3, 9], ok=[True, False], docs=["d2", "d1"], group="one", seen=4, words=9)]
    head = HEAD + 'human_positions = "at"\nhuman_corrects = "ok"\nlength = "words"\n'
    log = bench.run(rows, head + TRACES + 'documents = "docs"\nanswer_cluster = "group"\nposition = "seen"\n')
    examples = log.scan("examples", ["human_positions", "human_corrects", "length"]).collect()
    assert examples.rows() == [([3, 9], [True, False], 9)]
    traces = log.scan("traces", ["documents", "answer_cluster", "position"]).collect()
    assert traces.rows() == [(["d2", "d1"], "one", 4)]
