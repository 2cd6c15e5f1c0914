"""Every mistake is one line that names the place and what to do; nothing is written."""

from __future__ import annotations

import json
import lzma

import pytest

from tests.errors import refuses, says
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.errors import ThinkbackError
from toolkit.imports import import_table

GOOD = HEAD + TRACES
SUM = '[[verifiers]]\nverifier = "\'rm\'"\nscore = "s"'


def refused(bench: Bench, mapping: str, rows: object = None, **options: object) -> ThinkbackError:
    """The error with which an import is refused; checks that no log appears."""
    with pytest.raises(ThinkbackError) as caught:
        bench.run(rows if rows is not None else [sample(s=1.5, o={"x": 1})], mapping, **options)  # type: ignore[arg-type]
    assert not (bench.folder / "log").exists()
    assert not [path for path in bench.folder.iterdir() if path.name.startswith(".")]
    return caught.value


MAPPINGS = {
    "typo at the top": (GOOD.replace("[traces]", "[tracse]"), ("unknown", "`tracse`", "`traces`")),
    "typo in a table": (
        GOOD.replace("sample_index", "sample_idx"),
        ("unknown", "`sample_idx`", "`[traces]`", "`sample_index`"),
    ),
    "typo in a verifier": (GOOD + SUM.replace("score", "scoer"), ("unknown", "`scoer`", "`[verifiers]`", "`score`")),
    "no example_id": (GOOD.replace("example_id", "cluster"), ("required", "`examples.example_id`")),
    "no traces": (HEAD, ("required", "`[traces]`")),
    "no pool": (GOOD.replace("pool = \"'p'\"", ""), ("required", "`traces.pool`")),
    "column that is not there": (GOOD.replace('"a"', '"answr"'), ("invalid", "`traces.answer`", "`answr`", "`a`")),
    "constant without quotes": (GOOD.replace("\"'d'\"", '"d"'), ("invalid", "`examples.dataset`", "`d`", "'d'")),
    "not an expression": (GOOD.replace('"a"', '"a +"'), ("invalid", "`traces.answer = 'a +'`")),
    "expression that fails": (GOOD.replace('"a"', '"a + 1"') + SUM, ("invalid", "`traces.answer")),
    "unknown kind": (GOOD + '[answers]\nkind = "nunber"', ("unknown", "`answers.kind`", "`number`", "'nunber'")),
    "unknown judge": (GOOD + '[answers]\njudge = "eqal"', ("unknown", "`equal`")),
    "labels missing": (GOOD + '[answers]\nkind = "label"', ("required", "`answers.labels`")),
    "pattern missing": (GOOD + '[answers]\nread = ["pattern"]', ("required", "`answers.read`", "`pattern`")),
    "bad pattern": (GOOD + '[answers]\nread = ["pattern"]\npattern = "("', ("invalid", "`pattern`")),
    "extra that is the contract's": (GOOD + '[traces.extra]\ncredit = "s"', ("conflict", "`traces.extra.credit`")),
    "parent and parent_id": (
        GOOD + 'parent = { pool = "a", sample_index = 0 }\nparent_id = "a"',
        ("conflict", "`traces.parent_id`", "`traces.parent`"),
    ),
    "parent_id without trace_id": (GOOD + 'parent_id = "a"', ("required", "`traces.trace_id`")),
    "no answer and no verdict": (
        GOOD.replace('answer = "a"', 'text = "a"'),
        ("required", "`map.toml`", "`traces.answer`"),
    ),
    "letters without a way to read them": (
        GOOD.replace('answer = "a"', 'text = "a"') + '[answers]\nkind = "choice"',
        ("required", "`traces.answer`", '["answer is"]'),
    ),
    "where without rows": ("where = \"a = 'x'\"" + GOOD, ("empty", "`where`", "1")),
    "where that is no condition": ('where = "a"' + GOOD, ("invalid", "`where`")),
    "explode without a list": ('explode = ["a"]' + GOOD, ("invalid", "`explode`")),
    "list for a value": (GOOD.replace('"a"', '["a"]'), ("invalid", "`traces.answer`")),
    "table for a list": ('explode = "a"' + GOOD, ("invalid", "`explode`", "'a'")),
    "not an integer": (GOOD + 'completion_tokens = "s"', ("invalid", "tokens`", "`1.5`", "`samples.jsonl`", "row 1")),
    "no verdict": (GOOD + 'correct = "s"', ("invalid", "`traces.correct`", "`1.5`")),
    "no join file": ('join = { file = "x.parquet", on = "id" }' + GOOD, ("format", "x.parquet`")),
    "join without key": ('join = { file = "other.jsonl", on = "nr" }' + GOOD, ("invalid", "`join.on`", "`nr`")),
    "a feature named as the key": (GOOD + '[features]\ntrace_id = "s"', ("conflict", "`features`")),
    "a name with a NUL": (GOOD + '[features]\n"a\\u0000" = "s"', ("invalid", "`features`")),
    "field that is not there": (GOOD.replace('"a"', '"o.y"'), ("invalid", "`y`")),
    "ids": ('ids = "splt"' + GOOD, ("unknown", "`split`")),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_mistakes_in_a_mapping(bench: Bench, case: str) -> None:
    mapping, refusal = MAPPINGS[case]
    (bench.folder / "other.jsonl").write_text('{"id": "e"}\n', encoding="utf-8")
    says(refused(bench, "\n" + mapping), *refusal)


def test_a_mapping_that_is_no_toml(bench: Bench) -> None:
    says(refused(bench, "a =\n"), "format", "`map.toml`")


def test_a_mapping_that_does_not_exist(bench: Bench) -> None:
    says(refused(bench, "tot_game42"), "unknown", "`tot_game24`")
    says(refused(bench, "nowhere.toml"), "not-found", "`nowhere.toml`")


@pytest.mark.parametrize(
    ("file", "content", "refusal"),
    [
        ("a.jsonl", b'{"id": "e"}\n{"id": \n', ("format", "line 2")),
        ("a.jsonl", b"\xff\xfe\n", ("format", "line 1")),
        ("a.jsonl", b"[1, 2]\n", ("format", "line 1")),
        ("a.json", b"[1]", ("format", "a.json`")),
        ("a.parquet", b"PAR1 cut off", ("format", "a.parquet`")),
        ("a.csv", b"", ("format", "a.csv`")),
        ("a.jsonl.gz", b"not packed", ("format",)),
        ("a.jsonl.xz", lzma.compress(b"{}" * 99)[:-20] + bytes(20), ("format",)),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd" + b"abc" * 100, ("format",)),
        ("a.json.zst", b"not packed", ("format",)),
        ("a.json", b"[" * 100_000, ("format",)),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000 + b"\n", ("format", "line 1")),
        ("a.txt", b"x", ("format", "a.txt`")),
    ],
)
def test_files_that_cannot_be_read(bench: Bench, file: str, content: bytes, refusal: tuple[str, ...]) -> None:
    (bench.folder / file).write_bytes(content)
    error = refused(bench, "\n" + GOOD, str(bench.folder / file))
    says(error, *refusal, file)
    assert len(str(error)) < 500


