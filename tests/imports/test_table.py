"""What `import_table` promises, each on rows small enough to work out by hand."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from tests.errors import quotes, refuses
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports import import_table
from toolkit.log import Log, open_log, validate_log


def rows_of(log: Log, *columns: str, table: str = "traces") -> list[tuple]:
    return log.scan(table).collect().sort("trace_id").select(columns).rows()


def test_without_a_verdict_answers_are_judged_against_gold(bench: Bench) -> None:
    log = bench.run(
        [sample(answer=answer) for answer in ("1", "1.0", "2", None)], HEAD + TRACES + '[answers]\nkind = "number"'
    )
    assert rows_of(log, "sample_index", "answer", "correct") == [
        (0, "1", True),
        (1, "1", True),
        (2, "2", False),
        (3, None, False),
    ]
    assert bench.report is not None
    assert (bench.report.rows_read, bench.report.examples, bench.report.traces, bench.report.null_answers) == (
        4,
        1,
        4,
        1,
    )
    assert log.name == "log"
    first, second = bench.report.notes
    quotes(first, "1 trace has", "readable")
    quotes(second, "3 answers graded")


@pytest.mark.parametrize(
    ("yes", "no"), [(1.0, 0.0), (1, 0), (True, False), ("True", "False"), ("yes", "no"), ("pass", "fail"), ("1", "0")]
)
def test_the_sources_verdict_is_kept_however_it_is_written(bench: Bench, yes: object, no: object) -> None:
    rows = [sample(answer="2", ok=yes), sample(answer="1", ok=no)]
    log = bench.run(rows, HEAD + TRACES + 'correct = "ok"')
    assert rows_of(log, "answer", "correct") == [("2", True), ("1", False)]


def test_rejudging_replaces_it_and_counts(bench: Bench) -> None:
    rows = [sample(answer="2", ok=1), sample(answer="1", ok=1), sample(answer=None, ok=0)]
    log = bench.run(rows, HEAD + TRACES + 'correct = "ok"', rejudge=True)
    assert rows_of(log, "answer", "correct") == [("2", False), ("1", True), (None, False)]
    assert bench.report is not None
    assert bench.report.judgements_changed == 1
    quotes(bench.report.notes[-1], "1 of", "`--rejudge`")


def test_a_null_answer_is_wrong_whatever_the_source_says(bench: Bench) -> None:
    log = bench.run([sample(answer=" ", ok=1), sample(ok=1)], HEAD + TRACES + 'correct = "ok"')
    assert rows_of(log, "answer", "correct") == [(None, False), ("1", True)]
    assert bench.report is not None
    assert bench.report.judgements_changed == 1


def test_an_example_is_judged_for_all_its_traces_or_for_none(bench: Bench) -> None:
    rows = [
        {"id": "open", "q": "x", "gold": None, "a": "3", "ok": True},
        {"id": "open", "q": "x", "gold": None, "a": "4", "ok": None},
        {"id": "alike", "q": "y", "gold": None, "a": "3", "ok": True},
        {"id": "alike", "q": "y", "gold": None, "a": "3", "ok": None},
        {"id": "gold", "q": "z", "gold": "5", "a": "6", "ok": True},
        {"id": "gold", "q": "z", "gold": "5", "a": "5", "ok": None},
        {"id": "gold", "q": "z", "gold": "5", "a": None, "ok": None},
    ]
    log = bench.run(rows, HEAD + TRACES + 'correct = "ok"')
    assert rows_of(log, "example_id", "answer", "correct") == [
        ("alike", "3", True), ("alike", "3", True),
        ("gold", "6", True), ("gold", "5", True), ("gold", None, False),
        ("open", "3", None), ("open", "4", None),
    ]  # fmt: skip
    assert bench.report is not None
    assert bench.report.unjudged_examples == 1


CONFLICT = [sample(answer=a, ok=ok) for a, ok in (("7", 1), ("7.0", 0), ("7", 0), ("8", 0), (None, 0))]


@pytest.mark.parametrize(("how", "verdicts", "changed"), [("first", [True] * 3, 2), ("majority", [False] * 3, 1)])
def test_equal_answers_get_one_verdict(bench: Bench, how: str, verdicts: list[bool], changed: int) -> None:
    rules = f'correct = "ok"\n[answers]\nkind = "number"\nconflicts = "{how}"'
    log = bench.run(CONFLICT, HEAD + TRACES + rules)
    assert [row[0] for row in rows_of(log, "correct")] == [*verdicts, False, False]
    assert bench.report is not None
    assert bench.report.judgements_changed == changed


def test_a_tied_majority_takes_the_first(bench: Bench) -> None:
    rules = 'correct = "ok"\n[answers]\nkind = "number"\nconflicts = "majority"'
    log = bench.run(CONFLICT[:2], HEAD + TRACES + rules)
    assert rows_of(log, "correct") == [(True,), (True,)]


def test_conflicting_examples_can_be_made_opaque(bench: Bench) -> None:
    other = [sample("other", "1", ok=1)]
    rules = 'correct = "ok"\n[answers]\nkind = "number"\nconflicts = "opaque"'
    log = bench.run(CONFLICT + other, HEAD + TRACES + rules)
    assert rows_of(log, "answer", "correct", "opaque") == [
        ("e/p/0", True, True), ("e/p/1", False, True), ("e/p/2", False, True), ("e/p/3", False, True),
        ("e/p/4", False, True), ("1", True, False),
    ]  # fmt: skip
    assert bench.report is not None
    assert bench.report.judgements_changed == 0


KEEP = 'correct = "ok"\n[answers]\nkind = "number"\nconflicts = "keep"'


def test_contested_traces_can_keep_their_own_verdicts(bench: Bench) -> None:
    """7, 7.0 and 7 are one answer, right once and wrong twice; 8 and the unreadable one are judged alike anyway."""
    log = bench.run([*CONFLICT, sample("other", "1", ok=1)], HEAD + TRACES + KEEP)
    assert rows_of(log, "answer", "correct", "contested") == [
        ("7", True, True), ("7", False, True), ("7", False, True), ("8", False, False), (None, False, False),
        ("1", True, False),
    ]  # fmt: skip
    assert validate_log(log).problems == ()
    assert bench.report is not None
    assert (bench.report.judgements_changed, bench.report.opaque_answers) == (0, 0)
    quotes(bench.report.notes[1], "3 traces have", "`keep`")
    quotes(bench.report.notes[2], "3 traces keep", "contested", "their examples")


def test_nothing_is_contested_where_nothing_disagrees(bench: Bench) -> None:
    log = bench.run([sample(answer=a, ok=a == "1") for a in "112"], HEAD + TRACES + KEEP)
    assert "contested" not in log.columns("traces")


@pytest.mark.parametrize(("gold", "verdicts"), [("7", [True, False, True]), (None, [None] * 3)])
def test_a_contested_trace_takes_no_verdict_from_an_equal_answer(
    bench: Bench, gold: str | None, verdicts: list[bool | None]
) -> None:
    """The third 7 has no verdict: gold gives it one; without gold it has none, and so its example has none."""
    rows = [{**sample(answer="7", ok=ok), "gold": gold} for ok in (1, 0, None)]
    log = bench.run(rows, HEAD + TRACES + KEEP)
    assert [row[0] for row in rows_of(log, "correct")] == verdicts
    assert ("contested" in log.columns("traces")) == (gold is not None)
    assert validate_log(log).problems == ()


def test_marks_of_the_source_are_kept_where_they_mean_something(bench: Bench) -> None:
    """Marked: two of the three 7s, which keep right and wrong; a null answer, whose mark goes. The third 7 is wrong."""
    rows = [("7", 1, True), ("7", 0, True), ("7", 0, False), (None, 0, True)]
    columns = 'correct = "ok"\ncontested = "odd"\n[answers]\nconflicts = "first"'
    log = bench.run([sample(answer=a, ok=ok, odd=odd) for a, ok, odd in rows], HEAD + TRACES + columns)
    assert rows_of(log, "correct", "contested") == [(True, True), (False, True), (False, False), (False, False)]
    assert validate_log(log).problems == ()


def test_conflicts_are_an_error_that_says_what_to_set(bench: Bench) -> None:
    rules = 'correct = "ok"\n[answers]\nkind = "number"'
    with refuses("invalid", "`7`", "`e`", "`answers.conflicts`", "1", "2"):
        bench.run(CONFLICT, HEAD + TRACES + rules)
    assert not (bench.folder / "log").exists()


def test_verdicts_without_answers_are_opaque(bench: Bench) -> None:
    log = bench.run([sample(ok="True"), sample(ok="False")], HEAD + TRACES.replace('answer = "a"', 'correct = "ok"'))
    assert rows_of(log, "trace_id", "answer", "correct", "opaque") == [
        ("e/p/0", "e/p/0", True, True),
        ("e/p/1", "e/p/1", False, True),
    ]
    assert validate_log(log).problems == ()


def test_answers_are_read_out_of_texts(bench: Bench) -> None:
    rows = [sample(t=text) for text in (r"so \boxed{\frac{2}{2}}", "It is 2, no: 1.", "none")]
    rules = '[answers]\nkind = "number"\nread = ["boxed", "last number"]'
    log = bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'text = "t"') + rules)
    assert rows_of(log, "answer", "correct") == [("1", True), ("1", True), (None, False)]


def test_labels_set_the_label_space_and_rule_the_verdict(bench: Bench) -> None:
    rows = [sample(answer=a, ok=ok) for a, ok in (("yes ", 1), ("NO", 1), ("perhaps", 0))]
    rows = [{**row, "gold": "Yes"} for row in rows]
    rules = 'correct = "ok"\n[answers]\nkind = "label"\nlabels = ["yes", "no"]'
    log = bench.run(rows, HEAD + TRACES + rules)
    assert rows_of(log, "answer", "correct") == [("yes", True), ("no", False), ("perhaps", False)]
    assert log.scan("examples").select("gold", "labels").collect().rows() == [("yes", ["yes", "no"])]
    assert bench.report is not None
    assert bench.report.judgements_changed == 1


def test_list_columns_are_opened_together(bench: Bench) -> None:
    rows = [
        {"id": "e", "q": "Q", "gold": "1", "samples": ["1", "2"], "scores": [0.9, 0.1], "tokens": [5, 6]},
        {"id": "f", "q": "R", "gold": "2", "samples": ["2"], "scores": None, "tokens": [7]},
        {"id": "g", "q": "S", "gold": "2", "samples": [], "scores": [], "tokens": []},
    ]
    mapping = """
