"""Nominal 95 % intervals must cover 93 to 97 % of the time, with 200 examples and ten expected events."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from toolkit.stats import OutcomeBlock, Settings, summarise

RUNS = 1500
N = 200
LABELS = ["x", "y", "z"]


def sample(rng, n=N):
    """Two policies on n examples; returns the block, and nothing hidden: true values are found by one huge sample."""
    hard = rng.random(n)
    gold = rng.choice(3, n, p=[0.5, 0.3, 0.2]).astype(np.int32)
    right = np.stack([rng.random(n) < 0.95 - 0.5 * hard, rng.random(n) < 0.85 - 0.5 * hard])
    answers = np.where(right, gold, (gold + rng.integers(1, 3, (2, n))) % 3)
    traces = 1 + rng.poisson(np.stack([3 + 4 * hard, np.full(n, 6.0)]))
    tokens = traces * rng.integers(200, 600, (2, n))
    fix = np.stack([np.full(n, np.nan), np.clip(right[1] * 1.0 - right[0], 0, None)])
    values = {"correct": right * 1.0, "fix": fix, "traces": traces * 1.0, "total_tokens": tokens * 1.0}
    return OutcomeBlock(np.empty(n, object), np.arange(n), values, gold, np.eye(3)[answers])


def clustered(rng, clusters=60, size=5):
    """Examples of a cluster share half of what makes them hard."""
    hard = np.repeat(rng.random(clusters), size) / 2 + rng.random(clusters * size) / 2
    right = np.stack([rng.random(len(hard)) < 0.95 - 0.6 * hard, rng.random(len(hard)) < 0.85 - 0.6 * hard])
    unit = np.repeat(np.arange(clusters), size)
    return OutcomeBlock(np.empty(len(hard), object), unit, {"correct": right * 1.0})


def table(block, settings, labels):
    result = summarise(lambda: iter([block]), ["a", "b"], labels=labels, baseline="a", settings=settings)
    rows = {
        (r["policy"], r["metric"]): (r["estimate"], r["low"], r["high"]) for r in result.summary.iter_rows(named=True)
    }
    pairs = result.comparisons.filter(policy="b", baseline="a")
    rows |= {("b-a", r["metric"]): (r["difference"], r["low"], r["high"]) for r in pairs.iter_rows(named=True)}
    return rows


def test_the_table_of_the_manual_is_what_was_measured() -> None:
    """Every cell is that of a row of `coverage.csv`: none is copied by hand."""
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "coverage.md").read_text(encoding="utf-8").split("<!-- ")[1].splitlines()
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page if line.startswith("|")]
    shown = {
        (what, outcomes, int(n.removeprefix("n = ").replace(",", ""))): text
        for what, outcomes, *texts in lines
        for n, text in zip(head[2:], texts, strict=True)
        if text
    }
    with (root / "benchmarks" / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == len(shown)
    for row in rows:
        share = row["claimed" if row["what"].startswith(("false", "power")) else "covered"]
        marked, withheld = float(row["marked"]), float(row["withheld"])
        text = "–" if withheld > 0.5 else f"{100 * float(share):.1f}" + "†" * (1 - marked - withheld < 0.25)
        assert shown[row["what"], row["outcomes"], int(row["n"])] == text


@pytest.mark.slow
@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize(("make", "labels", "scale"), [(sample, LABELS, 400_000), (clustered, None, 80_000)])
def test_coverage(method, make, labels, scale):
    truth = table(make(np.random.default_rng(10_000), scale), Settings(resamples=1), labels)
    hits = dict.fromkeys(truth, 0)
    for run in range(RUNS):
        settings = Settings(resamples=1000, method=method, seed=run)
        for key, (_, low, high) in table(make(np.random.default_rng(run)), settings, labels).items():
            hits[key] += low <= truth[key][0] <= high
    for key, count in hits.items():
        # Three standard errors of the simulation beside the promised range.
        slack = 3 * (0.95 * 0.05 / RUNS) ** 0.5
        assert 0.93 - slack <= count / RUNS <= 0.97 + slack, (key, count / RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.01, 0.03])
def test_marked_rates_cover_on_average(rate):
    rng = np.random.default_rng(5)
    both = 0
    alone = 0
    for run in range(RUNS):
        shared = rng.random(N) < rate / 2
        columns = np.stack([shared | (rng.random(N) < rate / 2), shared | (rng.random(N) < rate / 2)]) * 1.0
        block = OutcomeBlock(np.empty(N, object), np.arange(N), {"correct": 1 - columns})
        rows = table(block, Settings(resamples=200, seed=run), None)
        truth = 1 - (rate / 2 + (1 - rate / 2) * rate / 2)
        alone += rows["a", "accuracy"][1] <= truth <= rows["a", "accuracy"][2]
        both += rows["b-a", "accuracy"][1] <= 0 <= rows["b-a", "accuracy"][2]
    assert alone / RUNS >= 0.92
    assert both / RUNS >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("only", ["accuracy", "f1", "latency_s", "tokens_per_right"])
def test_what_the_manual_says_of_coverage(only):
    """A part of the manual's table, with fewer runs: no promise is broken."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "benchmarks/coverage.py", "--only", only, "--runs", "12", "--sizes", "30", "500"]
    done = subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
