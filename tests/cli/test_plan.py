"""`thinkback plan`: tables, the figure, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from replay.analyses.plan.plan import IN_ONE_ORDER
from thinkback.app import app

FILES = {"plan.csv", "curve.csv", "table.md", "table.tex", "curve.pdf", "curve.svg", "curve.png"}
DATA = Path(__file__).resolve().parents[2] / "data"


def test_a_plan_and_its_files(thinkback: Callable, log: Path, policies: Path, tmp_path: Path) -> None:
    done = thinkback("plan", log, "vote", "best of 4", "--policies", policies, "--detect", "2", "--out", "out")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    table, curve = (pl.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("plan", "curve"))
    assert table["simulated"].all()
    for number in table["questions"]:
        assert f"{number:,}" in done.stdout
    assert set(curve["orders"]) == set(table["orders"])
    assert "Simulated log" in done.stdout
    again = thinkback("plan", log, "vote", "best of 4", "--policies", policies, "--out", "out")
    assert again.exit_code == 2
    assert again.stderr.splitlines()[-1].endswith("[exists]")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("vote", "votes"), "unknown"),
        (("vote", "vote"), "conflict"),
        (("stop early", "vote"), "ambiguous"),
        (("vote", "greedy", "--detect", "0"), "invalid"),
        (("vote", "greedy", "--power", "2"), "invalid"),
        (("vote", "greedy", "--level", "2"), "invalid"),
        (("vote", "greedy", "--where", "example_id = 'x'"), "empty"),
    ],
)
def test_what_is_refused(thinkback: Callable, log: Path, policies: Path, words: tuple[str, ...], code: str) -> None:
    done = thinkback("plan", log, *words, "--policies", policies)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith(f"[{code}]")


def test_prices_are_what_a_design_costs(thinkback: Callable, log: Path, policies: Path, tmp_path: Path) -> None:
    text = policies.read_text()
    models = pl.scan_parquet(f"{log}/traces/*.parquet").select("model").unique().collect()["model"].to_list()
    policies.write_text(text + "".join(f'\n[prices."{name}"]\nprompt = 1\ncompletion = 1\n' for name in models))
    done = thinkback("plan", log, "vote", "greedy", "--policies", policies, "--out", "out")
    assert done.exit_code == 0, done.output
    table = pl.read_csv(tmp_path / "out" / "plan.csv")
    assert table["price"].to_list() == pytest.approx((table["total_tokens"] / 1e6).to_list())


def test_the_shipped_log_by_the_standard_suite() -> None:
    done = CliRunner().invoke(app, ["plan", str(DATA / "log"), "majority@8", "majority@4", "--detect", "1"])
    assert done.exit_code == 0, done.output
    assert IN_ONE_ORDER in done.stdout
    assert re.search(r"\ball orders\b", done.stdout)
