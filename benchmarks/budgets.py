"""Every verifier budget of four orders on 2,495 claims x 50 traces, with 10,000 paired resamples.

Says nothing unless some of the budgets equal policies replayed one at a time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import polars as pl

from generate.simulation.claims import simulate_claims
from replay import Budget, Sample, run
from replay.analyses.budgets.budgets import ORDERS, budgets
from toolkit.features import CLAIM_FEATURES

FOUR = ("generation", "random", "surrogate", "score")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=10_000)
    options = parser.parse_args()
    orders = {name: ORDERS[name] for name in FOUR}
    with tempfile.TemporaryDirectory() as folder:
        log = simulate_claims(Path(folder) / "log", "quantemp", traces=options.traces)
        start = time.perf_counter()
        found = budgets(
            log,
            verifier="lora",
            max_traces=options.traces,
            features=CLAIM_FEATURES,
            orders=orders,
            resamples=options.resamples,
        )
        seconds = time.perf_counter() - start
        for k in (1, options.traces // 2):
            for name, keys in orders.items():
                own = {"features": CLAIM_FEATURES, **keys} if name == "surrogate" else dict(keys)
                alone = Sample(
                    name="alone", max_traces=options.traces, verifier="lora", stop=Budget(verifications=k), **own
                )  # type: ignore[arg-type]
                one = run(log, alone, resamples=1).summary.filter(pl.col("metric") == "macro_f1")["estimate"][0]
                same = found.by_k.filter(
                    (pl.col("order") == name) & (pl.col("k") == k) & (pl.col("metric") == "macro_f1")
                )
                if abs(one - same["estimate"][0]) > 1e-12:
                    raise SystemExit(f"{name}, k = {k}: {one} alone, {same['estimate'][0]} among all")
    print(f"{len(orders)} orders x {options.traces} budgets, 2,495 claims, {options.resamples:,} resamples, all pairs")
    print(f"{seconds:.1f} s, reading and checking of the log included")


if __name__ == "__main__":
    main()
