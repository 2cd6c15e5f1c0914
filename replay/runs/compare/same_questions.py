"""How a run would vary if its questions were sampled again: limits of accuracies and of differences over samples alone.

A question's exact mean over the orders of its N traces is taken anew without each of them. The jackknife of these adds
up over questions: the variance of an accuracy is Σ w² (N − 1)/N Σ (U(−a) − mean)² / (Σ w)², w what a question counts.
Of means over K random orders the orders' own luck would count N − 1 times: there the deviations of one half of the
orders are multiplied with those of the other, and the variance between the halves is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.outcome import COVERED
from replay.policies.base import Evaluator, Policy
from replay.runs.passes.passes import ReplayPlan, read_blocks
from replay.runs.saved.findings import RunSource
from toolkit.show import SIMULATED, IntervalCell, NameForm, NumberWithInterval, Table, TableColumn
from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.many.compare import ACCURACY
from toolkit.stats.many.simultaneous import MOST_PAIRED
from toolkit.stats.metrics.spill import Floats, Ints

DRAWN, FIXED = QUESTIONS = ("drawn", "fixed")
"""Whether a run's questions are drawn from many others, or are themselves the ones that are meant."""
SAME_QUESTIONS = "same_questions.parquet"
"""The file of a saved result with these limits."""
SCHEMA = {
    "policy": pl.String, "other": pl.String, "estimate": pl.Float64, "error": pl.Float64, "varied": pl.Int64,
    "unknown": pl.String,
}  # fmt: skip
OTHER_SAMPLES = "These questions, other samples"
AGAIN = (
    "In brackets {:g} % intervals of what these questions give over all samples; one other run of as many samples may "
    "lie 1.4 times as far off."
)
TWO_RUNS = 2**0.5
"""How many times as far as the mean over all samples one other run lies: the samples of both runs are luck."""
FEW_VARIED = 20
"""Limits are marked where fewer questions than this vary between samples."""
FEWEST_VARIED, ROUNDING = 2, 1e-12
ONE_ORDER = "a policy in the logged order needs `expected = true` or `orders`"
NO_ANSWER, NO_SAMPLES = "a policy gives no answer", "a policy reads rows that are no samples of a question"
FEW_TRACES = "a policy takes all traces of some question"
WHOLE = "a policy's pool depends on how many traces there were"
ALIKE = "hardly any question's samples make a difference"
MANY = f"there are more than {MOST_PAIRED:,} policies: name some"
NOT_SAVED = "the result lacks these questions: replay with `--questions fixed`, or save it with `questions=True`"


@dataclass(frozen=True)
class SampleVariation:
    """A value on the same questions, with its limits over other samples; `why` says why there are none."""

    estimate: float | None
    low: float | None
    high: float | None
    marked: bool
    why: str = ""

    @property
    def cell(self) -> IntervalCell | None:
        """The value as a table's cell; None for a dash."""
        if self.estimate is None or self.low is None or self.high is None:
            return None
        return IntervalCell(self.estimate, self.low, self.high, "†" * self.marked)