explode = ["samples", "scores", "tokens"]
[examples]
example_id = "id"
dataset = "'d'"
split = "'test'"
question = "q"
gold = "gold"
[traces]
pool = "'p'"
sample_index = "element"
model = "'m'"
answer = "samples"
completion_tokens = "tokens"
[[verifiers]]
verifier = "'rm'"
score = "scores"
latency_s = 0.5
[features]
tokens = "tokens"
"""
    for file in ("samples.parquet", "samples.jsonl"):
        log = bench.run(bench.rows(rows, file), mapping, name=file)
        assert rows_of(log, "trace_id", "answer", "correct", "completion_tokens") == [
            ("e/p/0", "1", True, 5), ("e/p/1", "2", False, 6), ("f/p/0", "2", True, 7),
        ]  # fmt: skip
        assert rows_of(log, "trace_id", "score", "latency_s", table="verifications") == [
            ("e/p/0", 0.9, 0.5),
            ("e/p/1", 0.1, 0.5),
        ]
        assert rows_of(log, "tokens", table="features") == [(5.0,), (6.0,), (7.0,)]
        assert log.name == file
        (bench.folder / "log").rename(bench.folder / f"done-{file}")


def test_lists_of_unequal_lengths_are_an_error(bench: Bench) -> None:
    rows = [sample(s=["1"], t=[1]), sample(s=["1", "2"], t=[1])]
    with refuses("invalid", "`samples.jsonl`", "`s`", "`t`", "2", "1"):
        bench.run(rows, 'explode = ["s", "t"]' + HEAD + TRACES)


def test_json_text_in_csv_is_opened_too(bench: Bench) -> None:
    source = bench.rows([sample(s='["1", "3"]')], "samples.csv")
    log = bench.run(source, 'explode = ["s"]' + HEAD + TRACES.replace('"a"', '"s"'))
    assert rows_of(log, "answer", "correct") == [("1", True), ("3", False)]


def test_csv_keeps_ids_and_answers_as_they_are_written(bench: Bench) -> None:
    path = bench.folder / "samples.csv"
    path.write_text('id,q,gold,a,score\n007,"a, b",1.10,1.1,0.5\n7,c,1.10,1.10,2\n', encoding="utf-8")
    log = bench.run(str(path), HEAD + TRACES + "[[verifiers]]\nverifier = \"'rm'\"\nscore = 'score'")
    assert rows_of(log, "example_id", "answer", "correct") == [("007", "1.1", False), ("7", "1.10", True)]
    assert sorted(row[0] for row in rows_of(log, "score", table="verifications")) == [0.5, 2.0]


def test_ids_that_mean_different_questions_are_told_apart(bench: Bench) -> None:
    rows = [{**sample("x"), "q": "one"}, {**sample("x"), "q": "two"}, {**sample("x"), "q": "one"}, sample("y")]
    log = bench.run(rows, HEAD + TRACES)
    one, two = (f"x-{hashlib.sha256(text).hexdigest()[:8]}" for text in (b"one", b"two"))
    counted = log.scan("traces").group_by("example_id").len().collect()
    assert dict(counted.rows()) == {one: 2, two: 1, "y": 1}
    assert bench.report is not None
    assert bench.report.ids_split == 1


def test_or_trusted_when_told_so(bench: Bench) -> None:
    rows = [{**sample("x"), "q": "one"}, {**sample("x"), "q": "two"}]
    log = bench.run(rows, 'ids = "trust"' + HEAD + TRACES)
    assert log.scan("examples").select("question").collect().rows() == [("one",)]


DUPLICATES = [sample(answer=a, i=i) for a, i in (("1", 0), ("2", 0), ("3", 1), ("4", 1), ("5", 0))]


def test_of_duplicates_the_first_wins(bench: Bench) -> None:
    log = bench.run(DUPLICATES, HEAD + TRACES.replace('"row order"', '"i"'))
    assert rows_of(log, "sample_index", "answer") == [(0, "1"), (1, "3")]
    assert bench.report is not None
    assert bench.report.duplicates_dropped == 3


def test_or_they_get_further_indices(bench: Bench) -> None:
    log = bench.run(DUPLICATES, 'duplicates = "number"' + HEAD + TRACES.replace('"row order"', '"i"'))
    assert rows_of(log, "sample_index", "answer") == [(0, "1"), (1, "3"), (2, "2"), (3, "4"), (4, "5")]
    assert bench.report is not None
    assert (bench.report.duplicates_dropped, bench.report.duplicates_numbered) == (0, 3)


def test_indices_that_count_from_1_are_told_of(bench: Bench) -> None:
    bench.run([sample(i=1), sample(i=2), sample("f", i=0)], HEAD + TRACES.replace('"row order"', '"i"'))
    assert bench.report is not None
    assert bench.report.behind_gaps == 2
    assert [note for note in bench.report.notes if "2 traces come" in note and "(from 0)" in note]


def test_revisions_find_their_parent_by_pool_and_index(bench: Bench) -> None:
    rows = [
        sample("e", "2", act="accept"),
        sample("e", "1", act="active_verify"),
        sample("e", "3", act="active_verify"),
    ]
    mapping = """
