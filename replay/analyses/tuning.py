"""Tuning: choose one setting of every family on development rows, freeze it, report it on others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from replay.data.conditions import CONDITION, examples_of, matching, refuse_overlap
from replay.data.contents import opened
from replay.policies.base import Policy
from replay.policies.policy_errors import errors_of
from replay.policies.toml import POLICIES, RULES, PolicyFile, load_policies
from replay.runs.learning import learnt_on
from replay.runs.result import Result
from replay.runs.reuse import first_ids, gate_files, seen_by
from replay.runs.run import run
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, argument, require_known
from toolkit.log import TAKES, AnyLog, Log

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GOAL = re.compile(r'^\s*(min|max)\s+("[^"]+"|[^\s"]+)(?:\s+subject\s+to\s+(.+?))?\s*$', re.IGNORECASE)
_LIMIT = re.compile(
    rf'^\s*("[^"]+"|[^\s"]+?)\s*(>=|<=)\s*'
    rf"(?:(baseline)\s*(?:([+\-−*])\s*({_NUMBER})\s*(%?))?|({_NUMBER}))\s*$"
)
_BETWEEN = re.compile(r'(?:\s+and\s+|,)(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""What separates limits: outside quotation marks, which a metric such as `f1:LABEL` may need."""
EXAMPLE = "min total_tokens subject to accuracy >= baseline - 0.01"
CLOSE = 1e-12


@dataclass(frozen=True)
class Limit:
    """`metric` at least (`>=`) or at most (`<=`) a number, or the baseline's own value plus or times one."""

    metric: str
    sign: str
    number: float
    relative: str = ""  # "", "+" or "*" of the baseline

    def bound(self, baseline: float | None) -> float:
        """The number to keep to; `baseline` is the metric of the baseline, where the limit is relative to it."""
        if not self.relative:
            return self.number
        if baseline is None:
            raise ThinkbackError(f"`{self.metric}` of the baseline has no value on the development rows")
        return baseline + self.number if self.relative == "+" else baseline * self.number

    def holds(self, value: float | None, bound: float) -> bool:
        """Whether a value keeps to it; one that is not known does not."""
        if value is None:
            return False
        return value >= bound - CLOSE if self.sign == ">=" else value <= bound + CLOSE


@dataclass(frozen=True)
class Goal:
    """What to make small or large, and within which limits."""

    metric: str
    smallest: bool
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """`chosen`: family, tried, feasible, policy, goal metric on the development rows (null: no setting is feasible).

    `tried`: settings that could have been chosen. `development` and `report` are the two runs; the second has the
    chosen policies and the baseline.
    """

    goal: Goal
    chosen: pl.DataFrame
    development: Result
    report: Result
    tried: int


def read_goal(text: str) -> Goal:
    """Parse a goal such as `min total_tokens subject to accuracy >= baseline - 0.01 and traces <= 8`."""
    found = _GOAL.match(text)
    if found is None:
        raise ThinkbackError(f"{argument('goal')} is `{text}`; write it like `{EXAMPLE}`")
    direction, metric, limits = found.groups()
    parts = _BETWEEN.split(limits) if limits else []
    return Goal(metric.strip('"'), direction.lower() == "min", tuple(_limit(part, text) for part in parts))


def _limit(part: str, text: str) -> Limit:
    found = _LIMIT.match(part)
    if found is None:
        raise ThinkbackError(f"{argument('goal')}: cannot read `{part.strip()}` of `{text}`; write it like `{EXAMPLE}`")
    metric, sign, baseline, operation, change, percent, number = found.groups()
    metric = metric.strip('"')
    if baseline is None:
        return Limit(metric, sign, float(number))
    if operation is None:
        return Limit(metric, sign, 0.0, "+")
    amount = float(change) / (100 if percent else 1)
    if operation == "*":
        return Limit(metric, sign, amount, "*")
    amount = amount if operation == "+" else -amount
    return Limit(metric, sign, 1 + amount, "*") if percent else Limit(metric, sign, amount, "+")


