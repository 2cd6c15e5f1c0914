"""Every mistake is one line that names the place and what to do; nothing is written."""

from __future__ import annotations

import json
import lzma
import re

import pytest

from tests.errors import refuses
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.errors import ThinkbackError
from toolkit.imports import import_table

GOOD = HEAD + TRACES
SUM = '[[verifiers]]\nverifier = "\'rm\'"\nscore = "s"'


def refused(bench: Bench, mapping: str, rows: object = None, **options: object) -> str:
    """The one line with which an import is refused; checks that it is one and that no log appears."""
    with pytest.raises(ThinkbackError) as caught:
        bench.run(rows if rows is not None else [sample(s=1.5, o={"x": 1})], mapping, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert not (bench.folder / "log").exists()
    assert not [path for path in bench.folder.iterdir() if path.name.startswith(".")]
    return message


MAPPINGS = {
    "typo at the top": (GOOD.replace("[traces]", "[tracse]"), r"unknown key `tracse`; did you mean `traces`\?"),
    "typo in a table": (
        GOOD.replace("sample_index", "sample_idx"),
        r"`sample_idx` in `\[traces\]`; did you mean `sample_index`",
    ),
    "typo in a verifier": (
        GOOD + SUM.replace("score", "scoer"),
        r"unknown key `scoer` in `\[verifiers\]`; did you mean `score`",
    ),
    "no example_id": (GOOD.replace("example_id", "cluster"), r"`examples.example_id` is missing"),
    "no traces": (HEAD, r"`\[traces\]` is missing"),
    "no pool": (GOOD.replace("pool = \"'p'\"", ""), r"`traces.pool` is missing"),
    "column that is not there": (
        GOOD.replace('"a"', '"answr"'),
        r"`traces.answer` needs the column `answr`, which.* are: `a`",
    ),
    "constant without quotes": (
        GOOD.replace("\"'d'\"", '"d"'),
        r"`examples.dataset` needs the column `d`.*a constant is written \"'d'\"",
    ),
    "not an expression": (GOOD.replace('"a"', '"a +"'), r"`traces.answer = 'a \+'` is not an expression"),
    "expression that fails": (GOOD.replace('"a"', '"a + 1"') + SUM, r"`traces.answer"),
    "unknown kind": (GOOD + '[answers]\nkind = "nunber"', r"`answers.kind` is 'nunber'; did you mean `number`"),
    "unknown judge": (GOOD + '[answers]\njudge = "eqal"', r"did you mean `equal`"),
    "labels missing": (GOOD + '[answers]\nkind = "label"', r"`answers.labels` must list the label space"),
    "pattern missing": (GOOD + '[answers]\nread = ["pattern"]', r"go together"),
    "bad pattern": (GOOD + '[answers]\nread = ["pattern"]\npattern = "("', r"not a regular expression"),
    "extra that is the contract's": (
        GOOD + '[traces.extra]\ncredit = "s"',
        r"`traces.extra.credit` is a column of the contract",
    ),
    "parent and parent_id": (GOOD + 'parent = { pool = "a", sample_index = 0 }\nparent_id = "a"', r"say the same"),
    "parent_id without trace_id": (GOOD + 'parent_id = "a"', r"needs `traces.trace_id`"),
    "no answer and no verdict": (GOOD.replace('answer = "a"', 'text = "a"'), r"no answer and no verdict"),
    "where without rows": ("where = \"a = 'x'\"" + GOOD, r"`where` takes none of the 1 rows"),
    "where that is no condition": ('where = "a"' + GOOD, r"`where` gives String, not true or false"),
    "explode without a list": ('explode = ["a"]' + GOOD, r"`explode`.*holds"),
    "list for a value": (GOOD.replace('"a"', '["a"]'), r"`traces.answer` is .*; it takes a string, a number"),
    "table for a list": ('explode = "a"' + GOOD, r"`explode` is 'a'; it takes a list of strings"),
    "not an integer": (
        GOOD + 'completion_tokens = "s"',
        r"tokens` is `1.5` in `samples.jsonl`, row 1, which is not an integer",
    ),
    "no verdict": (GOOD + 'correct = "s"', r"`traces.correct` is `1.5`.*not a verdict"),
    "no join file": ('join = { file = "x.parquet", on = "id" }' + GOOD, r"source `.*x.parquet` can't be read"),
    "join without key": ('join = { file = "samples.jsonl", on = "nr" }' + GOOD, r"`join.on` names `nr`"),
    "a feature named as the key": (GOOD + '[features]\ntrace_id = "s"', r"is the key of the table `features`"),
    "a name with a NUL": (GOOD + '[features]\n"a\\u0000" = "s"', r"`features`, column 'a\\+x00': its name holds a NUL"),
    "field that is not there": (GOOD.replace('"a"', '"o.y"'), r"needs the field `y`"),
    "ids": ('ids = "splt"' + GOOD, r"did you mean `split`"),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_mistakes_in_a_mapping(bench: Bench, case: str) -> None:
    mapping, wanted = MAPPINGS[case]
    message = refused(bench, "\n" + mapping)
    assert re.search(wanted, message), message


def test_a_mapping_that_is_no_toml(bench: Bench) -> None:
    assert "is not valid TOML" in refused(bench, "a =\n")


def test_a_mapping_that_does_not_exist(bench: Bench) -> None:
    assert "did you mean `tot_game24`?" in refused(bench, "tot_game42")
    assert "no such file" in refused(bench, "nowhere.toml")


@pytest.mark.parametrize(
    ("file", "content", "wanted"),
    [
        ("a.jsonl", b'{"id": "e"}\n{"id": \n', r"line 2"),
        ("a.jsonl", b"\xff\xfe\n", r"line 1"),
        ("a.jsonl", b"[1, 2]\n", r"line 1 is not an object"),
        ("a.json", b"[1]", r"not a list of objects"),
        ("a.parquet", b"PAR1 cut off", r"not a readable parquet"),
        ("a.csv", b"", r"not a readable csv"),
        ("a.jsonl.gz", b"not packed", r"can't be read"),
        ("a.jsonl.xz", lzma.compress(b"{}" * 99)[:-20] + bytes(20), r"can't be read"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd" + b"abc" * 100, r"can't be read"),
        ("a.json.zst", b"not packed", r"can't be read"),
        ("a.json", b"[" * 100_000, r"nests too deeply"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000 + b"\n", r"line 1: it nests too deeply"),
        ("a.txt", b"x", r"its ending names no format"),
    ],
)
def test_files_that_cannot_be_read(bench: Bench, file: str, content: bytes, wanted: str) -> None:
    (bench.folder / file).write_bytes(content)
    message = refused(bench, "\n" + GOOD, str(bench.folder / file))
    assert file in message
    assert len(message) < 500
    assert re.search(wanted, message), message


def test_an_archive_that_is_none(bench: Bench) -> None:
    (bench.folder / "bad.zip").write_bytes(b"no archive")
    for name in ("a.jsonl", "*.jsonl"):
        assert "not a zip file" in refused(bench, "\n" + GOOD, f"zip://{name}::{bench.folder / 'bad.zip'}")


def test_a_source_that_is_not_there(bench: Bench) -> None:
    assert "there is no such file" in refused(bench, "\n" + GOOD, str(bench.folder / "nothing-*.jsonl"))
    with refuses("required"):
        import_table([], bench.mapping(GOOD), bench.folder / "log")


def test_null_where_none_may_be(bench: Bench) -> None:
    rows = [sample(), {**sample(), "q": None}]
    assert "`examples.question` is null in `samples.jsonl`, row 2" in refused(bench, "\n" + GOOD, rows)


def test_rows_that_contradict_each_other(bench: Bench) -> None:
    message = refused(bench, "\n" + GOOD, [sample(), {**sample(), "gold": "2"}])
    assert "`gold` of example `e` is `1` and `2`" in message


def test_rejudging_without_gold(bench: Bench) -> None:
    assert "needs `examples.gold`" in refused(bench, "\n" + GOOD.replace('gold = "gold"', ""), rejudge=True)


def test_an_existing_log_is_never_touched(bench: Bench) -> None:
    (bench.folder / "log").mkdir()
    (bench.folder / "log" / "kept").write_text("x")
    with refuses("exists", "`force`"):
        bench.run([sample()], "\n" + GOOD)
    assert [path.name for path in (bench.folder / "log").iterdir()] == ["kept"]


def test_negative_counts_name_the_row_and_what_to_write(bench: Bench) -> None:
    mapping = "\n" + GOOD + 'completion_tokens = "n"'
    message = refused(bench, mapping, [sample(n=3), sample(n=-1)])
    assert "`traces.completion_tokens` is -1 in `samples.jsonl`, row 2" in message
    assert 'write `completion_tokens = "NULLIF(n, -1)"`' in message
    written = bench.run([sample(n=3), sample(n=-1)], mapping.replace('"n"', '"NULLIF(n, -1)"'))
    assert written.scan("traces").collect().sort("sample_index")["completion_tokens"].to_list() == [3, None]


def test_so_do_negative_seconds_of_a_verifier_and_indices(bench: Bench) -> None:
    seconds = refused(bench, "\n" + GOOD + SUM + '\nlatency_s = "-s"')
    assert "`verifiers.latency_s` is -1.5 in `samples.jsonl`, row 1" in seconds
    index = refused(bench, "\n" + GOOD.replace('"row order"', '"s - 2.5"'))
    assert "`traces.sample_index` is -1 in `samples.jsonl`, row 1, and can't be negative; number the samples 0" in index


def test_true_is_no_count(bench: Bench) -> None:
    message = refused(bench, "\n" + GOOD + 'completion_tokens = "n"', [sample(n=True)])
    assert "`traces.completion_tokens` gives Boolean in `samples.jsonl`, row 1, which is not an integer" in message


@pytest.mark.parametrize(
    ("lines", "key"),
    [('[traces.extra]\nseed = "n"', "traces.extra.seed"), ('token_logprobs = "l"', "traces.token_logp")],
)
def test_nan_names_the_sources_row_wherever_it_stands(bench: Bench, lines: str, key: str) -> None:
    path = bench.folder / "samples.jsonl"
    rows = [sample("b", n=0.5, l=[0.5]), sample("a", n=float("nan"), l=[0.5, float("nan")])]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    message = refused(bench, "\n" + GOOD + lines, str(path))
    assert re.search(f"(?i)`{key}.*nan.* in `samples.jsonl`, row 2", message), message


RULES = {
    "credit": (GOOD + 'credit = "s"', r"`traces.credit` in `samples.jsonl`, row 2: `1.5` lies outside 0 to 1"),
    "a trace id twice": (
        GOOD + "trace_id = \"CASE WHEN id = 'a' THEN 'y' ELSE 'x' END\"",
        r"`traces.trace_id` in `samples.jsonl`, row [13]: a second row of trace_id `x`",
    ),
    "gold outside its labels": (
        GOOD + '[answers]\nlabels = ["2", "3"]',
        r"`examples.gold` in `samples.jsonl`, row [123]: `1` is not one of the example's labels",
    ),
    "candidates": (
        GOOD + SUM + '\ncandidates = "c"',
        r"`verifications.candidates` in `samples.jsonl`, row 3: `0` must be at least 1",
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_what_the_log_forbids_is_told_by_the_sources_row(bench: Bench, case: str) -> None:
    mapping, wanted = RULES[case]
    # In the log rows are sorted: `a` comes first there and stands second here.
    rows = [sample("b", s=0.5, c=1), sample("a", s=1.5, c=2), sample("c", s=0.5, c=0)]
    message = refused(bench, "\n" + mapping, rows)
    assert "makes breaks the log's rules" in message
    assert re.search(wanted, message), message
    assert ".parquet" not in message
