"""Paired bootstrap of 1,000 policies × 10 metrics against a loop over `scipy.stats.bootstrap` and a plain numpy loop.

    python benchmarks/bootstrap.py [--policies 1000] [--examples 2495] [--resamples 10000] [--pairs 50]
    python benchmarks/bootstrap.py --against TREE [--cases policies long clusters seconds] [--repeats 3]

The first times `toolkit.stats.summarise` with a baseline that is also taken for the leader: estimates with intervals,
and differences to the baseline with intervals and p-values (and F1 by label and reductions, which the loops leave out);
then with a leader of its own, which doubles the differences. The loops are timed on PAIRS series, half estimates, half
differences, evenly over the metrics, and scaled to as many estimates and differences to one baseline as there are.
Equality to Monte-Carlo error is checked before anything is timed.

The second runs each case in turn on the code of another checkout (TREE) and on this one, each in a process of its own:
equality to 1e-9 (p-values: two resamples) is checked before processor time and the peak of memory are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import bootstrap as scipy_bootstrap

from toolkit.stats import OutcomeBlock, Settings, Summary, summarise

LABELS = ("supported", "refuted", "unclear")
MEANS = {
    "accuracy": "correct",
    "traces": "traces",
    "valid_traces": "valid_traces",
    "verifications": "verifications",
    "operations": "operations",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "verification_tokens": "verification_tokens",
    "total_tokens": "total_tokens",
}
METRICS = (*MEANS, "macro_f1")


def made_run(policies: int, examples: int, seed: int = 0) -> OutcomeBlock:
    """Outcomes of policies that look at more and more traces, all different, on the same examples."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, len(LABELS), examples).astype(np.int32)
    hard = rng.random(examples)
    effort = np.linspace(1, 14, policies)[:, None]
    right = rng.random((policies, examples)) < 0.9 - hard / (1 + 0.1 * effort)
    answers = np.where(right, gold, (gold + rng.integers(1, 3, (policies, examples))) % len(LABELS))
    traces = 1 + rng.binomial(14, np.clip(effort / 15 + 0.3 * (hard - 0.5), 0, 1)).astype(float)
    valid = np.minimum(traces, rng.binomial(traces.astype(int), 0.95) + 1).astype(float)
    prompt, checks = traces * rng.integers(180, 420, examples), valid * 310.0
    completion = np.floor(traces * rng.gamma(4, 60, (policies, examples)))
    values = {
        "correct": right.astype(float), "traces": traces, "valid_traces": valid, "verifications": valid,
        "operations": traces + valid, "prompt_tokens": prompt, "completion_tokens": completion,
        "verification_tokens": checks, "total_tokens": prompt + completion + checks,
    }  # fmt: skip
    values["verifications"] = np.minimum(valid, rng.integers(1, 16, (policies, examples)))
    ids = np.array([f"e{i:06d}" for i in range(examples)], object)
    return OutcomeBlock(ids, np.arange(examples), values, gold, np.eye(len(LABELS))[answers])


