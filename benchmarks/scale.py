"""One million examples x 16 traces from Parquet: 20 policies with intervals, in bounded memory.

Run with `python benchmarks/scale.py --log LOG` on a log of `thinkback simulate --examples 1000000 --traces 16
--labels 3 --seed 0 --out LOG` (made under a temporary folder when no log is given). Prints seconds and peak
memory for each number of blocks, and checks that all give the same summary.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from generate.simulation.grid import simulate
from toolkit.log import open_log

POLICIES = """
[[policy]]
name = "adaptive"
kind = "sample"
pool = "n{n}"
max_traces = {n}
verifier = ["strong", "weak"]
stop = {{ rule = "margin", margin = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3] }}

[[policy]]
name = "best"
kind = "sample"
pool = "n{n}"
max_traces = [4, {n}]
verifier = "strong"

[[policy]]
name = "random order"
kind = "sample"
pool = "n{n}"
max_traces = {n}
verifier = "strong"
order = "random"
stop = {{ rule = "budget", verifications = 4 }}

[[policy]]
name = "weighted vote"
kind = "sample"
pool = "n{n}"
max_traces = {n}
verifier = "strong"
select = "weighted"

[[policy]]
name = "self-consistency"
kind = "sample"
pool = "n{n}"
max_traces = {n}
select = "majority"

[[policy]]
name = "adaptive consistency"
kind = "sample"
pool = "n{n}"
max_traces = {n}
select = "majority"
stop = {{ rule = "agreement", confidence = 0.95 }}

[[policy]]
name = "first"
kind = "sample"
pool = "n{n}"
max_traces = 1
select = "first"

[[policy]]
name = "any right"
kind = "oracle"
of = ["n{n}"]
"""


def once(log: str, traces: int, blocks: int, out: str) -> None:
    """One run in a process of its own, so that its peak memory is its own."""
    import replay

    opened = open_log(log)
    examples = opened.scan("examples", ["example_id"]).select(pl.len()).collect().item()
    start = time.perf_counter()
    result = replay.run(
        opened, POLICIES.format(n=traces), baseline="self-consistency", block_examples=-(-examples // blocks)
    )
    seconds = time.perf_counter() - start
    result.summary.write_parquet(out)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{blocks} blocks: {seconds:7.1f} s, peak memory {peak:.2f} GiB, {len(result.policies)} policies")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", help="a simulated log; made when left out")
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--traces", type=int, default=16)
    parser.add_argument("--blocks", type=int, nargs="*", default=[7, 3, 2])
    parser.add_argument("--once", nargs=2, metavar=("BLOCKS", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.log, options.traces, int(options.once[0]), options.once[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        log = options.log
        if log is None:
            log = str(Path(folder) / "log")
            start = time.perf_counter()
            simulate(log, examples=options.examples, traces=options.traces, labels=3, seed=0)
            print(f"simulated {options.examples:,} x {options.traces} in {time.perf_counter() - start:.1f} s")
        summaries = []
        for blocks in options.blocks:
            out = str(Path(folder) / f"{blocks}.parquet")
            command = [sys.executable, __file__, "--log", log, "--traces", str(options.traces)]
            subprocess.run([*command, "--once", str(blocks), out], check=True)
            summaries.append(pl.read_parquet(out))
        same = all(summary.equals(summaries[0]) for summary in summaries)
        print("the same summary to the last bit" if same else "THE SUMMARIES DIFFER")
        print(summaries[0].filter(pl.col("metric").is_in(["accuracy", "macro_f1", "total_tokens"])))
        if not same:
            sys.exit(1)


if __name__ == "__main__":
    main()
