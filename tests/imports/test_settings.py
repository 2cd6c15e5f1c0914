"""Settings of the command line in the place of a mapping's own."""

from __future__ import annotations

import pytest

from tests.errors import refuses
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports.map.mapping import read_mapping

MAPPING = HEAD + TRACES


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("traces.sample_index=3", 3),
        ("traces.model='m2'", "'m2'"),
        ("traces.model=other column", "other column"),
        ('traces.model="a.b"', "a.b"),
        ("traces.model=CONCAT(a, '=', b)", "CONCAT(a, '=', b)"),
        ("traces.temperature = 0.7", 0.7),
    ],
)
def test_a_value_is_toml_or_what_a_mapping_would_say(bench: Bench, setting: str, value: object) -> None:
    (traces,) = read_mapping(bench.mapping(MAPPING), [setting]).traces
    assert traces.columns[setting.partition("=")[0].strip().partition(".")[2]] == value


def test_lists_and_tables_and_the_last_one_wins(bench: Bench) -> None:
    path = bench.mapping(MAPPING)
    plan = read_mapping(path, ['answers.read=["boxed", "last line"]', "answers.kind=text", "answers.kind=number"])
    assert (plan.answers.read, plan.answers.kind) == (("boxed", "last line"), "number")
    assert read_mapping(path, ['join={file = "g.csv", on = "id"}']).join is not None


def test_an_import_takes_them(bench: Bench) -> None:
    log = bench.run([sample("e", "1.0")], MAPPING, settings=["answers.kind=number"])
    assert log.scan("traces").collect()["correct"].to_list() == [True]


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("answers.kind", ("invalid", "`answers.kind`", "`answers.kind=number`")),
        ("=3", ("invalid", "`answers.kind=number`")),
        ("answers..kind=3", ("invalid", "`answers.kind=number`")),
        ("name.first=x", ("unknown", "`name.first`")),
        ("answers.sort=x", ("unknown", "`sort`")),
        ("answers.kind=numbr", ("unknown", "`answers.kind`")),
    ],
)
def test_what_is_no_setting(bench: Bench, setting: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        read_mapping(bench.mapping('name = "n"\n' + MAPPING), [setting])
