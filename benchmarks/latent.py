"""A verifier on hidden states that are larger than memory: seconds, rows and peak memory of its training, and the
processor time of scoring against pyarrow and XGBoost alone.

Run with `python benchmarks/latent.py`: trained on 5,000 traces at 80 places of 4,096 numbers, 3.3 GB in half precision;
a tenth as many traces of other questions are scored besides. The states are planted, so that the trained verifier must
beat chance. Scoring is compared in one process with reading the same shards by pyarrow and `inplace_predict` on their
half-precision rows, whose scores must be equal; it fails where it takes more than 1.5 times the processor time, or
training more than 8 GB. Training runs in a process of its own. `--log` keeps the simulated log for another time.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import xgboost

from generate.simulation.planted import STATES, PlantedModel, simulate_planted
from replay.latent.fitting import fit_verifier, score_rows
from replay.latent.model_rows import ModelRows, find_states, read_traces
from replay.latent.models import MODELS, VerifierSettings
from toolkit.log import collect, open_log
from toolkit.stats import auc

VOTES = 8
MOST_RATIO, MOST_BYTES = 1.5, 8 * 10**9
GROWN_ON = 4_000
"""Rows on which the trees are grown whose scoring is compared."""


def train(path: Path, questions: int, folds: int) -> dict[str, float]:
    """Fit on the first questions, and score the others, with folds these too."""
    settings = VerifierSettings("latent", folds=folds)
    log = open_log(path)
    last = collect(log.scan("examples", ["example_id"]), log)["example_id"].sort()[questions - 1]
    began, cpu = time.monotonic(), time.process_time()
    fitted = fit_verifier(log, f"example_id <= '{last}'", settings)
    right = collect(log.scan("traces", ["trace_id", "correct"]), log)
    told = fitted.scores.join(right, on="trace_id")
    return {
        "rows": fitted.rows,
        "seconds": time.monotonic() - began,
        "processor": time.process_time() - cpu,
        "training": fitted.seconds["training"],
        "scoring": fitted.seconds["scoring"],
        "auc": auc(told["score"], told["correct"]),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def shard_states(file: str) -> np.ndarray:
    """The states of a shard (n, d), read as a whole, as one would without a log."""
    column = pq.read_table(file)["state"].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


def grow(file: str) -> xgboost.Booster:
    """Trees of the default size on the first rows of a shard, for labels that a direction tells."""
    states = shard_states(file)[:GROWN_ON].astype(np.float32)
    labels = states @ np.random.default_rng(0).normal(size=states.shape[1]) > 0
    data = xgboost.QuantileDMatrix(states, labels)
    return xgboost.train({"objective": "binary:logistic", "max_depth": 5, "eta": 0.1}, data, 30)


def plain(files: list[str], booster: xgboost.Booster) -> np.ndarray:
    """Scores of all rows by pyarrow and XGBoost alone."""
    return np.concatenate([booster.inplace_predict(shard_states(file)) for file in files])


def ours(path: Path, booster: xgboost.Booster) -> np.ndarray:
    """The same from the log, in the order of its rows."""
    log = open_log(path)
    traces = read_traces(log, [], ())
    size = len(traces.right)
    states, _ = find_states(log, STATES, (), (), traces.keys["trace_id"])
    table = np.full((size, len(states.places)), np.nan)
    scorer = MODELS["xgboost"].scorer(json.loads(booster.save_raw("json")))
    score_rows(
        ModelRows(traces, states, np.ones(size, bool), with_places=False), [scorer], np.zeros(size, np.int64), table
    )
    return np.concatenate([table[trace, place] for _, _, trace, place in states.groups])


def compare(path: Path, repeats: int) -> list[tuple[float, float]]:
    """Processor seconds of both, in turn; their scores must be equal."""
    log = open_log(path)
    files = [shard.path for shard in log.shards[f"hidden_states/{STATES}"]]
    booster, times = grow(files[0]), []
    ours(path, booster)  # the shards are hashed once, as by whatever reads a log first
    for _ in range(repeats):
        marks, found = [time.process_time()], []
        for made in (lambda: plain(files, booster), lambda: ours(path, booster)):
            found.append(made())
            marks.append(time.process_time())
        if not np.allclose(*found, atol=1e-6):
            sys.exit("the scores differ")
        times.append((marks[1] - marks[0], marks[2] - marks[1]))
    return times


def measure(path: Path, asked: argparse.Namespace) -> None:
    """Both comparisons on a log, which is made where it is missing; exits where a limit is passed."""
    questions = -(-asked.traces // VOTES)
    if not path.exists():
        model = PlantedModel(dimensions=asked.dimensions, places=asked.places, signal=2.0)
        simulate_planted(path, examples=questions + -(-questions // 10), traces=VOTES, model=model)
    size = sum(Path(shard.path).stat().st_size for shard in open_log(path).shards[f"hidden_states/{STATES}"])
    print(f"{asked.traces:,} traces and others x {asked.places} places x {asked.dimensions:,}: {size / 1e9:.2f} GB")
    command = [sys.executable, __file__, "--train", str(path), str(questions), str(asked.folds)]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(
        f"training: {told['rows']:,} rows, {told['training']:.0f} s, scoring {told['scoring']:.0f} s; in all "
        f"{told['seconds']:.0f} s, {told['processor']:.0f} s of processor time, peak memory "
        f"{told['peak'] / 1e9:.2f} GB; AUC of what was scored {told['auc']:.3f}",
        flush=True,
    )
    times = compare(path, asked.repeats)
    for one, other in times:
        print(f"scoring: pyarrow and inplace_predict {one:.1f} s of processor time, from the log {other:.1f} s")
    ratio = statistics.median(other / one for one, other in times)
    print(f"ratio {ratio:.2f} (median of {len(times)})")
    if ratio > MOST_RATIO or told["peak"] > MOST_BYTES or told["auc"] < 0.55:
        sys.exit("more than it may take")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=5_000)
    parser.add_argument("--places", type=int, default=80)
    parser.add_argument("--dimensions", type=int, default=4_096)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--log", type=Path, help="where the simulated log is kept")
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train is not None:
        path, questions, folds = asked.train
        print(json.dumps(train(Path(path), int(questions), int(folds))))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(asked.log or Path(folder) / "log", asked)


if __name__ == "__main__":
    main()
