"""`--tex`, `--columns` and `label`: the table that goes into a paper, from the commands."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import POLICIES
from tests.errors import says
from tests.show.test_latex import assert_fits

LABELLED = POLICIES.replace('name = "stop early"', 'name = "stop early"\nlabel = "SE"').replace(
    'name = "vote"', 'name = "vote"\nlabel = "MV"'
)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    (tmp_path / "labelled.toml").write_text(LABELLED)
    return tmp_path / "labelled.toml"


def test_replay_writes_its_table_in_latex(thinkback: Callable, log: Path, labelled: Path, tmp_path: Path) -> None:
    few = ("--resamples", "50", "--baseline", "vote", "--width", "3.3in", "--columns", "accuracy,tokens,Δ")
    ran = thinkback("replay", log, "--policies", labelled, "--out", "out", "--tex", "paper.tex", *few)
    assert ran.exit_code == 0, ran.output
    text = (tmp_path / "paper.tex").read_text()
    assert text == (tmp_path / "out" / "table.tex").read_text()
    head, *body = assert_fits(text, 3.3)
    assert head == ["policy", r"accuracy \%", "tokens", r"$\Delta$ points"]
    names = [row[0].partition(r"\textsuperscript")[0] for row in body]
    assert {"SE[0.1]", "SE[0.2]", "MV"} <= set(names)
    assert "SE: stop early" in text
    assert r"\label{tab:policies}" in text
    with (tmp_path / "out" / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {"stop early[stop.margin=0.1]", "vote"} <= {row["policy"] for row in rows}
    assert list(rows[0])[:3] == ["policy", "accuracy", "accuracy_low"]
    assert "calls" not in rows[0]
    assert "MV" in ran.stdout
    assert "`MV`" in (tmp_path / "out" / "table.md").read_text()
    assert thinkback("replay", log, "--policies", labelled, "--out", "b", "--tex", "paper.tex", *few).exit_code == 2
    pairs = thinkback("compare", "out", "--tex", "pairs.tex", "--width", "84mm")
    assert pairs.exit_code == 0, pairs.output
    rows = assert_fits((tmp_path / "pairs.tex").read_text(), 3.31)
    assert any("SE[0.1]" in row for row in rows)


def test_a_column_that_is_none_is_named(thinkback: Callable, log: Path, policies: Path) -> None:
    words = ("replay", log, "--policies", policies, "--out", "out", "--resamples", "50", "--columns", "acuracy")
    ran = thinkback(*words)
    assert ran.exit_code == 2
    says(ran, "unknown", "`acuracy`", "`accuracy`")


def test_labels_that_are_the_same_are_refused(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    (tmp_path / "same.toml").write_text(LABELLED.replace('"SE"', '"MV"'))
    ran = thinkback("check", "same.toml")
    assert ran.exit_code == 2
    says(ran, "conflict", "`vote`", "`stop early`", "`MV`", "`label`")


def test_the_difference_of_two_policies_is_kept_in_a_column(
    thinkback: Callable, log: Path, policies: Path, tmp_path: Path
) -> None:
    """Long names leave no room for the values of both: these go, and what is asked stays."""
    long = policies.read_text().replace('name = "vote"', 'name = "majority-vote-of-all-the-traces-that-there-are"')
    (tmp_path / "long.toml").write_text(long)
    ran = thinkback("replay", log, "--policies", "long.toml", "--out", "out", "--resamples", "50")
    assert ran.exit_code == 0, ran.output
    two = ("compare", "out", "majority-vote-of-all-the-traces-that-there-are", "greedy")
    pair = thinkback(*two, "--tex", "two.tex", "--width", "3.3in")
    assert pair.exit_code == 0, pair.output
    head, *_ = assert_fits((tmp_path / "two.tex").read_text(), 3.3)
    assert r"$\Delta$" in head


@pytest.mark.slow
def test_latex_of_the_suite_has_some_rows_a_name_and_a_caption(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    """No note speaks of files that a paper's reader does not have, and two tables may be in one paper."""
    named = ("--tex", "suite.tex", "--label", "tab:suite", "--caption", "Everything & more", "--width", "3.3in")
    ran = thinkback("replay", log, "--out", "out", "--resamples", "20", "--where", "true", *named)
    assert ran.exit_code == 0, ran.output
    text = (tmp_path / "suite.tex").read_text()
    assert_fits(text, 3.3)
    assert text.count(r"\begin{table}") <= 2
    assert r"\label{tab:suite}" in text
    assert r"\caption{Everything \& more}" in text
    assert re.search(r"\d+ examples, \d+ of \d+ policies", " ".join(text.split()))
    assert "table.csv" not in text
    few = thinkback(
        "replay", log, "--out", "few", "--resamples", "20", "--where", "true", "--rows", "3", "--tex", "f.tex"
    )
    assert few.exit_code == 0, few.output
    assert len((tmp_path / "f.tex").read_text()) < len(text)
    pairs = thinkback("compare", "few", "--tex", "pairs.tex", "--label", "bad name")
    assert pairs.exit_code == 2
    assert "letters, digits" in pairs.stderr
    assert thinkback("compare", "few", "--tex", "pairs.tex", "--label", "own").exit_code == 0
    pairs_text = (tmp_path / "pairs.tex").read_text()
    assert r"\label{tab:own}" in pairs_text
    assert "--out" not in pairs_text


def test_columns_that_are_asked_for_stay(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    """At 3.3 inches the table is set smaller before one of them goes."""
    asked = ("--columns", "accuracy,tokens,∆,p", "--tex", "t.tex", "--width", "3.3in")
    ran = thinkback("replay", log, "--out", "out", "--resamples", "20", "--where", "true", *asked)
    assert ran.exit_code == 0, ran.output
    text = (tmp_path / "t.tex").read_text()
    assert_fits(text, 3.3)
    assert "Left out" not in text
    assert r"$\Delta$" in text
