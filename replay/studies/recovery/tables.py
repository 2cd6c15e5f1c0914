"""The study's tables of policies and gates. Shares are fractions until they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from replay.analyses.recommend.rivals import EXPECTED_ACTION
from replay.gatefit.gate_set import FEATURE_RULES, RULES, TREES
from replay.studies.kit.layout import DATASET
from replay.studies.kit.sheet import Column, Row, Sheet, beside, numbers, words
from replay.studies.recovery import columns, gates, published, rows, screening
from replay.studies.recovery.outcomes import PAIRED_COLUMNS, PAIRED_HEADS, mean
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import Number, TableColumn

ACCURACY = beside(columns.ACCURACY, "accuracy_pct", "published %", "published_accuracy_pct")
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
TOTAL = beside(columns.TOTAL_TOKENS, "total_tokens", "published tokens", "published_tokens", 0)
ACTION_TOKENS, ACTS_ON, FIXES, FLIPS = columns.ACTION_TOKENS, columns.ACTS_ON, columns.FIXES, columns.FLIPS
EXAMPLES = TableColumn("examples", Number(0))

BUDGET_MATCHED = Sheet[DatasetStudy](
    "budget_matched", "Policies at their realised budgets", ("policy",),
    (
        ACCURACY, ACTS_ON, columns.CALLS, ACTION_TOKENS, TOTAL, columns.FINALIZERS, FIXES,
        beside(FLIPS, "flips_pct", "published flips %", "published_flips"),
    ),
    partial(rows.headline_rows, find=published.published_policy),
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
    rows.comparison_rows, _told_paired, DATASET,
)  # fmt: skip
GATES = gates.GATES.beside(
    partial(gates.gate_rows, find=published.published_gate),
    {
        "accuracy": ("accuracy_pct", "published %", "published_accuracy_pct", 2),
        "intervention_rate": ("verify_pct", "published fires %", "published_verify_pct", 1),
    },
)


def _subgroups(study: DatasetStudy) -> Iterator[Row]:
    parts = (rows.BASE, rows.ALWAYS, rows.SELECTIVE)
    shown = sorted((one for one in rows.headline(study) if one.part in parts), key=lambda one: parts.index(one.part))
    for state, on in ((state, on) for state, on in study.state.items() if on.any()):
        other = published.published_state(study.dataset, state)
        for one in shown:
            flips = mean(study.values(one.policy)["flip"][on])
            values = {"accuracy": study.mean_on(one.policy, "correct", on), "flip_rate": flips}
            theirs = {"accuracy_pct": other.get(published.column(one.part, one.what))}
            yield Row((state, int(on.sum()), one.policy), values=values, published=theirs)


SUBGROUPS = Sheet[DatasetStudy](
    "subgroups", "By state of the base attempt", (TableColumn("base attempt", key="state"), EXAMPLES, "policy"),
    (ACCURACY, FLIPS), _subgroups, (), DATASET,
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
        yield Row((policy,), rows.StudyPolicy(study, policy), values, theirs)


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
        PLAIN_ACCURACY, beside(ACTS_ON, "verify_pct", "published acts on %", "published_verify_pct", 1), ACTION_TOKENS,
        FIXES, beside(FLIPS, "flips_pct", "published flips %", "published_flips_pct"),
        Column("ahead of the gate, points", "headroom", gates.POINTS), words("remark", "remark", drop=2),
    ),
    _rules, _told_rules, DATASET,
)  # fmt: skip


SCREENING = screening.SCREENING.beside(
    partial(screening.screening_rows, find=published.published_action),
    {
        "accuracy": ("final_accuracy_pct", "published %", "published_accuracy_pct", 2),
        "fix_rate": ("fix_pct", "published fixes %", "published_fix_pct", 2),
        "flip_rate": ("flip_pct", "published flips %", "published_flip_pct", 2),
        "action_tokens": ("action_tokens", "published tokens", "published_tokens", 0),
    },
)


def _budgets(study: DatasetStudy) -> Iterator[Row]:
    pools = {study.named.base: study.roles.base, **{p: pool for pool, p in study.named.budgets.items()}}
    for policy in study.served(pools):
        other = published.published_budget(study.dataset, rows.limit(study, pools[policy]))
        yield Row((policy,), rows.StudyPolicy(study, policy), published=other)


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
