"""The runs that the study is made of: five methods on the same claims, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from replay.analyses.trace_buckets import Bucket, trace_buckets
from replay.data.conditions import asked_about
from replay.kinds.every_example import every_example
from replay.kinds.sample import Sample
from replay.sampling.stops import Margin
from replay.studies.kit.published import PublishedDataset
from replay.studies.kit.runs import VerifierRun, run_without
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.stats import Settings

TOP, VOTE, BEST = "top-1", "self-consistency", "exhaustive best-of-n"
ADAPTIVE, SURROGATE = "adaptive stopping", "surrogate-guided"
METHODS = (TOP, VOTE, BEST, ADAPTIVE, SURROGATE)
"""As the published tables name them."""
VERIFYING = (BEST, ADAPTIVE, SURROGATE)
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
        return asked_about(log, self.where, *columns)


@dataclass(frozen=True)
class Methods(VerifierRun):
    """Five methods replayed with one cap and one verifier; `missing`: those that the log cannot serve, and why."""

    unverified = frozenset({TOP, VOTE})

    cap: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)

    def buckets(self) -> Iterator[Bucket]:
        """Claims by the traces that adaptive stopping and the surrogate used, five at a time up to the cap."""
        if self.result is not None:
            yield from trace_buckets(self.result, (ADAPTIVE, SURROGATE), self.cap)


def bucket_keys(bucket: Bucket) -> dict[str, Any]:
    """The keys of a bucket's row in the published table B.1."""
    return {"method": bucket.policy, "traces_from": bucket.first, "traces_to": bucket.last}


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
    result = run_without(log, policies, BEST, VOTE, **setting.asked)
    return Methods(result, setting.verifier, setting.cap, dict(result.dropped))


def replay_if_served(log: Log, setting: FactcheckSetting, methods: Sequence[str] = METHODS, **keys: Any) -> Methods:
    """The same; where nothing can be replayed, every method is missing, with the reason."""
    try:
        return replay_methods(log, setting, methods, **keys)
    except ThinkbackError as error:
        return Methods(None, setting.verifier, setting.cap, dict.fromkeys(methods, str(error)))
