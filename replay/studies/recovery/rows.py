"""What rows of the study's tables are of: policies by the part that they play, and differences between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from replay.analyses.rivals import equal_vote
from replay.studies.kit.outcomes import SAVED, Comparison
from replay.studies.kit.sheet import Row
from replay.studies.recovery import published
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import ShownInterval

PAPER_LIMIT = 4096
"""Token limit of the paper's base attempts."""
BASE, ALWAYS, SELECTIVE, BUDGET, SAMPLES, RULED = "base", "always", "selective", "budget", "samples", "rule"
"""Parts that policies play."""
ACTING = (ALWAYS, SELECTIVE, RULED)
OF_ACTIONS = ("action_tokens", "intervention_rate")
"""Metrics that first attempts other than the base's do not have."""


@dataclass(frozen=True)
class StudyPolicy:
    """A policy of a data set's run, by the part that it plays; `what` is its action, token limit or number of votes."""

    study: DatasetStudy
    policy: str
    part: str = ""
    what: str = ""

    def cell(self, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`; None where it is not known."""
        if self.part in (BUDGET, SAMPLES) and metric in OF_ACTIONS:
            return None
        return self.study.cell(self.policy, metric, scale)

    def number(self, metric: str) -> float | None:
        """The estimate of a metric."""
        found = self.cell(metric)
        return None if found is None else found.estimate

    @property
    def base(self) -> StudyPolicy:
        """The base attempt."""
        return StudyPolicy(self.study, self.study.named.base, BASE)

    @property
    def on_base(self) -> bool:
        """Whether it begins with the base attempt."""
        return self.part in (BASE, *ACTING)


def headline(study: DatasetStudy) -> list[StudyPolicy]:
    """The policies of the main table, those that were served."""
    named = study.named
    found = [(named.base, BASE, "")]
    for action, policy in named.always.items():
        found += [(policy, ALWAYS, action)]
        found += [(named.selective[action], SELECTIVE, action)] if action in named.selective else []
    found += [(policy, RULED, study.roles.action) for policy in named.unfitted]
    found += [(policy, BUDGET, limit(study, pool)) for pool, policy in named.budgets.items()]
    found += [(policy, SAMPLES, str(size)) for policy, size in named.samples.items()]
    return [StudyPolicy(study, *one) for one in found if one[0] in study.policies]


def headline_rows(study: DatasetStudy, find: published.Find | None = None) -> Iterator[Row]:
    """A row for each of them, beside the published one."""
    for one in headline(study):
        yield Row((one.policy,), one, published=find(study.dataset, one.part, one.what) if find is not None else {})


def limit(study: DatasetStudy, pool: str) -> str:
    """The token limit of a pool's first attempts; empty where it is not logged, or the base's is not the paper's.

    A budget stands beside a published one only where both limits are the paper's.
    """
    limits = study.roles.limits
    return str(limits.get(pool, "")) if limits.get(study.roles.base) == PAPER_LIMIT else ""


def comparisons(study: DatasetStudy) -> list[Comparison]:
    """The rows of the paired table: gates against always acting and the longest budget, budgets, votes.

    Every intervention has a row with the vote for as many tokens.
    """
    served = set(study.policies)
    return [one for one in _comparisons(study) if {one.first, one.second} <= served]


def _comparisons(study: DatasetStudy) -> Iterator[Comparison]:
    named = study.named
    longest = next(reversed(list(named.budgets.values())), "")
    told = {policy: f"base {limit(study, pool)}" for pool, policy in named.budgets.items()}
    for action in sorted(named.selective, key=lambda action: action != study.roles.action):
        gated, always = named.selective[action], named.always[action]
        verify = published.verb(action) or action.replace("_", " ")
        yield Comparison(gated, always, "correct", f"accuracy, selective {verify} minus always {verify}")
        yield Comparison(gated, always, "flip", f"flips, selective {verify} minus always {verify}")
        yield Comparison(gated, always, SAVED, f"action tokens saved, selective {verify} against always {verify}")
        for metric, words in (("correct", "accuracy"), ("total_tokens", "total tokens")) if longest else ():
            yield Comparison(gated, longest, metric, f"{words}, selective {verify} minus {told[longest]}")
    for rule in named.unfitted:
        always = named.always[study.roles.action]
        yield from (Comparison(rule, always, metric) for metric in ("correct", "flip", SAVED))
        yield from (Comparison(rule, longest, metric) for metric in ("correct", "total_tokens") if longest)
    for lower, upper in itertools.pairwise([named.base, *named.budgets.values()]):
        yield Comparison(upper, lower, "correct", f"accuracy, {told[upper]} minus {told.get(lower, 'base 4096')}")
        if lower != named.base:  # which flips nothing of its own
            yield Comparison(upper, lower, "flip")
        yield Comparison(upper, lower, "total_tokens")
    for vote in named.samples:
        yield Comparison(vote, named.base, "correct")
        for metric in ("correct", "total_tokens") if named.primary else ():
            yield Comparison(vote, named.primary, metric)
    for policy, vote in equal_votes(study).items():
        if policy != named.primary:  # which every vote is held against
            yield Comparison(vote, policy, "correct")


def equal_votes(study: DatasetStudy) -> dict[str, str]:
    """For every intervention, the vote for as many tokens: the largest one that costs no more."""
    spent = {vote: float(study.values(vote)["total_tokens"].mean()) for vote in study.served(study.named.samples)}
    paid = {one: float(study.values(one)["total_tokens"].mean()) for one in study.served(study.named.interventions)}
    return {one: vote for one, most in paid.items() if (vote := equal_vote(spent, most)) is not None}