def test_an_archive_that_is_none(bench: Bench) -> None:
    (bench.folder / "bad.zip").write_bytes(b"no archive")
    for name in ("a.jsonl", "*.jsonl"):
        says(refused(bench, "\n" + GOOD, f"zip://{name}::{bench.folder / 'bad.zip'}"), "format", "bad.zip")


def test_a_source_that_is_not_there(bench: Bench) -> None:
    says(refused(bench, "\n" + GOOD, str(bench.folder / "nothing-*.jsonl")), "not-found", "nothing-*.jsonl`")
    with refuses("required", "source"):
        import_table([], bench.mapping(GOOD), bench.folder / "log")


def test_null_where_none_may_be(bench: Bench) -> None:
    rows = [sample(), {**sample(), "q": None}]
    says(refused(bench, "\n" + GOOD, rows), "invalid", "`examples.question`", "`samples.jsonl`", "row 2")


def test_rows_that_contradict_each_other(bench: Bench) -> None:
    says(refused(bench, "\n" + GOOD, [sample(), {**sample(), "gold": "2"}]), "invalid", "`gold`", "`e`", "`1`", "`2`")


def test_rejudging_without_gold(bench: Bench) -> None:
    says(refused(bench, "\n" + GOOD.replace('gold = "gold"', ""), rejudge=True), "required", "`examples.gold`")


