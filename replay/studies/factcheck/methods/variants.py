"""Further policies beside adaptive stopping and the surrogate, some of which need examples to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replay.analyses.tune.fitted import ClassCoverage, class_coverage, run_fitted
from replay.kinds.sample import Sample, every_example
from replay.runs.result.result import Result
from replay.sampling.learned import CALIBRATIONS, PRIORS, Calibration, Conformal, Prior
from replay.sampling.stops import Never
from replay.studies.factcheck.methods.methods import ADAPTIVE, SURROGATE
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from toolkit.log import Log

BONUS = 0.5
ALPHAS = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Variants:
    """Further policies; `missing`: why there are none, or some are left out; `coverage`: of sets, class by class."""

    result: Result | None
    missing: tuple[str, ...] = ()
    coverage: tuple[ClassCoverage, ...] = ()


def variants(log: Log, setting: VerifyingSetting) -> Variants:
    """Replay them; those that are fitted need the development split."""
    policies = [*variant_policies(setting), every_example(setting.pool)]
    hint = "name the claims to learn from (`--dev`, in Python `dev`) to see those that are fitted"
    result, missing = run_fitted(log, policies, **setting.asked)
    found = () if result is None else tuple(class_coverage(log, result))
    return Variants(result, (*missing, *([] if setting.dev is not None else [hint])), found)


def variant_policies(setting: VerifyingSetting) -> Iterator[Sample]:
    """Adaptive stopping and the surrogate; an upper-confidence order; with examples to learn from, surrogates fitted
    before, calibrated margins, and prediction sets of the whole pool.
    """
    common: dict[str, Any] = {
        "pool": setting.pool, "verifier": setting.verifier, "max_traces": setting.cap, "stop": setting.margin
    }  # fmt: skip
    surrogate = common | {"order": "surrogate", "features": setting.features}
    yield Sample(name=ADAPTIVE, **common)
    yield Sample(name=SURROGATE, **surrogate)
    yield Sample(name="upper confidence", **surrogate, bonus=BONUS)
    dev = setting.dev
    if dev is None:
        return
    if setting.features:
        for model in PRIORS:
            yield Sample(name=f"prior: {model}", **surrogate, prior=Prior(model, dev))
    for method in CALIBRATIONS:
        calibration = Calibration(method, dev)
        yield Sample(name=f"margin of {method} scores", **common, calibration=calibration)
    # Where a margin stops early, labels that later traces would give have no score, and their thresholds are -inf.
    whole = common | {"stop": Never()}
    for alpha in ALPHAS:
        yield Sample(name=f"conformal, alpha {alpha}", **whole, conformal=Conformal(alpha, dev, abstain=True))
