"""Fits whatever the policies of a run learn on development splits, before anything is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.data.block import Block
from replay.data.conditions import examples_of, matching, refuse_overlap, refuse_reuse
from replay.data.contents import Contents, request
from replay.data.read import read_block
from replay.engine.sets import fit_conformal
from replay.learning.calibration import fit_calibration
from replay.learning.prior import fit_prior
from replay.policies.base import Policy, Sample, nested, with_samples
from replay.sampling.learned import FITS
from toolkit.errors import ThinkbackError
from toolkit.log import Log


def fit_policies(
    log: Log, contents: Contents, policies: Sequence[Policy], reported: pl.Series, measure: str | None = None
) -> tuple[Policy, ...]:
    """The policies (resolved) with the priors, calibrations and conformal thresholds of all their parts fitted.

    Policies with the same settings share one fit; `measure` judges traces in place of `correct`. Raises where a
    development split overlaps `reported`, or the rows of `conformal` those that its scores were fitted on.
    """
    memo: dict[Any, Any] = {}
    splits: dict[str, pl.DataFrame] = {}

    def rows(policy: Sample, key: str, condition: str) -> Block:
        if condition not in splits:
            ids = matching(log, condition, f"{key}.on")
            refuse_overlap(log, ids, reported, f"{key}.on", condition)
            splits[condition] = examples_of(log, ids)
        return read_block(log, splits[condition], request([policy], contents, measure, None))

    def fitted(policy: Sample, key: str, same: tuple[Any, ...], fit: Callable[[Block], Any]) -> Any:
        settings = getattr(policy, key)
        known = (key, settings, policy.pool, policy.verifier, *same)
        if known not in memo:
            try:
                memo[known] = fit(rows(policy, key, settings.on))
            except ThinkbackError as error:
                raise ThinkbackError(f"policy `{policy.name}`: {error}") from None
        return memo[known]

    def one(sample: Sample) -> Sample:
        _check_apart(log, sample)
        return _fitted(sample, fitted, contents.whole)

    return tuple(with_samples(policy, one) for policy in policies)


def learnt_on(policy: Policy) -> Iterator[tuple[str, str]]:
    """(setting, condition) of all rows that a policy or a part of it learns from."""
    for part in nested(policy):
        for key in FITS if isinstance(part, Sample) else ():
            settings = getattr(part, key)
            if settings is not None:
                yield f"{key}.on", settings.on


def _check_apart(log: Log, policy: Sample) -> None:
    """Raise where what decides a score is fitted on examples that set the policy's conformal thresholds."""
    if policy.conformal is None:
        return
    for key, settings in (("prior", policy.prior), ("calibration", policy.calibration)):
        if settings is not None:
            try:
                refuse_reuse(log, (f"{key}.on", settings.on), ("conformal.on", policy.conformal.on))
            except ThinkbackError as error:
                raise policy.refuse(str(error)) from None


def _fitted(policy: Sample, fitted: Callable[..., Any], whole_pools: frozenset[str]) -> Sample:
    if policy.prior is not None:
        prior = policy.prior
        made = fitted(policy, "prior", (policy.features,), lambda block: fit_prior(block, policy, prior))
        policy = replace(policy, prior=made)
    if policy.calibration is not None:
        calibration = policy.calibration
        made = fitted(
            policy,
            "calibration",
            (),
            lambda block: replace(calibration, fit=fit_calibration(block, policy, calibration)),
        )
        policy = replace(policy, calibration=made)
    if policy.conformal is not None:
        conformal, plain = policy.conformal, replace(policy, conformal=None, name="-", family="-", against=None)
        made = fitted(
            policy,
            "conformal",
            (plain,),
            lambda block: replace(conformal, fit=fit_conformal(block, policy, conformal, whole_pools)),
        )
        policy = replace(policy, conformal=made)
    return policy