@dataclass(frozen=True, eq=False)
class SameQuestions:
    """Standard errors of accuracies and differences over other samples of the same questions.

    `frame`: policy, other (null: of the policy alone, else of its difference to the other), estimate, error, varied (of
    how many questions the samples make a difference), unknown (why there is no error).
    `quality`: what the mean of right answers is called.
    """

    frame: pl.DataFrame
    level: float
    log_name: str
    simulated: bool
    called: Mapping[str, str]
    quality: str = ACCURACY

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def variation_of(self, policy: str, other: str | None = None, *, another_run: bool = False) -> SampleVariation:
        """A policy's accuracy, or its difference to `other`, with limits of what the questions give over all samples;
        with `another_run` with limits of what one other run of as many samples gives.
        """
        for first, second, sign in ((policy, other, 1.0), (other, policy, -1.0)):
            rows = self.frame.filter(pl.col("policy").eq_missing(first), pl.col("other").eq_missing(second))
            for _, _, estimate, error, varied, unknown in rows.iter_rows():
                wider = None if error is None else error * (TWO_RUNS if another_run else 1)
                return self._limits_over_samples(
                    sign * estimate if estimate is not None else None, wider, varied, unknown, other
                )
        whys = [self.variation_of(one).why for one in (policy, other) if one is not None] if other is not None else []
        return SampleVariation(None, None, None, False, next((why for why in whys if why), NOT_SAVED))

    def _limits_over_samples(
        self, estimate: float | None, error: float | None, varied: int, unknown: str | None, other: str | None
    ) -> SampleVariation:
        if estimate is None or error is None:
            return SampleVariation(estimate, None, None, False, unknown or ALIKE)
        half, least = NORMAL.inv_cdf((1 + self.level) / 2) * error, 0.0 if other is None else -1.0
        return SampleVariation(estimate, max(estimate - half, least), min(estimate + half, 1.0), varied < FEW_VARIED)

    def variation_phrase(self, policy: str, other: str | None = None) -> str:
        """A policy's accuracy in per cent, or its difference in points, with limits of it and of one other run, in
        words; or a dash and why.
        """
        value = self.variation_of(policy, other)
        what = " less ".join(f"`{self.called.get(one, one)}`" for one in (policy, other) if one is not None)
        run = self.variation_of(policy, other, another_run=True)
        if value.cell is None or run.cell is None:
            return f"{what} – ({value.why})"
        form = NumberWithInterval(1, 100, other is not None)
        (number, bracket, rest), (*_, again) = (form.show(one).partition(" [") for one in (value.cell, run.cell))
        unit, points = (" %", "") if other is None else ("", " points")
        return f"{what} {number}{unit}{bracket}{rest}{points} (one other run [{again.rstrip('†')})"

    def sentence(self, *phrases: str) -> str:
        """A sentence on what other samples would show of some policies."""
        return f"{OTHER_SAMPLES}, {self.quality}: {'; '.join(phrases)}."

    def table(self, baseline: str | None = None, limit: int | None = None) -> Table:
        """Accuracies, the best first, with differences to a `baseline` if there is one; at most `limit` policies."""
        alone = self.frame.filter(pl.col("other").is_null()).sort(
            "estimate", descending=True, nulls_last=True, maintain_order=True
        )
        form = NumberWithInterval(1, 100)
        columns = [TableColumn("policy", NameForm(self.called)), TableColumn(f"{self.quality} %", form, ACCURACY)]
        columns += [TableColumn("Δ points", replace(form, signed=True), "difference")] if baseline else []
        rows, whys = [], dict[str, list[str]]()
        for name in alone["policy"].head(limit if limit is not None else alone.height):
            cells = [self.variation_of(name), *([self.variation_of(name, baseline)] if baseline else [])]
            if cells[0].why:
                whys.setdefault(cells[0].why, []).append(self.called.get(name, name))
            rows.append((name, *(None if name == baseline and place else one.cell for place, one in enumerate(cells))))
        marked = any("†" in cell.mark for row in rows for cell in row[1:] if isinstance(cell, IntervalCell))
        below = [
            *([AGAIN.format(100 * self.level)] if len(rows) > sum(map(len, whys.values())) else []),
            *(f"No interval of {len(names)} of {len(rows)} rows: {why}." for why, names in whys.items()),
            *([f"†: fewer than {FEW_VARIED} questions whose samples make a difference."] if marked else []),
        ]
        if baseline:
            below.insert(0, f"Δ: to {self.called.get(baseline, baseline)}.")
        title = f"{OTHER_SAMPLES}: {self.log_name}"
        above, marks = ((SIMULATED,), (("simulated", "true"),)) if self.simulated else ((), ())
        return Table(title, tuple(columns), tuple(rows), above=above, below=tuple(below), marks=marks)


def _why_variation_unknown(policy: Policy, whole: Collection[str]) -> str:
    """Why it is not known what other samples would give of a policy; empty where it is."""
    if not policy.answers_from_samples:
        return NO_SAMPLES if policy.answers else NO_ANSWER
    return ONE_ORDER if not policy.pool_drawn_from else WHOLE if policy.pool_drawn_from in whole else ""


