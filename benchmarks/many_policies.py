"""Claims about many policies at once: what all pairs cost, how often equal policies are told apart, and what the chosen
leader is worth.

Run with `python benchmarks/many_policies.py`. First the critical value is compared with one from multipliers of every
example, which it stands for. Then all pairs are timed. Then logs are drawn from policies whose rates are known, each is
summarised, and the claims are counted. `--runs` scales how many logs; `--timing` times alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass

import numpy as np
import polars as pl

from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.many.simultaneous import JointEstimates, claims_of_all_pairs, covariance_of
from toolkit.stats.metrics.spill import Floats

RATE = 0.7
SHARED = 0.9
"""Share of the examples on which policies of a sweep repeat what their base did."""


@dataclass(frozen=True)
class Setting:
    """One kind of log. `gap`: by how much one policy is better than the others."""

    policies: int
    examples: int
    runs: int
    sweep: bool = False
    gap: float = 0.0

    def log(self, seed: int) -> tuple[Floats, Floats]:
        """Outcomes (policies, examples) of one log, and the true rates (policies,)."""
        rng = np.random.default_rng([self.policies, self.examples, seed])
        rate = np.full(self.policies, RATE)
        rate[self.policies // 2] += self.gap
        drawn = rng.random((self.policies, self.examples)) < rate[:, None]
        if self.sweep:
            base = rng.random(self.examples) < RATE
            drawn = np.where(rng.random(drawn.shape) < SHARED, base, drawn)
        return drawn.astype(np.float64), rate


def checked() -> None:
    """The critical value must be that of the largest deviation under a multiplier for every example."""
    outcomes, _ = Setting(12, 400, 1, sweep=True).log(0)
    estimates, settings = _estimates(outcomes), Settings(resamples=20_000)
    influence = outcomes - outcomes.mean(axis=1, keepdims=True)
    drawn = influence @ np.random.default_rng(1).standard_normal((outcomes.shape[1], settings.resamples))
    first, second = np.triu_indices(len(outcomes), 1)
    apart = influence[first] - influence[second]
    sizes = np.abs(drawn[first] - drawn[second]) / np.sqrt((apart**2).sum(axis=1))[:, None]
    plain, ours = (
        float(np.quantile(sizes.max(axis=0), settings.level)),
        claims_of_all_pairs(estimates, settings).critical,
    )
    if abs(ours / plain - 1) > 0.02:
        raise SystemExit(f"critical value {ours:.3f}, with a multiplier for every example {plain:.3f}")
    print(f"critical value of 12 policies {ours:.3f}, with a multiplier for every example {plain:.3f}")


def timed(policies: int, examples: int, spread: float) -> None:
    """All pairs of so many policies, whose rates lie up to `spread` around the middle."""
    rng = np.random.default_rng(0)
    rate = RATE + spread * np.linspace(-1, 1, policies)[:, None]
    estimates = _estimates((rng.random((policies, examples)) < rate).astype(np.float64))
    start = time.process_time()
    found = claims_of_all_pairs(estimates, Settings())
    seconds = time.process_time() - start
    told = f"{found.differs.mean():.0%} of {len(found.differs):,} pairs told apart"
    print(f"{policies:,} policies x {examples:,} examples: {seconds:.1f} s of processor time, {told}")


def _estimates(outcomes: Floats) -> JointEstimates:
    value, size = outcomes.mean(axis=1), outcomes.shape[1]
    return JointEstimates(value, covariance_of([(outcomes - value[:, None]) / size]), outcomes.shape[1])


def told(setting: Setting, seed: int) -> list[float]:
    """Of one log: whether some pair is told apart by the ranks, some policy from the baseline; then of the leader the
    excess of its plain and its corrected value, whether the intervals of the two cover, the width of the second.
    """
    outcomes, rate = setting.log(seed)
    names = [f"p{i}" for i in range(setting.policies)]
    block = OutcomeBlock(np.empty(setting.examples, object), np.arange(setting.examples), {"correct": outcomes})
    found = summarise(lambda: iter([block]), names, baseline="p0", settings=Settings(resamples=1_000, seed=seed))
    ranks, truth = found.ranks.filter(metric="accuracy"), rate[names.index(str(found.leader))]
    plain = found.summary.filter(metric="accuracy", policy=found.leader).row(0, named=True)
    own = ranks.filter(policy=found.leader).row(0, named=True)
    return [
        ranks.select((pl.col("rank_low") > 1).any()).item(),
        ranks.select((pl.col("p_baseline") <= 0.05).any()).item(),
        plain["estimate"] - truth,
        own["corrected"] - truth,
        plain["low"] <= truth <= plain["high"],
        own["corrected_low"] <= truth <= own["corrected_high"],
        own["corrected_high"] - own["corrected_low"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=float, default=1.0, help="times as many logs (default: 1)")
    parser.add_argument("--timing", action="store_true", help="no simulations")
    options = parser.parse_args()
    checked()
    for policies, spread in ((20, 0.0), (200, 0.0), (1_000, 0.0), (1_000, 0.2)):
        timed(policies, 2_495, spread)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    settings = [
        Setting(policies, 500, runs, sweep)
        for policies, runs in ((2, 1_000), (20, 1_000), (200, 300), (1_000, 100))
        for sweep in (False, True)
    ]
    settings += [Setting(policies, 500, runs, gap=0.1) for policies, runs in ((2, 1_000), (20, 1_000), (200, 300))]
    columns = (
        "policies", "sweep", "gap", "logs", "some told apart %", "some p ≤ .05 %", "plain bias", "corrected bias",
        "plain covers %", "corrected covers %", "width",
    )  # fmt: skip
    if not options.timing:
        print("| " + " | ".join(columns) + " |\n" + "| --: " * len(columns) + "|")
    for setting in [] if options.timing else settings:
        runs = max(1, round(setting.runs * options.runs))
        means = 100 * np.array([told(setting, seed) for seed in range(runs)], float).mean(axis=0)
        shown = [f"{setting.policies:,}", "yes" if setting.sweep else "no", f"{100 * setting.gap:g}", f"{runs:,}"]
        shown += [f"{one:.1f}" for one in means[:2]] + [f"{one:+.2f}" for one in means[2:4]]
        shown += [f"{one:.1f}" for one in means[4:]]
        print("| " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
