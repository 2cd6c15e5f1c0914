"""Five methods of choosing an answer under a verifier, replayed on the same examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replay.analyses.budgets.wall_clock import device_seconds
from replay.analyses.report.trace_buckets import Bucket, trace_buckets
from replay.kinds.sample import Sample, every_example
from replay.studies.factcheck.methods.runs import VerifierRun, run_without
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.show import ShownInterval

TOP, VOTE, BEST = "top-1", "self-consistency", "exhaustive best-of-n"
ADAPTIVE, SURROGATE = "adaptive stopping", "surrogate-guided"
METHODS = (TOP, VOTE, BEST, ADAPTIVE, SURROGATE)
VERIFYING = (BEST, ADAPTIVE, SURROGATE)
TITLES = {
    TOP: "Top-1 decoding",
    VOTE: "Self-consistency",
    BEST: "Exhaustive BoN (baseline)",
    ADAPTIVE: "Adaptive Stopping",
    SURROGATE: "Surrogate-Guided Selective Verification",
}
"""What tables call them."""


@dataclass(frozen=True)
class Methods(VerifierRun):
    """Five methods replayed with one cap and one verifier; `missing`: those that the log cannot serve, and why."""

    unverified = frozenset({TOP, VOTE})

    cap: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    # Per example, of (method, generation or verification); empty without device seconds
    device_s: Mapping[tuple[str, str], ShownInterval | None] = field(default_factory=dict)

    @property
    def eur_per_h(self) -> float:
        """Price of an hour of the device."""
        made = None if self.result is None else self.result.summariser.settings
        return 0.0 if made is None else made.kw * made.eur_per_kwh

    def buckets(self) -> Iterator[Bucket]:
        """Examples by the traces that adaptive stopping and the surrogate used, five at a time up to the cap."""
        if self.result is not None:
            yield from trace_buckets(self.result, (ADAPTIVE, SURROGATE), self.cap)


def method_policies(setting: VerifyingSetting, methods: Sequence[str] = METHODS, **keys: Any) -> list[Sample]:
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


def replay_methods(log: Log, setting: VerifyingSetting, methods: Sequence[str] = METHODS, **keys: Any) -> Methods:
    """Replay the methods; what the log cannot serve for nine tenths of the examples asked about is missing, and why.

    Where the verifier scored too few traces for exhaustive best-of-N, the others stand without differences to it.
    """
    policies = [*method_policies(setting, methods, **keys), *([] if TOP in methods else [every_example(setting.pool)])]
    result = run_without(log, policies, BEST, VOTE, **setting.asked)
    return Methods(result, setting.verifier, setting.cap, dict(result.dropped))


def replay_if_served(log: Log, setting: VerifyingSetting, methods: Sequence[str] = METHODS, **keys: Any) -> Methods:
    """The same; where nothing can be replayed, every method is missing, with the reason."""
    try:
        return replay_methods(log, setting, methods, **keys)
    except ThinkbackError as error:
        return Methods(None, setting.verifier, setting.cap, dict.fromkeys(methods, str(error)))


def with_device_seconds(log: Log, setting: VerifyingSetting, made: Methods) -> Methods:
    """The same with the device seconds of its parts, where euros come of these."""
    if made.result is None or made.priced_by != "device_s":
        return made
    return replace(made, device_s=device_seconds(log, setting.pool, made.result, setting.settings))