def same_questions(source: RunSource, policies: Sequence[Policy]) -> pl.DataFrame:
    """The frame of `SameQuestions` for some policies of a run and all pairs of them, from one pass over the log."""
    whole = source.plan.contents.whole
    why = [_why_variation_unknown(policy, whole) for policy in policies]
    known = [one for one, reason in zip(policies, why, strict=True) if not reason]
    if len(known) > MOST_PAIRED:
        known, why = [], [reason or MANY for reason in why]
    sums = None
    if known:
        _, strata = source.plan.examples.resampling_units(source.plan.examples.frame)
        even = np.ones(len(source.plan.examples.frame))
        weight = even if strata is None or strata.weight is None else strata.weight
        sums = SampleSums.sums_over_blocks(_blocks_of_few_examples(source.plan, known), known, weight)
    rows = [(one.name, None, None, None, None, reason) for one, reason in zip(policies, why, strict=True) if reason]
    others = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return others if sums is None else pl.concat([sample_variation_rows(known, sums), others])


def sample_variation_rows(policies: Sequence[Policy], sums: SampleSums) -> pl.DataFrame:
    """The rows of the frame for policies and all pairs of them, from the sums over questions."""
    rows: list[tuple[object, ...]] = []
    for number, one in enumerate(policies):
        short = FEW_TRACES if sums.lacking[number] else ""
        rows.append((one.name, None, *sums.accuracy_and_error(number, short), short or None))
    able = [(number, one.name) for number, one in enumerate(policies) if not sums.lacking[number]]
    for (one_place, first), (other_place, second) in itertools.combinations(able, 2):
        rows.append((first, second, *sums.difference_and_error(one_place, other_place), None))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@dataclass
class SampleSums:
    """Sums over questions for P policies: of values, of covariances (P, P) over samples, and of how many questions vary
    between samples for one of two policies.
    """

    weight: float
    value: Floats
    covariance: Floats
    varied: Floats
    lacking: np.ndarray  # (P,) bool: some question has too few traces

    @classmethod
    def sums_over_blocks(cls, parts: Iterable[LogBlock], policies: Sequence[Policy], weight: Floats) -> SampleSums:
        """The sums over all blocks; `weight` (N,) says how much each example counts."""
        size, start = len(policies), 0
        pairs = np.zeros((size, size))
        sums = cls(0.0, np.zeros(size), pairs, pairs.copy(), np.zeros(size, bool))
        for block in parts:
            sums._add_sums_of_block(block, policies, weight[start : start + len(block.examples)])
            start += len(block.examples)
        return sums

    def _add_sums_of_block(self, block: LogBlock, policies: Sequence[Policy], weight: Floats) -> None:
        halves = _HalvesOfOrders.halves_of_policies(policies)
        first, second = halves.correctness_of_halves(block)
        judged = np.asarray(~np.isnan(first + second).any(axis=0))
        weight = np.where(judged, weight, 0.0)
        self.weight += float(weight.sum())
        self.value += halves.mean_of_halves(np.nan_to_num(first), np.nan_to_num(second)) @ weight
        # By how much the mean over the orders that were drawn deviates from that over all.
        apart = halves.half_difference_factor * np.where(judged, first - second, 0.0) * weight
        self.covariance += apart @ apart.T
        varied = np.zeros(first.shape, bool)
        for pool in sorted({policy.pool_drawn_from for policy in policies}):
            mine = np.flatnonzero([one.pool_drawn_from == pool for one in policies])
            one, other = self._leave_one_out_changes(block, pool, halves.policies_at_places(mine), mine, judged)
            varied[mine] = (np.abs(one) > ROUNDING).any(axis=1)
            shape = len(mine), one.shape[1] * one.shape[2]
            cross = (one * weight).reshape(shape) @ (other * weight).reshape(shape).T
            self.covariance[np.ix_(mine, mine)] += (cross + cross.T) / 2
        alike = (~varied).astype(np.float64)
        self.varied += len(weight) - alike @ alike.T

    def _leave_one_out_changes(
        self, block: LogBlock, pool: str, halves: _HalvesOfOrders, places: Ints, judged: np.ndarray
    ) -> tuple[Floats, Floats]:
        """How leaving out one trace changes correctness, times √((N − 1)/N), for both halves of orders: (policies,
        traces, examples) each.
        """
        logged = block.pools[pool]
        size, traces = logged.size, logged.code.shape[1]
        moved = np.zeros((2, len(places), traces, len(size)))
        for index in range(traces):
            there, able = (index < size) & judged, np.flatnonzero(~self.lacking[places])
            if there.any() and len(able):
                values = halves.policies_at_places(able).correctness_of_halves(
                    replace(block, pools={**block.pools, pool: logged.without_sample_index(index)})
                )
                self.lacking[places[able]] |= (np.isnan(values[0] + values[1]) & there).any(axis=1)
                moved[:, able, index] = np.nan_to_num(values)
        there, count = np.arange(traces)[:, None] < size, np.maximum(size, 1)
        moved -= np.where(there, moved, 0.0).sum(axis=2, keepdims=True) / count
        moved *= there * np.sqrt((count - 1) / count)
        return moved[0], moved[1]

    def accuracy_and_error(self, number: int, short: str) -> tuple[float | None, float | None, int]:
        """The accuracy of one policy, its standard error, and how many questions vary between samples."""
        estimate = float(self.value[number] / self.weight) if self.weight else None
        varied = 0 if short else int(self.varied[number, number])
        error = None if short else self._standard_error(self.covariance[number, number], varied)
        return estimate, error, varied

    def difference_and_error(self, one: int, other: int) -> tuple[float | None, float | None, int]:
        """The difference between two policies, its standard error, and how many questions vary between samples."""
        variance = self.covariance[[one, other], [one, other]].sum() - 2 * self.covariance[one, other]
        varied = int(self.varied[one, other])
        estimate = float((self.value[one] - self.value[other]) / self.weight) if self.weight else None
        return estimate, self._standard_error(variance, varied), varied

    def _standard_error(self, variance: float, varied: int) -> float | None:
        known = self.weight > 0 and varied >= FEWEST_VARIED and variance > 0
        return float(np.sqrt(variance)) / self.weight if known else None


