"""A log of many shards, and one of ten times as many: seconds to read it, checked for the first time and again.

Run with `python benchmarks/shards.py`. Each command runs in a process of its own; `--against TREE` runs them by another
checkout too, and gives the ratio. What is found in a log of many shards must equal what is found in a log of the same
rows in one shard each, before anything is reported.
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
from typing import Any

import polars as pl
import pyarrow.parquet as pq

COMMANDS = ("open", "check", "describe", "query", "validate")
ROOT = Path(__file__).resolve().parents[1]


def make_log(folder: Path, shards: int, examples: int) -> None:
    """A sealed log: `examples` of four traces each, whose traces lie in `shards` files."""
    ids = [f"e{i:06d}" for i in range(examples)]
    rows = pl.DataFrame({"example_id": ids}).join(pl.DataFrame({"sample_index": range(4)}), how="cross").select(
        "example_id", pl.col("sample_index").cast(pl.Int32), pool=pl.lit("n"), action=pl.lit("solve"),
        model=pl.lit("m"), trace_id=pl.format("{}/{}", "example_id", "sample_index"),
        answer=(pl.int_range(pl.len()) * 7 % 3).cast(pl.String), completion_tokens=pl.lit(10, pl.Int32),
    ).with_columns(correct=pl.col("answer") == "1")  # fmt: skip
    fixed = {"dataset": "d", "split": "test", "question": "q?", "gold": "1"}
    tables = {"examples": [pl.DataFrame({"example_id": ids}).with_columns(**{k: pl.lit(v) for k, v in fixed.items()})]}
    tables["traces"] = list(rows.iter_slices(-(-rows.height // shards)))
    listed: dict[str, list[dict[str, object]]] = {}
    for table, frames in tables.items():
        (folder / table).mkdir(parents=True)
        for number, frame in enumerate(frames):
            path = folder / table / f"part-{number:05d}.parquet"
            pq.write_table(frame.to_arrow(), path, write_page_checksum=True)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            listed.setdefault(table, []).append({"file": path.name, "rows": frame.height, "sha256": digest})
    manifest = {"format": "thinkback-log", "version": 1, "name": "many", "created": "", "tables": listed}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def measure(command: str, folder: str) -> dict[str, Any]:
    """One command in this process: seconds, seconds of processor time, and what it found."""
    from toolkit.log import check_log, collect, describe_log, open_log, query_log, validate_log

    began, worked = time.perf_counter(), time.process_time()
    log = open_log(folder)
    found: object = len(log.columns("traces"))
    if command == "check":
        check_log(log)
        found = collect(log.scan("traces", ["completion_tokens"]), log).sum().item()
    elif command == "describe":
        found = describe_log(log).pools.to_dicts()
    elif command == "query":
        found = query_log(log, "SELECT answer, count(*) FROM traces GROUP BY answer ORDER BY answer").rows()
    elif command == "validate":
        found = [str(problem) for problem in validate_log(log).problems]
    return {"found": found, "seconds": time.perf_counter() - began, "worked": time.process_time() - worked}


def run(command: str, folder: Path, tree: Path, cache: Path) -> dict[str, Any]:
    """The same in a process of its own, by the code of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(cache)}
    asked = [sys.executable, __file__, "--measure", command, str(folder)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=1_000, help="of the smaller log")
    parser.add_argument("--against", type=Path, help="another checkout, which is measured too")
    parser.add_argument("--measure", nargs=2, metavar=("COMMAND", "LOG"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return
    trees = {"first time": ROOT, "again": ROOT} | ({"against": given.against.resolve()} if given.against else {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = (given.shards, 10 * given.shards)
        for shards in counts:
            make_log(folder / f"many{shards}", shards, 10 * given.shards)
        make_log(folder / "one", 1, 10 * given.shards)
        time.sleep(2.5)  # until the files count as settled
        for command in COMMANDS:
            right = run(command, folder / "one", ROOT, folder / "none")["found"]
            of_both: list[list[float]] = []
            for shards in counts:
                ours = folder / f"cache-{command}-{shards}"
                runs = {key: run(command, folder / f"many{shards}", tree, ours) for key, tree in trees.items()}
                assert all(one["found"] == right for one in runs.values()), command
                of_both.append([one["worked"] for one in runs.values()])
                said = ", ".join(f"{key} {one['seconds']:.1f} s ({one['worked']:.1f})" for key, one in runs.items())
                print(f"{command}, {shards:,} shards, seconds (of processor time): {said}")
            growth = ", ".join(f"{b / a:.1f}" for a, b in zip(*of_both, strict=True))
            said = f"; {of_both[1][2] / of_both[1][1]:.1f} times as fast as the other" if given.against else ""
            print(f"{command}: ten times the shards take {growth} times the processor time{said}")


if __name__ == "__main__":
    main()
