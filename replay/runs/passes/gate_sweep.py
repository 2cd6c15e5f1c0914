"""All thresholds of a gate at once: every distinct value of its signal, and `never` and `always`.

Both branches of each example are evaluated once. Examples are sorted by the signal, and every number at every threshold
is a cumulative sum; intervals and the band of the whole curve are taken at up to 200 of the thresholds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.outcome import COVERED
from replay.policies.base import Evaluator, Policy, SweptGate
from replay.runs.passes.example_set import ExampleSet, resampling_units
from replay.runs.passes.passes import ReplayPlan, outcome_values
from replay.runs.passes.ranges import over_blocks
from toolkit.columns import COLUMNS, find
from toolkit.errors import EmptyError
from toolkit.stats import Settings, unit_numbers
from toolkit.stats.curves.bands import GateSteps, MetricBand, bands_by_metric, metric_means
from toolkit.stats.metrics.strata import Strata

MOST_POINTS = 200
"""The most thresholds with intervals, evenly spread; never and always are among them."""
COMPARED = ("correct", *(column.name for column in COLUMNS if column.needs))
"""Columns that say what intervening does: correct, fix, flip, intervened."""
BANDED = (*COMPARED, "total_tokens")
AMONG, ACTED = "flips_among", "acted"
"""The metric of flips among the examples acted on, and the share acted on: equation 19 of Dip, Zhou and Zhang."""
CURVE = (*COMPARED, "action_tokens", "total_tokens", "calls", "latency_s")
SWEPT = frozenset((*CURVE, *BANDED))
"""Columns that the tables of a sweep need."""


@dataclass(frozen=True, eq=False)
class GateBranches:
    """Both branches of a `when` on the examples that it covers at every threshold, in example_id order.

    `signal` (N,): NaN where it fires whatever the threshold, because the base has no answer and no signal. `unfired`,
    `fired`: columns of outcomes (N,) where the gate does not fire and where it does.
    """

    ids: pl.Series
    unit: np.ndarray
    signal: np.ndarray
    below: bool
    unfired: Mapping[str, np.ndarray]
    fired: Mapping[str, np.ndarray]
    left_out: int
    examples: ExampleSet | None = None

    @property
    def strata(self) -> Strata | None:
        """The strata of the examples; None where it is not known which examples there are."""
        return None if self.examples is None else self.examples.resampling_units(self.examples.frame)[1]

    def with_ids(self, ids: pl.Series) -> GateBranches:
        """The branches on the examples with these ids."""
        mask = self.ids.is_in(ids.implode()).to_numpy()
        return replace(
            self, ids=self.ids.filter(pl.Series(mask)), unit=unit_numbers(self.unit[mask]), signal=self.signal[mask],
            examples=None if self.examples is None else self.examples.with_ids(ids),
            unfired={name: values[mask] for name, values in self.unfired.items()},
            fired={name: values[mask] for name, values in self.fired.items()},
        )  # fmt: skip

    def fires_at(self, threshold: float) -> np.ndarray:
        """Mask (N,) of the examples on which the gate fires at a threshold."""
        on = self.signal < threshold if self.below else self.signal >= threshold
        return on | np.isnan(self.signal)

    def thresholds(self) -> np.ndarray:
        """Every distinct threshold, from never to always; `inf` lies beyond every value."""
        values = np.unique(self.signal[~np.isnan(self.signal)])
        return np.append(values, np.inf) if self.below else np.append(values, np.inf)[::-1]

    def thresholds_at_shares(self, shares: int) -> np.ndarray:
        """Thresholds that act on 0, 1/n, 2/n … of the examples with a signal, each once, from never to always.

        The j-th acts on the ⌊j · N / n + 1/2⌋ examples at which the gate would first fire. Where the next ones have the
        same value as the last of these, `below` acts on none and `at_least` on all that have it.
        """
        values = np.sort(self.signal[~np.isnan(self.signal)])
        acted = (2 * np.arange(shares + 1) * len(values) + shares) // (2 * shares)
        if self.below:
            return np.unique(np.append(values, np.inf)[acted])
        return np.unique(np.append(np.inf, values[::-1])[acted])[::-1]

    def by_first_firing(self, thresholds: np.ndarray, columns: Iterable[str]) -> GateSteps:
        """Examples by the first of the thresholds, from never to always, at which the gate fires."""
        forced = np.isnan(self.signal)
        if self.below:  # fires where signal < threshold
            group = np.searchsorted(thresholds, self.signal, side="right")
        else:  # fires where signal >= threshold; thresholds descend
            group = np.searchsorted(-thresholds, -self.signal, side="left")
        names = [name for name in columns if name in self.unfired]
        base = {name: np.where(forced, self.fired[name], self.unfired[name]) for name in names}
        return GateSteps(
            group=np.where(forced, 0, group).astype(np.int64),
            unit=self.unit,
            base=base,
            fired={name: self.fired[name] for name in names},
            rate=frozenset(name for name in names if find(name).rate),
            least=len(thresholds) - 1,
            strata=self.strata,
        )


@dataclass(frozen=True, eq=False)
class BranchBlock:
    """Both branches of a `when` on a block: the signal on all examples (E,), the rest on those that both cover."""

    ids: pl.Series
    every_signal: np.ndarray
    covered: np.ndarray  # (E,) bool
    unfired: Mapping[str, np.ndarray]
    fired: Mapping[str, np.ndarray]


def branch_block(on: Evaluator, gate: SweptGate, columns: Collection[str] | None = None) -> BranchBlock:
    """Both branches of a `when` (resolved) on a block, with some columns of outcomes, by default all."""
    never, always = (on.outcome(branch) for branch in gate.never_and_always())
    covered = (never.reason == COVERED) & (always.reason == COVERED)
    base, fired = (
        {name: values for name, values in outcome_values(one, covered).items() if columns is None or name in columns}
        for one in (never, always)
    )
    return BranchBlock(
        on.block.examples["example_id"].filter(pl.Series(covered)), gate.signal(on), covered, base, fired
    )


def join_branches(parts: Sequence[BranchBlock], gate: SweptGate, examples: ExampleSet) -> GateBranches:
    """The branches of all blocks together. Raises ThinkbackError where no example has both."""
    ids = pl.concat([part.ids for part in parts])
    if ids.is_empty():
        raise gate.policy.refusal("no example of the log has what both of its branches need")
    rows = examples.with_ids(ids)
    return GateBranches(
        ids=ids, unit=unit_numbers(resampling_units(rows.frame)),
        signal=np.concatenate([part.every_signal[part.covered] for part in parts]), below=gate.falling,
        unfired={name: np.concatenate([part.unfired[name] for part in parts]) for name in parts[0].unfired},
        fired={name: np.concatenate([part.fired[name] for part in parts]) for name in parts[0].fired},
        left_out=sum(int((~part.covered).sum()) for part in parts), examples=rows,
    )  # fmt: skip


def replay_branches(plan: ReplayPlan, gate: SweptGate) -> GateBranches:
    """Replay both branches of a `when` (resolved) on the examples of a plan."""
    parts = over_blocks(plan, gate.never_and_always()[:1], partial(_branches_on, gate))
    return join_branches(list(parts), gate, plan.examples)


def _branches_on(gate: SweptGate, block: LogBlock) -> BranchBlock:
    return branch_block(Evaluator(block, gate.never_and_always()), gate)


def threshold_means(branches: GateBranches, columns: Iterable[str] = CURVE) -> pl.DataFrame:
    """Every distinct threshold with the exact mean of every column, from never to always.

    Columns: threshold, then accuracy, fix_rate, flip_rate, intervention_rate and the costs, null where not known.
    """
    thresholds = branches.thresholds()
    steps = branches.by_first_firing(thresholds, columns)
    values = {str(find(name).metric): pl.Series(metric_means(steps, name), nan_to_null=True) for name in steps.base}
    return pl.DataFrame({"threshold": thresholds, **values})


def spread_places(count: int, most: int = MOST_POINTS) -> np.ndarray:
    """Places of at most `most` of `count` thresholds, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def band_table(branches: GateBranches, settings: Settings, thresholds: np.ndarray | None = None) -> pl.DataFrame:
    """Estimates at some thresholds, with pointwise limits and limits for the whole curve, one row a metric.

    `thresholds` run from never to always; by default they are up to 200 of all. Columns: threshold, metric, estimate,
    low, high, band_low, band_high, n (examples that the metric is known of). The metric `flips_among` is the flip rate
    among the examples acted on.
    """
    every = branches.thresholds()
    thresholds = every[spread_places(len(every))] if thresholds is None else thresholds
    metric_bands = _zero_rates_at_never(
        bands_by_metric(_with_flips_among_acted_on(branches.by_first_firing(thresholds, BANDED)), settings)
    )
    frames = [
        pl.DataFrame(
            {
                "threshold": thresholds,
                "metric": [find(name).metric] * len(thresholds),
                **{key: getattr(band, key) for key in ("estimate", "low", "high", "band_low", "band_high")},
                "n": [band.n] * len(thresholds),
            },
            nan_to_null=True,
        )
        for name, band in metric_bands.items()
        if name != ACTED
    ]
    return pl.concat(frames)


