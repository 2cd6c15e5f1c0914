"""10,000,000 traces under 20 policies on one process and on two workers, and what 1,000,000,000 would take.

    python benchmarks/cluster.py [--traces 10000000] [--workers 2] [--log LOG]

Runs where Ray is installed (`make test-cluster` makes such an environment). Both ways replay the whole log and a
quarter of it, each in a process of its own: processor seconds and peak memory of the driver and of the workers, and
bytes that went out and came back. Summaries must be equal to the last bit. From the two sizes the growth with each
trace is known, and with it the size that is asked about, which is printed with its arithmetic.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from scale import POLICIES

from generate.simulation.grid import simulate
from toolkit.log import collect, open_log
from toolkit.workers.chosen import CHOSEN
from toolkit.workers.ray_pool import RayPool, ray_pool

SAMPLES = 16
"""Traces of an example."""
ASKED = 10**9
MARK = "THINKBACK_BENCHMARK"
"""The variable by which processes of Ray know that they are of this measurement."""
GIB = 2**30


class CountingPool(RayPool):
    """Ray's workers, counting the bytes of what they get and give."""

    def __init__(self, ray: Any) -> None:
        super().__init__(ray)
        self.sent = self.received = 0

    def give(self, job: bytes) -> Any:
        """Count a job once for each worker."""
        self.sent += len(job) * self.places
        return super().give(job)

    def begin(self, job: Any, part: bytes) -> Hashable:
        """Count a part."""
        self.sent += len(part)
        return super().begin(job, part)

    def answer(self, task: Hashable) -> bytes:
        """Count an answer."""
        answer = super().answer(task)
        self.received += len(answer)
        return answer


@dataclass(frozen=True)
class Measured:
    """A run: processor seconds and peak bytes of the driver and of all that worked for it, and bytes moved."""

    examples: int
    seconds: float
    driver_s: float
    driver_peak: int
    workers_s: float = 0.0
    workers_peak: int = 0
    sent: int = 0
    received: int = 0


def workers_usage(mark: str) -> tuple[float, int]:
    """Processor seconds of all processes of Ray that carry a mark, and the highest peak memory of one."""
    seconds, peak, tick = 0.0, 0, os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() not in (folder / "environ").read_bytes():
                continue
            numbers = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:  # it ended meanwhile
            continue
        seconds += (int(numbers[11]) + int(numbers[12])) / tick
        peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]) * 1024)
    return seconds, peak


def measure(log: str, share: int, workers: int, out: str) -> Measured:
    """One replay of a share of the log; its summary is written to `out`."""
    import replay

    opened = open_log(log)
    ids = collect(opened.scan("examples", ["example_id"]), opened)["example_id"].sort()
    last = ids[len(ids) // share - 1]
    work = {"baseline": "self-consistency", "where": f"example_id <= '{last}'"}
    start, used = time.perf_counter(), (0.0, 0)
    if workers:
        with ray_pool(None, workers) as plain:
            pool = CountingPool(plain._ray)
            CHOSEN.set(pool)
            result = replay.run(opened, POLICIES.format(n=SAMPLES), **work)
            used, moved = workers_usage(os.environ[MARK]), (pool.sent, pool.received)
    else:
        result, moved = replay.run(opened, POLICIES.format(n=SAMPLES), **work), (0, 0)
    seconds = time.perf_counter() - start
    result.summary.write_parquet(out)
    here = resource.getrusage(resource.RUSAGE_SELF)
    driver = here.ru_utime + here.ru_stime, here.ru_maxrss * 1024
    return Measured(len(ids) // share, seconds, *driver, *used, *moved)


def in_process(log: str, share: int, workers: int, out: Path) -> Measured:
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--log", log, "--once", str(share), str(workers), str(out)]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {MARK: uuid.uuid4().hex}
    )
    return Measured(**json.loads(ended.stdout.strip().splitlines()[-1]))


def line(name: str, one: Measured) -> str:
    """A measurement in words."""
    workers = (
        f"; workers {one.workers_s:,.1f} s, {one.workers_peak / GIB:.2f} GiB at most each" if one.workers_s else ""
    )
    moved = f"; {one.sent / 2**20:,.1f} MiB out, {one.received / 2**20:,.1f} MiB back" if one.sent else ""
    return (
        f"{name}, {one.examples * SAMPLES:,} traces: {one.seconds:,.1f} s; driver {one.driver_s:,.1f} s of processor"
        f" time, {one.driver_peak / GIB:.2f} GiB{workers}{moved}"
    )


def extrapolated(small: Measured, whole: Measured, examples: float) -> str:
    """What `examples` would take, as a straight line through two sizes, with the arithmetic."""
    lines = []
    for name, what, unit, size in (
        ("processor time of workers", "workers_s", "s", 1.0), ("processor time of the driver", "driver_s", "s", 1.0),
        ("peak memory of the driver", "driver_peak", "GiB", GIB), ("sent", "sent", "GiB", GIB),
        ("received", "received", "GiB", GIB),
    ):  # fmt: skip
        first, last = (getattr(one, what) / size for one in (small, whole))
        each = (last - first) / (whole.examples - small.examples)
        value = last + each * (examples - whole.examples)
        lines.append(
            f"{name}: {last:,.2f} + ({last:,.2f} - {first:,.2f}) / ({whole.examples:,} - {small.examples:,}) *"
            f" ({examples:,.0f} - {whole.examples:,}) = {value:,.1f} {unit}"
        )
    each = (whole.workers_s - small.workers_s) / (whole.examples - small.examples)
    lines.append(f"so workers are done in an hour on {each * examples / 3600:,.1f} cores")
    return "\n".join(lines)


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", help="a simulated log of 16 traces an example; made when left out")
    parser.add_argument("--traces", type=int, default=10**7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--once", nargs=3, metavar=("SHARE", "WORKERS", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        share, workers, out = options.once
        print(json.dumps(asdict(measure(options.log, int(share), int(workers), out))))
        return
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or str(Path(folder) / "log")
        if options.log is None:
            start = time.perf_counter()
            simulate(log, examples=options.traces // SAMPLES, traces=SAMPLES, labels=3, seed=0)
            print(f"simulated {options.traces:,} traces in {time.perf_counter() - start:.1f} s", flush=True)
        runs = dict[tuple[int, int], Measured]()
        for share in (4, 1):
            for workers in (0, options.workers):
                out = Path(folder) / f"{share}-{workers}.parquet"
                runs[share, workers] = in_process(log, share, workers, out)
                name = f"{workers} workers" if workers else "one process"
                print(line(name, runs[share, workers]), flush=True)
            first, second = (pl.read_parquet(Path(folder) / f"{share}-{n}.parquet") for n in (0, options.workers))
            if not first.equals(second):
                sys.exit("THE SUMMARIES DIFFER")
    print("the same summaries to the last bit")
    print(f"\n{ASKED:,} traces, {ASKED // SAMPLES:,} examples:")
    print(extrapolated(runs[4, options.workers], runs[1, options.workers], ASKED / SAMPLES))


if __name__ == "__main__":
    main()
