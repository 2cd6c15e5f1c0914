"""Work that must grow with its input alone: each is done on inputs of two sizes, one twice the other.

Run with `python benchmarks/linear.py`. It prints processor seconds and their ratio, 2 for linear growth, and fails
where one is above 3. Before that it checks results: boxes and patterns against what they should give, and runs with
thousands of labels that no gold has against the same runs without these labels.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import replay
from generate.simulation.grid import simulate_tables
from replay import Margin, Result, Sample
from toolkit.answers import boxed, read_answers
from toolkit.log import LogWriter, write_log
from toolkit.log.write.writer import sorted_blocks
from toolkit.notes import note
from toolkit.show import FrontierPoint, PolicyRow, RankedInput, frontier, ranked_table

MOST = 3.0
FINAL = r"(?i)final answer\**\s*:\s*\**\s*([^\n]*[^\s.*])"
"""The pattern of a shipped recipe, which Python reads in quadratic time where many blanks follow."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=5, help="the best of so many is taken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
        rows = []
        for name, size, unit, prepare in CASES:
            seconds = []
            for factor in (1, 2):
                work = prepare(size * factor, Path(folder))
                work()  # imports and caches
                seconds.append(min(timed(work) for _ in range(options.loops)))
            rows.append((name, f"{size:,} {unit}", *seconds, seconds[1] / seconds[0]))
    with pl.Config(tbl_rows=-1, fmt_str_lengths=60, tbl_width_chars=160, float_precision=3):
        print(pl.DataFrame(rows, schema=["what", "size", "seconds", "twice the size", "ratio"], orient="row"))
    worse = [row[0] for row in rows if row[4] > MOST]
    if worse:
        raise SystemExit(f"more than linear: {', '.join(worse)}")


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def check(folder: Path) -> None:
    text = r"\boxed{1} \boxed{\frac{1}{2}} \boxed{" + r"\boxed{" * 50
    assert boxed(text) == r"\frac{1}{2}"
    texts = ["Final answer: 7. ", "**Final answer:** a b\nFinal answer: **c**", "none"]
    found = read_answers(pl.Series(texts), ["pattern"], FINAL).to_list()
    assert found == [(re.findall(FINAL, text) or [None])[-1] for text in texts]
    few, many = (labelled(count, folder) for count in (3, 2_000))
    assert_frame_equal(many().summary, few().summary)


def boxes(size: int, folder: Path) -> Callable[[], object]:
    text = r"\boxed{" * size
    return lambda: boxed(text)


def pattern(size: int, folder: Path) -> Callable[[], object]:
    texts = pl.Series(["Final answer:" + " " * size])
    return lambda: read_answers(texts, ["pattern"], FINAL)


def backtracking(size: int, folder: Path) -> Callable[[], object]:
    texts = pl.Series(["a" * size])
    return lambda: read_answers(texts, ["pattern"], "(a+)+$x?b")


def labelled(size: int, folder: Path) -> Callable[[], Result]:
    """A run on 12 examples whose label space has `size` labels, three of which are gold."""
    made = simulate_tables(examples=12, traces=4, labels=3, seed=0)
    space = made["examples"]["labels"][0].to_list() + [f"label {i}" for i in range(size - 3)]
    made["examples"] = made["examples"].with_columns(labels=pl.Series([space] * 12))
    log = write_log(folder / f"labels-{size}", name="labels", tables=made, simulated=True)
    policies = [Sample(name=f"vote {cap}", pool="n4", max_traces=cap, select="majority") for cap in (3, 4)]
    return lambda: replay.run(log, policies, resamples=50)


def sweep(size: int, folder: Path) -> Callable[[], object]:
    """A run of `size` policies, most of which have a note of their own."""
    path = folder / "sweep"
    if not path.exists():
        write_log(path, name="sweep", tables=simulate_tables(examples=12, traces=4, labels=3, seed=0), simulated=True)
    policies = [
        Sample(name=f"p{i}", pool="n4", max_traces=4, verifier="strong", stop=Margin(i / size)) for i in range(size)
    ]
    return lambda: replay.run(path, policies, resamples=50)


def notes(size: int, folder: Path) -> Callable[[], object]:
    """The ranked table of `size` policies with a note on each."""
    names = [f"policy {i}" for i in range(size)]
    metrics = ("accuracy", "total_tokens", "calls")
    rows = [(name, metric, (i % 97) / 97, None, None, 50) for i, name in enumerate(names) for metric in metrics]
    summary = pl.DataFrame(rows, schema=["policy", "metric", "estimate", "low", "high", "n"], orient="row")
    ranked = RankedInput(
        summary=summary,
        comparisons=pl.DataFrame(
            schema=dict.fromkeys(("policy", "baseline", "metric"), pl.String)
            | dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64)
        ),
        policies=tuple(map(PolicyRow, names)),
        n=50,
        notes=tuple(note("about", f"`{name}`", [name], ["accuracy"]) for name in names),
    )
    return lambda: ranked_table(ranked).terminal(160)


def figure(size: int, folder: Path) -> Callable[[], object]:
    points = [
        FrontierPoint(f"policy {i}", 1_000 + i * 7 % 997, 0.4 + i * 13 % 503 / 1_000, low=0.3, high=0.95)
        for i in range(size)
    ]
    return lambda: frontier(points)


def states(size: int, folder: Path) -> Callable[[], object]:
    """Hidden states that lie in a shard for each example, sorted and cut into as many shards again."""
    path = folder / f"states-{size}"
    with LogWriter(path) as writer:
        for number in range(size):
            rows = {"trace_id": f"e{number:05d}/0", "example_id": f"e{number:05d}", "layer": -1, "token": range(-16, 0)}
            zeros = pl.Series("state", np.zeros((16, 8), dtype=np.float32), dtype=pl.Array(pl.Float32, 8))
            writer.append("hidden_states/tiny", pl.DataFrame(rows).with_columns(zeros))
    parts = writer.log().scans_by_shard("hidden_states/tiny")
    return lambda: [block.height for block in sorted_blocks(parts, "hidden_states/tiny", 16)]


CASES = (
    ("boxes that never close", 100_000, "boxes", boxes),
    ("a shipped pattern on blanks", 200_000, "characters", pattern),
    ("a pattern that would go back", 200_000, "characters", backtracking),
    ("F1 of labels that no gold has", 5_000, "labels", labelled),
    ("a run of many policies", 500, "policies", sweep),
    ("a table with a note on each policy", 1_000, "policies", notes),
    ("the frontier figure", 2_500, "policies", figure),
    ("adding hidden states", 200, "blocks", states),
)
"""What is measured, the smaller size, and what prepares it."""


if __name__ == "__main__":
    main()
