"""The study's tables: policies, gates and costs; and what they are of: columns, policies by part, comparisons.

Shares are fractions until they are shown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
import polars as pl

from replay.analyses.recommend.rivals import EXPECTED_ACTION, best_policy_at_no_more_cost
from replay.gatefit.gate_set import CHEAP, FEATURE_RULES, RULES, TREES
from replay.studies.kit.cells import UNLOGGED, PolicyCells, estimate, read_interval, unlogged_note
from replay.studies.kit.published import PublishedRow, published_beside
from replay.studies.kit.sheet import (
    DATASET,
    Captions,
    Column,
    DashReason,
    PublishedColumn,
    Row,
    Sheet,
    Value,
    intervals,
    numbers,
    rows_of_records,
    tables_of,
    with_published,
    words,
)
from replay.studies.recovery import published
from replay.studies.recovery.study import LACKING, DatasetStudy, mean
from replay.studies.recovery.verdicts import VERDICTS as GATE_VERDICTS
from replay.studies.recovery.verdicts import gaps_to_cheap_gates
from toolkit.columns import metric_column
from toolkit.show import IntervalCell, Number, NumberWithInterval, Table, TableColumn, remark
from toolkit.stats.curves.calibration import LEAST_IN_BIN
from toolkit.stats.many.summary_notes import BATCHED_SECONDS


def _heading_of_metric(metric: str) -> str:
    return metric_column(metric).heading


ACCURACY = intervals(_heading_of_metric("accuracy"), "accuracy", 1, metric="accuracy", factor=100)
PUBLISHED_ACCURACY = with_published(ACCURACY, "accuracy_pct", "published %", "published_accuracy_pct")
PLAIN_ACCURACY = replace(ACCURACY, form=Number(1, 100))
TOTAL_TOKENS = intervals("total tokens", "total_tokens", 0, metric="total_tokens")
PLAIN_TOTAL_TOKENS = replace(TOTAL_TOKENS, form=Number(0))
ACTS_ON = numbers("acts on %", "intervention_rate", 1, metric="intervention_rate", factor=100)
CALLS = numbers(_heading_of_metric("calls"), "calls", metric="calls", drop=4)
ACTION_TOKENS = numbers("action tokens", "action_tokens", 0, metric="action_tokens", drop=3)
FINALIZERS = numbers("finalizers", "finalizers", metric="finalizers", drop=5)
FIXES = numbers(_heading_of_metric("fix_rate"), "fix_rate", metric="fix_rate", factor=100)
FLIPS = numbers(_heading_of_metric("flip_rate"), "flip_rate", metric="flip_rate", factor=100)
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
"""Metrics in which a gate is compared with always acting, with their names in the paper."""
TO_LONGEST = {
    "correct": "accuracy, selective {verify} minus {longest}",
    "total_tokens": "total tokens, selective {verify} minus {longest}",
}
"""Comparisons with the longest budget."""


@dataclass(frozen=True)
class StudyPolicy:
    """A policy of a data set's run with its role (`part`); `what` is its action, token limit or number of votes."""

    study: DatasetStudy
    policy: str
    part: str = ""
    what: str = ""

    def cell(self, metric: str, scale: float = 1.0) -> IntervalCell | None:
        if self.part in (BUDGET, SAMPLES) and metric in OF_ACTIONS:
            return None
        return self.study.cell(self.policy, metric, scale)

    def number(self, metric: str) -> float | None:
        cell = self.cell(metric)
        return None if cell is None else cell.estimate

    @property
    def base(self) -> StudyPolicy:
        return StudyPolicy(self.study, self.study.names.base, BASE)

    @property
    def acts_on_base(self) -> bool:
        return self.part in (BASE, *ACTING)


