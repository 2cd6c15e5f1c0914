"""The study's tables of policies and gates. Shares are fractions until they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from replay.analyses.rivals import EXPECTED_ACTION
from replay.gatefit.gate_set import CHEAP, TREES
from replay.gatefit.rules import RULES
from replay.studies.kit import columns
from replay.studies.kit.layout import DATASET
from replay.studies.kit.outcomes import PAIRED_COLUMNS, PAIRED_HEADS, mean
from replay.studies.kit.sheet import Column, Row, Sheet, beside, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.policies import HEURISTICS
from replay.studies.recovery.rows import StudyPolicy, comparisons, headline_rows, limit
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn
from toolkit.stats.calibration import LEAST_IN_BIN

ACCURACY = beside(columns.ACCURACY, "accuracy_pct", "published %", "published_accuracy_pct")
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
TOTAL = beside(columns.TOTAL_TOKENS, "total_tokens", "published tokens", "published_tokens", 0)
PLAIN_TOTAL = replace(TOTAL, form=Number(0), theirs=None)
ACTION_TOKENS, ACTS_ON, CALLS, FIXES, FLIPS = (
    columns.ACTION_TOKENS, columns.ACTS_ON, columns.CALLS, columns.FIXES, columns.FLIPS
)  # fmt: skip
EXAMPLES = TableColumn("examples", Number(0))
POINTS = NumberWithInterval(2, 100, signed=True)

BUDGET_MATCHED = Sheet[DatasetStudy](
    "budget_matched", "Policies at their realised budgets", ("policy",),
    (
        ACCURACY, ACTS_ON, CALLS, ACTION_TOKENS, TOTAL, columns.FINALIZERS, FIXES,
        beside(FLIPS, "flips_pct", "published flips %", "published_flips"),
    ),
    partial(headline_rows, find=published.published_policy),
    ("Rollouts are averaged within an example first. Tokens are those realised, prompts and finalizers included; "
     "accuracy(policy) − accuracy(base) = fixes − flips.",),
    DATASET,
)  # fmt: skip


def _paired(study: DatasetStudy) -> Iterator[Row]:
    for one in comparisons(study):
        yield one.row(study, published.published_comparison(study.dataset, one.name))


def _told_paired(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    resamples = max(study.settings.resamples for study in studies)
    yield (
        f"Each on the same examples and the same resamples; p is two-sided, of {resamples:,} resamples at least "
        f"{2 / (resamples + 1):.2g}. Of votes, each intervention has a row with the largest one for no more mean "
        "tokens; one sample is a vote of 1."
    )


PAIRED = Sheet[DatasetStudy](
    "paired", "Paired comparisons", PAIRED_HEADS, PAIRED_COLUMNS, _paired,
    _told_paired,
    DATASET,
)  # fmt: skip


OF_PROBABILITIES = ("brier", "ece")
"""What only a score that is a probability has."""


def _gates(study: DatasetStudy) -> Iterator[Row]:
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


GATES = Sheet[DatasetStudy](
    "gates", "Gates", ("action", "gate"),
    (
        words("fitted on", "fitted_on", drop=3), numbers("threshold", "threshold", 4, drop=4), PLAIN_ACCURACY,
        beside(replace(ACTS_ON, heading="fires %"), "verify_pct", "published fires %", "published_verify_pct", 1),
        ACTION_TOKENS, FIXES, FLIPS,
        Column("minus the cheap gate, points", "minus_cheap", POINTS), numbers("p", "p_value", 4),
        intervals("action tokens minus those of the cheap gate", "action_tokens_minus_cheap", 0, signed=True, drop=1),
        numbers("AUROC", "auroc", 3), numbers("AUPRC", "auprc", 3, drop=5), numbers("Brier", "brier", 4, drop=6),
        numbers("ECE", "ece", 4, drop=5), numbers("threshold chosen here", "diagnostic_threshold", 4, drop=8),
        numbers("its accuracy %", "diagnostic_accuracy", 1, shown=100, drop=7),
    ),
    _gates,
    ("Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; that "
     "of another data set is frozen. Minus the cheap gate: paired differences. Brier and ECE: of scores that "
     "are probabilities. The threshold chosen here is a diagnostic: it sees the gold of the reported examples.",),
    DATASET,
)  # fmt: skip


def _calibration(study: DatasetStudy) -> Iterator[Row]:
    for gate in (one for one in study.gates if one.predicts):
        for one in study.calibration[gate.policy]:
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
    shown = study.served((named.base, *named.always.values(), *named.selective.values()))
    for state, on in ((state, on) for state, on in study.state.items() if on.any()):
        other = published.published_state(study.dataset, state)
        for policy in shown:
            flips = mean(study.values(policy)["flip"][on])
            values = {"accuracy": study.mean_on(policy, "correct", on), "flip_rate": flips}
            theirs = {"accuracy_pct": other.get(known.get(policy, ""))}
            yield Row((state, int(on.sum()), policy), values=values, published=theirs)


SUBGROUPS = Sheet[DatasetStudy](
    "subgroups", "By state of the base attempt", (TableColumn("base attempt", key="state"), EXAMPLES, "policy"),
    (ACCURACY, FLIPS), _subgroups, (), DATASET,
)  # fmt: skip


def _rules(study: DatasetStudy) -> Iterator[Row]:
    named = study.named
    always = named.always.get(study.roles.action, "")
    own = [gate for gate in study.roles.rivals if gate.action == study.roles.action]
    trees = [gate.policy for gate in own if gate.part == TREES]
    shown = study.served([always, named.primary, *trees, *named.rules, *named.matched, *named.oracles])
    diagnostic = {policy.name: policy.diagnostic for policy in study.result.policies}
    for policy in shown:
        compared = named.primary in study.policies and policy != named.primary
        ahead = study.paired(policy, named.primary)[0] if compared else None
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
    screening = study.screening.with_columns(screened_on="dataset")
    for row in listed(screening.iter_rows(named=True), ("action", "examples")):
        theirs = published.published_action(str(row.values["dataset"]), row.heads[0])
        yield replace(row, published={f"published_{key}": value for key, value in theirs.items()})


def _screened_on(studies: Sequence[DatasetStudy]) -> list[Column]:
    """Whose examples the actions were screened on, where these are others than the row's data set."""
    others = any(set(study.screening["dataset"]) != {study.dataset} for study in studies)
    return [words("screened on", "screened_on", drop=1)] if others else []


SCREENING = Sheet[DatasetStudy](
    "screening", "Screening of the actions", ("action", EXAMPLES),
    lambda studies: (
        *_screened_on(studies),
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
    pools = {study.named.base: study.roles.base, **{p: pool for pool, p in study.named.budgets.items()}}
    for policy in study.served(pools):
        other = published.published_budget(study.dataset, limit(study, pools[policy]))
        yield Row((policy,), StudyPolicy(study, policy), published=other)


BUDGETS = Sheet[DatasetStudy](
    "budgets", "Initial budgets", (TableColumn("initial budget", key="policy"),),
    (
        ACCURACY, TOTAL, numbers("finalizer %", "finalizers", 1, metric="finalizers", shown=100),
        beside(numbers("truncated %", "truncated", 1, metric="truncated", shown=100),
               "truncation_pct", "published truncated %", "published_truncation_pct", 1),
        replace(FIXES, heading="right where the base is wrong %"), replace(FLIPS, heading="wrong where it is right %"),
    ),
    _budgets, (), DATASET,
)  # fmt: skip

POLICY_SHEETS = (BUDGET_MATCHED, PAIRED, GATES, SUBGROUPS, RULES_AND_HEADROOM, SCREENING, BUDGETS)
