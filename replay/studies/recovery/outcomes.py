"""The outcomes of a run's policies, example by example: means over some, and two policies in a row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.analyses.recommend.rivals import equal_vote
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.gate_sweep import CURVE
from replay.runs.result.result import Result
from replay.studies.kit.cells import cell
from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import Row, Theirs, Value, beside, intervals, numbers, words
from toolkit.show import NumberWithInterval, ShownInterval, TableColumn
from toolkit.stats import Settings, interval, paired_interval, paired_reduction

VALUES = (*CURVE, "finalizers", "truncated")
"""Columns of outcomes that are read."""


@dataclass(frozen=True, eq=False)
class RunOutcomes:
    """A run, with the values of each of its policies on every example."""

    result: Result

    @property
    def simulated(self) -> bool:
        """Whether its log is simulated."""
        return self.result.simulated

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that were served."""
        return tuple(policy.name for policy in self.result.policies)

    def served(self, names: Iterable[str]) -> list[str]:
        """Those of the policies that were served."""
        return [name for name in names if name in self.policies]

    @property
    def settings(self) -> Settings:
        """How intervals are made."""
        made = self.result.provenance
        return Settings(resamples=made["resamples"], level=made["level"], seed=made["seed"])

    @cached_property
    def cluster(self) -> np.ndarray:
        """Resampling unit of each example (N,), in the order of the outcomes."""
        return resampling_units(self.result.examples).to_numpy()

    def values(self, policy: str) -> dict[str, np.ndarray]:
        """Columns of a policy's outcomes (N,), by example_id; NaN where they are not known."""
        if policy not in self._read:
            frame = self.result.outcomes.filter(pl.col("policy") == policy).select(VALUES).collect()
            self._read[policy] = {c: frame[c].fill_null(np.nan).to_numpy() for c in VALUES}
        return self._read[policy]

    @cached_property
    def _read(self) -> dict[str, dict[str, np.ndarray]]:
        """What was read so far, by policy."""
        return {}

    def mean(self, policy: str, column: str, scale: float = 1.0) -> float | None:
        """Mean of a column; None where some value is not known."""
        return mean(self.values(policy)[column], scale)

    def mean_on(self, policy: str, column: str, on: np.ndarray) -> ShownInterval | None:
        """Mean of a column over some of the examples (N,) bool, with its interval."""
        found = interval(self.values(policy)[column][on], cluster=self.cluster[on], settings=self.settings)
        return ShownInterval.of((found.estimate, found.low, found.high))

    def paired(
        self, first: str, second: str, column: str = "correct", scale: float = 1.0
    ) -> tuple[ShownInterval | None, float | None]:
        """Difference of the means of two policies times `scale`, with its interval, and its p-value."""
        one, two = self.values(first)[column], self.values(second)[column]
        found = paired_interval(one, two, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), scale), found.p_value

    def reduction(self, first: str, second: str, column: str) -> ShownInterval | None:
        """By how many percent the first policy's mean is lower; None where some value is not known."""
        one, two = self.values(first)[column], self.values(second)[column]
        if np.isnan(one).any() or np.isnan(two).any():
            return None
        found = paired_reduction(one, two, column, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), 100)

    def equal_votes(self, interventions: Iterable[str], votes: Iterable[str]) -> dict[str, str]:
        """For every intervention, the vote for as many tokens: the largest one that costs no more."""
        paid, spent = (
            {one: float(self.values(one)["total_tokens"].mean()) for one in self.served(names)}
            for names in (interventions, votes)
        )
        return {one: vote for one, most in paid.items() if (vote := equal_vote(spent, most)) is not None}

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric of the run, times `scale`."""
        return cell(self.result.statistics, policy, metric, scale)


def mean(values: np.ndarray, scale: float = 1.0) -> float | None:
    """Mean of values times `scale`; None where one is not known."""
    return None if np.isnan(values).any() else scale * float(values.mean())


SAVED = "action tokens saved"
COMPARED = {
    "correct": ("accuracy, points", 100.0),
    "flip": ("flips, points", 100.0),
    "total_tokens": ("total tokens", 1.0),
    SAVED: ("action tokens saved %", 100.0),
}
"""What a paired table calls what it compares, and what that is multiplied with."""
PAIRED_HEADS = ("policy", TableColumn("minus", key="baseline"))
PAIRED_COLUMNS = (
    words("what", "metric"),
    replace(
        intervals("difference", "difference", signed=True),
        theirs=Theirs("difference", "published", "published", NumberWithInterval(2, signed=True), apart=True),
    ),
    beside(numbers("p", "p_value", 4), "p", "published p", "published_p", 3),
)
"""Of a paired table."""


@dataclass(frozen=True)
class Comparison:
    """A row of a paired table: two policies, what is compared, and the work's name of that."""

    first: str
    second: str
    metric: str
    name: str = ""

    def row(self, run: RunOutcomes, published: PublishedRow) -> Row:
        """The difference with its interval and its p-value, beside the published one."""
        what, scale = COMPARED[self.metric]
        if self.metric == SAVED:
            found, p_value = run.reduction(self.first, self.second, "action_tokens"), None
        else:
            found, p_value = run.paired(self.first, self.second, self.metric, scale)
        theirs = ShownInterval.of(tuple(published.get(key) for key in ("difference", "ci95_low", "ci95_high")))
        values = {"metric": what, "difference": found, "p_value": p_value}
        return Row((self.first, self.second), values=values, published={"difference": theirs, "p": published.get("p")})


GAINED = {
    "calls_avoided": "calls", "action_tokens_saved": "action_tokens", "total_tokens_saved": "total_tokens",
    "flips_avoided": "flip",
}  # fmt: skip
PER_1000 = (
    numbers("calls avoided", "calls_avoided", 0),
    numbers("action tokens saved", "action_tokens_saved", 0),
    numbers("total tokens saved", "total_tokens_saved", 0),
    numbers("flips avoided", "flips_avoided", 1),
    numbers("more right answers", "more_right", 1, signed=True),
)
"""Columns of what 1,000 requests gain by one policy in place of another."""


def per_1000(run: RunOutcomes, first: str, second: str) -> dict[str, Value]:
    """What 1,000 requests gain by the first policy in place of the second."""
    one, two = run.values(first), run.values(second)
    saved: dict[str, Value] = {key: mean(two[column] - one[column], 1000) for key, column in GAINED.items()}
    return saved | {"more_right": mean(one["correct"] - two["correct"], 1000)}
