"""Beyond the thesis: paired over many orders, and its future work as policies (section 6.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replay.fits import CALIBRATIONS, PRIORS, Calibration, Conformal, Prior
from replay.policies import Sample
from replay.result import Result
from replay.run import run
from replay.studies.factcheck_runs import ADAPTIVE, BEST, SURROGATE, Methods, Setting, replay_if_served
from toolkit.errors import ThinkbackError
from toolkit.log import Log

METHODS = (BEST, ADAPTIVE, SURROGATE)
BONUS = 0.5
ALPHAS = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Beyond:
    """`averaged`: methods as means over `orders` random orders of the pool. `variants`: further policies.

    `missing`: why there are no variants that are fitted.
    """

    averaged: Methods
    orders: int
    variants: Result | None
    missing: str = ""


def beyond(log: Log, setting: Setting, orders: int, dev: str | None) -> Beyond:
    """Replay the methods over many orders, then the variants; those that are fitted need the development split."""
    averaged = replay_if_served(log, setting, METHODS, orders=orders)
    try:
        variants = run(log, list(variant_policies(setting, dev)), baseline=ADAPTIVE, **setting.asked)
    except ThinkbackError as error:
        if dev is not None:
            raise
        return Beyond(averaged, orders, None, str(error))
    missing = "" if dev is not None else "name the claims to learn from with `--dev` to see those that are fitted"
    return Beyond(averaged, orders, variants, missing)


def variant_policies(setting: Setting, dev: str | None) -> Iterator[Sample]:
    """The future work as policies, beside adaptive stopping and the surrogate."""
    common: dict[str, Any] = {
        "pool": setting.pool, "verifier": setting.verifier, "max_traces": setting.cap, "stop": setting.margin
    }  # fmt: skip
    surrogate = common | {"order": "surrogate", "features": setting.features}
    yield Sample(name=ADAPTIVE, **common)
    yield Sample(name=SURROGATE, **surrogate)
    yield Sample(name="upper confidence", **surrogate, bonus=BONUS)
    if dev is None:
        return
    if setting.features:
        for model in PRIORS:
            yield Sample(name=f"prior: {model}", **surrogate, prior=Prior(model, dev))  # type: ignore[arg-type]
    for method in CALIBRATIONS:
        calibration = Calibration(method, dev)  # type: ignore[arg-type]
        yield Sample(name=f"margin of {method} scores", **common, calibration=calibration)
    for alpha in ALPHAS:
        yield Sample(name=f"conformal, alpha {alpha}", **common, conformal=Conformal(alpha, dev, abstain=True))
