"""The study's tables of policies and gates. Shares are fractions until they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from replay.gatefit.report import FROZEN, HERE
from replay.studies.kit.sheet import Column, Row, Sheet, Theirs, intervals, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.gates import CHEAP, HEURISTICS
from replay.studies.recovery.policies import COMPLETED, EXPECTED_ACTION, NEAR, NEAR_LIMIT, TRUNCATION
from replay.studies.recovery.rows import COMPARED, StudyPolicy, comparisons, headline, limit, paired_cell
from replay.studies.recovery.study import DatasetStudy
from toolkit.columns import metric_column
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn
from toolkit.stats import interval
from toolkit.stats.calibration import LEAST_IN_BIN, wide_bins

RULES = {
    TRUNCATION: "where the base attempt was cut off",
    NEAR_LIMIT: f"where it used {100 * NEAR:g} % of its tokens, or a finalizer",
    COMPLETED: "where the fitted gate fires and the base attempt was not cut off",
}
"""Routing rules without a model, and the gate among completed attempts alone."""
DATASET = "data set"


def _heading(metric: str) -> str:
    """What a metric's column is headed by everywhere."""
    return metric_column(metric).heading


def beside(column: Column, key: str, heading: str, name: str, decimals: int = 2) -> Column:
    """A column with published numbers of a key, after all other columns."""
    return replace(column, theirs=Theirs(key, heading, name, Number(decimals), apart=True))


def of(column: Column, heading: str) -> Column:
    """A column under another heading."""
    return replace(column, heading=heading)


ACCURACY = beside(
    intervals(_heading("accuracy"), "accuracy", 1, metric="accuracy", shown=100),
    "accuracy_pct", "published %", "published_accuracy_pct",
)  # fmt: skip
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
ACTS_ON = numbers("acts on %", "intervention_rate", 1, metric="intervention_rate", shown=100)
CALLS = numbers(_heading("calls"), "calls", metric="calls", drop=4)
ACTION_TOKENS = numbers("action tokens", "action_tokens", 0, metric="action_tokens", drop=3)
TOTAL = beside(
    intervals("total tokens", "total_tokens", 0, metric="total_tokens"),
    "total_tokens", "published tokens", "published_tokens", 0,
)  # fmt: skip
PLAIN_TOTAL = replace(TOTAL, form=Number(0), theirs=None)
FINALIZERS = numbers("finalizers", "finalizers", metric="finalizers", drop=5)
FIXES = numbers(_heading("fix_rate"), "fix_rate", metric="fix_rate", shown=100)
FLIPS = numbers(_heading("flip_rate"), "flip_rate", metric="flip_rate", shown=100)
EXAMPLES = TableColumn("examples", Number(0))
POINTS = NumberWithInterval(2, 100, signed=True)


def _policies(study: DatasetStudy) -> Iterator[Row]:
    for one in headline(study):
        yield Row((one.policy,), one, published=one.published(published.published_policy))


BUDGET_MATCHED = Sheet[DatasetStudy](
    "budget_matched", "Policies at their realised budgets", ("policy",),
    (
        ACCURACY, ACTS_ON, CALLS, ACTION_TOKENS, TOTAL, FINALIZERS, FIXES,
        beside(FLIPS, "flips_pct", "published flips %", "published_flips"),
    ),
    _policies,
    ("Rollouts are averaged within an example first. Tokens are those realised, prompts and finalizers included; "
     "accuracy(policy) − accuracy(base) = fixes − flips.",),
    DATASET,
)  # fmt: skip


def _paired(study: DatasetStudy) -> Iterator[Row]:
    for one in comparisons(study):
        difference, p_value = one.cell(study)
        other = published.published_comparison(study.dataset, one.name)
        theirs = ShownInterval.of(tuple(other.get(key) for key in ("difference", "ci95_low", "ci95_high")))
        values = {"metric": COMPARED[one.metric][0], "difference": difference, "p_value": p_value}
        yield Row((one.first, one.second), values=values, published={"difference": theirs, "p": other.get("p")})


PAIRED = Sheet[DatasetStudy](
    "paired", "Paired comparisons", ("policy", TableColumn("minus", key="baseline")),
    (
        words("what", "metric"),
        replace(
            intervals("difference", "difference", signed=True),
            theirs=Theirs("difference", "published", "published", NumberWithInterval(2, signed=True), apart=True),
        ),
        beside(numbers("p", "p_value", 4), "p", "published p", "published_p", 3),
    ),
    _paired,
    ("Each on the same examples and the same resamples; p is two-sided.",),
    DATASET,
)  # fmt: skip


