"""From the command line to the last file: 1,000 policies against bare numpy, and what large results take.

Run with `python benchmarks/results.py`. Four cases, of which `--cases` picks some:
- `limit`: 1,000 margin policies on 2,495 x 15 with 10,000 resamples by the command, against bare numpy, which draws as
  many resamples, multiplies the same columns by them, and takes the same values, differences and quantiles. Estimates
  must agree before anything is timed.
- `agreement`: outcomes of 1,000 agreement thresholds against those of 1,000 margin thresholds.
- `large`: seconds and peak memory of 1,000,000 x 8 (and x 16 with `--sixteen`) with 20 policies, and of 10,000 policies
  on 2,495 x 15; with `--against TREE` those of another checkout beside them.
- `demo`: the processor seconds of the demonstration's replay, likewise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scale import POLICIES as TWENTY

from generate.simulation.grid import simulate
from replay import Agreement, Margin, Sample
from replay.data.block import LogBlock
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.policies.base import Evaluator, needs_of_policies
from toolkit.log import open_log

HERE = Path(__file__).resolve().parents[1]
CHILD = """
import resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run([sys.executable, "-m", "thinkback", *sys.argv[1:]], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
if done.returncode:
    raise SystemExit(done.stderr)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
"""Runs a command; prints its seconds, its processor seconds and its peak of memory in MiB."""


def command(tree: Path, *words: object) -> tuple[float, float, float]:
    where = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    where["PYTHONPATH"] = str(tree)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, words)], env=where, capture_output=True, text=True, check=True, cwd=tree
    )
    wall, cpu, peak = map(float, done.stdout.split())
    return wall, cpu, peak


def margins(count: int, first: float = 0.0) -> str:
    values = [first + round((i + 1) / count, 6) for i in range(count)]
    head = '[[policy]]\nname = "margin"\nkind = "sample"\npool = "n15"\nmax_traces = 15\nverifier = "strong"\n'
    return f'{head}stop = {{ rule = "margin", margin = {values} }}\n'


def limit(folder: Path, repeats: int) -> None:
    simulate(folder / "log", examples=2495, traces=15, labels=3, seed=0)
    (folder / "policies.toml").write_text(margins(1000))
    ours = [replayed(folder) for _ in range(repeats)]
    bare, columns = [], columns_of(folder / "out")
    for _ in range(repeats):
        start, wall = time.process_time(), time.perf_counter()
        estimates = bare_numpy(columns)
        bare.append((time.perf_counter() - wall, time.process_time() - start))
    check(folder / "out", estimates)
    (own_wall, own_cpu), (limit_wall, limit_cpu) = (tuple(map(min, zip(*found, strict=True))) for found in (ours, bare))
    print(
        f"1,000 margins, command to last file: {own_wall:.1f} s ({own_cpu:.1f} s of processors), bare numpy "
        f"{limit_wall:.1f} s ({limit_cpu:.1f}): {own_wall / limit_wall:.2f} times ({own_cpu / limit_cpu:.2f})"
    )


def replayed(folder: Path) -> tuple[float, float]:
    words = ("replay", folder / "log", "--policies", folder / "policies.toml", "--out", folder / "out", "--force")
    wall, cpu, _ = command(HERE, *words)
    return wall, cpu


def columns_of(out: Path) -> dict[str, np.ndarray]:
    """Numeric columns of outcomes that have values, (policies, examples)."""
    outcomes = pl.read_parquet(out / "outcomes.parquet").sort("policy", "example_id")
    size = outcomes["example_id"].n_unique()
    numbers = [name for name, kind in outcomes.schema.items() if kind == pl.Float64 and not outcomes[name].null_count()]
    return {name: outcomes[name].to_numpy().reshape(-1, size) for name in numbers}


def bare_numpy(columns: dict[str, np.ndarray], resamples: int = 10_000) -> dict[str, np.ndarray]:
    """Means of every column; on the way their resampled values, differences and reductions to one policy, quantiles."""
    size = next(iter(columns.values())).shape[1]
    rng = np.random.default_rng(0)
    counts = np.empty((size, resamples), np.float32)
    for drawn in range(resamples):
        counts[:, drawn] = np.bincount(rng.integers(0, size, size), minlength=size)
    means = {}
    for name, values in columns.items():
        means[name] = values.mean(axis=1)
        first = {hashlib.blake2b(row.tobytes()).digest(): row for row in values}
        distinct = np.stack(list(first.values()))
        if (distinct == distinct[:, :1]).all():
            continue
        whole = (distinct == np.rint(distinct)).all() and distinct.max() < 2**24 / 64
        drawn = (distinct.astype(np.float32) @ counts if whole else distinct @ counts.astype(np.float64)) / size
        quantiles(drawn)
        quantiles(drawn - drawn[0])
        if name not in ("correct", "credit"):
            quantiles(1 - drawn / np.where(drawn[0] == 0, np.nan, drawn[0]))
    return means


