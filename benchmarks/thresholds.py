"""1,000 margin thresholds on 2,495 claims x 15 traces: the engine against a plain loop over examples.

Run with `python benchmarks/thresholds.py`. The plain loop is timed on a few thresholds and scaled, and must
agree example by example before anything is timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from generate.simulation.grid import simulate
from replay import Margin, Sample
from replay.data.block import LogBlock
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.policies.base import Evaluator, needs_of_policies
from toolkit.log import open_log

COLUMNS = (
    "traces", "valid_traces", "finalizers", "truncated", "prompt_tokens", "completion_tokens", "verification_tokens",
    "generation_s", "verification_s", "latency_s", "device_s",
)  # fmt: skip
Row = tuple[float, ...]


def load(examples: int, traces: int, policies: list[Sample]) -> LogBlock:
    with tempfile.TemporaryDirectory() as folder:
        simulate(Path(folder) / "log", examples=examples, traces=traces, labels=3, seed=0)
        log = open_log(Path(folder) / "log")
        contents = read_contents(log)
        rows = log.scan("examples", ["example_id", "labels", "gold", "cluster"]).sort("example_id").collect()
        needs = needs_of_policies([policy.resolve(contents) for policy in policies], contents)
        return read_block(log, rows, BlockRequest(needs, None, None))


def plain(block: LogBlock, margin: float, pool_name: str, verifier: str) -> list[Row]:
    """Outcome of each example (correct, then COLUMNS), by walking its traces in turn."""
    pool, scores = block.pools[pool_name], block.pools[pool_name].scores[verifier]
    code, judged, score = (a.tolist() for a in (pool.code, pool.judged, scores.score))
    names = ("prompt_tokens", "completion_tokens", "finalizers", "truncated", "latency_s", "device_s")
    prompt, completion, finalizer, truncated, latency, device = (pool.costs[c].tolist() for c in names)
    names = ("verification_tokens", "latency_s", "device_s")
    check_tokens, check_latency, check_device = (scores.costs[c].tolist() for c in names)
    rows = []
    for e in range(len(code)):
        best: dict[int, float] = {}
        chosen, high, traces, verified = 0, float("-inf"), 0, 0
        prompts = completions = finalizers = cut = checks = generating = checking = busy = 0.0
        for t in range(len(code[e])):
            traces += 1
            prompts += prompt[e][t]
            completions += completion[e][t]
            finalizers += finalizer[e][t]
            cut += truncated[e][t]
            generating += latency[e][t]
            busy += device[e][t]
            if code[e][t] >= 0:
                verified += 1
                checks += check_tokens[e][t]
                checking += check_latency[e][t]
                busy += check_device[e][t]
                best[code[e][t]] = max(best.get(code[e][t], float("-inf")), score[e][t])
                if score[e][t] > high:
                    chosen, high = t, score[e][t]
            if verified >= 3:
                if len(best) == 1:
                    if verified >= 5:
                        break
                else:
                    first, second = sorted(best.values(), reverse=True)[:2]
                    if first - second >= margin - 1e-9:
                        break
        paid = (traces, verified, finalizers, cut, prompts, completions, checks, generating, checking)
        rows.append((judged[e][chosen], *paid, generating + checking, busy))
    return rows


def check(block: LogBlock, policies: list[Sample], thresholds: list[int]) -> None:
    outcomes = Evaluator(block, policies).outcomes()
    for number in thresholds:
        stop, done = policies[number].stop, outcomes[number]
        rows = np.array(plain(block, stop.margin, "n15", "strong"))  # type: ignore[attr-defined]
        found = np.stack([done.correct, *(done.cost(name) for name in COLUMNS)], axis=1)
        np.testing.assert_allclose(found, rows, rtol=1e-12, atol=1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2495)
    parser.add_argument("--thresholds", type=int, default=1000)
    parser.add_argument("--loops", type=int, default=5, help="thresholds timed with the plain loop")
    options = parser.parse_args()
    margins = np.linspace(0, 1, options.thresholds)
    policies = [
        Sample(name=f"{m}", pool="n15", max_traces=15, verifier="strong", stop=Margin(float(m))) for m in margins
    ]
    block = load(options.examples, 15, policies)
    sampled = np.linspace(0, options.thresholds - 1, options.loops).astype(int).tolist()
    check(block, policies, sampled)
    start = time.perf_counter()
    for number in sampled:
        plain(block, float(margins[number]), "n15", "strong")
    loop = (time.perf_counter() - start) / options.loops * options.thresholds
    engine = []
    for _ in range(5):
        fresh = block.slice_examples(0, len(block.examples))
        start = time.perf_counter()
        Evaluator(fresh, policies).outcomes()
        engine.append(time.perf_counter() - start)
    best, median = min(engine), float(np.median(engine))
    shape = f"{options.thresholds:,} thresholds x {options.examples:,} examples x 15 traces"
    print(f"{shape}; outcomes equal to the plain loop's on {options.loops} thresholds")
    print(f"plain loop  {loop:8.2f} s (timed on {options.loops} thresholds, scaled)")
    print(f"engine      {median:8.2f} s median of 5, {best:.2f} s best: {loop / median:.0f}x")
    print(pl.DataFrame({"engine_s": engine, "ratio": [loop / e for e in engine]}))


if __name__ == "__main__":
    main()