COMPARED = {
    "correct": ("accuracy, points", 100.0),
    "flip": ("flips, points", 100.0),
    "total_tokens": ("total tokens", 1.0),
    SAVED: ("action tokens saved %", 100.0),
}
"""Label and scale of each metric in a paired table."""
PAIRED_HEADS = ("policy", TableColumn("minus", key="baseline"))
PAIRED_COLUMNS = (
    words("what", "metric"),
    replace(
        intervals("difference", "difference", signed=True),
        published_column=PublishedColumn(
            "difference", "published", "published", NumberWithInterval(2, signed=True), apart=True
        ),
    ),
    with_published(numbers("p", "p_value", 4), "p", "published p", "published_p", 3),
)
"""Columns of a paired table."""


@dataclass(frozen=True)
class _StudyComparison:
    """A row of a paired table: two policies, the metric that is compared, and the paper's name of the comparison."""

    first: str
    second: str
    metric: str
    name: str = ""

    def row(self, run: DatasetStudy, published: PublishedRow) -> Row:
        """Returns the difference with interval and p-value, beside the published one."""
        what, scale = COMPARED[self.metric]
        if self.metric == SAVED:
            difference, p_value = run.reduction(self.first, self.second, "action_tokens"), None
        else:
            difference, p_value = run.difference(self.first, self.second, self.metric, scale)
        published_difference = IntervalCell.of(
            tuple(published.get(key) for key in ("difference", "ci95_low", "ci95_high"))
        )
        values = {"metric": what, "difference": difference, "p_value": p_value}
        return Row(
            (self.first, self.second),
            values=values,
            published={"difference": published_difference, "p": published.get("p")},
        )


def main_policies(study: DatasetStudy) -> list[StudyPolicy]:
    """Returns the policies of the main table that could be replayed."""
    names = study.names
    rows = [(names.base, BASE, "")]
    for action, policy in names.always.items():
        rows += [(policy, ALWAYS, action)]
        rows += [(names.selective[action], SELECTIVE, action)] if action in names.selective else []
    rows += [(policy, RULED, study.roles.action) for policy in names.policies_not_fitted]
    rows += [(policy, BUDGET, token_limit_text(study, pool)) for pool, policy in names.budgets.items()]
    rows += [(policy, SAMPLES, str(size)) for policy, size in names.samples.items()]
    return [StudyPolicy(study, *row) for row in rows if row[0] in study.policies]


def _headline_rows(study: DatasetStudy, find: published.Find | None = None) -> Iterator[Row]:
    """Yields a row for each policy of the main table, with its published numbers."""
    for one in main_policies(study):
        yield Row((one.policy,), one, published=find(study.published, one.part, one.what) if find is not None else {})


def token_limit_text(study: DatasetStudy, pool: str) -> str:
    """Returns the token limit of a pool's first attempts; empty where it is not logged, or the base's limit is not the
    paper's.

    A budget stands beside a published one only where both limits are the paper's.
    """
    limits = study.roles.limits
    return str(limits.get(pool, "")) if limits.get(study.roles.base) == PAPER_LIMIT else ""


def comparisons(study: DatasetStudy) -> list[_StudyComparison]:
    """Returns the rows of the paired table: gates against always acting and against the longest budget, budgets,
    votes.

    Every intervention has a row with the vote for as many tokens.
    """
    policies = set(study.policies)
    return [one for one in _comparisons(study) if {one.first, one.second} <= policies]


def _comparison_rows(study: DatasetStudy) -> Iterator[Row]:
    """Yields the rows of the paired table with their published numbers."""
    return (one.row(study, published.published_comparison(study.published, one.name)) for one in comparisons(study))