def quantiles(drawn: np.ndarray) -> np.ndarray:
    """Both ends of an interval of each row, by partition."""
    last = drawn.shape[1] - 1
    low, high = int(0.025 * last), int(0.975 * last)
    placed = np.partition(drawn, [low, low + 1, high, high + 1], axis=1)
    return np.stack([placed[:, low], placed[:, high]])


def check(out: Path, means: dict[str, np.ndarray]) -> None:
    summary = pl.read_parquet(out / "summary.parquet")
    for metric, column in (("accuracy", "correct"), ("traces", "traces"), ("total_tokens", "total_tokens")):
        ours = summary.filter(metric=metric).sort("policy")["estimate"].to_numpy()
        if not np.allclose(ours, means[column], rtol=1e-9):
            raise SystemExit(f"the means of {metric} differ: nothing is timed")


def agreement(folder: Path, repeats: int) -> None:
    simulate(folder / "log", examples=2495, traces=15, labels=3, seed=0)
    common = {"pool": "n15", "max_traces": 15}
    by_margin = [Sample(name=f"m{i}", verifier="strong", stop=Margin(i / 1000), **common) for i in range(1000)]
    by_votes = [Sample(name=f"a{i}", select="majority", stop=Agreement(0.5 + i / 2001), **common) for i in range(1000)]
    block = load(folder / "log", [by_margin[0], by_votes[0]])
    seconds = [min(outcome_seconds(block, policies) for _ in range(repeats)) for policies in (by_margin, by_votes)]
    print(f"outcomes of 1,000 agreement thresholds {seconds[1]:.2f} s, of 1,000 margins {seconds[0]:.2f} s: "
          f"{seconds[1] / seconds[0]:.2f} times")  # fmt: skip


def load(path: Path, policies: list[Sample]) -> LogBlock:
    log = open_log(path)
    contents = read_contents(log)
    rows = log.scan("examples", ["example_id", "labels", "gold", "cluster"]).sort("example_id").collect()
    needs = needs_of_policies([policy.resolve(contents) for policy in policies], contents)
    return read_block(log, rows, BlockRequest(needs, None, None))


def outcome_seconds(block: LogBlock, policies: list[Sample]) -> float:
    start = time.process_time()
    Evaluator(block, policies).outcomes()
    return time.process_time() - start


def large(folder: Path, trees: dict[str, Path], sixteen: bool) -> None:
    for traces in (8, 16) if sixteen else (8,):
        simulate(folder / f"log{traces}", examples=1_000_000, traces=traces, labels=3, seed=0)
        (folder / "policies.toml").write_text(TWENTY.format(n=traces))
        show(folder, trees, f"1,000,000 x {traces}, 20 policies", folder / f"log{traces}", 1_000)
    simulate(folder / "log", examples=2495, traces=15, labels=3, seed=0)
    (folder / "policies.toml").write_text(margins(10_000))
    show(folder, trees, "10,000 policies on 2,495 x 15", folder / "log", 1_000)


def show(folder: Path, trees: dict[str, Path], what: str, log: Path, resamples: int) -> None:
    for which, tree in trees.items():
        words = ("--policies", folder / "policies.toml", "--resamples", resamples, "--out", folder / "out", "--force")
        wall, cpu, peak = command(tree, "replay", log, *words)
        print(f"{what}, {which}: {wall:.0f} s ({cpu:.0f} s of processors), peak {peak:,.0f} MiB")


def demo(folder: Path, trees: dict[str, Path], repeats: int) -> None:
    words = ("replay", "data/log", "--policies", "data/policies.toml", "--where", "split = 'test'", "--by", "dataset")
    more = ("--baseline", "greedy", "--margin", "0.01", "--out", folder / "demo", "--force")
    found: dict[str, list[float]] = {which: [] for which in trees}
    for _ in range(repeats):
        for which, tree in trees.items():
            found[which].append(command(tree, *words, *more)[1])
    print(json.dumps({f"demo, {which}, processor seconds": round(min(took), 2) for which, took in found.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["limit", "agreement", "large", "demo"])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--against", type=Path, help="another checkout, with its own shipped log")
    parser.add_argument("--sixteen", action="store_true", help="one million examples with 16 traces, too")
    options = parser.parse_args()
    trees = {"here": HERE} | ({} if options.against is None else {"there": options.against.resolve()})
    for case in options.cases:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if case == "limit":
                limit(folder, options.repeats)
            elif case == "agreement":
                agreement(folder, options.repeats)
            elif case == "large":
                large(folder, trees, options.sixteen)
            else:
                demo(folder, trees, options.repeats)


if __name__ == "__main__":
    main()