def _zero_rates_at_never(metric_bands: Mapping[str, MetricBand]) -> dict[str, MetricBand]:
    """Bands whose rates at the first threshold, never, are exactly 0: there is no intervention."""
    acts = metric_bands["intervened"].estimate
    never = (np.arange(len(acts)) == 0) & (acts == 0)
    result = dict(metric_bands)
    for name in ("fix", "flip", "intervened"):
        if name in metric_bands:
            band = metric_bands[name]
            still = never & (band.estimate == 0)
            low, high, band_low, band_high = (
                np.where(still, 0.0, ends) for ends in (band.low, band.high, band.band_low, band.band_high)
            )
            result[name] = replace(band, low=low, high=high, band_low=band_low, band_high=band_high)
    return result


def _with_flips_among_acted_on(steps: GateSteps) -> GateSteps:
    if "flip" not in steps.base:
        return steps
    unjudged = np.isnan(steps.base["flip"]) | np.isnan(steps.fired["flip"])
    base, fired = (
        {**side, ACTED: np.where(unjudged, np.nan, side["intervened"])} for side in (steps.base, steps.fired)
    )
    return replace(steps, base=base, fired=fired, rate=steps.rate | {ACTED}, among={AMONG: ("flip", ACTED)})


@dataclass(frozen=True, eq=False)
class ThresholdSweep:
    """A policy with several thresholds: both of its branches, and the thresholds that are compared.

    `size`: how many there are to choose from.
    """

    gate: SweptGate
    branches: GateBranches
    thresholds: np.ndarray
    size: int

    @classmethod
    def sweep_of_gate(cls, gate: SweptGate, branches: GateBranches) -> ThresholdSweep:
        """The sweep of a gate's thresholds: at equal shares of the examples, or up to 200 evenly spread ones."""
        if gate.shares is not None:
            thresholds = branches.thresholds_at_shares(gate.shares)
            return cls(gate, branches, thresholds, len(thresholds))
        every = branches.thresholds()
        return cls(gate, branches, every[spread_places(len(every))], len(every))

    def policies(self) -> Iterator[Policy]:
        """The policies with one of the thresholds each."""
        policy, size = self.gate.policy, self.size
        key = "below" if self.gate.falling else "at_least"
        for threshold in self.thresholds:
            name, setting = f"{policy.name}[gate.{key}={float(threshold)!r}]", ((f"gate.{key}", float(threshold)),)
            yield replace(self.gate.at(threshold), name=name, sweep=policy.name, sweep_size=size, swept=setting)

    def sweep_frames(self, excluded: Collection[str], settings: Settings) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The tables of all thresholds on the examples that a run compares, those not `excluded`.

        The curve has a row per (policy, threshold), with the examples (`n`) and those of them that are judged
        (`judged`); the bands per (policy, threshold, metric), with the examples that the metric is known of.
        """
        ids = self.branches.ids
        branches, of = self.branches.with_ids(ids.filter(~ids.is_in(list(excluded)))), pl.lit(self.gate.policy.name)
        judged = int(np.isfinite(branches.unfired["correct"] + branches.fired["correct"]).sum())
        table = threshold_means(branches).select(
            of.alias("policy"), pl.all(), n=pl.lit(len(branches.ids)), judged=pl.lit(judged)
        )
        return table, band_table(branches, settings, self.thresholds).select(of.alias("policy"), pl.all())


def sweep_tables(
    sweeps: Iterable[ThresholdSweep], excluded: Collection[str], settings: Settings
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """The tables of several sweeps together; None without any."""
    tables = [sweep.sweep_frames(excluded, settings) for sweep in sweeps]
    if not tables:
        return None, None
    return pl.concat([table for table, _ in tables], how="diagonal"), pl.concat([band for _, band in tables])


def best_threshold(table: pl.DataFrame, below: bool) -> float:
    """The threshold of a curve with the highest accuracy.

    Ties: fewer action tokens, then fewer flips, then fewer interventions, then the higher one for `at_least`, the
    lower one for `below`. Raises ThinkbackError where nothing is judged.
    """
    if table["accuracy"].null_count() == len(table):
        raise EmptyError("no example is judged, so no threshold can be chosen")
    keys = [-table["accuracy"], table["action_tokens"].fill_null(0.0), table["flip_rate"], table["intervention_rate"]]
    rounded = [np.round(key.to_numpy(), 10) for key in keys]
    last = table["threshold"].to_numpy() * (1 if below else -1)
    return float(table["threshold"][int(np.lexsort((last, *reversed(rounded)))[0])])