[traces]
pool = "CASE WHEN act = 'accept' THEN 'base' ELSE 'verify' END"
action = "CASE WHEN act = 'accept' THEN 'solve' ELSE act END"
parent = { pool = "'base'", sample_index = 0 }
sample_index = "row order"
model = "'m'"
answer = "a"
"""
    log = bench.run(rows, HEAD + mapping)
    assert rows_of(log, "trace_id", "parent_id", "sample_index", "answer") == [
        ("e/base/0", None, 0, "2"),
        ("e/base/0/active_verify/verify/0", "e/base/0", 0, "1"),
        ("e/base/0/active_verify/verify/1", "e/base/0", 1, "3"),
    ]
    assert validate_log(log).problems == ()


def test_or_by_the_id_of_another_row(bench: Bench) -> None:
    rows = [
        sample("e", "2", tid="t1", of=None, act="solve"), sample("e", "9", tid="t1b", of=None, act="solve"),
        sample("e", "1", tid="t2", of="t1", act="fix"), sample("e", "3", tid="t3", of="t2", act="fix"),
        sample("e", "4", tid="t4", of="t1b", act="fix"),
    ]  # fmt: skip
    mapping = TRACES.replace('"row order"', '"i"') + 'trace_id = "tid"\nparent_id = "of"\naction = "act"'
    log = bench.run([{**row, "i": 0} for row in rows], HEAD + mapping)
    # t1b is a second sample 0: dropped, and its revision with it.
    assert rows_of(log, "trace_id", "parent_id", "answer") == [("t1", None, "2"), ("t2", "t1", "1"), ("t3", "t2", "3")]
    assert bench.report is not None
    assert bench.report.duplicates_dropped == 2


def test_a_parent_that_is_not_there_is_an_error(bench: Bench) -> None:
    mapping = TRACES + "action = \"'fix'\"\nparent = { pool = \"'base'\", sample_index = 0 }"
    with refuses("invalid", "`fix`", "`e`", "`samples.jsonl`", "`base`", "1", "0"):
        bench.run([sample()], HEAD + mapping)
    mapping = TRACES + "action = \"'fix'\"\ntrace_id = 'q'\nparent_id = \"'nobody'\""
    with refuses("invalid", "`nobody`", "`samples.jsonl`", "1"):
        bench.run([sample()], HEAD + mapping)


def test_one_row_may_hold_several_traces(bench: Bench) -> None:
    rows = [{"id": "e", "q": "Q", "gold": "1", "weak": "2", "strong": "1", "gate": 0.25, "tok": 420}]
    rows.append({**rows[0], "id": "f", "strong": None, "gate": None})
    mapping = """