def _gates(study: DatasetStudy) -> Iterator[Row]:
    for gate in study.gates:
        report = study.reports[gate.policy]
        frozen, there = report.rule(FROZEN), report.rule(HERE)
        scores = {name: getattr(report.calibration, name) for name in ("auroc", "auprc", "brier", "ece")}
        cheap = study.roles.cheap(gate.action)
        compared = cheap != gate.policy and cheap in study.policies
        gained, p_value = paired_cell(study, gate.policy, cheap) if compared else (None, None)
        yield Row(
            (gate.action, gate.shown),
            values={
                "fitted_on": gate.fitted_on, "minus_cheap": gained, "p_value": p_value,
                "diagnostic_threshold": there["threshold"], "diagnostic_accuracy": there["accuracy"],
                **{key: frozen.get(key) for key in ("threshold", "accuracy", "fix_rate", "flip_rate")},
                "intervention_rate": frozen["intervention_rate"],
                **{name: None if np.isnan(score) else score for name, score in scores.items()},
            },
            published=published.published_gate(study.dataset, gate.action) if gate.part == CHEAP else {},
        )  # fmt: skip


GATES = Sheet[DatasetStudy](
    "gates", "Gates", ("action", "gate"),
    (
        words("fitted on", "fitted_on", drop=3), numbers("threshold", "threshold", 4, drop=4), PLAIN_ACCURACY,
        beside(of(ACTS_ON, "fires %"), "verify_pct", "published fires %", "published_verify_pct", 1), FIXES, FLIPS,
        Column("minus the cheap gate, points", "minus_cheap", POINTS), numbers("p", "p_value", 4),
        numbers("AUROC", "auroc", 3), numbers("AUPRC", "auprc", 3, drop=5), numbers("Brier", "brier", 4, drop=6),
        numbers("ECE", "ece", 4, drop=5), numbers("threshold chosen here", "diagnostic_threshold", 4, drop=8),
        numbers("its accuracy %", "diagnostic_accuracy", 1, shown=100, drop=7),
    ),
    _gates,
    ("Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; that "
     "of another data set is frozen. Minus the cheap gate: difference in accuracy, paired. The threshold chosen here "
     "is a diagnostic: it sees the gold of the reported examples.",),
    DATASET,
)  # fmt: skip


def _calibration(study: DatasetStudy) -> Iterator[Row]:
    for gate in study.gates:
        found = study.reports[gate.policy]
        for one in wide_bins(found.scores, found.repairs, found.unit, study.settings):
            label = ShownInterval.of((one.label.estimate, one.label.low, one.label.high))
            scored = {"examples": one.n, "score": one.score, "repaired": label}
            yield Row((gate.action, gate.shown, f"{one.low:.1f} to {one.high:.1f}"), values=scored)


CALIBRATION = Sheet[DatasetStudy](
    "calibration", "Calibration of the gates", ("action", "gate", TableColumn("scores", key="bin")),
    (
        numbers("examples", "examples", 0), numbers("mean score", "score", 3),
        intervals("repaired %", "repaired", 1, shown=100),
    ),
    _calibration,
    (f"Ten bins of equal width; neighbours with fewer than {LEAST_IN_BIN} examples are taken together. Scores that are "
     "no probabilities have no row.",),
    DATASET,
)  # fmt: skip


def _subgroups(study: DatasetStudy) -> Iterator[Row]:
    named = study.named
    known = {
        named.base: "base_accuracy_pct",
        named.always.get("active_verify"): "always_verify_accuracy_pct",
        named.selective.get("active_verify"): "selective_verify_accuracy_pct",
        named.always.get("continue"): "always_continue_accuracy_pct",
    }
    shown = [name for name in (named.base, *named.always.values(), *named.selective.values()) if name in study.policies]
    for state, on in ((state, on) for state, on in study.state.items() if on.any()):
        other = published.published_state(study.dataset, state)
        cluster = None if study.cluster is None else study.cluster[on]
        for policy in shown:
            found = study.values(policy)
            mean = interval(found["correct"][on], cluster=cluster, settings=study.settings)
            flips = found["flip"][on]
            values = {
                "accuracy": ShownInterval.of((mean.estimate, mean.low, mean.high)),
                "flip_rate": None if np.isnan(flips).any() else float(flips.mean()),
            }
            theirs = {"accuracy_pct": other.get(known.get(policy, ""))}
            yield Row((state, int(on.sum()), policy), values=values, published=theirs)


SUBGROUPS = Sheet[DatasetStudy](
    "subgroups", "By state of the base attempt", (TableColumn("base attempt", key="state"), EXAMPLES, "policy"),
    (ACCURACY, FLIPS), _subgroups, (), DATASET,
)  # fmt: skip