@checks_arguments(
    log=TAKES,
    policies=POLICIES,
    on=CONDITION,
    report=CONDITION,
    goal=f"a text such as `{EXAMPLE}`",
    baseline="a policy's name",
    rules=RULES,
)
def tune(
    log: AnyLog,
    policies: str | Path | PolicyFile | Policy | Iterable[Policy],
    *,
    on: str,
    report: str,
    goal: str | Goal,
    baseline: str | None = None,
    rules: str | Path | Iterable[type] | None = None,
    **asked: Any,
) -> Tuned:
    """Choose on the examples where `on` holds, report where `report` holds; both are SQL conditions on examples.

    A family is the settings of one sweep, or a policy of its own. In each, the best feasible setting is chosen by the
    goal's metric; ties: the earlier one in the file. `asked` (settings, resamples, measure …) goes to both runs.
    Raises ThinkbackError where the two overlap, the goal cannot be read or names an unknown metric, or no family has
    a feasible setting.
    """
    if "where" in asked:
        raise ThinkbackError(
            f"{argument('where')} has no place here: {argument('on')} and {argument('report')} name the examples"
        )
    log, _ = opened(log)
    wanted = read_goal(goal) if isinstance(goal, str) else goal
    file = load_policies(policies, rules)
    if baseline is None and any(limit.relative for limit in wanted.limits):
        raise ThinkbackError(
            f"{argument('goal')} names the baseline, so name the policy that it is: {argument('baseline')}"
        )
    rows = matching(log, on, "on")
    refuse_overlap(log, rows, matching(log, report, "report"), "on", on)
    _refuse_learnt(log, file.policies, rows)
    development = run(log, file, baseline=baseline, where=on, **asked)
    _known_metrics(wanted, development)
    chosen = _choose(wanted, development, baseline)
    names = chosen["policy"].drop_nulls().to_list()
    if not names:
        raise ThinkbackError(f"no setting keeps to the goal on the {development.statistics.n:,} development examples")
    kept = {*names, *([baseline] if baseline else [])}
    frozen = development.replayed  # with numbers where the file has the threshold `all`
    kept = _with_bases(frozen, kept)
    left = PolicyFile(tuple(p for p in frozen if p.name in kept), file.measure, file.prices)
    reported = run(log, left, baseline=baseline, where=report, **asked)
    return Tuned(wanted, chosen, development, reported, int(chosen["tried"].sum()))


def _refuse_learnt(log: Log, policies: Sequence[Policy], ids: pl.Series) -> None:
    """Raise where settings would be chosen on examples that a policy learns from, or that its gate has seen."""
    three = "a policy that learns needs three sets of rows: to learn on, to choose on (`on`), to report (`report`)"
    whom = "the examples of `on`, which settings are chosen on"
    first: dict[tuple[str, str], Policy] = {}  # the settings of a sweep learn from the same rows
    for policy in policies:
        for learnt in learnt_on(policy):
            first.setdefault(learnt, policy)
    for (key, condition), policy in first.items():
        with errors_of(policy.name):
            refuse_overlap(log, matching(log, condition, key), ids, key, condition, (whom, three))
    gates = gate_files(policies)
    if not gates:
        return
    for gate, seen in seen_by(gates, examples_of(log, ids, ["question"]), log.digest()):
        if not gates[gate]:
            raise ThinkbackError(
                f"gate file `{gate.path}` was fitted or tuned on {len(seen):,} of {whom} ({first_ids(seen)}): {three}"
            )


def _with_bases(policies: Sequence[Policy], names: set[str]) -> set[str]:
    """The names, and those of the policies that they are compared with, and these, and so on."""
    bases = {p.name: p.against for p in policies if p.against is not None}
    kept, fresh = set(names), set(names)
    while fresh:
        fresh = {bases[name] for name in fresh if name in bases} - kept
        kept |= fresh
    return kept


def _known_metrics(goal: Goal, result: Result) -> None:
    known, columns = set(result.summary["metric"]), result.columns
    for metric in (goal.metric, *(limit.metric for limit in goal.limits)):
        if metric not in known and any(column.cost and column.metric == metric for column in columns):
            raise ThinkbackError(
                f"{argument('goal')} names `{metric}`, which the log does not have: its calls do not tell it"
            )
        require_known(metric, known, f"{argument('goal')} names an unknown metric `{metric}`")


def _choose(goal: Goal, result: Result, baseline: str | None) -> pl.DataFrame:
    """The best feasible setting of every family, diagnostics left out."""
    estimates = result.summary.select("policy", "metric", "estimate").drop_nulls("estimate")
    value = {(p, m): e for p, m, e in estimates.iter_rows()}
    bounds = [limit.bound(value.get((baseline or "", limit.metric))) for limit in goal.limits]
    families: dict[str, list[str]] = {}
    for policy in result.policies:
        if not policy.diagnostic:
            families.setdefault(policy.sweep, []).append(policy.name)
    rows, sign = [], 1 if goal.smallest else -1
    for family, members in families.items():
        feasible = [
            name
            for name in members
            if (name, goal.metric) in value
            and all(x.holds(value.get((name, x.metric)), bound) for x, bound in zip(goal.limits, bounds, strict=True))
        ]
        best = min(feasible, key=lambda name: sign * value[name, goal.metric], default=None)
        rows.append((family, len(members), len(feasible), best, value.get((best, goal.metric))))
    schema = {"family": pl.String, "tried": pl.Int64, "feasible": pl.Int64, "policy": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
