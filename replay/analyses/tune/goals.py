"""Goals: what tuning minimises or maximises, and within which limits, as people write it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from replay.runs.saved.promise import MetricLimit
from toolkit.columns import COLUMNS, OutcomeColumn, cost_named
from toolkit.errors import InvalidError, UnknownError, argument
from toolkit.stats.many.compare import ACCURACY

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GOAL = re.compile(r'^\s*(min|max)\s+("[^"]+"|[^\s"]+)(?:\s+subject\s+to\s+(.+?))?\s*$', re.IGNORECASE)
_LIMIT = re.compile(
    rf'^\s*("[^"]+"|[^\s"]+?)\s*(>=|<=)\s*'
    rf"(?:(baseline)\s*(?:([+\-−*])\s*({_NUMBER})\s*(%?))?|({_NUMBER}))\s*$"
)
_BETWEEN = re.compile(r'(?:\s+and\s+|,)(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""The pattern that separates limits, outside quotation marks, which a metric such as `f1:LABEL` may need."""
EXAMPLE = "min total_tokens subject to accuracy >= baseline - 0.01"
CHEAPEST = "cheapest within 1 point of majority@16"
_CHEAPEST = re.compile(rf"^\s*cheapest\s+within\s+({_NUMBER})\s*(?:percentage\s+)?points?\s+of\s+(.+?)\s*$", re.I)
_MOST = re.compile(rf"^\s*(?:most\s+accurate|best)\s+within\s+({_NUMBER})\s+(\S.*?)\s*$", re.I)


@dataclass(frozen=True)
class Goal:
    """A goal of tuning: a metric to minimise or maximise, and limits to keep.

    `metric`: None for the cost that ranks a run. `baseline`: the policy that limits are relative to, where the goal
    names it. `in_words`: written in plain words, and told in them; its `accuracy` is whatever ranks a run.
    """

    metric: str | None
    smallest: bool
    limits: tuple[MetricLimit, ...] = ()
    baseline: str | None = None
    in_words: bool = False


def read_goal(text: str, columns: Sequence[OutcomeColumn] = COLUMNS) -> Goal:
    """Parse a goal such as `cheapest within 1 point of majority@16`, `best within 2,000 tokens`, or
    `min total_tokens subject to accuracy >= baseline - 0.01 and traces <= 8`.

    `columns` name the costs.
    """
    if (cheapest := _CHEAPEST.match(text)) is not None:
        limit = MetricLimit(ACCURACY, ">=", -float(cheapest[1]) / 100, "+")
        return Goal(None, True, (limit,), cheapest[2].strip('"'), in_words=True)
    if (most := _MOST.match(re.sub(r"(?<=\d),(?=\d{3})", "", text))) is not None:
        limit = MetricLimit(str(cost_named(most[2], columns).metric), "<=", float(most[1]))
        return Goal(ACCURACY, False, (limit,), in_words=True)
    match = _GOAL.match(text)
    if match is None:
        raise InvalidError(f"{argument('goal')} is `{text}`; write it like `{CHEAPEST}`, or `{EXAMPLE}`")
    direction, metric, limits = match.groups()
    parts = _BETWEEN.split(limits) if limits else []
    return Goal(metric.strip('"'), direction.lower() == "min", tuple(_parse_limit(part, text) for part in parts))


def with_metrics(goal: Goal, columns: Sequence[OutcomeColumn], known: Collection[str], ranking: str) -> Goal:
    """The goal with the metrics of a run in place of names of costs, such as `price`, and, where it is in words, with
    the `ranking` metric of the run in place of accuracy.
    """

    def outcome_metric(name: str) -> str:
        if goal.in_words and name == ACCURACY:
            return ranking
        try:
            return name if name in known else str(cost_named(name, columns, known.__contains__).metric)
        except UnknownError:
            return name

    limits = tuple(replace(limit, metric=outcome_metric(limit.metric)) for limit in goal.limits)
    return replace(goal, metric=None if goal.metric is None else outcome_metric(goal.metric), limits=limits)


def _parse_limit(part: str, text: str) -> MetricLimit:
    match = _LIMIT.match(part)
    if match is None:
        raise InvalidError(f"{argument('goal')}: cannot read `{part.strip()}` of `{text}`; write it like `{EXAMPLE}`")
    metric, sign, baseline, operation, change, percent, number = match.groups()
    metric = metric.strip('"')
    if baseline is None:
        return MetricLimit(metric, sign, float(number))
    if operation is None:
        return MetricLimit(metric, sign, 0.0, "+")
    amount = float(change) / (100 if percent else 1)
    if operation == "*":
        return MetricLimit(metric, sign, amount, "*")
    amount = amount if operation == "+" else -amount
    return MetricLimit(metric, sign, 1 + amount, "*") if percent else MetricLimit(metric, sign, amount, "+")