def _rules(study: DatasetStudy) -> Iterator[Row]:
    named = study.named
    always = named.always.get(study.roles.action, "")
    shown = [always, named.primary, named.trees, *named.rules, *named.matched, *named.oracles]
    diagnostic = {policy.name: policy.diagnostic for policy in study.result.policies}
    for policy in (name for name in shown if name in study.policies):
        compared = named.primary in study.policies and policy != named.primary
        ahead = paired_cell(study, policy, named.primary)[0] if compared else None
        values = {"headroom": ahead, "remark": "diagnostic" if diagnostic[policy] else ""}
        other = published.published_rule(study.dataset, _paper_rule(study, policy))
        theirs = {key: other.get(key) for key in ("accuracy_pct", "verify_pct", "flips_pct")}
        yield Row((policy,), StudyPolicy(study, policy), values, theirs)


def _paper_rule(study: DatasetStudy, policy: str) -> str:
    """What the paper calls a rule; empty where it has no such one."""
    named, action = study.named, study.roles.action
    if published.verb(action) != "verify":
        return ""
    fixed = {named.always.get(action): "always verify", named.primary: "cheap features"}
    if policy in fixed:
        return fixed[policy]
    if (rule := named.rules.get(policy)) in HEURISTICS:
        return str(rule)
    if policy in named.matched[:1]:
        return "oracle at matched rate"
    which, pool = named.oracles.get(policy, ("", ""))
    if which == EXPECTED_ACTION and not pool and study.roles.actions == (action,):
        return "expected-action oracle, verify"
    return f"{which} oracle, self-consistency samples" if pool in study.roles.samples else ""


def _told_rules(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    there = {rule for study in studies for name, rule in study.named.rules.items() if name in study.policies}
    told = [f"{name}: acts {meaning}" for name, meaning in RULES.items() if name in there]
    yield "Diagnostics see gold and could not be run. Ahead of the gate: headroom, paired."
    if told:
        yield f"{'; '.join(told)}."


RULES_AND_HEADROOM = Sheet[DatasetStudy](
    "rules_and_headroom", "Routing rules and headroom", (TableColumn("rule"),),
    (
        PLAIN_ACCURACY, beside(ACTS_ON, "verify_pct", "published acts on %", "published_verify_pct", 1), ACTION_TOKENS,
        FIXES, beside(FLIPS, "flips_pct", "published flips %", "published_flips_pct"),
        Column("ahead of the gate, points", "headroom", POINTS), words("remark", "remark", drop=2),
    ),
    _rules, _told_rules, DATASET,
)  # fmt: skip


def _screening(study: DatasetStudy) -> Iterator[Row]:
    for row in study.screening.iter_rows(named=True):
        other = published.published_action(row["dataset"], row["action"])
        theirs = {f"published_{key}": value for key, value in other.items()}
        yield Row((row["action"], row["dataset"], row["examples"]), values=row, published=theirs)


SCREENING = Sheet[DatasetStudy](
    "screening", "Screening of the actions",
    ("action", TableColumn("screened on", key="screened_on", drop=1), EXAMPLES),
    (
        beside(replace(PLAIN_ACCURACY, form=Number(2, 100)), "published_final_accuracy_pct", "published %",
               "published_accuracy_pct"),
        beside(FIXES, "published_fix_pct", "published fixes %", "published_fix_pct"),
        beside(FLIPS, "published_flip_pct", "published flips %", "published_flip_pct"),
        numbers("finalizer %", "finalizer_rate", shown=100, drop=2),
        numbers("truncated %", "truncation_rate", shown=100, drop=2),
        beside(replace(ACTION_TOKENS, drop=0), "published_action_tokens", "published tokens", "published_tokens", 0),
    ),
    _screening,
    ("On the examples that gates are fitted on. Finalizer and truncated: of the action's own calls. The oracle sees "
     "gold: a diagnostic.",),
    DATASET,
)  # fmt: skip


def _budgets(study: DatasetStudy) -> Iterator[Row]:
    pools: Mapping[str, Any] = {
        study.named.base: study.roles.base,
        **{p: pool for pool, p in study.named.budgets.items()},
    }
    for policy, pool in pools.items():
        if policy in study.policies:
            other = published.published_budget(study.dataset, limit(study, pool))
            yield Row((policy,), StudyPolicy(study, policy), published=other)


BUDGETS = Sheet[DatasetStudy](
    "budgets", "Initial budgets", (TableColumn("initial budget", key="policy"),),
    (
        ACCURACY, TOTAL, numbers("finalizer %", "finalizers", 1, metric="finalizers", shown=100),
        beside(numbers("truncated %", "truncated", 1, metric="truncated", shown=100),
               "truncation_pct", "published truncated %", "published_truncation_pct", 1),
        of(FIXES, "right where the base is wrong %"), of(FLIPS, "wrong where it is right %"),
    ),
    _budgets, (), DATASET,
)  # fmt: skip

POLICY_SHEETS = (BUDGET_MATCHED, PAIRED, GATES, SUBGROUPS, RULES_AND_HEADROOM, SCREENING, BUDGETS)
