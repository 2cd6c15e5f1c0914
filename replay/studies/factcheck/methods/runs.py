"""The policies of one run as cells of tables: sums, ratios, changes and paired differences, resampled together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from replay.data.conditions import matching
from replay.kinds.sample import Sample
from replay.runs.passes.coverage import FREE
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit.cells import cell, compared, warnings_of
from replay.studies.kit.gaps import told_left_out, unlogged
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.notes import Note, note
from toolkit.show import ShownInterval
from toolkit.stats.limits.intervals import ResampledValues


@dataclass(frozen=True)
class RunCells:
    """Cells of a run; None where nothing could be replayed, so that all of them are dashes."""

    result: Result | None
    _memo: dict[str, np.ndarray] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def n(self) -> int:
        """Examples compared."""
        return self.result.statistics.n if self.result is not None else 0

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`."""
        return None if self.result is None else cell(self.result.statistics, policy, metric, scale)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said above a table of these."""
        return warnings_of(self.result)

    def total(self, policy: str, metric: str) -> float | None:
        """Sum over the examples; `metric` may be a sum, as that of a change."""
        return self._estimate(policy, metric, self.n)

    def ratio(self, policy: str, over: str, under: str, scale: float = 1.0) -> ShownInterval | None:
        """One mean over another, such as seconds per trace, resampled together."""
        return self._drawn((policy, over), (policy, under), lambda a, b: scale * a / b)

    def change(self, policy: str, metric: str, against: str) -> ShownInterval | None:
        """Change of a mean against another policy's, in percent: negative where it is less.

        `metric` may be a sum, such as `prompt_tokens+completion_tokens`.
        """
        return self._drawn((policy, metric), (against, metric), lambda a, b: 100 * (a / b - 1))

    def difference(
        self, policy: str, metric: str, against: str, scale: float = 1.0
    ) -> tuple[ShownInterval | None, float | None]:
        """Paired difference of a metric to another policy's, times `scale`, and its p-value.

        Of the run's own comparison where it made one, else of one more from the same resamples.
        """
        one, two = self._estimate(policy, metric), self._estimate(against, metric)
        if self.result is None or one is None or two is None:
            return None, None
        made = compared(self.result.statistics.comparisons, policy, against, metric)
        if made is None:
            names = [policy, against]
            made = compared(self.result.summariser.differences(metric, [names]), policy, against, metric)
        _, low, high, p_value = made or (None,) * 4
        return ShownInterval(one - two, low, high).times(scale), p_value

    def sum_of(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """A mean, or a sum of means written with `+`, times `scale`."""
        return self._drawn((policy, metric), None, lambda a, _: scale * a)

    def _drawn(self, first: tuple[str, str], second: tuple[str, str] | None, value: Any) -> ShownInterval | None:
        one = self._estimate(*first)
        two = 1.0 if second is None else self._estimate(*second)
        if self.result is None or one is None or two is None or two == 0:
            return None
        a = self._draws(*first)
        b = np.ones_like(a) if second is None else self._draws(*second)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = value(a, b)
        ordered = ResampledValues.of(np.where(np.isfinite(drawn), drawn, np.nan)[None])
        estimate = float(value(one, two))
        if not ordered.enough[0] or self.n < 2:
            return ShownInterval(estimate)
        low, high = ordered.percentile(self.result.provenance["level"])
        return ShownInterval(estimate, float(low[0]), float(high[0]))

    def _estimate(self, policy: str, metric: str, scale: float = 1.0) -> float | None:
        cells = [self.cell(policy, name, scale) for name in metric.split("+")]
        return None if None in cells else sum(found.estimate for found in cells if found is not None)

    def _draws(self, policy: str, metric: str) -> np.ndarray:
        result = self.result
        if result is None:
            return np.zeros(0)
        row = [policy.name for policy in result.policies].index(policy)
        for name in metric.split("+"):
            if name not in self._memo:
                self._memo[name] = result.summariser.draws(name)
        return np.sum([self._memo[name][row] for name in metric.split("+")], axis=0)


FOLLOWS = {
    "verification_tokens": ("verification_tokens", "total_tokens"),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
}
"""What follows from a cost of verifications."""


@dataclass(frozen=True)
class VerifierRun(RunCells):
    """Cells of a run whose policies read one verifier, but for those `unverified`.

    Costs that the log lacks of a call by the verifier which some policy may pay are free: replay counts them as
    nothing, and what a policy that verifies paid is unknown.
    """

    unverified: ClassVar[frozenset[str]] = frozenset()

    verifier: str

    @property
    def free(self) -> frozenset[str]:
        """Such costs."""
        known = {} if self.result is None else self.result.provenance.get("verifications_free", {})
        return frozenset(known.get(self.verifier, ()))

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`; None where a call of it is not paid for."""
        return None if self.unpaid(policy, metric) else super().cell(policy, metric, scale)

    def unpaid(self, method: str, metric: str) -> bool:
        """Whether replay counted as nothing what a call of this method cost."""
        return method not in self.unverified and metric in self.unknown

    @property
    def unknown(self) -> frozenset[str]:
        """Metrics that follow from what the verifier's calls lack."""
        euros = {"cost_eur"} if self.priced_by in self.free else set()
        return frozenset(metric for cost in self.free for metric in FOLLOWS[cost]) | euros

    @property
    def priced_by(self) -> str | None:
        """The seconds that `cost_eur` comes from."""
        return None if self.result is None else self.result.statistics.seconds

    def unlogged(self) -> dict[str, str]:
        """Why there are no seconds, tokens or device seconds (of which euros come) of traces or of verifications.

        By kind: `trace seconds`, `verification tokens`, `verification device seconds`, and so on.
        """
        shown = [] if self.result is None else [policy.name for policy in self.result.policies]
        calls = {}
        kinds = [("seconds", "generation_s", "latency_s"), ("tokens", "prompt_tokens", "verification_tokens")]
        if self.priced_by == "device_s":
            kinds.append(("device seconds", "device_s", "device_s"))
        for what, generated, verified in kinds:
            if any(self.cell(name, generated) is None for name in shown if not self.unpaid(name, generated)):
                calls[f"trace {what}"] = unlogged(what, "trace")
            if verified in self.free:
                calls[f"verification {what}"] = unlogged(what, f"verification by `{self.verifier}`")
        return calls