AT_ONCE = 2**24
"""The most numbers (traces × policies × examples) that are in memory at once."""


def _blocks_of_few_examples(plan: ReplayPlan, policies: Sequence[Policy]) -> Iterator[LogBlock]:
    for block in read_blocks(plan, policies):
        traces = max(block.pools[policy.pool_drawn_from].code.shape[1] for policy in policies)
        step = max(1, AT_ONCE // (traces * len(policies)))
        for start in range(0, len(block.examples), step):
            yield block.slice_examples(start, min(start + step, len(block.examples)))


@dataclass(frozen=True, eq=False)
class _HalvesOfOrders:
    """Policies beside their means over the first half of their random orders; `share` (P, 1): of the orders that half
    has, 0 for an exact mean, which has no half.
    """

    policies: tuple[Policy, ...]
    first: tuple[Policy, ...]
    share: Floats

    @classmethod
    def halves_of_policies(cls, policies: Sequence[Policy]) -> _HalvesOfOrders:
        whole = tuple(policy.filled(against=None) for policy in policies)
        halves = [one.as_mean_over_half_of_orders() or (one, 0.0) for one in whole]
        first = tuple(half.filled(name=f"{half.name}, half") if share else half for half, share in halves)
        return cls(whole, first, np.array([[share] for _, share in halves]))

    def policies_at_places(self, places: Ints) -> _HalvesOfOrders:
        """The policies at some places."""
        policies, first = (tuple(of[i] for i in places) for of in (self.policies, self.first))
        return _HalvesOfOrders(policies, first, self.share[places])

    @property
    def half_difference_factor(self) -> Floats:
        """The factor (P, 1) from a difference between two halves to the standard deviation of their mean."""
        return np.asarray(np.sqrt(self.share * (1 - self.share)))

    def mean_of_halves(self, first: Floats, second: Floats) -> Floats:
        """The mean (P, E) over all orders, from the means of both halves."""
        return np.asarray(self.share * first + (1 - self.share) * second)

    def correctness_of_halves(self, block: LogBlock) -> tuple[Floats, Floats]:
        """Correctness (P, E) by either half of the orders; NaN where the example is not covered."""
        on = Evaluator(block, list({one.name: one for one in (*self.policies, *self.first)}.values()))
        outcomes = ([on.outcome(one) for one in some] for some in (self.policies, self.first))
        mean, first = (
            np.stack([np.where(one.reason == COVERED, one.correct, np.nan) for one in some]) for some in outcomes
        )
        return first, np.asarray((mean - self.share * first) / (1 - self.share))
