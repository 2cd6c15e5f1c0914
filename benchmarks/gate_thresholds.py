"""All distinct thresholds of a gate on 100,000 examples, with 10,000-resample bands at 200 of them.

Run with `python benchmarks/gate_thresholds.py`. The exact curve must equal a plain loop on a few thresholds before
anything is timed. Prints the seconds of each step and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from generate.simulation.recovery import RecoveryModel, simulate_recovery
from replay import Act, Sample, Threshold, When
from replay.data.contents import read_contents
from replay.policies.base import SweptGate
from replay.runs.passes.example_set import select_examples
from replay.runs.passes.gate_sweep import GateBranches, band_table, replay_branches, threshold_means
from replay.runs.passes.passes import ReplayPlan
from toolkit.log import Log, open_log
from toolkit.stats import Settings


def plan_and_gate(log: Log) -> tuple[ReplayPlan, SweptGate]:
    first = Sample(name="first", pool="short", max_traces=1, select="first")
    act = Act(name="act", action="active_verify", base="short")
    gate = Threshold(feature="constraint_density", at_least="all")
    contents = read_contents(log)
    policy = When(name="gated", base=first, gate=gate, then=act).resolve(contents)
    universe = select_examples(log, contents, frozenset(["short"]), None, [])
    swept = policy.swept_gate
    assert swept is not None
    return ReplayPlan(log, contents, universe, None, None, None), swept


def check(branches: GateBranches, table: pl.DataFrame, thresholds: list[int]) -> None:
    """The curve against a loop over examples."""
    for place in thresholds:
        threshold = float(table["threshold"][place])
        for column, name in (("correct", "accuracy"), ("flip", "flip_rate"), ("total_tokens", "total_tokens")):
            kept, fired = branches.unfired[column].tolist(), branches.fired[column].tolist()
            total = 0.0
            for signal, before, after in zip(branches.signal.tolist(), kept, fired, strict=True):
                total += after if signal >= threshold else before
            np.testing.assert_allclose(table[name][place], total / len(kept), rtol=1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "log"
        simulate_recovery(address, examples=options.examples, seed=0, model=RecoveryModel(votes=1))
        plan, gate = plan_and_gate(open_log(address))
        start, began = time.perf_counter(), time.process_time()
        branches = replay_branches(plan, gate)
        read = time.perf_counter()
        table = threshold_means(branches)
        exact = time.perf_counter()
        bands = band_table(branches, Settings(resamples=options.resamples))
        done, busy = time.perf_counter(), time.process_time() - began
        check(branches, table, [0, len(table) // 3, len(table) - 1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{options.examples:,} examples, {len(table):,} thresholds, {bands['threshold'].n_unique()} with bands")
    print(f"both branches evaluated     {read - start:6.2f} s")
    print(f"exact curve                 {exact - read:6.2f} s")
    print(f"{options.resamples:,} resamples            {done - exact:6.2f} s")
    print(f"all                         {done - start:6.2f} s, of which {busy:.2f} s of processor time")
    print(f"peak memory {peak:.2f} GiB, the simulation's included")


if __name__ == "__main__":
    main()
