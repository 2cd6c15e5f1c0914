"""The study's tables of policies and gates. Shares are fractions until they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from replay.analyses.recommend.rivals import EXPECTED_ACTION
from replay.gatefit.gate_set import CHEAP, FEATURE_RULES, RULES, TREES
from replay.studies.kit.sheet import DATASET, Column, Row, Sheet, beside, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.rows import (
    ACCURACY,
    ACTION_TOKENS,
    ACTS_ON,
    ALWAYS,
    BASE,
    CALLS,
    FINALIZERS,
    FIXES,
    FLIPS,
    PAIRED_COLUMNS,
    PAIRED_HEADS,
    PLAIN_ACCURACY,
    PUBLISHED_ACCURACY,
    SELECTIVE,
    TOTAL_TOKENS,
    StudyPolicy,
    comparison_rows,
    headline,
    headline_rows,
    limit,
)
from replay.studies.recovery.study import DatasetStudy, mean
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn
from toolkit.stats.curves.calibration import LEAST_IN_BIN

TOTAL = beside(TOTAL_TOKENS, "total_tokens", "published tokens", "published_tokens", 0)
EXAMPLES = TableColumn("examples", Number(0))
BUDGET_MATCHED = Sheet[DatasetStudy](
    "budget_matched", "Policies at their realised budgets", ("policy",),
    (
        PUBLISHED_ACCURACY, ACTS_ON, CALLS, ACTION_TOKENS, TOTAL, FINALIZERS, FIXES,
        beside(FLIPS, "flips_pct", "published flips %", "published_flips"),
    ),
    partial(headline_rows, find=published.published_policy),
    ("Rollouts are averaged within an example first. Tokens are those realised, prompts and finalizers included; "
     "accuracy(policy) − accuracy(base) = fixes − flips.",),
    DATASET,
)  # fmt: skip


def _told_paired(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    resamples = max(study.settings.resamples for study in studies)
    yield (
        f"Each on the same examples and the same resamples; p is two-sided, of {resamples:,} resamples at least "
        f"{2 / (resamples + 1):.2g}. Of votes, each intervention has a row with the largest one for no more mean "
        "tokens; one sample is a vote of 1."
    )


PAIRED = Sheet[DatasetStudy](
    "paired", "Paired comparisons", PAIRED_HEADS, PAIRED_COLUMNS,
    comparison_rows, _told_paired, DATASET,
)  # fmt: skip

OF_PROBABILITIES = ("brier", "ece")
"""What only a score that is a probability has."""
POINTS = NumberWithInterval(2, 100, signed=True)
"""Paired differences in points."""


def _gates(study: DatasetStudy) -> Iterator[Row]:
    """A row for each gate, paired with the action's own one on cheap features, beside the published one."""
    for gate in study.gates:
        cheap = study.roles.cheap(gate.action)
        compared = cheap != gate.policy and cheap in study.policies
        gained, p_value = study.paired(gate.policy, cheap) if compared else (None, None)
        dearer = study.paired(gate.policy, cheap, "action_tokens")[0] if compared else None
        values = {"fitted_on": gate.fitted_on, "minus_cheap": gained, "p_value": p_value}
        values |= {"action_tokens": study.mean(gate.policy, "action_tokens"), "action_tokens_minus_cheap": dearer}
        found = study.reports[gate.policy].numbers()
        values |= {key: one for key, one in found.items() if gate.predicts or key not in OF_PROBABILITIES}
        theirs = published.published_gate(study.dataset, gate.action) if gate.part == CHEAP else {}
        yield Row((gate.action, gate.shown), values=values, published=theirs)


