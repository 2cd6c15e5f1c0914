"""Paths into nested data agree with plain Python access, alone and in expressions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.errors import refuses, says
from tests.imports.makers import HEAD, TRACES, Bench, sample
from tests.imports.test_bad_input import refused
from toolkit.imports.files.paths import follow_path, parse_expression
from toolkit.imports.map.expressions import SourceRows
from toolkit.imports.rows.json_files import json_lines

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = ("a", "b", "of all", 'say "x"')


def rows_of(objects: list[dict[str, Any]]) -> SourceRows:
    table = json_lines("".join(json.dumps(one) + "\n" for one in objects).encode(), ())
    return SourceRows(table.frame, table.numbers, "map.toml")


def reached(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Plain Python access; None where there is nothing."""
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def written(steps: tuple[str | int, ...]) -> str:
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if step.isalpha() else f"['{step}']" for step in steps
    )


def shapes(depth: int) -> st.SearchStrategy[Any]:
    """A shape of a JSON value: a leaf, a list of one shape, or an object."""
    leaf = st.sampled_from([int, str, bool])
    if depth == 0:
        return leaf
    inner = shapes(depth - 1)
    return leaf | st.tuples(inner) | st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)


def values(shape: Any) -> st.SearchStrategy[Any]:
    if isinstance(shape, tuple):
        return st.none() | st.lists(values(shape[0]), max_size=3)
    if isinstance(shape, dict):
        return st.fixed_dictionaries({}, optional={name: values(one) for name, one in shape.items()})
    return st.none() | {int: st.integers(-99, 99), str: st.text("xyz", max_size=3), bool: st.booleans()}[shape]


@st.composite
def objects_and_paths(draw: st.DrawFn) -> tuple[list[dict[str, Any]], tuple[str | int, ...]]:
    shape = draw(shapes(3))
    rows = draw(st.lists(st.fixed_dictionaries({"x": values(shape)}), min_size=1, max_size=5))
    steps: list[str | int] = []
    while isinstance(shape, dict | tuple) and (not steps or draw(st.booleans())):
        if isinstance(shape, dict):
            steps.append(draw(st.sampled_from(list(shape))))
            shape = shape[steps[-1]]
        else:
            steps.append(draw(st.integers(-3, 3)))
            shape = shape[0]
    return rows, tuple(steps)


