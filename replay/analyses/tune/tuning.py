"""Tuning: choose one setting of every family on development rows, freeze it, and report it on other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.analyses.tune.goals import EXAMPLE, Goal, read_goal, with_metrics
from replay.analyses.tune.tuned import EstimatedChoice, TuningResult, ranking_metric
from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where, read_examples, refuse_overlap
from replay.data.contents import open_with_contents
from replay.data.prices import load_prices, priced_columns
from replay.policies.base import Policy, policy_errors
from replay.policies.suite import suite
from replay.policies.toml import GivenPolicies, PolicyFile, load_policies
from replay.runs.passes.learning import learning_conditions
from replay.runs.passes.reuse import first_ids_text, gate_files_with_reuse, gates_fitted_on
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.runs.saved.display import ranked_input
from replay.runs.saved.promise import PromiseTests, policy_families
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import (
    ConflictError,
    EmptyError,
    LeakageError,
    RequiredError,
    ThinkbackError,
    UnsuitableError,
    argument,
    require_known,
)
from toolkit.log import AnyLog, Log, collect
from toolkit.stats import settings_of
from toolkit.workers.chosen import spread_over_workers


@spread_over_workers
@checks_arguments(goal=f"a text such as `{EXAMPLE}`")
def tune(
    log: AnyLog,
    policies: GivenPolicies | None = None,
    *,
    goal: str | Goal,
    on: str | None = None,
    report: str | None = None,
    baseline: str | None = None,
    rules: GivenRules = None,
    **options: Any,
) -> TuningResult:
    """Choose settings on the examples where `on` holds, and report them where `report` holds (SQL conditions).

    Without them, the splits `dev` and `test` are taken where the log has both, else two seeded halves. Without
    `policies`, the standard suite. A family is the settings of one sweep, or a policy of its own. In each, the best
    feasible setting is chosen by the goal's metric; ties: the earlier one in the file. Where the goal is the cheapest
    within a margin of the baseline, feasible are the settings that a fixed sequence of lower limits shows to be, so
    that the choice breaks the goal with a probability of 5 % at most. `options` (settings, resamples, measure …) goes
    to both runs. Raises ThinkbackError where the two overlap, the goal cannot be read or names an unknown metric, or no
    family has a feasible setting.
    """
    if "where" in options:
        raise ConflictError(
            f"{argument('on')} and {argument('report')} name the examples: leave out {argument('where')}"
        )
    log, _ = open_with_contents(log)
    if (on is None) != (report is None):
        raise RequiredError(f"{argument('on')} and {argument('report')} go together: name both, or neither")
    halves = on is None or report is None
    if on is None or report is None:
        on, report = _development_and_test_condition(
            log, settings_of(options.get("settings"), seed=options.get("seed")).seed
        )
    prices = options.get("prices")
    file = load_policies(
        suite(log, prices=prices, cost=options.get("cost")).text if policies is None else policies, rules
    )
    columns = priced_columns(file.prices if prices is None else load_prices(prices), file.measure)
    parsed_goal = read_goal(goal, columns) if isinstance(goal, str) else goal
    baseline = parsed_goal.baseline if baseline is None else baseline
    if baseline is None and any(limit.relative for limit in parsed_goal.limits):
        raise RequiredError(f"{argument('goal')} refers to the baseline: name a policy as {argument('baseline')}")
    rows, others = _chosen_and_reported_ids(log, on, report, halves)
    refuse_overlap(log, rows, others, "on", on)
    _refuse_learnt_on_reported(log, file.policies, rows)
    development = run(log, file, baseline=baseline, where=on, **options)
    if parsed_goal.metric is None:
        parsed_goal = replace(parsed_goal, metric=str(ranked_input(development).cost_column.metric))
    valued = set(development.summary.drop_nulls("estimate")["metric"])
    parsed_goal = with_metrics(parsed_goal, development.columns, valued, development.summariser.metric)
    _require_known_metrics(parsed_goal, development)
    promise = PromiseTests.tests_of_limits(parsed_goal.limits if parsed_goal.smallest else (), development)
    chosen, families = _choose_by_family(parsed_goal, development, baseline, promise)
    names = chosen["policy"].drop_nulls().to_list()
    if not names:
        raise EmptyError(f"no setting keeps to the goal on the {development.statistics.n:,} development examples")
    policy_names = {*names, *([baseline] if baseline else [])}
    frozen = development.replayed  # with numbers where the file has the threshold `all`
    policy_names = _names_with_bases(frozen, policy_names)
    reported_file = PolicyFile(
        tuple(p for p in frozen if p.name in policy_names), file.measure, file.prices, cost=file.cost
    )
    reported = run(log, reported_file, baseline=baseline, where=report, **options)
    best = _best_setting(parsed_goal, chosen, development)
    choice = Choice(
        UsedRows(on, development.statistics.n), UsedRows(report, reported.statistics.n), best=best,
        tried=int(chosen["tried"].sum()),
    )  # fmt: skip
    estimated = None if promise is None else _choice_by_estimates(parsed_goal, development, promise, best, families)
    return TuningResult(parsed_goal, chosen, choice, development, reported, promise is not None, estimated)


def _chosen_and_reported_ids(log: Log, on: str, report: str, halves: bool) -> tuple[pl.Series, pl.Series]:
    """Ids of the examples to choose on and of those to report; `halves`: the user named neither."""
    try:
        return ids_where(log, on, "on"), ids_where(log, report, "report")
    except ThinkbackError as error:
        if not halves:
            raise
        raise EmptyError(
            f"{log.address} has too few examples, or clusters of them, to choose on one half and to report the other: "
            f"name two sets by {argument('on')} and {argument('report')}, or take a larger log"
        ) from error


def _refuse_learnt_on_reported(log: Log, policies: Sequence[Policy], ids: pl.Series) -> None:
    """Raise where settings would be chosen on examples that a policy learns from, or that its gate has seen."""
    three = "a policy that learns needs three sets of rows: to learn on, to choose on (`on`), to report (`report`)"
    whom = "the examples of `on`, which settings are chosen on"
    first: dict[tuple[str, str], Policy] = {}  # the settings of a sweep learn from the same rows
    for policy in policies:
        for learnt in learning_conditions(policy):
            first.setdefault(learnt, policy)
    for (key, condition), policy in first.items():
        with policy_errors(policy.name):
            refuse_overlap(log, ids_where(log, condition, key), ids, key, condition, (whom, three))
    gates = gate_files_with_reuse(policies)
    if not gates:
        return
    for gate, seen in gates_fitted_on(gates, read_examples(log, ids, ["question"]), log.digest()):
        if not gates[gate]:
            raise LeakageError(
                f"gate file `{gate.path}` was fitted or tuned on {len(seen):,} of {whom} "
                f"({first_ids_text(seen)}): {three}"
            )


def _names_with_bases(policies: Sequence[Policy], names: set[str]) -> set[str]:
    """The names with those of the policies that they are compared with, and so on."""
    bases = {p.name: p.against for p in policies if p.against is not None}
    all_names, fresh = set(names), set(names)
    while fresh:
        fresh = {bases[name] for name in fresh if name in bases} - all_names
        all_names |= fresh
    return all_names


def _require_known_metrics(goal: Goal, result: Result) -> None:
    known, columns = set(result.summary["metric"]), result.columns
    valued = set(result.summary.drop_nulls("estimate")["metric"])
    for metric in (str(goal.metric), *(limit.metric for limit in goal.limits)):
        if metric not in known and any(column.cost and column.metric == metric for column in columns):
            raise UnsuitableError(f"{argument('goal')} names `{metric}`, which the calls of the log do not record")
        require_known(metric, known, f"{argument('goal')} names an unknown metric `{metric}`")
        if metric not in valued:
            raise EmptyError(f"{argument('goal')} names `{metric}`, of which no policy has a value")


def _development_and_test_condition(log: Log, seed: int) -> tuple[str, str]:
    """Conditions of the examples to choose on and of those to report: the splits `dev` and `test` where the log has
    both; else two halves by cluster, of the test examples where there are some beside others.
    """
    splits = collect(log.scan("examples", ["split"]).select(pl.col("split").unique()), log)["split"].drop_nulls()
    if {"dev", "test"} <= set(splits):
        return "split = 'dev'", "split = 'test'"
    half = f"md5('{seed} ' || coalesce(cluster, example_id))"
    among = "split = 'test' AND " if "test" in set(splits) and len(splits) > 1 else ""
    return f"{among}{half} < '8'", f"{among}{half} >= '8'"


def _best_setting(goal: Goal, chosen: pl.DataFrame, development: Result) -> str:
    """The name of the chosen setting that is best by the goal; ties by the ranking metric, or by cost if that is a
    limit.
    """
    other, sign = (
        (ranking_metric(development), -1) if goal.smallest else (str(ranked_input(development).cost_column.metric), 1)
    )
    of = development.summary.filter(metric=other).select("policy", other=sign * pl.col("estimate"))
    rows = chosen.drop_nulls("policy").join(of, on="policy", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("value").round(12))
    order = rows.sort("value", "other", descending=[not goal.smallest, False], nulls_last=True, maintain_order=True)
    return str(order["policy"][0])


def _choose_by_family(
    goal: Goal, result: Result, baseline: str | None, promise: PromiseTests | None = None
) -> tuple[pl.DataFrame, int]:
    """The best feasible setting of every family, as a table; and of how many families a setting was tested for the
    promise.
    """
    estimates = result.summary.select("policy", "metric", "estimate").drop_nulls("estimate")
    value = {(p, m): e for p, m, e in estimates.iter_rows()}
    limits = [limit for limit in goal.limits if promise is None or limit not in promise.limits]
    bounds = [(limit, limit.bound_for_baseline(value.get((baseline or "", limit.metric)))) for limit in limits]
    feasible: Mapping[str, Sequence[str]] = {
        family: [
            name
            for name in members
            if (name, goal.metric) in value
            and all(limit.keeps_to_limit(value.get((name, limit.metric)), bound) for limit, bound in bounds)
        ]
        for family, members in policy_families(result).items()
    }
    tested = 1
    if promise is not None:
        passed = promise.policies_that_pass(
            feasible, {name: e for (name, metric), e in value.items() if metric == goal.metric}
        )
        feasible, tested = passed.by_family, passed.families
    rows, sign = [], 1 if goal.smallest else -1
    for family, members in policy_families(result).items():
        best = min(feasible[family], key=lambda name: sign * value[name, goal.metric], default=None)
        rows.append((family, len(members), len(feasible[family]), best, value.get((best, goal.metric))))
    schema = {"family": pl.String, "tried": pl.Int64, "feasible": pl.Int64, "policy": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row"), tested


def _choice_by_estimates(
    goal: Goal, development: Result, promise: PromiseTests, best: str, families: int
) -> EstimatedChoice | None:
    other = _best_setting(goal, _choose_by_family(goal, development, promise.baseline)[0], development)
    return None if other == best else EstimatedChoice(other, promise.questions_to_keep_limits(other, families))