def macro_f1(gold: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Macro-F1 along the last axis."""
    f1s = []
    for label in range(len(LABELS)):
        is_gold, is_answer = gold == label, answer == label
        tp = (is_gold & is_answer).sum(axis=-1)
        f1s.append(2 * tp / (is_gold.sum(axis=-1) + is_answer.sum(axis=-1)))
    return np.mean(f1s, axis=0)


def series(block: OutcomeBlock, metric: str, policy: int, base: int | None) -> tuple[tuple[np.ndarray, ...], Callable]:
    """Data and vectorised statistic of one series, as a user of scipy would write them."""
    if metric == "macro_f1":
        answers = block.predicted.argmax(axis=2)  # type: ignore[union-attr]
        gold = block.gold
        if base is None:
            return (gold, answers[policy]), lambda g, a, axis=-1: macro_f1(g, a)
        return (gold, answers[policy], answers[base]), lambda g, a, b, axis=-1: macro_f1(g, a) - macro_f1(g, b)
    values = block.values[MEANS[metric]]
    if base is None:
        return (values[policy],), lambda a, axis=-1: a.mean(axis=axis)
    return (values[policy], values[base]), lambda a, b, axis=-1: a.mean(axis=axis) - b.mean(axis=axis)


def by_scipy(
    data: tuple[np.ndarray, ...], statistic: Callable, resamples: int, seed: int
) -> tuple[float, float, float]:
    found = scipy_bootstrap(
        data, statistic, paired=True, vectorized=True, n_resamples=resamples, batch=1000, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    low, high = found.confidence_interval
    return float(low), float(high), float(found.standard_error)


def by_loop(data: tuple[np.ndarray, ...], statistic: Callable, resamples: int, seed: int) -> tuple[float, float]:
    """One resample after the other, in numpy."""
    rng = np.random.default_rng(seed)
    size = len(data[0])
    values = []
    for _ in range(resamples):
        rows = rng.integers(0, size, size)
        values.append(float(statistic(*(d[rows] for d in data))))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def timed(call: Callable[[], Summary], repeats: int) -> tuple[list[float], int]:
    """Seconds of each call, and how many intervals one gives."""
    times, given = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        given = sum(frame["low"].is_not_null().sum() for frame in (result.summary, result.comparisons))
    return times, given


def with_seconds(block: OutcomeBlock, seed: int) -> OutcomeBlock:
    """The block with seconds, which are no integers."""
    rng = np.random.default_rng([seed, 1])
    seconds = block.values["traces"] * rng.gamma(3, 2, block.values["traces"].shape)
    values = {**block.values, "latency_s": seconds, "generation_s": seconds / 1.5}
    return OutcomeBlock(block.example_ids, block.unit, values, block.gold, block.predicted)


def long_run(policies: int, examples: int, step: int = 20_000) -> Iterator[OutcomeBlock]:
    """Many examples, made block by block: nine integers, two sorts of seconds and a label each."""
    for start in range(0, examples, step):
        made = with_seconds(made_run(policies, step, start), start)
        yield OutcomeBlock(made.example_ids, made.unit + start, made.values, made.gold, made.predicted)


def clustered(block: OutcomeBlock, clusters: int) -> OutcomeBlock:
    unit = np.random.default_rng(1).permutation(np.arange(len(block)) % clusters)
    return OutcomeBlock(block.example_ids, unit, block.values, block.gold, block.predicted)


CASES: dict[str, tuple[int, int, Callable[[], Callable[[], Iterator[OutcomeBlock]]]]] = {
    "policies": (1000, 10_000, lambda: once(made_run(1000, 2495))),
    "seconds": (300, 10_000, lambda: once(with_seconds(made_run(300, 2495), 0))),
    "long": (20, 1_000, lambda: lambda: long_run(20, 1_000_000)),
    "clusters": (200, 10_000, lambda: once(clustered(with_seconds(made_run(200, 10_000), 0), 1000))),
}
"""Policies, resamples and what makes the outcomes, by case."""


def once(block: OutcomeBlock) -> Callable[[], Iterator[OutcomeBlock]]:
    return lambda: iter([block])


def run_case(case: str, folder: Path) -> None:
    """Run one case, keep its tables, and print its processor seconds and its peak of memory in MiB."""
    policies, resamples, make = CASES[case]
    blocks = make()
    names = [f"policy {i}" for i in range(policies)]
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = summarise(
        blocks, names, labels=LABELS, baseline=names[0], leaders=names[:1], settings=Settings(resamples=resamples)
    )
    after = resource.getrusage(resource.RUSAGE_SELF)
    result.summary.write_parquet(folder / "summary.parquet")
    result.comparisons.write_parquet(folder / "comparisons.parquet")
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    print(json.dumps({"cpu_s": spent, "peak_mib": after.ru_maxrss / 1024, "before_mib": before.ru_maxrss / 1024}))


def compare(tree: Path, case: str, repeats: int) -> None:
    """Run a case on both trees in turn; check that the tables agree; print what each took."""
    took: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    trees = {"old": tree.resolve(), "new": Path(__file__).resolve().parents[1]}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for which, root in trees.items():
                out = Path(folder) / which
                out.mkdir(exist_ok=True)
                done = subprocess.run(
                    [sys.executable, __file__, "--case", case, "--out", str(out)],
                    env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=True,
                )  # fmt: skip
                took[which].append(json.loads(done.stdout))
        check_equal(Path(folder) / "old", Path(folder) / "new", CASES[case][1])
    least = {which: min(runs, key=lambda run: run["cpu_s"]) for which, runs in took.items()}
    listed = {which: ", ".join(f"{run['cpu_s']:.1f}" for run in runs) for which, runs in took.items()}
    print(
        f"{case}: processor seconds {listed['old']} -> {listed['new']} "
        f"(ratio {least['new']['cpu_s'] / least['old']['cpu_s']:.2f} of the least), peak of memory "
        f"{least['old']['peak_mib']:,.0f} -> {least['new']['peak_mib']:,.0f} MiB "
        f"(of which {least['new']['before_mib']:,.0f} before)"
    )


def check_equal(old: Path, new: Path, resamples: int) -> None:
    for table in ("summary", "comparisons"):
        ours, theirs = (pl.read_parquet(folder / f"{table}.parquet") for folder in (new, old))
        for column in ours.columns:
            one, two = ours[column], theirs[column]
            if not one.dtype.is_float():
                assert one.to_list() == two.to_list(), (table, column)
                continue
            assert (one.is_null() == two.is_null()).all(), (table, column)
            allowed = 4 / (resamples + 1) if column == "p_value" else 1e-9 * two.abs().clip(1)
            assert ((one - two).abs() <= allowed + 1e-12).fill_null(True).all(), (table, column)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, default=1000)
    parser.add_argument("--examples", type=int, default=2495)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=50, help="series timed with scipy, half of them differences")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout, whose code the cases are run on too")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        run_case(options.case, options.out)
        return
    if options.against is not None:
        for case in options.cases:
            compare(options.against, case, options.repeats)
        return
    block = made_run(options.policies, options.examples)
    names = [f"policy {i}" for i in range(options.policies)]
    settings = Settings(resamples=options.resamples)

    def ours(leaders: list[str] | None) -> Summary:
        return summarise(
            lambda: iter([block]),
            names,
            labels=LABELS,
            baseline=names[0],
            leaders=leaders,
            ranked=False,
            settings=settings,
        )

    rng = np.random.default_rng(1)
    picked = rng.choice(np.arange(1, options.policies), min(options.pairs, options.policies - 1), replace=False)
    chosen = [(METRICS[(i // 2) % len(METRICS)], int(policy), 0 if i % 2 else None) for i, policy in enumerate(picked)]

    result = ours(names[:1])
    worst = 0.0
    scipy_s = 0.0
    for number, (metric, policy, base) in enumerate(chosen):
        data, statistic = series(block, metric, policy, base)
        start = time.perf_counter()
        low, high, error = by_scipy(data, statistic, options.resamples, number)
        scipy_s += time.perf_counter() - start
        table = result.summary if base is None else result.comparisons.filter(baseline=names[0])
        row = table.filter(policy=names[policy], metric=metric).row(0, named=True)
        worst = max(worst, abs(row["low"] - low) / error, abs(row["high"] - high) / error)
    # A limit's Monte-Carlo error is sqrt(0.025 · 0.975 / B) / 0.0584 standard errors; two of them, five sigmas.
    allowed = 5 * math.sqrt(2) * math.sqrt(0.025 * 0.975 / options.resamples) / 0.0584
    print(f"largest distance to scipy's limits on {len(chosen)} series: {worst:.3f} standard errors "
          f"(Monte-Carlo error allows {allowed:.3f})")  # fmt: skip
    if worst > allowed:
        raise SystemExit("the limits differ by more than Monte-Carlo error: nothing is timed")

    loop_s = 0.0
    looped = chosen[:4]
    for number, (metric, policy, base) in enumerate(looped):
        start = time.perf_counter()
        by_loop(*series(block, metric, policy, base), options.resamples, number)
        loop_s += time.perf_counter() - start

    times, given = timed(lambda: ours(names[:1]), options.repeats)
    more_times, more = timed(lambda: ours(None), 1)
    own = sorted(times)[len(times) // 2]
    wanted = len(METRICS) * (2 * options.policies - 1)  # estimates, and differences to one baseline
    scipy_all, loop_all = scipy_s / len(chosen) * wanted, loop_s / len(looped) * wanted
    print(
        f"{options.policies:,} policies × {len(METRICS)} metrics, {options.examples:,} examples, "
        f"{options.resamples:,} paired resamples: {wanted:,} estimates and differences to one baseline"
    )
    print(
        f"toolkit.stats.summarise: {own:.2f} s (median of {len(times)}: {', '.join(f'{t:.2f}' for t in times)}), "
        f"{given:,} intervals, F1 by label and reductions among them"
    )
    print(f"the same and differences to a leader: {more_times[0]:.2f} s, {more:,} intervals")
    print(f"scipy.stats.bootstrap: {scipy_s:.1f} s for {len(chosen)} series, scaled to {scipy_all:,.0f} s: "
          f"{scipy_all / own:,.0f} times as long")  # fmt: skip
    print(f"plain numpy loop: {loop_s:.1f} s for {len(looped)} series, scaled to {loop_all:,.0f} s: "
          f"{loop_all / own:,.0f} times as long")  # fmt: skip


if __name__ == "__main__":
    main()