[[traces]]
pool = "'weak'"
sample_index = 0
model = "'w'"
answer = "weak"
[[traces.verifiers]]
verifier = "'gate'"
score = "gate"
[[traces]]
where = "strong IS NOT NULL"
pool = "'strong'"
action = "'verify'"
parent = { pool = "'weak'", sample_index = 0 }
sample_index = 0
model = "'s'"
answer = "strong"
completion_tokens = "tok"
[traces.features]
tok = "tok"
"""
    log = bench.run(rows, HEAD + mapping)
    assert rows_of(log, "trace_id", "parent_id", "correct", "completion_tokens") == [
        ("e/weak/0", None, False, None),
        ("e/weak/0/verify/strong/0", "e/weak/0", True, 420),
        ("f/weak/0", None, False, None),
    ]
    assert rows_of(log, "trace_id", "score", table="verifications") == [("e/weak/0", 0.25)]
    assert rows_of(log, "trace_id", "tok", table="features") == [("e/weak/0/verify/strong/0", 420.0)]


def test_finish_reasons_extra_columns_and_constants(bench: Bench) -> None:
    rows = [
        sample(r=r, router=0.5, n=n) for r, n in (("MAX_TOKENS", 1), ("end_turn", 2), ("cut", 3), ("tool_calls", 4))
    ]
    mapping = """