GATE_COLUMNS = (
    words("fitted on", "fitted_on", drop=3), numbers("threshold", "threshold", 4, drop=4),
    replace(PUBLISHED_ACCURACY, form=PLAIN_ACCURACY.form),
    beside(replace(ACTS_ON, heading="fires %"), "verify_pct", "published fires %", "published_verify_pct", 1),
    ACTION_TOKENS,
    FIXES, FLIPS, Column("minus the cheap gate, points", "minus_cheap", POINTS),
    numbers("p", "p_value", 4),
    intervals("action tokens minus those of the cheap gate", "action_tokens_minus_cheap", 0, signed=True, drop=1),
    numbers("AUROC", "auroc", 3), numbers("AUPRC", "auprc", 3, drop=5), numbers("Brier", "brier", 4, drop=6),
    numbers("ECE", "ece", 4, drop=5), numbers("threshold chosen here", "diagnostic_threshold", 4, drop=8),
    numbers("its accuracy %", "diagnostic_accuracy", 1, shown=100, drop=7),
)  # fmt: skip
GATES = Sheet[DatasetStudy](
    "gates", "Gates", ("action", "gate"), GATE_COLUMNS, _gates,
    ("Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; that "
     "of another data set is frozen. Minus the cheap gate: paired differences. Brier and ECE: of scores that "
     "are probabilities. The threshold chosen here is a diagnostic: it sees the gold of the reported examples.",),
    DATASET,
)  # fmt: skip


def _subgroups(study: DatasetStudy) -> Iterator[Row]:
    parts = (BASE, ALWAYS, SELECTIVE)
    shown = sorted((one for one in headline(study) if one.part in parts), key=lambda one: parts.index(one.part))
    for state, on in ((state, on) for state, on in study.state.items() if on.any()):
        other = published.published_state(study.dataset, state)
        for one in shown:
            flips = mean(study.values(one.policy)["flip"][on])
            values = {"accuracy": study.mean_on(one.policy, "correct", on), "flip_rate": flips}
            theirs = {"accuracy_pct": other.get(published.column(one.part, one.what))}
            yield Row((state, int(on.sum()), one.policy), values=values, published=theirs)


SUBGROUPS = Sheet[DatasetStudy](
    "subgroups", "By state of the base attempt", (TableColumn("base attempt", key="state"), EXAMPLES, "policy"),
    (PUBLISHED_ACCURACY, FLIPS), _subgroups, (), DATASET,
)  # fmt: skip


def _rules(study: DatasetStudy) -> Iterator[Row]:
    named, action = study.named, study.roles.action
    trees = [one.policy for one in study.roles.rivals if one.action == action and one.part == TREES]
    diagnostic = {policy.name: policy.diagnostic for policy in study.result.policies}
    every = [named.always.get(action, ""), named.primary, *trees, *named.rules, *study.matched, *named.oracles]
    paper = _paper_rules(study)
    for policy in study.served(every):
        compared = named.primary in study.policies and policy != named.primary
        ahead = study.paired(policy, named.primary)[0] if compared else None
        values = {"headroom": ahead, "remark": "diagnostic" if diagnostic[policy] else ""}
        other = published.published_rule(study.dataset, paper.get(policy, ""))
        theirs = {key: other.get(key) for key in ("accuracy_pct", "verify_pct", "flips_pct")}
        yield Row((policy,), StudyPolicy(study, policy), values, theirs)


def _paper_rules(study: DatasetStudy) -> dict[str, str]:
    """What the paper calls rules and diagnostics, by policy; nothing where it has none for the primary action."""
    named, action = study.named, study.roles.action
    if published.verb(action) != "verify":
        return {}
    told = {of: f"{of[0]} oracle, self-consistency samples" for of in named.oracles.values() if of[1]}
    told |= {(EXPECTED_ACTION, ""): "expected-action oracle, verify"} if study.roles.actions == (action,) else {}
    found = {policy: told.get(of, "") for policy, of in named.oracles.items()}
    found |= dict.fromkeys(study.matched[:1], "oracle at matched rate")
    found |= {policy: rule for policy, rule in named.rules.items() if rule in FEATURE_RULES}
    return found | {named.primary: "cheap features", named.always.get(action, ""): "always verify"}


