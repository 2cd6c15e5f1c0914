"""Beyond the thesis: paired over many orders, and its future work as policies (section 6.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import matching, refuse_overlap
from replay.data.contents import read_contents
from replay.kinds.every_example import every_example
from replay.kinds.sample import Sample
from replay.runs.learning import fit_policies
from replay.runs.result import Result
from replay.runs.run import run
from replay.sampling.learned import CALIBRATIONS, PRIORS, Calibration, Conformal, Prior
from replay.sampling.stops import Never
from replay.studies.factcheck.runs import ADAPTIVE, SURROGATE, VERIFYING, FactcheckSetting, Methods, replay_if_served
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect
from toolkit.stats import Summary

BONUS = 0.5
ALPHAS = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class ClassCoverage:
    """Prediction sets of a policy on the claims of one class; `threshold` None: the class is in every set."""

    policy: str
    alpha: float
    label: str
    threshold: float | None
    part: Summary


@dataclass(frozen=True)
class Beyond:
    """`averaged`: methods as means over random orders of the pool. `variants`: further policies.

    `missing`: why there are none, or some are left out. `coverage`: of the prediction sets, class by class.
    """

    averaged: Methods
    variants: Result | None
    missing: tuple[str, ...] = ()
    coverage: tuple[ClassCoverage, ...] = ()


def check_development(log: Log, setting: FactcheckSetting, dev: str) -> None:
    """Raise ThinkbackError where `dev` names no claims, or claims that are reported."""
    refuse_overlap(log, matching(log, dev, "dev"), setting.claims(log)["example_id"], "dev", dev)


def beyond(log: Log, setting: FactcheckSetting) -> Beyond:
    """Replay the methods over many orders, then the variants; those that are fitted need the development split.

    A variant that cannot be fitted there is missing, with the reason; the others stay.
    """
    averaged = replay_if_served(log, setting, VERIFYING, orders=setting.orders)
    policies: list[Sample] = [*variant_policies(setting), every_example(setting.pool)]
    hint = "name the claims to learn from with `dev` to see those that are fitted"
    missing: tuple[str, ...] = () if setting.dev is not None else (hint,)
    try:
        variants = run(log, policies, **setting.asked)
    except ThinkbackError as error:
        failing = _unfitted(log, setting, policies)
        missing = (*failing.values(), *missing)
        if not failing:
            return Beyond(averaged, None, (str(error), *missing))
        kept = [policy for policy in policies if policy.name not in failing]
        try:
            variants = run(log, kept, **setting.asked)
        except ThinkbackError as other:
            return Beyond(averaged, None, (str(other), *missing))
    return Beyond(averaged, variants, missing, tuple(_coverage(log, variants)))


def _unfitted(log: Log, setting: FactcheckSetting, policies: Sequence[Sample]) -> dict[str, str]:
    """Policies that the development split cannot fit, with the reason, which names them."""
    contents, reported = read_contents(log), setting.claims(log)["example_id"]
    failing = {}
    for policy in policies:
        try:
            fit_policies(log, contents, [policy.resolve(contents)], reported)
        except ThinkbackError as error:
            failing[policy.name] = str(error)
    return failing


def _coverage(log: Log, result: Result) -> Iterator[ClassCoverage]:
    """The prediction sets of the run on the claims of each class that has any."""
    gold = collect(log.scan("examples", ["example_id", "gold"]), log)
    compared = gold.filter(pl.col("example_id").is_in(result.examples["example_id"].implode()))
    parts: dict[str, Summary] = {}
    for policy in result.replayed:
        sets = next((learnt for learnt in policy.learns if isinstance(learnt, Conformal)), None)
        if sets is None or sets.fit is None:
            continue
        for label, threshold in sets.fit.items():
            ids = compared.filter(pl.col("gold") == label)["example_id"]
            if ids.is_empty():
                continue
            if label not in parts:
                parts[label] = result.summariser.summary(ids)
            known = threshold if np.isfinite(threshold) else None
            yield ClassCoverage(policy.name, sets.alpha, label, known, parts[label])


def variant_policies(setting: FactcheckSetting) -> Iterator[Sample]:
    """The future work as policies, beside adaptive stopping and the surrogate."""
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