def _comparisons(study: DatasetStudy) -> Iterator[_StudyComparison]:
    names = study.names
    labels = {policy: f"base {token_limit_text(study, pool)}" for pool, policy in names.budgets.items()}
    longest = list(labels)[-1:]
    for action in (one for one in study.roles.ordered_actions if one in names.selective):
        gated, always, verify = names.selective[action], names.always[action], published.paper_verb(action)
        words = {"verify": verify or action.replace("_", " "), "longest": "".join(labels[one] for one in longest)}
        yield from (_StudyComparison(gated, always, key, name.format(**words)) for key, name in TO_ALWAYS.items())
        yield from (
            _StudyComparison(gated, one, key, TO_LONGEST[key].format(**words)) for one in longest for key in TO_LONGEST
        )
    for rule in names.policies_not_fitted:
        yield from (_StudyComparison(rule, names.always[study.roles.action], metric) for metric in TO_ALWAYS)
        yield from (_StudyComparison(rule, one, metric) for one in longest for metric in TO_LONGEST)
    for lower, upper in itertools.pairwise([names.base, *labels]):
        yield _StudyComparison(
            upper, lower, "correct", f"accuracy, {labels[upper]} minus {labels.get(lower, 'base 4096')}"
        )
        if lower != names.base:  # which flips nothing of its own
            yield _StudyComparison(upper, lower, "flip")
        yield _StudyComparison(upper, lower, "total_tokens")
    for vote in names.samples:
        yield _StudyComparison(vote, names.base, "correct")
        for metric in ("correct", "total_tokens") if names.primary else ():
            yield _StudyComparison(vote, names.primary, metric)
    for policy, vote in study.equal_cost_votes(names.interventions, names.samples).items():
        if policy != names.primary:  # which every vote is held against
            yield _StudyComparison(vote, policy, "correct")


TOTAL = with_published(TOTAL_TOKENS, "total_tokens", "published tokens", "published_tokens", 0)
EXAMPLES = TableColumn("examples", Number(0))
BUDGET_MATCHED = Sheet[DatasetStudy](
    "budget_matched", "Policies at their realised budgets", ("policy",),
    (
        PUBLISHED_ACCURACY, ACTS_ON, CALLS, ACTION_TOKENS, TOTAL, FINALIZERS, FIXES,
        with_published(FLIPS, "flips_pct", "published flips %", "published_flips"),
    ),
    partial(_headline_rows, find=published.published_policy),
    ("Rollouts are averaged within an example first. Tokens are those realised, prompts and finalizers included; "
     "accuracy(policy) − accuracy(base) = fixes − flips.",),
    DATASET,
)  # fmt: skip