def _told_rules(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    there = {rule for study in studies for name, rule in study.named.rules.items() if name in study.policies}
    told = [f"{name}: acts {meaning}" for name, meaning in RULES.items() if name in there]
    yield "Diagnostics see gold and could not be run. Ahead of the gate: headroom, paired."
    if told:
        yield f"{'; '.join(told)}."


RULES_AND_HEADROOM = Sheet[DatasetStudy](
    "rules_and_headroom", "Routing rules and headroom", (TableColumn("rule"),),
    (
        replace(PUBLISHED_ACCURACY, form=PLAIN_ACCURACY.form),
        beside(ACTS_ON, "verify_pct", "published acts on %", "published_verify_pct", 1), ACTION_TOKENS,
        FIXES, beside(FLIPS, "flips_pct", "published flips %", "published_flips_pct"),
        Column("ahead of the gate, points", "headroom", POINTS), words("remark", "remark", drop=2),
    ),
    _rules, _told_rules, DATASET,
)  # fmt: skip


def _screening(study: DatasetStudy) -> Iterator[Row]:
    screening = study.screening.with_columns(screened_on="dataset")
    for row in listed(screening.iter_rows(named=True), ("action", "examples")):
        yield replace(row, published=published.published_action(str(row.values["dataset"]), row.heads[0]))


def _screened_columns(studies: Sequence[DatasetStudy]) -> list[Column]:
    """Whose examples the actions were screened on stands there where these are others than the row's data set."""
    others = any(set(study.screening["dataset"]) != {study.dataset} for study in studies)
    return [
        *([words("screened on", "screened_on", drop=1)] if others else []),
        beside(
            replace(ACCURACY, form=Number(2, 100)), "final_accuracy_pct", "published %", "published_accuracy_pct"
        ),
        beside(FIXES, "fix_pct", "published fixes %", "published_fix_pct"),
        beside(FLIPS, "flip_pct", "published flips %", "published_flip_pct"),
        numbers("finalizer %", "finalizer_rate", shown=100, drop=2),
        numbers("truncated %", "truncation_rate", shown=100, drop=2),
        beside(replace(ACTION_TOKENS, drop=0), "action_tokens", "published tokens", "published_tokens", 0),
    ]  # fmt: skip


SCREENING = Sheet[DatasetStudy](
    "screening", "Screening of the actions", ("action", EXAMPLES), _screened_columns, _screening,
    ("On the examples that gates are fitted on. Finalizer and truncated: of the action's own calls. The oracle sees "
     "gold: a diagnostic.",),
    DATASET,
)  # fmt: skip


def _budgets(study: DatasetStudy) -> Iterator[Row]:
    pools = {study.named.base: study.roles.base, **{p: pool for pool, p in study.named.budgets.items()}}
    for policy in study.served(pools):
        other = published.published_budget(study.dataset, limit(study, pools[policy]))
        yield Row((policy,), StudyPolicy(study, policy), published=other)


BUDGETS = Sheet[DatasetStudy](
    "budgets", "Initial budgets", (TableColumn("initial budget", key="policy"),),
    (
        PUBLISHED_ACCURACY, TOTAL, numbers("finalizer %", "finalizers", 1, metric="finalizers", shown=100),
        beside(numbers("truncated %", "truncated", 1, metric="truncated", shown=100),
               "truncation_pct", "published truncated %", "published_truncation_pct", 1),
        replace(FIXES, heading="right where the base is wrong %"), replace(FLIPS, heading="wrong where it is right %"),
    ),
    _budgets, (), DATASET,
)  # fmt: skip

POLICY_SHEETS = (BUDGET_MATCHED, PAIRED, GATES, SUBGROUPS, RULES_AND_HEADROOM, SCREENING, BUDGETS)


def _bins(study: DatasetStudy) -> Iterator[Row]:
    for gate in (one for one in study.gates if one.predicts):
        for one in study.calibration[gate.policy]:
            label = ShownInterval.of((one.label.estimate, one.label.low, one.label.high))
            scored = {"examples": one.n, "score": one.score, "repaired": label}
            yield Row((gate.action, gate.shown, f"{one.low:.1f} to {one.high:.1f}"), values=scored)


GATE_CALIBRATION = Sheet[DatasetStudy](
    "calibration", "Calibration of the gates", ("action", "gate", TableColumn("scores", key="bin")),
    (
        numbers("examples", "examples", 0), numbers("mean score", "score", 3),
        intervals("repaired %", "repaired", 1, shown=100),
    ),
    _bins,
    (f"Ten bins of equal width; neighbours with fewer than {LEAST_IN_BIN} examples are taken together. Scores that are "
     "no probabilities have no row.",),
    DATASET,
)  # fmt: skip