def test_an_existing_log_is_never_touched(bench: Bench) -> None:
    (bench.folder / "log").mkdir()
    (bench.folder / "log" / "kept").write_text("x")
    with refuses("exists", "`force`"):
        bench.run([sample()], "\n" + GOOD)
    assert [path.name for path in (bench.folder / "log").iterdir()] == ["kept"]


def test_negative_counts_name_the_row_and_what_to_write(bench: Bench) -> None:
    mapping = "\n" + GOOD + 'completion_tokens = "n"'
    error = refused(bench, mapping, [sample(n=3), sample(n=-1)])
    says(error, "invalid", "`traces.completion_tokens`", "-1", "`samples.jsonl`", "row 2")
    says(error, "invalid", '`completion_tokens = "NULLIF(n, -1)"`')
    written = bench.run([sample(n=3), sample(n=-1)], mapping.replace('"n"', '"NULLIF(n, -1)"'))
    assert written.scan("traces").collect().sort("sample_index")["completion_tokens"].to_list() == [3, None]


def test_so_do_negative_seconds_of_a_verifier_and_indices(bench: Bench) -> None:
    seconds = refused(bench, "\n" + GOOD + SUM + '\nlatency_s = "-s"')
    says(seconds, "invalid", "`verifiers.latency_s`", "`samples.jsonl`", "row 1", "-1.5")
    index = refused(bench, "\n" + GOOD.replace('"row order"', '"s - 2.5"'))
    says(index, "invalid", "`traces.sample_index`", "`samples.jsonl`", "row 1", "-1", "0")


def test_true_is_no_count(bench: Bench) -> None:
    error = refused(bench, "\n" + GOOD + 'completion_tokens = "n"', [sample(n=True)])
    says(error, "invalid", "`traces.completion_tokens`", "`samples.jsonl`", "row 1")


@pytest.mark.parametrize(
    ("lines", "key"),
    [('[traces.extra]\nseed = "n"', "traces.extra.seed"), ('token_logprobs = "l"', "traces.token_logp")],
)
def test_nan_names_the_sources_row_wherever_it_stands(bench: Bench, lines: str, key: str) -> None:
    path = bench.folder / "samples.jsonl"
    rows = [sample("b", n=0.5, l=[0.5]), sample("a", n=float("nan"), l=[0.5, float("nan")])]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    says(refused(bench, "\n" + GOOD + lines, str(path)), "invalid", f"`{key}", "`samples.jsonl`", "row 2")


RULES = {
    "credit": (GOOD + 'credit = "s"', ("invalid", "`traces.credit`", "`samples.jsonl`", "`1.5`", "row 2", "0", "1")),
    "a trace id twice": (
        GOOD + "trace_id = \"CASE WHEN id = 'a' THEN 'y' ELSE 'x' END\"",
        ("invalid", "`traces.trace_id`", "`samples.jsonl`", "`x`"),
    ),
    "gold outside its labels": (
        GOOD + '[answers]\nlabels = ["2", "3"]',
        ("invalid", "`examples.gold`", "`samples.jsonl`", "`1`"),
    ),
    "candidates": (
        GOOD + SUM + '\ncandidates = "c"',
        ("invalid", "`verifications.candidates`", "`samples.jsonl`", "`0`", "row 3", "1"),
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_what_the_log_forbids_is_told_by_the_sources_row(bench: Bench, case: str) -> None:
    mapping, refusal = RULES[case]
    # In the log rows are sorted: `a` comes first there and stands second here.
    rows = [sample("b", s=0.5, c=1), sample("a", s=1.5, c=2), sample("c", s=0.5, c=0)]
    error = refused(bench, "\n" + mapping, rows)
    says(error, *refusal, "`map.toml`", "`samples.jsonl`")
    assert ".parquet" not in str(error)
