"""`report FILE`: from any file to the numbers of its known truth, by one command."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from replay.analyses.report.report import report
from tests.errors import says
from tests.imports.somebody import JOBS, TRUTH, Made, N, j03, j10, j20, lines, share
from tests.imports.test_guessing import check
from toolkit.documents import parse_toml
from toolkit.log import open_log
from toolkit.notes import code_of

QUICK = {"j10"}


@pytest.mark.parametrize(
    "job", [pytest.param(job, marks=[] if job.__name__ in QUICK else pytest.mark.slow, id=job.__name__) for job in JOBS]
)
def test_a_file_becomes_a_report(thinkback: Callable, tmp_path: Path, job: Callable[[Path], Made]) -> None:
    sources, expected = job(tmp_path)
    settings = [word for one in expected.settings for word in ("--set", one)]
    done = thinkback("report", *sources, *settings, "--out", "page", "--resamples", 60)
    assert done.exit_code == 0, done.stderr
    check(open_log(tmp_path / "page" / "log"), expected)
    table = pl.read_csv(tmp_path / "page" / "tables" / "policies.csv")
    shares = dict(table.select("policy", "accuracy").iter_rows())
    known = dict(expected.pools)
    assert {name: shares[name] for name in known if name in shares} == pytest.approx(
        {name: known[name] for name in known if name in shares}, abs=1e-6
    )
    if not known:
        size = expected.traces // N
        pairs = [(i, k) for i in range(N) for k in range(size)]
        exact = {"one sample (mean)": share(pairs), f"any of {size}": TRUTH.any_of(size)}
        exact |= {f"majority@{size}": expected.votes} if expected.votes is not None else {}
        assert {name: shares[name] for name in exact} == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
def test_a_report_on_eighty_questions_takes_at_most_six_seconds_of_cpu(tmp_path: Path) -> None:
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        pytest.skip("other programs want the cores, which makes each second of CPU do less")
    sources, _ = j03(tmp_path)
    taken = []
    for number in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "thinkback", "report", *sources, "--out", str(tmp_path / f"report{number}")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) <= 6.0, taken


@pytest.mark.slow
def test_the_mapping_is_printed_kept_and_taken_again(thinkback: Callable, tmp_path: Path) -> None:
    sources, expected = j03(tmp_path)
    printed = thinkback("report", *sources, "--out", "page", "--resamples", 60).stdout
    text = (tmp_path / "page" / "map.toml").read_text(encoding="utf-8")
    assert text in printed
    assert "--set KEY=VALUE" in printed
    assert "page/map.toml" in printed
    assert 'answer = "pred"  # guessed' in text
    assert "pool = \"'samples'\"  # default" in text
    assert thinkback("import", "table", *sources, "--guess").stdout == text
    assert parse_toml(text, "map")["traces"]["answer"] == "pred"
    again = thinkback("report", *sources, "--map", "page/map.toml", "--out", "again", "--resamples", 60)
    assert again.exit_code == 0
    check(open_log(tmp_path / "again" / "log"), expected)
    assert (tmp_path / "again" / "tables" / "policies.csv").read_text() == (
        tmp_path / "page" / "tables" / "policies.csv"
    ).read_text()


def test_import_table_without_a_map(thinkback: Callable, tmp_path: Path) -> None:
    sources, expected = j20(tmp_path)
    done = thinkback("import", "table", *sources, "--out", "log")
    assert done.exit_code == 0
    assert "[traces]" in done.stdout
    assert "--set KEY=VALUE" in done.stdout
    check(open_log(tmp_path / "log"), expected)
    says(thinkback("import", "table", *sources), "required", "--out")


def test_what_a_judge_grades_takes_one_correction(thinkback: Callable, tmp_path: Path) -> None:
    """What the message says to write is what makes the report."""
    sources, expected = j10(tmp_path)
    refused = thinkback("report", *sources, "--out", "page")
    says(refused, "unsuitable", *(f"--set '{one}'" for one in expected.settings))
    assert not (tmp_path / "page").exists()


def test_two_columns_that_may_be_gold(thinkback: Callable, tmp_path: Path) -> None:
    rows = [{"id": i, "gold": i % 7, "reference": i % 5, "pred": i % 7} for i in range(40)]
    path = lines(tmp_path / "a.jsonl", rows)
    says(
        thinkback("report", path, "--out", "page"), "ambiguous",
        "`gold` and `reference`", "--set examples.gold=gold", "--set examples.gold=reference",
    )  # fmt: skip
    done = thinkback("import", "table", path, "--set", "examples.gold=reference", "--out", "log")
    assert "right: 10 of 40 judged traces" in done.stdout
    assert 'gold = "reference"  # given' in done.stdout


def test_questions_without_gold_and_few_of_them_stand_at_the_head() -> None:
    """The way out that is written works."""
    rows = [
        {"id": i, "gold": None if i < 3 else i % 7, "pred": (i + (i * k) % 2) % 7} for i in range(16) for k in range(4)
    ]
    page = report(pl.DataFrame(rows), resamples=60)
    assert re.findall(r"1[36]", page.lead[0]) == ["16", "13"]
    assert "few_questions" in map(code_of, page.lead)
    first = page.sections[0]
    assert (first.code, code_of(first.sentences[0])) == ("left_out", "unjudged")
    assert page.sections[1].sentences[0].split()[-2] == "13"
    condition = re.search(r'--where "([^"]+)"', first.sentences[0])
    assert condition is not None
    assert report(pl.DataFrame(rows), resamples=60, where=condition[1]).result.statistics.n == 13


def test_a_log_takes_no_mapping(thinkback: Callable) -> None:
    thinkback("simulate", "--examples", "12", "--traces", "3", "--seed", "1", "--out", "mylog")
    says(thinkback("report", "mylog", "--map", "m.toml", "--out", "page"), "conflict", "--map", "mylog")
    says(thinkback("report", "nowhere", "--out", "page"), "not-found", "nowhere")
