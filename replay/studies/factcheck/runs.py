"""The runs that the study is made of: five methods on the same claims, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import matching
from replay.kinds.every_example import every_example
from replay.kinds.sample import Sample
from replay.runs.result import Result
from replay.runs.run import run
from replay.sampling.stops import Margin
from replay.studies.kit.cells import cell, compared, warnings_of
from replay.studies.kit.gaps import unlogged
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect
from toolkit.show import ShownInterval
from toolkit.stats import Settings
from toolkit.stats.intervals import ResampledValues

TOP, VOTE, BEST = "top-1", "self-consistency", "exhaustive best-of-n"
ADAPTIVE, SURROGATE = "adaptive stopping", "surrogate-guided"
METHODS = (TOP, VOTE, BEST, ADAPTIVE, SURROGATE)
"""As the published tables name them."""
VERIFYING = (BEST, ADAPTIVE, SURROGATE)
FOLLOWS = {
    "verification_tokens": ("verification_tokens", "total_tokens"),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
}
"""What follows from a cost of verifications."""
TITLES = {
    TOP: "Top-1 decoding",
    VOTE: "Self-consistency",
    BEST: "Exhaustive BoN (baseline)",
    ADAPTIVE: "Adaptive Stopping",
    SURROGATE: "Surrogate-Guided Selective Verification",
}


@dataclass(frozen=True)
class FactcheckSetting:
    """What the study is run on. `asked` goes to `replay.run`: where, resamples, level, seed, kw, eur_per_kwh.

    `orders` random orders are averaged over in the tables beyond the thesis; `dev` is an SQL condition that names the
    claims to learn from, which must not be reported. `other_verifier` is by default the only other one. `alone`: the
    claims that are asked about are all of one data set.
    """

    pool: str
    verifier: str
    features: tuple[str, ...] = ()
    cap: int = 15
    random_seed: int = 20  # of the random order (table A.3)
    margin: Margin = field(default_factory=Margin)
    asked: Mapping[str, Any] = field(default_factory=dict)
    other_verifier: str | None = None
    caps: tuple[int, ...] = (15, 20, 30, 40)
    orders: int = 10
    dev: str | None = None
    published: PublishedDataset | None = None
    alone: bool = True

    @property
    def where(self) -> str | None:
        """The condition on the claims to report."""
        return self.asked.get("where")

    @property
    def settings(self) -> Settings:
        """How intervals are made."""
        return Settings(**{key: self.asked[key] for key in ("resamples", "level", "seed") if key in self.asked})

    @property
    def kw(self) -> float:
        """Power of the device."""
        return self.asked.get("kw", 0.25)

    @property
    def eur_per_kwh(self) -> float:
        """Price of its energy."""
        return self.asked.get("eur_per_kwh", 0.25)

    def claims(self, log: Log, *columns: str) -> pl.DataFrame:
        """The claims to report, by example_id: these columns of them."""
        scan = log.scan("examples", ["example_id", *columns])
        if self.where is not None:
            scan = scan.filter(pl.col("example_id").is_in(matching(log, self.where, "where").implode()))
        return collect(scan.select("example_id", *columns), log).sort("example_id")


@dataclass(frozen=True)
class Methods:
    """Five methods replayed with one cap and one verifier, and cells of tables made of them.

    `missing`: methods that the log cannot serve, with the reason. `free`: costs that the log lacks of a call by the
    verifier which some method may pay: replay counts them as nothing, and what a method that verifies paid is unknown.
    """

    result: Result | None
    cap: int
    verifier: str
    missing: Mapping[str, str] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    _memo: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        """Claims compared."""
        return self.result.statistics.n if self.result is not None else 0

    def cell(self, method: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`."""
        if self.result is None or self.unpaid(method, metric):
            return None
        return cell(self.result.statistics, method, metric, scale)

    def unpaid(self, method: str, metric: str) -> bool:
        """Whether replay counted as nothing what a call of this method cost."""
        return method not in (TOP, VOTE) and metric in self.unknown

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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said above a table of these."""
        return warnings_of(self.result)

    def total(self, method: str, metric: str) -> float | None:
        """Sum over the claims."""
        found = self.cell(method, metric, self.n)
        return None if found is None else found.estimate

    def ratio(self, method: str, over: str, under: str, scale: float = 1.0) -> ShownInterval | None:
        """One mean over another, such as seconds per trace, resampled together."""
        return self._drawn((method, over), (method, under), lambda a, b: scale * a / b)

    def change(self, method: str, metric: str, against: str = BEST) -> ShownInterval | None:
        """Change of a mean against another method's, in percent: negative where it is less.

        `metric` may be a sum, such as `prompt_tokens+completion_tokens`.
        """
        return self._drawn((method, metric), (against, metric), lambda a, b: 100 * (a / b - 1))

    def difference(
        self, method: str, metric: str, against: str = BEST, scale: float = 1.0
    ) -> tuple[ShownInterval | None, float | None]:
        """Paired difference of a metric to another method's, times `scale`, and its p-value.

        Of the run's own comparison where it made one, else of one more from the same resamples.
        """
        one, two = self._estimate(method, metric), self._estimate(against, metric)
        if self.result is None or one is None or two is None:
            return None, None
        made = compared(self.result.statistics.comparisons, method, against, metric)
        if made is None:
            names = [method, against]
            made = compared(self.result.summariser.differences(metric, [names]), method, against, metric)
        _, low, high, p_value = made or (None,) * 4
        return ShownInterval(one - two, low, high).times(scale), p_value

    def sum_of(self, method: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """A mean, or a sum of means written with `+`, times `scale`."""
        return self._drawn((method, metric), None, lambda a, _: scale * a)

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

    def _estimate(self, method: str, metric: str) -> float | None:
        cells = [self.cell(method, name) for name in metric.split("+")]
        return None if None in cells else sum(found.estimate for found in cells if found is not None)

    def _draws(self, method: str, metric: str) -> np.ndarray:
        result = self.result
        if result is None:
            return np.zeros(0)
        row = [policy.name for policy in result.policies].index(method)
        for name in metric.split("+"):
            if name not in self._memo:
                self._memo[name] = result.summariser.draws(name)
        return np.sum([self._memo[name][row] for name in metric.split("+")], axis=0)


def method_policies(setting: FactcheckSetting, methods: Sequence[str] = METHODS, **keys: Any) -> list[Sample]:
    """The methods as policies; `keys` are settings of all of them, such as `orders`."""
    made: dict[str, dict[str, Any]] = {
        TOP: {"max_traces": 1, "select": "first"},
        VOTE: {"select": "majority"},
        BEST: {},
        ADAPTIVE: {"stop": setting.margin},
        SURROGATE: {"order": "surrogate", "features": setting.features, "stop": setting.margin},
    }
    common = {"pool": setting.pool, "verifier": setting.verifier, "max_traces": setting.cap}
    return [Sample(**{**common, "name": name, **made[name], **keys}) for name in methods]


def replay_methods(log: Log, setting: FactcheckSetting, methods: Sequence[str] = METHODS, **keys: Any) -> Methods:
    """Replay the methods; what the log cannot serve for nine tenths of the claims asked about is missing, and why.

    Where the verifier scored too few traces for exhaustive best-of-N, the others stand without differences to it.
    """
    policies = [*method_policies(setting, methods, **keys), *([] if TOP in methods else [every_example(setting.pool)])]
    try:
        result = run(log, policies, baseline=BEST, **setting.asked)
    except ThinkbackError:
        result = run(log, policies, **setting.asked)
        if BEST not in result.dropped or VOTE in result.dropped:
            raise
    free = frozenset(result.provenance["verifications_free"].get(setting.verifier, ()))
    return Methods(result, setting.cap, setting.verifier, dict(result.dropped), free)


def replay_if_served(log: Log, setting: FactcheckSetting, methods: Sequence[str] = METHODS, **keys: Any) -> Methods:
    """The same; where nothing can be replayed, every method is missing, with the reason."""
    try:
        return replay_methods(log, setting, methods, **keys)
    except ThinkbackError as error:
        return Methods(None, setting.cap, setting.verifier, dict.fromkeys(methods, str(error)))
