"""What the study's tables are made of: columns, policies by the part that they play, and comparisons of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import Row, Theirs, beside, intervals, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.study import DatasetStudy
from toolkit.columns import metric_column
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn


def _heading(metric: str) -> str:
    """What a metric's column is headed by everywhere."""
    return metric_column(metric).heading


ACCURACY = intervals(_heading("accuracy"), "accuracy", 1, metric="accuracy", shown=100)
PUBLISHED_ACCURACY = beside(ACCURACY, "accuracy_pct", "published %", "published_accuracy_pct")
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
TOTAL_TOKENS = intervals("total tokens", "total_tokens", 0, metric="total_tokens")
PLAIN_TOTAL_TOKENS = replace(TOTAL_TOKENS, form=Number(0))
ACTS_ON = numbers("acts on %", "intervention_rate", 1, metric="intervention_rate", shown=100)
CALLS = numbers(_heading("calls"), "calls", metric="calls", drop=4)
ACTION_TOKENS = numbers("action tokens", "action_tokens", 0, metric="action_tokens", drop=3)
FINALIZERS = numbers("finalizers", "finalizers", metric="finalizers", drop=5)
FIXES = numbers(_heading("fix_rate"), "fix_rate", metric="fix_rate", shown=100)
FLIPS = numbers(_heading("flip_rate"), "flip_rate", metric="flip_rate", shown=100)
SECONDS = tuple(numbers(name, name) for name in ("mean", "p50", "p95", "p99"))


PAPER_LIMIT = 4096
"""Token limit of the paper's base attempts."""
BASE, ALWAYS, SELECTIVE, BUDGET, SAMPLES, RULED = "base", "always", "selective", "budget", "samples", "rule"
"""Parts that policies play."""
ACTING = (ALWAYS, SELECTIVE, RULED)
OF_ACTIONS = ("action_tokens", "intervention_rate")
"""Metrics that first attempts other than the base's do not have."""

SAVED = "action tokens saved"
TO_ALWAYS = {
    "correct": "accuracy, selective {verify} minus always {verify}",
    "flip": "flips, selective {verify} minus always {verify}",
    SAVED: "action tokens saved, selective {verify} against always {verify}",
}
"""What a gate is compared in with always acting, and what the paper calls that."""
TO_LONGEST = {
    "correct": "accuracy, selective {verify} minus {longest}",
    "total_tokens": "total tokens, selective {verify} minus {longest}",
}
"""The same with the longest budget."""


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
        return StudyPolicy(self.study, self.study.named.base, BASE)

    @property
    def on_base(self) -> bool:
        """Whether it begins with the base attempt."""
        return self.part in (BASE, *ACTING)


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
class _Comparison:
    """A row of a paired table: two policies, what is compared, and the work's name of that."""

    first: str
    second: str
    metric: str
    name: str = ""

    def row(self, run: DatasetStudy, published: PublishedRow) -> Row:
        """The difference with its interval and its p-value, beside the published one."""
        what, scale = COMPARED[self.metric]
        if self.metric == SAVED:
            found, p_value = run.reduction(self.first, self.second, "action_tokens"), None
        else:
            found, p_value = run.paired(self.first, self.second, self.metric, scale)
        theirs = ShownInterval.of(tuple(published.get(key) for key in ("difference", "ci95_low", "ci95_high")))
        values = {"metric": what, "difference": found, "p_value": p_value}
        return Row((self.first, self.second), values=values, published={"difference": theirs, "p": published.get("p")})


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


def headline_names(study: DatasetStudy) -> list[str]:
    """Their names."""
    return [one.policy for one in headline(study)]


def limit(study: DatasetStudy, pool: str) -> str:
    """The token limit of a pool's first attempts; empty where it is not logged, or the base's is not the paper's.

    A budget stands beside a published one only where both limits are the paper's.
    """
    limits = study.roles.limits
    return str(limits.get(pool, "")) if limits.get(study.roles.base) == PAPER_LIMIT else ""


def comparisons(study: DatasetStudy) -> list[_Comparison]:
    """The rows of the paired table: gates against always acting and the longest budget, budgets, votes.

    Every intervention has a row with the vote for as many tokens.
    """
    served = set(study.policies)
    return [one for one in _comparisons(study) if {one.first, one.second} <= served]


def comparison_rows(study: DatasetStudy) -> Iterator[Row]:
    """Each of them beside the published one."""
    return (one.row(study, published.published_comparison(study.dataset, one.name)) for one in comparisons(study))


def _comparisons(study: DatasetStudy) -> Iterator[_Comparison]:
    named = study.named
    told = {policy: f"base {limit(study, pool)}" for pool, policy in named.budgets.items()}
    longest = list(told)[-1:]
    for action in (one for one in study.roles.primary_first if one in named.selective):
        gated, always, verify = named.selective[action], named.always[action], published.verb(action)
        words = {"verify": verify or action.replace("_", " "), "longest": "".join(told[one] for one in longest)}
        yield from (_Comparison(gated, always, key, name.format(**words)) for key, name in TO_ALWAYS.items())
        yield from (
            _Comparison(gated, one, key, TO_LONGEST[key].format(**words)) for one in longest for key in TO_LONGEST
        )
    for rule in named.unfitted:
        yield from (_Comparison(rule, named.always[study.roles.action], metric) for metric in TO_ALWAYS)
        yield from (_Comparison(rule, one, metric) for one in longest for metric in TO_LONGEST)
    for lower, upper in itertools.pairwise([named.base, *told]):
        yield _Comparison(upper, lower, "correct", f"accuracy, {told[upper]} minus {told.get(lower, 'base 4096')}")
        if lower != named.base:  # which flips nothing of its own
            yield _Comparison(upper, lower, "flip")
        yield _Comparison(upper, lower, "total_tokens")
    for vote in named.samples:
        yield _Comparison(vote, named.base, "correct")
        for metric in ("correct", "total_tokens") if named.primary else ():
            yield _Comparison(vote, named.primary, metric)
    for policy, vote in study.equal_votes(named.interventions, named.samples).items():
        if policy != named.primary:  # which every vote is held against
            yield _Comparison(vote, policy, "correct")
