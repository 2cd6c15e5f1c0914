"""Record what a version of the program writes, and compare two recordings number by number.

    python -m tests.equal record OUT [--tree FOLDER] [--only PART] [--resume]
    python -m tests.equal compare BEFORE AFTER

`record` runs the steps of `steps.py` with the packages of `--tree` (default: this checkout). `compare` ends with 1
where a number, a row, a column or a file differs, and lists texts that differ without failing.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import polars as pl

from tests.equal.exceptions import COLUMNS, FILES, LINES, MEASURED, NEAR, NEAR_COLUMNS, NEAR_FILES
from tests.equal.steps import steps

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
ENDING = re.compile(r"^exit (\d+)$", re.MULTILINE)
TEXTS = {".md", ".csv", ".tex", ".txt", ".toml", ".json", ".jsonl"}
SHOWN = 200


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was; `words`: in sentences alone."""

    place: str
    before: str
    after: str
    words: bool = False


def record(tree: Path, out: Path, only: str, resume: bool = False) -> None:
    """Run every step with the packages of `tree`, and keep what each prints beside what it writes.

    `resume` leaves out the steps that a recording has: a step that was stopped has printed nothing and runs again.
    """
    out.mkdir(parents=True, exist_ok=True)
    places = {"data": tree / "data", "out": out}
    environment = os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "160", "NO_COLOR": "1"}
    for name, words in steps(os.environ.get("THINKBACK_LOGS", "")).items():
        printed_file = out / f"{name}.printed.txt"
        if only not in name or (resume and printed_file.exists()):
            continue
        started = time.monotonic()
        line = [sys.executable, "-m", "thinkback", *(word.format(**places) if "{" in word else word for word in words)]
        if "--out" in line and words[0] != "generate":
            line.append("--force")
        done = subprocess.run(line, cwd=out, env=environment, capture_output=True, text=True, check=False)
        printed = (done.stdout + done.stderr).replace(str(out), "OUT").replace(str(tree), "TREE")
        printed_file.write_text(f"exit {done.returncode}\n{printed}", encoding="utf-8")
        print(f"{name}: exit {done.returncode}, {time.monotonic() - started:.1f} s", flush=True)


def differences(before: Path, after: Path) -> Iterator[Difference]:
    """All that differs, file by file."""
    names = {
        path.relative_to(root).as_posix() for root in (before, after) for path in root.rglob("*") if path.is_file()
    }
    for name in sorted(names):
        if any(fnmatch(name, pattern) for pattern in FILES):
            continue
        one, other = before / name, after / name
        if not (one.exists() and other.exists()):
            yield Difference(name, "there" if one.exists() else "missing", "there" if other.exists() else "missing")
        elif one.suffix == ".parquet":
            yield from _tables(name, pl.read_parquet(one), pl.read_parquet(other))
        elif one.suffix in TEXTS:
            yield from _texts(name, one.read_text(encoding="utf-8"), other.read_text(encoding="utf-8"))
        elif one.read_bytes() != other.read_bytes():
            yield Difference(name, "bytes", "other bytes")


def _tables(name: str, one: pl.DataFrame, other: pl.DataFrame) -> Iterator[Difference]:
    if one.columns != other.columns:
        yield Difference(f"{name}: columns", str(one.columns), str(other.columns))
    if one.height != other.height:
        yield Difference(f"{name}: rows", str(one.height), str(other.height))
        return
    measured = {column for pattern, columns in MEASURED.items() if fnmatch(name, pattern) for column in columns}
    for column in one.columns:
        if column in COLUMNS or column in measured or column not in other.columns:
            continue
        left, right = one[column], other[column]
        if left.dtype != right.dtype:
            yield Difference(f"{name}: {column}", str(left.dtype), str(right.dtype))
        elif column in NEAR_COLUMNS and left.dtype.is_float() and _near(left, right):
            continue
        elif not left.equals(right, null_equal=True):
            apart = [row for row, pair in enumerate(zip(left, right, strict=True)) if repr(pair[0]) != repr(pair[1])]
            if apart:
                row = apart[0]
                words = left.dtype == pl.String and NUMBER.findall(left[row] or "") == NUMBER.findall(right[row] or "")
                place = f"{name}: {column}, row {row} and {len(apart) - 1} more"
                yield Difference(place, repr(left[row]), repr(right[row]), words)


def _texts(name: str, one: str, other: str) -> Iterator[Difference]:
    """Lines that differ: in their numbers, or in their words alone."""
    one, other = (
        "\n".join(line for line in text.splitlines() if not any(map(line.__contains__, LINES))) for text in (one, other)
    )
    if one == other:
        return
    endings = ENDING.search(one), ENDING.search(other)
    if endings[0] and endings[1] and endings[0][1] != endings[1][1]:
        yield Difference(f"{name}: exit", one[:300], other[:300])
        return
    left, right = NUMBER.findall(one), NUMBER.findall(other)
    if any(fnmatch(name, pattern) for pattern in NEAR_FILES):
        values = [pl.Series(FLOAT.findall(text), dtype=pl.String).cast(pl.Float64) for text in (one, other)]
        left = right if len(values[0]) == len(values[1]) and _near(*values) else left
    if left == right:
        yield Difference(name, "words", "other words", words=True)
        return
    lines = list(zip(one.splitlines(), other.splitlines(), strict=False))
    for number, (mine, theirs) in enumerate(lines, 1):
        if NUMBER.findall(mine) != NUMBER.findall(theirs):
            yield Difference(f"{name}:{number}", mine, theirs)
            return
    yield Difference(name, f"{len(one.splitlines())} lines", f"{len(other.splitlines())} lines")


def _near(one: pl.Series, other: pl.Series) -> bool:
    """Whether two columns have the same nulls, and numbers that differ by less than `NEAR` of themselves."""
    close = ((one - other).abs() <= NEAR * one.abs()) | one.eq_missing(other) | (one.is_nan() & other.is_nan())
    return bool(close.fill_null(False).all())


def main() -> int:
    """The command line of this script."""
    parser = argparse.ArgumentParser(prog="python -m tests.equal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--tree", type=Path, default=ROOT)
    recording.add_argument("--only", default="", help="steps whose name has this in it")
    recording.add_argument("--resume", action="store_true", help="leave out the steps that OUT has")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    asked = parser.parse_args()
    if asked.command == "record":
        record(asked.tree.resolve(), asked.out.resolve(), asked.only, asked.resume)
        return 0
    every = list(differences(asked.before, asked.after))
    numbers = [one for one in every if not one.words]
    for one in [*numbers, *(one for one in every if one.words)][:SHOWN]:
        print(f"{'words' if one.words else 'DIFFERS'}  {one.place}")
        print(f"    before: {one.before[:300]}\n    after:  {one.after[:300]}")
    print(f"{len(numbers)} differences in numbers, {len(every) - len(numbers)} in words alone")
    return bool(numbers)


if __name__ == "__main__":
    sys.exit(main())