finish_reasons = { CUT = "length" }
[examples.extra]
router_score = "router"
[traces]
pool = "'p'"
sample_index = "n - 1"
model = "'m'"
temperature = 0.7
tokens_estimated = true
answer = "a"
finish_reason = "r"
[traces.extra]
seed = "n"
gold = "n + 1"
row = "n + 2"
"""
    head, _, tail = mapping.partition("[examples.extra]")
    log = bench.run(rows, head + HEAD + "[examples.extra]" + tail)
    assert rows_of(log, "finish_reason", "seed", "gold", "row", "tokens_estimated") == [
        ("length", 1, 2, 3, True), ("stop", 2, 3, 4, True), ("length", 3, 4, 5, True), ("tool_calls", 4, 5, 6, True),
    ]  # fmt: skip
    assert log.scan("examples").select("router_score").collect().item() == 0.5


def test_several_files_globs_and_compressed_ones(bench: Bench) -> None:
    for number in (1, 2):
        lines = "\n".join(json.dumps(sample(f"e{number}", str(index))) for index in range(2))
        (bench.folder / f"run-{number}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    log = bench.run(str(bench.folder / "run-*.jsonl.gz"), HEAD + TRACES.replace("\"'p'\"", '"source_file"'))
    assert rows_of(log, "pool", "sample_index") == [
        ("run-1.jsonl.gz", 0), ("run-1.jsonl.gz", 1), ("run-2.jsonl.gz", 0), ("run-2.jsonl.gz", 1),
    ]  # fmt: skip
    assert log.manifest is not None
    assert [entry["file"] for entry in log.manifest.source["files"]] == ["run-1.jsonl.gz", "run-2.jsonl.gz"]


def test_where_filters_and_nan_is_taken_for_nothing_only_when_told(bench: Bench) -> None:
    path = bench.folder / "samples.jsonl"
    path.write_text("\n".join(json.dumps(sample(s=s)) for s in (0.5, float("nan"))), encoding="utf-8")
    verifier = '[[verifiers]]\nverifier = "\'rm\'"\nscore = "{}"'
    with refuses("invalid", "`verifiers.score`", "`samples.jsonl`", "2"):
        bench.run(str(path), HEAD + TRACES + verifier.format("s"))
    told = "NULLIF(s, CAST('nan' AS DOUBLE))"
    log = bench.run(str(path), 'where = "a IS NOT NULL"' + HEAD + TRACES + verifier.format(told))
    assert rows_of(log, "score", table="verifications") == [(0.5,)]


def test_ids_never_collide(bench: Bench) -> None:
    rows = [{**sample("a/b"), "p": "c"}, {**sample("a"), "p": "b/c"}]
    log = bench.run(rows, HEAD + TRACES.replace("\"'p'\"", '"p"'))
    assert rows_of(log, "trace_id") == [("a%2Fb/c/0",), ("a/b%2Fc/0",)]


def test_the_order_of_files_is_the_order_of_samples_and_names_are_kept(bench: Bench, tmp_path: Path) -> None:
    first, second = bench.rows([sample(answer="9")], "b.jsonl"), bench.rows([sample(answer="8")], "a.parquet")
    report = import_table([first, second], bench.mapping(HEAD + TRACES), tmp_path / "out", name="two files")
    assert report.name == "two files"
    assert rows_of(open_log(tmp_path / "out"), "answer") == [("9",), ("8",)]


def test_a_large_import_is_quick(bench: Bench) -> None:
    n = 60_000
    frame = pl.DataFrame({"id": [f"e{i // 4}" for i in range(n)], "a": [str(i % 7) for i in range(n)]})
    frame = frame.with_columns(q=pl.lit("Q ") + pl.col("id"), gold=pl.lit("3"))
    frame.write_parquet(bench.folder / "big.parquet")
    log = bench.run(str(bench.folder / "big.parquet"), HEAD + TRACES)
    assert log.scan("traces").select(pl.col("correct").sum()).collect().item() == sum(i % 7 == 3 for i in range(n))


def test_a_verification_that_failed_keeps_what_it_cost(bench: Bench) -> None:
    rows = [sample("e", rm=rm, took=took) for rm, took in ((0.5, 5), (None, 7), (None, 0), (None, None))]
    verifier = '[[verifiers]]\nverifier = "\'rm\'"\nscore = "rm"\ncompletion_tokens = "took"\n'
    log = bench.run(rows, HEAD + TRACES + verifier)
    found = log.scan("verifications").collect().sort("trace_id")
    assert found.select("trace_id", "score", "completion_tokens").rows() == [("e/p/0", 0.5, 5), ("e/p/1", None, 7)]
    assert validate_log(log).problems == ()
