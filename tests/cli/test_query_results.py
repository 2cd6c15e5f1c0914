"""SQL over a saved result by the command: as over a log, whose tables join while it is where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replay
from tests.errors import says
from thinkback.commands import query

POLICIES = """
[[policy]]
name = "vote"
kind = "sample"
pool = "n4"
max_traces = 4
select = "majority"

[[policy]]
name = "greedy"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"
"""
SQL = "select policy, count(*) as n, sum(correct) as s from outcomes group by 1 order by 1"


@pytest.fixture(scope="module")
def folder(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and a saved result of it."""
    folder = tmp_path_factory.mktemp("asked")
    shutil.copytree(log, folder / "log")
    replay.run(folder / "log", POLICIES, resamples=20).save(folder / "result")
    return folder


def test_a_result_answers_as_it_does_in_python(thinkback: Callable, folder: Path) -> None:
    done = thinkback("query", folder / "result", SQL)
    expected = replay.load(folder / "result").query(SQL)
    assert done.stdout == expected.write_csv()
    assert "simulated" in done.stderr.lower()
    joined = "select count(*) as n from outcomes join traces using (example_id) where pool = 'probe'"
    assert thinkback("query", folder / "result", joined).stdout == "n\n240\n"
    assert "| greedy | 120 |" in thinkback("query", folder / "result", SQL, "--format", "markdown").stdout


def test_a_table_of_a_result_is_limited_as_one_of_a_log(
    thinkback: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "ROWS", 5)
    done = thinkback("query", folder / "result", "select example_id from outcomes", "--format", "table")
    assert "235 more rows; `--format csv` prints all." in done.stdout
    large = thinkback("query", folder / "result", "select repeat('x', 3000000) as x from range(1000)")
    assert large.exit_code == 2
    assert len(large.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [("select * from outcom", ("invalid",)), ("drop table outcomes", ("invalid",)), ("selec 1", ("invalid",))],
)
def test_wrong_sql_is_one_line(thinkback: Callable, folder: Path, sql: str, refusal: tuple[str, ...]) -> None:
    done = thinkback("query", folder / "result", sql)
    assert done.exit_code == 2
    says(done, *refusal)
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_its_log_a_result_has_its_own_tables(thinkback: Callable, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "log", tmp_path / "log")
    replay.run(tmp_path / "log", POLICIES, resamples=20).save(tmp_path / "alone")
    shutil.rmtree(tmp_path / "log")
    assert thinkback("query", "alone", SQL).exit_code == 0
    assert thinkback("query", "alone", "select count(*) as n from examples").stdout == "n\n120\n"
    gone = thinkback("query", "alone", "select count(*) from traces")
    assert gone.exit_code == 2
    says(gone, "unsuitable", "`traces`")


def test_a_log_beside_a_foreign_file_is_a_log(thinkback: Callable, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "log", tmp_path / "log")
    (tmp_path / "log" / "result.json").write_text("{}")
    assert thinkback("query", "log", "select count(*) as n from examples").stdout == "n\n120\n"
    neither = thinkback("query", tmp_path / "nothing", "select 1")
    says(neither, "not-found", "nothing`")
