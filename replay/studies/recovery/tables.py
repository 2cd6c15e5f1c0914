"""The study's tables of policies and gates, and what all its tables are of: columns, policies by part, comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from replay.analyses.recommend.rivals import EXPECTED_ACTION
from replay.gatefit.gate_set import CHEAP, FEATURE_RULES, RULES, TREES
from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import DATASET, Column, Row, Sheet, Theirs, beside, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.study import DatasetStudy, mean
from toolkit.columns import metric_column
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn
from toolkit.stats.curves.calibration import LEAST_IN_BIN


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