def plain(value: Any) -> Any:
    """Without fields and objects that hold nothing: a column has all fields in all rows."""
    if isinstance(value, dict):
        kept = {name: plain(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None} or None
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


@QUICK
@given(objects_and_paths())
def test_a_path_finds_what_python_finds(drawn: tuple[list[dict[str, Any]], tuple[str | int, ...]]) -> None:
    rows, steps = drawn
    found = rows_of([{"i": 0, **row} for row in rows]).compute("key", f"x{written(steps)}?")
    assert [plain(one) for one in found.to_list()] == [plain(reached(row, ("x", *steps))) for row in rows]


@QUICK
@given(st.lists(st.lists(st.integers(-9, 9) | st.none(), max_size=4), min_size=1, max_size=4), st.data())
def test_lists_are_reduced_as_python_reduces_them(lists: list[list[int | None]], data: st.DataObject) -> None:
    name, of = data.draw(st.sampled_from([("min", min), ("max", max), ("sum", sum), ("len", len)]))
    rows = rows_of([{"o": {"l": [1]}}, *({"o": {"l": one}} for one in lists)])
    found = rows.compute("key", f"{name}(o.l)").to_list()[1:]
    told = [[item for item in one if item is not None] for one in lists]
    empty = {"sum": 0, "len": 0}.get(name)
    assert found == [len(one) if name == "len" else of(some) if some else empty
                     for one, some in zip(lists, told, strict=True)]  # fmt: skip


ROW = {
    "choices": [{"message": {"content": "a", "n": 1}}, {"message": {"content": "b", "n": 2}}],
    "scores": [[0.5, 0.25], [1.0]], "flags": [True, False], "text": '{"deep": [{"x": 1.50}, {"x": "y"}]}',
    "of": {"a b": {"c.d": 7}}, "n": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("choices[0].message.content", "a"),
        ("choices[-1].message.content", "b"),
        ("choices[2].message.content", None),
        ("choices[1].message.n + n", 5),
        ("scores[-1][0]", 1.0),
        ("min(scores[0])", 0.25),
        ("MEAN(scores[0])", 0.375),
        ("prod(scores[0])", 0.125),
        ("len(choices)", 2),
        ("LENGTH(choices[0].message.content)", 1),
        ("any(flags)", True),
        ("all(flags)", False),
        ("n - len(scores)", 1),
        ("CASE WHEN max(scores[0]) > 0.4 THEN choices[0].message.content ELSE 'none' END", "a"),
        ("'choices[0].message' || choices[0].message.content", "choices[0].messagea"),
        ("""of['a b']["c.d"]""", 7),
        ('''"of"."a b"."c.d"''', 7),
        ("text.deep[0].x", "1.50"),
        ("text.deep[1].x", "y"),
        ("text.deep[0]", '{"x": 1.50}'),
        ("COALESCE(choices[0].message.reasoning?, nothing?, choices[0].message.content)", "a"),
        ("ARRAY[1, 2]", [1, 2]),
        ("MAX(n) OVER (PARTITION BY choices[0].message.content)", 3),
    ],
)
def test_paths_and_expressions(value: str, wanted: object) -> None:
    assert rows_of([ROW]).compute("key", value).to_list() == [wanted]


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        ("choices.message", ("invalid", "`message`", "`[0].message`")),
        ("of[0]", ("invalid", "0")),
        ("n.x", ("invalid", "`x`")),
        ("choices[0].mesage", ("invalid", "`mesage`", "`message`")),
        ("choises[0].message", ("invalid", "`choises`", "`choices`")),
    ],
)
def test_a_path_that_leads_nowhere(value: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        rows_of([ROW]).compute("key", value)


def test_a_path_keeps_numbers_as_they_are_written(bench: Bench) -> None:
    file = bench.folder / "samples.jsonl"
    file.write_text('{"id": "e", "q": "Q", "gold": "2.50", "o": [{"a": 2.50}, {"a": 18}]}\n', encoding="utf-8")
    log = bench.run(str(file), HEAD + TRACES.replace('"a"', '"o[0].a"'))
    assert log.scan("traces").collect()["answer"].to_list() == ["2.50"]


def test_a_place_in_a_list_counts_from_0_and_an_old_mapping_is_told(bench: Bench) -> None:
    log = bench.run([sample(answer="1", l=["1", "2"])], HEAD + TRACES.replace('"a"', '"l[1]"'))
    assert log.scan("traces").collect()["answer"].to_list() == ["2"]
    assert bench.report is not None
    assert [note for note in bench.report.notes if note.startswith("`l[1]` counts from 0") and "`l[0]`" in note]


def test_a_column_of_a_paths_name_comes_first() -> None:
    rows = SourceRows(pl.DataFrame({"a.b": ["column"], "a": [{"b": "field"}]}), {}, "map.toml")
    assert rows.compute("key", "a.b").to_list() == ["column"]
    assert follow_path(rows.frame, next(iter(parse_expression("a.b").places.values())).path).to_list() == ["field"]


SAMPLES = [{"id": f"e{n}", "q": f"Q {n}", "gold": "1", "a": "1"} for n in range(3)]


@pytest.mark.parametrize(
    ("document", "records", "answer", "wanted"),
    [
        ({"eval": {"model": "m1"}, "samples": SAMPLES}, "samples", "document.eval.model", ["m1"] * 3),
        ({"run": {"rows": SAMPLES}}, "run.rows", "a", ["1"] * 3),
        ({"of": {"k1": SAMPLES[:2], "k2": SAMPLES[2:]}}, "of", "record_key", ["k1", "k1", "k2"]),
        ({"of": {"k1": SAMPLES[0], "k2": SAMPLES[1]}}, "of", "record_key", ["k1", "k2"]),
        ({"k1": SAMPLES[:1], "k2": SAMPLES[1:]}, ".", "record_key", ["k1", "k2", "k2"]),
    ],
)
def test_records_under_a_key(bench: Bench, document: dict, records: str, answer: str, wanted: list[str]) -> None:
    file = bench.folder / "run.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    mapping = f'records = "{records}"\n' + HEAD + TRACES.replace('"a"', f'"{answer}"')
    log = bench.run(str(file), mapping)
    assert log.scan("traces").collect().sort("example_id")["answer"].to_list() == wanted


def test_records_that_are_not_there(bench: Bench) -> None:
    file = bench.folder / "run.json"
    file.write_text(json.dumps({"samples": [1]}), encoding="utf-8")
    for records, refusal in (("sample", ("format", "`sample`")), ("samples", ("format", "`samples`", "`records`"))):
        says(refused(bench, f'\nrecords = "{records}"\n' + HEAD + TRACES, str(file)), *refusal)
    says(
        refused(bench, '\nrecords = "a"' + HEAD + TRACES, bench.rows([sample()], "a.csv")),
        "format",
        "`records`",
        "`explode`",
    )
    says(refused(bench, '\nrecords = "a b"' + HEAD + TRACES), "invalid", "`records`")


def placed(folder: Path, *files: str) -> str:
    for number, file in enumerate(files):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        row = sample("e", str(number))
        (folder / file).write_text(json.dumps(row) + "\n", encoding="utf-8")
    return str(folder)


def test_columns_of_the_path(bench: Bench) -> None:
    files = ("run/big-model/out-rs7.jsonl", "run/big-model/out-rs12.jsonl", "run/small/out-rs7.jsonl")
    placed(bench.folder, *files)
    mapping = 'path = "{model}/out-rs{seed}.jsonl"\n' + HEAD + TRACES.replace("\"'p'\"", '"model"').replace(
        '"row order"', '"CASE WHEN seed = 7 THEN 0 ELSE 1 END"'
    ) + "[traces.extra]\nfile = \"source_path\""  # fmt: skip
    log = bench.run(str(bench.folder / "run/*/*.jsonl"), mapping)
    rows = log.scan("traces").collect().sort("pool", "sample_index").select("pool", "sample_index", "file").rows()
    assert rows == [
        ("big-model", 0, "big-model/out-rs7.jsonl"), ("big-model", 1, "big-model/out-rs12.jsonl"),
        ("small", 0, "small/out-rs7.jsonl"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("{model}/x{n}.jsonl", ("mismatch", "`path`")),
        ("{id}/samples.jsonl", ("conflict", "`path`", "`id`")),
        ("samples.jsonl", ("invalid", "`path`", "`{model}/*.jsonl`")),
        ("{a}/{a}.jsonl", ("conflict", "`a`")),
        ("{a b}/*.jsonl", ("invalid", "`path`")),
        ("{a}{/*.jsonl", ("invalid", "`{name}`", "`path`")),
    ],
)
def test_a_path_pattern_that_does_not_fit(bench: Bench, path: str, refusal: tuple[str, ...]) -> None:
    says(refused(bench, f'\npath = "{path}"\n' + HEAD + TRACES), *refusal)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("COALESCE(ok?, judged? LIKE '%Yes%')", None),
        ("COALESCE(ok?, LOWER(judged?) = 'yes', a = '1')", True),
        ("LENGTH(judged?) > 3 OR a = '1'", True),
        ("STARTS_WITH(UPPER(judged?), 'Y') AND score? > 0.5", None),
        ("ARRAY_LENGTH(x?) > 1 OR a = '1'", True),
        ("ARRAY_CONTAINS(x?, 'right')", None),
        ("ARRAY_CONTAINS(x.tags?, 1)", None),
        ("ARRAY_GET(x?, 1) = 'right' OR y[0]? > 1 OR max(z?) > 1", None),
        ("EXTRACT(EPOCH FROM ended?) - EXTRACT(EPOCH FROM begun?) > 1", None),
        ("STRFTIME(day?, '%Y') = '2026' OR a = '1'", True),
        ("COALESCE(LOWER(b?), UPPER(c?), d?, LEFT(e?, 2)) = 'x' OR ARRAY_LENGTH(f?) = g? OR a = '1'", True),
    ],
)
def test_what_no_row_has_may_stand_wherever_a_value_does(bench: Bench, verdict: str, expected: bool | None) -> None:
    rows = [{**sample("e", "1"), "gold": None}]
    log = bench.run(rows, HEAD + TRACES + f'correct = "{verdict}"\n')
    assert log.scan("traces").select("correct").collect()["correct"].to_list() == [expected]