def _notes_on_pairs(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    resamples = max(study.settings.resamples for study in studies)
    yield (
        f"Each by itself, on the same examples and the same resamples; p is two-sided, of {resamples:,} resamples at "
        f"least {2 / (resamples + 1):.2g}. Of votes, each intervention has a row with the largest one for no more mean "
        "tokens; one sample is a vote of 1."
    )


PAIRED = Sheet[DatasetStudy](
    "paired", "Paired comparisons", PAIRED_HEADS, PAIRED_COLUMNS,
    _comparison_rows, _notes_on_pairs, DATASET,
)  # fmt: skip

OF_PROBABILITIES = ("brier", "ece")
"""Columns that only scores with probabilities have."""
POINTS = NumberWithInterval(2, 100, signed=True)
"""Paired differences in points."""


def _gate_rows(study: DatasetStudy) -> Iterator[Row]:
    """Yields a row for each gate with its paired difference to its action's cheap gate and its published numbers."""
    gains, costs = (gaps_to_cheap_gates(study, metric) for metric in ("accuracy", "action_tokens"))
    for gate in study.gates:
        gained, p_value = gains.get(gate.policy, (None, None))
        dearer = costs.get(gate.policy, (None, None))[0]
        values = {"fitted_on": gate.fitted_on, "minus_cheap": gained, "p_value": p_value}
        values |= {"action_tokens": study.mean(gate.policy, "action_tokens"), "action_tokens_minus_cheap": dearer}
        report_numbers = study.reports[gate.policy].numbers()
        values |= {
            key: one for key, one in report_numbers.items() if gate.predicts_probability or key not in OF_PROBABILITIES
        }
        published_row = published.published_gate(study.published, gate.action) if gate.part == CHEAP else {}
        yield Row((gate.action, gate.label), values=values, published=published_row)


GATE_COLUMNS = (
    words("fitted on", "fitted_on", drop=3), numbers("threshold", "threshold", 4, drop=4),
    replace(PUBLISHED_ACCURACY, form=PLAIN_ACCURACY.form),
    with_published(replace(ACTS_ON, heading="fires %"), "verify_pct", "published fires %", "published_verify_pct", 1),
    ACTION_TOKENS,
    FIXES, FLIPS, Column("minus the cheap gate, points", "minus_cheap", POINTS),
    numbers("p", "p_value", 4),
    intervals("action tokens minus those of the cheap gate", "action_tokens_minus_cheap", 0, signed=True, drop=1),
    numbers("AUROC", "auroc", 3), numbers("AUPRC", "auprc", 3, drop=5), numbers("Brier", "brier", 4, drop=6),
    numbers("ECE", "ece", 4, drop=5), numbers("threshold chosen here", "diagnostic_threshold", 4, drop=8),
    numbers("its accuracy %", "diagnostic_accuracy", 1, factor=100, drop=7),
)  # fmt: skip
GATES = Sheet[DatasetStudy](
    "gates", "Gates", ("action", "gate"), GATE_COLUMNS, _gate_rows,
    ("Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; that "
     "of another data set is frozen. Minus the cheap gate: paired differences, with limits that hold for all gates "
     "of the data set at once. Brier and ECE: of scores that "
     "are probabilities. The threshold chosen here is a diagnostic: it sees the gold of the reported examples.",),
    DATASET,
)  # fmt: skip


def _subgroup_rows(study: DatasetStudy) -> Iterator[Row]:
    parts = (BASE, ALWAYS, SELECTIVE)
    policies = sorted((one for one in main_policies(study) if one.part in parts), key=lambda one: parts.index(one.part))
    for state, on in ((state, on) for state, on in study.state.items() if on.any()):
        other = published.published_state(study.published, state)
        for one in policies:
            flips = mean(study.values(one.policy)["flip"][on])
            values = {"accuracy": study.mean_on(one.policy, "correct", on), "flip_rate": flips}
            published_row = {"accuracy_pct": other.get(published.accuracy_column(one.part, one.what))}
            yield Row((state, int(on.sum()), one.policy), values=values, published=published_row)


SUBGROUPS = Sheet[DatasetStudy](
    "subgroups", "By state of the base attempt", (TableColumn("base attempt", key="state"), EXAMPLES, "policy"),
    (PUBLISHED_ACCURACY, FLIPS), _subgroup_rows, (), DATASET,
)  # fmt: skip


def _rule_rows(study: DatasetStudy) -> Iterator[Row]:
    names, action = study.names, study.roles.action
    trees = [rival.policy for rival in study.roles.rivals if rival.action == action and rival.part == TREES]
    diagnostic = {policy.name: policy.diagnostic for policy in study.result.policies}
    every = [names.always.get(action, ""), names.primary, *trees, *names.rules, *study.matched, *names.oracles]
    paper = _paper_rules(study)
    for policy in study.replayed(every):
        compared = names.primary in study.policies and policy != names.primary
        ahead = study.difference(policy, names.primary)[0] if compared else None
        values = {"headroom": ahead, "remark": "diagnostic" if diagnostic[policy] else ""}
        other = published.published_rule(study.published, paper.get(policy, ""))
        published_row = {key: other.get(key) for key in ("accuracy_pct", "verify_pct", "flips_pct")}
        yield Row((policy,), StudyPolicy(study, policy), values, published_row)


def _paper_rules(study: DatasetStudy) -> dict[str, str]:
    """Maps policies to the paper's names of their rules and diagnostics; empty for a primary action unknown to the
    paper.
    """
    named, action = study.names, study.roles.action
    if published.paper_verb(action) != "verify":
        return {}
    labels = {of: f"{of[0]} oracle, self-consistency samples" for of in named.oracles.values() if of[1]}
    labels |= {(EXPECTED_ACTION, ""): "expected-action oracle, verify"} if study.roles.actions == (action,) else {}
    names = {policy: labels.get(of, "") for policy, of in named.oracles.items()}
    names |= dict.fromkeys(study.matched[:1], "oracle at matched rate")
    names |= {policy: rule for policy, rule in named.rules.items() if rule in FEATURE_RULES}
    return names | {named.primary: "cheap features", named.always.get(action, ""): "always verify"}


def _notes_on_rules(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    there = {rule for study in studies for name, rule in study.names.rules.items() if name in study.policies}
    meanings = [f"{name}: acts {meaning}" for name, meaning in RULES.items() if name in there]
    yield "Diagnostics see gold and could not be run. Ahead of the gate: headroom, paired."
    if meanings:
        yield remark("rules", f"{'; '.join(meanings)}.")


RULES_AND_HEADROOM = Sheet[DatasetStudy](
    "rules_and_headroom", "Routing rules and headroom", (TableColumn("rule"),),
    (
        replace(PUBLISHED_ACCURACY, form=PLAIN_ACCURACY.form),
        with_published(ACTS_ON, "verify_pct", "published acts on %", "published_verify_pct", 1), ACTION_TOKENS,
        FIXES, with_published(FLIPS, "flips_pct", "published flips %", "published_flips_pct"),
        Column("ahead of the gate, points", "headroom", POINTS), words("remark", "remark", drop=2),
    ),
    _rule_rows, _notes_on_rules, DATASET,
)  # fmt: skip


def _screening_rows(study: DatasetStudy) -> Iterator[Row]:
    screening = study.screening.with_columns(screened_on="dataset")
    for row in rows_of_records(screening.iter_rows(named=True), ("action", "examples")):
        numbers = published_beside(study.setting.published, str(row.values["dataset"]), alone=False)
        of = study.published if numbers is None else numbers.dataset
        yield replace(row, published=published.published_action(of, row.heads[0]))


def _screened_columns(studies: Sequence[DatasetStudy]) -> list[Column]:
    """Returns the columns of the screening; one names the examples that actions were screened on, where these are of
    another data set.
    """
    others = any(set(study.screening["dataset"]) != {study.dataset} for study in studies)
    return [
        *([words("screened on", "screened_on", drop=1)] if others else []),
        with_published(
            replace(ACCURACY, form=Number(2, 100)), "final_accuracy_pct", "published %", "published_accuracy_pct"
        ),
        with_published(FIXES, "fix_pct", "published fixes %", "published_fix_pct"),
        with_published(FLIPS, "flip_pct", "published flips %", "published_flip_pct"),
        numbers("finalizer %", "finalizer_rate", factor=100, drop=2),
        numbers("truncated %", "truncation_rate", factor=100, drop=2),
        with_published(replace(ACTION_TOKENS, drop=0), "action_tokens", "published tokens", "published_tokens", 0),
    ]  # fmt: skip


SCREENING = Sheet[DatasetStudy](
    "screening", "Screening of the actions", ("action", EXAMPLES), _screened_columns, _screening_rows,
    ("On the examples that gates are fitted on. Finalizer and truncated: of the action's own calls. The oracle sees "
     "gold: a diagnostic.",),
    DATASET,
)  # fmt: skip


def _budget_rows(study: DatasetStudy) -> Iterator[Row]:
    pools = {study.names.base: study.roles.base, **{p: pool for pool, p in study.names.budgets.items()}}
    for policy in study.replayed(pools):
        other = published.published_budget(study.published, token_limit_text(study, pools[policy]))
        yield Row((policy,), StudyPolicy(study, policy), published=other)


BUDGETS = Sheet[DatasetStudy](
    "budgets", "Initial budgets", (TableColumn("initial budget", key="policy"),),
    (
        PUBLISHED_ACCURACY, TOTAL, numbers("finalizer %", "finalizers", 1, metric="finalizers", factor=100),
        with_published(numbers("truncated %", "truncated", 1, metric="truncated", factor=100),
               "truncation_pct", "published truncated %", "published_truncation_pct", 1),
        replace(FIXES, heading="right where the base is wrong %"), replace(FLIPS, heading="wrong where it is right %"),
    ),
    _budget_rows, (), DATASET,
)  # fmt: skip


def _reliability_rows(study: DatasetStudy) -> Iterator[Row]:
    for gate in (one for one in study.gates if one.predicts_probability):
        for one in study.calibration[gate.policy]:
            yield Row((gate.action, gate.label, f"{one.low:.1f} to {one.high:.1f}"), one)


GATE_CALIBRATION = Sheet[DatasetStudy](
    "calibration", "Calibration of the gates", ("action", "gate", TableColumn("scores", key="bin")),
    (
        numbers("examples", "examples", 0, attrgetter("n")), numbers("mean score", "score", 3, attrgetter("score")),
        intervals("repaired %", "repaired", 1, read_interval("label"), factor=100),
    ),
    _reliability_rows,
    (f"Ten bins of equal width; neighbours with fewer than {LEAST_IN_BIN} examples are taken together. Scores that are "
     "no probabilities have no row.",),
    DATASET,
)  # fmt: skip


RATE = "intervention_rate"
CellValue = IntervalCell | float | str | None


def _rows_at_rates(band: pl.DataFrame, metrics: Sequence[str], shares: int = 10) -> Iterator[dict[str, CellValue]]:
    """Yields the rows closest to acting on 0, 1/n, 2/n … of the examples: threshold, rate, and metrics with their
    bands.
    """
    cells = {
        (row["threshold"], row["metric"]): IntervalCell.of((row["estimate"], row["band_low"], row["band_high"]))
        for row in band.iter_rows(named=True)
    }
    rates = band.filter(pl.col("metric") == RATE).sort("estimate")
    distance = np.abs(rates["estimate"].to_numpy()[:, None] - np.linspace(0, 1, shares + 1))
    for place in np.unique(distance.argmin(axis=0)):
        threshold, rate = rates["threshold"][int(place)], rates["estimate"][int(place)]
        # digits that tell a threshold from its neighbours
        threshold_text = f"{threshold:.4g}" if np.isfinite(threshold) else "never" if threshold > 0 else "always"
        yield {RATE: rate, "threshold": threshold_text, **{name: cells.get((threshold, name)) for name in metrics}}


PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""
NARROW = 0.5
"""The one whose column stays on a narrow page, and that the paper has numbers of."""


def _base_tokens(row: StudyPolicy) -> float | None:
    return row.base.number("total_tokens") if row.acts_on_base else None


def _finalizer_tokens(row: StudyPolicy) -> float | None:
    first = row.study.finalizers.get(row.study.roles.base) if row.acts_on_base else None
    if first is None:
        return None
    calls = row.study.finalizers.get(row.what) if row.part in ACTING else None
    fires = row.study.values(row.policy)["intervened"]
    return mean(first if calls is None else first + np.where(fires > 0, fires * calls, 0.0))


def _action_tokens(row: StudyPolicy) -> Value:
    return row.cell("action_tokens") if row.part in ACTING else None


TOKENS = Sheet[DatasetStudy](
    "tokens", "Where the tokens go", ("policy",),
    (
        numbers("base tokens", "base_tokens", 0, _base_tokens),
        numbers("finalizer calls", "finalizers", metric="finalizers", drop=1),
        numbers("finalizer tokens", "finalizer_tokens", 0, _finalizer_tokens),
        replace(ACTION_TOKENS, value=_action_tokens, drop=0),
        PLAIN_TOTAL_TOKENS, CALLS,
    ),
    _headline_rows,
    ("Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
     "`finalizer_tokens` of traces.",),
    DATASET,
)  # fmt: skip


def _relative_cost(row: StudyPolicy) -> float | None:
    base, tokens = row.base.number("total_tokens"), row.number("total_tokens")
    return tokens / base if tokens is not None and base else None


def _price_column(price: float) -> Column:
    """Makes a column of the cost of 1,000 requests at a price per million tokens."""

    def cost_of_row(row: StudyPolicy) -> float | None:
        tokens = row.number("total_tokens")
        return None if tokens is None else tokens * price / 1000

    key = f"per_1000_at_{price:g}"
    column = numbers(f"at {price:g} per million", key, value=cost_of_row, drop=0 if price == NARROW else 2)
    if price != NARROW:
        return column
    return with_published(column, "usd_per_1000_requests", f"published at {price:g}", f"published_{key}")


def _price_columns(studies: Sequence[DatasetStudy]) -> list[Column]:
    known = any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies)
    relative = numbers("relative", "relative", value=_relative_cost)
    return [
        PLAIN_TOTAL_TOKENS, *map(_price_column, PRICES),
        with_published(relative, "relative_cost", "published relative", "published_relative"),
        *([intervals("at the models' prices", "per_1000_priced", metric="cost_per_1000")] if known else []),
    ]  # fmt: skip


PRICED = Sheet[DatasetStudy](
    "prices", "Cost of 1,000 requests", ("policy",), _price_columns,
    partial(_headline_rows, find=published.published_price),
    ("Average realised tokens times the price; no provider's quote. Total tokens: of one request. Prices: in any "
     "currency. Relative: to the base attempt.",),
    DATASET,
)  # fmt: skip


GAINED = {
    "calls_avoided": "calls", "action_tokens_saved": "action_tokens", "total_tokens_saved": "total_tokens",
    "flips_avoided": "flip",
}  # fmt: skip


def _gains_per_1000(run: DatasetStudy, first: str, second: str) -> dict[str, Value]:
    """Returns what the first policy gains on 1,000 requests over the second."""
    one, two = run.values(first), run.values(second)
    saved: dict[str, Value] = {key: mean(two[column] - one[column], 1000) for key, column in GAINED.items()}
    return saved | {"more_right": mean(one["correct"] - two["correct"], 1000)}


def _rows_per_1000(study: DatasetStudy) -> Iterator[Row]:
    names, parts = study.names, {one.policy: one for one in main_policies(study)}
    pairs = [(names.selective[a], names.always[a]) for a in names.selective]
    pairs += [(budget, names.primary) for budget in names.budgets.values() if names.primary]
    for first, second in (pair for pair in pairs if set(pair) <= set(parts)):
        one, two = parts[first], parts[second]
        values = _gains_per_1000(study, first, second)
        values |= {"action_tokens_saved": None} if one.part == BUDGET else {}
        compared = f"{published.paper_name(one.part, one.what)} against {published.paper_name(two.part, two.what)}"
        published_row = published.published_requests(study.published, compared)
        yield Row((f"{first} in place of {second}",), values=values, published=published_row)


PUBLISHED_REQUESTS = (
    ("verification_calls_avoided", "published calls", "published_calls_avoided", 0),
    ("tokens_saved, action tokens", "published action tokens", "published_action_tokens_saved", 0),
    ("tokens_saved, total tokens", "published total tokens", "published_total_tokens_saved", 0),
    ("flips_avoided", "published flips", "published_flips_avoided", 0),
)
*GAINS, MORE_RIGHT = (
    numbers("calls avoided", "calls_avoided", 0),
    numbers("action tokens saved", "action_tokens_saved", 0),
    numbers("total tokens saved", "total_tokens_saved", 0),
    numbers("flips avoided", "flips_avoided", 1),
    numbers("more right answers", "more_right", 1, signed=True),
)
"""Columns of the gains on 1,000 requests of one policy in place of another."""
PER_1000 = Sheet[DatasetStudy](
    "per_1000_requests", "Per 1,000 requests", ("comparison",),
    (*(with_published(column, *one) for column, one in zip(GAINS, PUBLISHED_REQUESTS, strict=True)), MORE_RIGHT),
    _rows_per_1000, (), DATASET,
)  # fmt: skip


def _seconds_rows(study: DatasetStudy) -> Iterator[Row]:
    policies = [one.policy for one in main_policies(study)]
    rows = study.result.seconds.iter_rows(named=True)
    yield from rows_of_records((row for row in rows if row["policy"] in policies), ["policy"])


def _seconds_notes(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    yield (
        "One call after the other, finalizers included; samples of a vote as many at a time as `together` says. "
        "A mean over rollouts is one request."
    )
    for study in studies:
        yield from (f"{study.dataset}: {note.text}" for note in study.notes if note.code == BATCHED_SECONDS)


PATH_SECONDS = Sheet[DatasetStudy](
    "seconds", "Seconds of the whole path", ("policy",), SECONDS, _seconds_rows, _seconds_notes, DATASET
)


def _regret_rows(study: DatasetStudy) -> Iterator[Row]:
    """Yields each policy's regret: how far it is behind the best policy that costs at most as many tokens."""
    joint = {policy: PolicyCells(study.result.statistics, policy) for policy in study.replayed(study.names.joint)}
    points = {
        policy: (estimate(one.cell("accuracy")), estimate(one.cell("total_tokens"))) for policy, one in joint.items()
    }
    for policy, best in best_policy_at_no_more_cost(points).items():
        values = dict[str, Value]()
        if best is not None:
            values = {"regret": IntervalCell(0.0) if best == policy else study.difference(best, policy)[0]}
            values |= {"best": "" if best == policy else best, "on_front": "●" if best == policy else ""}
        yield Row((policy,), joint[policy], values)


JOINT = Sheet[DatasetStudy](
    "joint_frontier", "Joint frontier over initial budget, gate and action",
    (TableColumn("budget, action, gate", key="policy"),),
    (
        PLAIN_ACCURACY, PLAIN_TOTAL_TOKENS, intervals("regret, points", "regret", factor=100),
        words("best for no more tokens", "best"), words("front", "on_front"),
    ),
    _regret_rows,
    ("Regret: how far the best policy that costs at most as many tokens is ahead, paired; 0 where that is itself.",),
    DATASET,
)  # fmt: skip


def _sweep_rows(study: DatasetStudy) -> Iterator[Row]:
    if study.band is not None:
        metrics = ("accuracy", "flip_rate", "flips_among", "total_tokens")
        yield from (Row((), values=values) for values in _rows_at_rates(study.band, metrics))


THRESHOLD_SWEEP = Sheet[DatasetStudy](
    "threshold_sweep", "Threshold sweep of the primary gate", (),
    (
        ACTS_ON, words("threshold", "threshold"), ACCURACY,
        intervals("flips %", "flip_rate", factor=100), intervals("flips among those %", "flips_among", 1, factor=100),
        TOTAL_TOKENS,
    ),
    _sweep_rows,
    ("In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
     "examples acted on (the paper's equation 19).",),
    DATASET,
)  # fmt: skip
SHEETS = (
    BUDGET_MATCHED, PAIRED, GATES, SUBGROUPS, RULES_AND_HEADROOM, SCREENING, BUDGETS, JOINT, THRESHOLD_SWEEP, TOKENS,
    PRICED, PER_1000, PATH_SECONDS, GATE_CALIBRATION, GATE_VERDICTS,
)  # fmt: skip
"""All tables, in the order of the report."""


def _captions(parts: Sequence[DatasetStudy]) -> Captions[DatasetStudy]:
    """Makes the captions: warnings above; below, the number of examples, how intervals are computed, and what the log
    lacks.
    """
    counts = "; ".join(f"{part.dataset}: {part.result.statistics.n:,} examples" for part in parts)
    run = parts[0].result.provenance
    intervals_note = f"{100 * run['level']:g} % intervals, {run['resamples']:,} paired resamples, seed {run['seed']}."
    return Captions(
        simulated=any(part.result.simulated for part in parts),
        dataset="dataset",
        above=lambda sheet, studies: [line for study in studies for line in study.warnings(len(studies) == 1)],
        below=lambda sheet, studies, published: [f"{counts}. {intervals_note}"],
        gaps=lambda sheet, studies: _dash_reasons(studies),
    )


def _dash_reasons(parts: Sequence[DatasetStudy]) -> Iterator[DashReason]:
    """Returns the reasons for dashes; data sets are named where the reason does not hold for all."""
    for lack in LACKING.values():
        short = [part.dataset for part in parts if lack.policies_without_metric(part.result)]
        where = "" if len(short) == len(parts) else f"{', '.join(short)}: "
        if short:
            yield DashReason(remark(UNLOGGED, where + unlogged_note(lack.what, "trace")), lack.columns)


def tables(studies: Sequence[DatasetStudy]) -> dict[str, Table]:
    """Lays out every table of these data sets."""
    return tables_of(SHEETS, studies, _captions(studies))
