"""One million rounds under eight `retrieve` policies, and one million checks under twenty thresholds of `buzz`.

Run with `python benchmarks/rounds_checks.py`. The logs are those of `thinkback simulate rounds` (50,000 questions of
two hops of ten rounds, ten documents each) and of `thinkback simulate checks`. Each run, with 1,000 resamples, is a
process of its own; its processor time, behind a run on twenty examples that imports what is needed, is compared with
that of polars reading the whole table and sorting it once, and its peak memory with that on a tenth of the log. It
fails where the run takes more than six times the one, or more than 1.2 times the other. On a small log both kinds
must agree with the plain loops of the tests.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

MOST_TIMES, MOST_MEMORY = 6.0, 1.2
ROUNDS = ["hops=2", "rounds=10", "documents=10"]
EXAMPLES = {"rounds": 50_000, "checks": 51_000}
KEYS = {"rounds": ["hop", "round"], "checks": ["claim", "round"]}
POLICIES = {
    "rounds": """
[[policy]]
name = "first-stage order"
kind = "retrieve"
rounds = 10
order = "retriever"

[[policy]]
name = "plain"
kind = "retrieve"
rounds = 10
multiplier = 1

[[policy]]
name = "frontier"
kind = "retrieve"
rounds = 10
frontier_of = ["hop", "round"]

[[policy]]
name = "scores"
kind = "retrieve"
rounds = 10
frontier_of = "round"
weights = "answer_scores"

[[policy]]
name = "penalty"
kind = "retrieve"
rounds = 10
penalty = "sunar"

[[policy]]
name = "stable"
kind = "retrieve"
rounds = 10
frontier_of = "round"
stable = [2, 3]
""",
    "checks": """
[[policy]]
name = "sure"
kind = "buzz"
confidence = [CONFIDENCES]
""".replace("CONFIDENCES", ", ".join(f"{one / 20:g}" for one in range(20))),
}


def simulated(table: str, examples: int, out: Path) -> None:
    from generate.simulation.checks import simulate_checks
    from generate.simulation.rounds import simulate_rounds
    from generate.simulation.settings import rounds_models

    if table == "rounds":
        simulate_rounds(out, examples=examples, model=rounds_models(ROUNDS)[0])
    else:
        simulate_checks(out, examples=examples)


def replayed(table: str, log: str) -> None:
    """Processor seconds and peak memory of one run, as JSON."""
    import replay

    with tempfile.TemporaryDirectory() as scratch:  # what is imported where it is needed is part of the start
        simulated(table, 20, Path(scratch) / "log")
        replay.run(Path(scratch) / "log", POLICIES[table], resamples=50)
    start = time.process_time()
    result = replay.run(log, POLICIES[table], resamples=1_000)
    _say(time.process_time() - start, f"{len(result.policies)} policies")


def sorted_once(table: str, log: str) -> None:
    start = time.process_time()
    frame = pl.read_parquet(Path(log) / table / "*.parquet").sort("example_id", "pool", *KEYS[table])
    _say(time.process_time() - start, f"{len(frame):,} rows")


def _say(seconds: float, what: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "peak": peak, "what": what}))


def _process(work: str, table: str, log: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", work, table, str(log)]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    print(f"  {log.name:>6} {work:12} {out['seconds']:7.1f} s of a processor, {out['peak']:.2f} GiB, {out['what']}")
    return dict(out)


def check_equal() -> None:
    """The plain loops on random tables, and the vectorised kinds."""
    command = [sys.executable, "-m", "pytest", "-q", "-k", "plain_loop", "tests/retrieval", "tests/buzzing"]
    subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parent.parent)
    print("both kinds agree with the plain loops of the tests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=tuple(EXAMPLES), action="append")
    parser.add_argument("--logs", type=Path, help="a folder in which the logs are kept; else they are made and deleted")
    parser.add_argument("--work", nargs=3, metavar=("WORK", "TABLE", "LOG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        {"replay": replayed, "polars": sorted_once}[options.work[0]](*options.work[1:])
        return
    check_equal()
    broken = []
    with tempfile.TemporaryDirectory() as scratch:
        for table in options.table or EXAMPLES:
            print(table)
            folder = (options.logs or Path(scratch)) / table
            for name, examples in (("small", EXAMPLES[table] // 10), ("large", EXAMPLES[table])):
                if not (folder / name).exists():
                    folder.mkdir(parents=True, exist_ok=True)
                    simulated(table, examples, folder / name)
            small, large = (_process("replay", table, folder / name) for name in ("small", "large"))
            bare = _process("polars", table, folder / "large")
            times, memory = large["seconds"] / bare["seconds"], large["peak"] / small["peak"]
            print(f"  {times:.1f} times the processor time of polars, {memory:.2f} times the memory of a tenth")
            broken += [f"{table}: time"] * (times > MOST_TIMES) + [f"{table}: memory"] * (memory > MOST_MEMORY)
    if broken:
        sys.exit(f"too much: {', '.join(broken)}")


if __name__ == "__main__":
    main()