@dataclass(frozen=True)
class PolicyOfRun:
    """One policy of a run: what a row is of."""

    cells: RunCells
    name: str

    def cell(self, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`."""
        return self.cells.cell(self.name, metric, scale)

    def total(self, metric: str) -> float | None:
        """The sum of a metric over the examples."""
        return self.cells.total(self.name, metric)

    def sum_of(self, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """A mean, or a sum of means written with `+`, times `scale`."""
        return self.cells.sum_of(self.name, metric, scale)

    def change(self, metric: str, against: str) -> ShownInterval | None:
        """Change of a mean against another policy's, in percent; None for that policy itself."""
        return None if self.name == against else self.cells.change(self.name, metric, against)


def total(metric: str) -> Callable[[PolicyOfRun], float | None]:
    """As a column's value: the sum of a metric over the examples."""
    return lambda of: of.total(metric)


def sum_of(metric: str) -> Callable[[PolicyOfRun], ShownInterval | None]:
    """As a column's value: a mean, or the sum of several."""
    return lambda of: of.sum_of(metric)


def hours(metric: str) -> Callable[[PolicyOfRun], ShownInterval | None]:
    """As a column's value: seconds of all examples in hours; of a sum, its parts resampled together."""
    return lambda of: (of.sum_of if "+" in metric else of.cell)(metric, of.cells.n / 3600)


def change(metric: str, against: str) -> Callable[[PolicyOfRun], ShownInterval | None]:
    """As a column's value: how a mean differs from another policy's, in percent."""
    return lambda of: of.change(metric, against)


def run_without(log: Log, policies: Sequence[Sample], baseline: str, least: str, **asked: Any) -> Result:
    """Replay policies against a baseline; where the log cannot serve that, the others without differences to it.

    Raises ThinkbackError where nothing can be replayed, or the log cannot serve even the policy `least`.
    """
    try:
        return run(log, policies, baseline=baseline, **asked)
    except ThinkbackError:
        result = run(log, policies, **asked)
        if baseline not in result.dropped or least in result.dropped:
            raise
        return result


def claims_told(log: Log, reported: int, asked: int, dev: str | None) -> Iterator[Note]:
    """How many claims are reported of those asked about, and how many are not because they are learnt from."""
    of = "" if reported == asked else f" of the {asked:,} that are asked about"
    yield note("claims", f"{reported:,} claims{of} are reported")
    if dev is not None:
        learnt = len(matching(log, dev, "dev"))
        yield note("learnt", f"{learnt:,} claims of `dev` ({dev}) are learnt from and not reported")


def notes_shown(run: VerifierRun, unshown: Collection[str]) -> Iterator[Note]:
    """What the run says of numbers that tables show, which are those of no metric `unshown`.

    Costs that count as free there are dashes in tables, and said to be.
    """
    if run.result is not None:
        yield from (note("left_out_file", text) for text in told_left_out(run.result.excluded))
        for one in run.result.notes:
            if one.code != FREE and not (one.metrics and set(one.metrics) <= set(unshown)):
                yield one
    yield from (note("unlogged", text) for text in run.unlogged().values())
