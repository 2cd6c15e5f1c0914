"""`thinkback frontier`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from replay.analyses.strategies.strategies import BEST, BY_SCORE, CONDITIONAL
from tests.cli.conftest import Run


def test_a_front_is_printed_and_written(thinkback: Run, log: Path, tmp_path: Path) -> None:
    asked = ("frontier", log, "--resamples", "50", "--orders", "5")
    done = thinkback(*asked, "--out", "out", "--tex", "front.tex", "--width", "3.3in")
    assert done.exit_code == 0, done.output
    assert "60 examples" in done.stdout
    ends = ("csv", "parquet")
    files = {f"front.{end}" for end in ends} | {f"frontier.{end}" for end in ("pdf", "png", "svg")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files | {"policies.toml", "table.md", "table.tex"}
    front = pl.read_parquet(tmp_path / "out" / "front.parquet")
    assert {"majority", "oracle", "probe", BEST, CONDITIONAL, BY_SCORE} <= set(front["strategy"])
    assert BY_SCORE in done.stdout
    assert front["simulated"].all()
    text = pl.read_csv(tmp_path / "out" / "front.csv")
    assert text["strategy"].to_list() == front["strategy"].to_list()
    assert "\\label{tab:frontier}" in (tmp_path / "front.tex").read_text()
    assert thinkback(*asked, "--out", "out").exit_code == 2


def test_one_verifier_and_named_examples_to_choose_on(thinkback: Run, log: Path) -> None:
    done = thinkback(
        "frontier", log, "--verifier", "strong", "--on", "example_id < 'sim3-000000040'", "--resamples", "50",
        "--orders", "3", "--columns", "strategy,samples,accuracy",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "chosen on 40 examples" in done.stdout
    assert "ensemble" not in done.stdout


def test_what_is_wrong_is_one_line(thinkback: Run, log: Path) -> None:
    for asked, told in (
        (("--probe", "prob"), "no pool `prob`"),
        (("--verifier", "stron"), "no verifier `stron`"),
        (("--on", "true"), "`--on` leaves no example"),
        (("--orders", "0"), "`--orders` is 0"),
    ):
        done = thinkback("frontier", log, *asked)
        assert done.exit_code == 2
        assert told in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
