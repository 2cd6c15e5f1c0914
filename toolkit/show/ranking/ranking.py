"""The ranking of a run's policies, with all the facts of each, from the run's result frames.

`summary` (policy, metric, estimate, low, high, n, method?) and `comparisons` (policy, baseline, metric,
difference, low, high, p_value, n, method?, exact_p?, identical?) are the frames that a replay saves, and `ranks`
(toolkit.stats.many.ranks), which an older result lacks; nothing else of it is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from toolkit.columns import COLUMNS, OutcomeColumn, metric_column
from toolkit.notes import Note
from toolkit.show.tables.table_content import IntervalCell
from toolkit.stats import rules_out_loss
from toolkit.stats.limits.planning import NeededQuestions
from toolkit.stats.many.ranks import NO_RANKS
from toolkit.stats.metrics.metrics import cost_column, rank_key

MARKED = {
    "wilson": "fewer than ten examples of a kind: Wilson's interval",
    "tango": "examples on which the two differ are fewer than twenty: Tango's limits, McNemar's mid-p",
    "graded_tango": "means of several outcomes that differ by no more than on twenty whole examples: the wider of "
    "Student's and Tango's limits",
    "newcombe": "few events, of policies that answer different examples: Newcombe's interval",
    "jaccard_few": "fewer than ten examples of the class",
    "delta": "few wrong answers, or few examples of a class: the delta method with one pseudo-error",
    "studentised_few": "a mean of fewer than 500 examples, whose tail they may not have seen",
    "fieller_few": "a quotient of means of fewer than 500 examples",
    "bca_tail": "a cost, whose tail BCa overlooks",
    "korn-graubard_few": "clusters or weighed examples worth fewer than ten, or fewer than three events of a kind",
    "graded_few": "nearly all values are 0, or 1, or equal: the sample may lack other values",
    "headroom_few": "fewer than 50 examples that the oracle alone has right, or clusters worth fewer than ten",
    "t_few": "fewer than ten clusters, of costs than 500; or few wrong answers in an F1, or graded values that differ",
}
"""Method of an interval -> the reason for its mark; the manual has the coverage of such intervals."""

MARKED_IN_CLUSTERS = MARKED | {
    "tango": "few clusters or examples on which the two differ: Tango's interval with the clusters as trials, and the "
    "mid-p of the clusters",
    "fieller_few": "a quotient of means of fewer than 500 clusters",
}
"""The reasons for marks where the log has clusters."""

OF_CLUSTERS = {"korn-graubard", "korn-graubard_few", "t", "t_few"}
ON_CLUSTERS, ON_WEIGHTS = {"clusters", "few_clusters"}, {"weighed"}
ON_STRATA = {"strata", "small_strata", *ON_WEIGHTS}
"""Codes of the notes on clusters, on weights, and on strata."""
UNLIKE_CALLS = "unlike_calls"
"""Code of the note that the counted calls may cost differently."""
UNLIKE_TOKENS = "unlike_tokens"
"""Code of the note that tokens of several models are counted, which no prices make one currency."""
UNLIKE = {UNLIKE_CALLS, UNLIKE_TOKENS}


@dataclass(frozen=True)
class PolicyRow:
    """The name, the label and the kind of a policy in a ranked table."""

    name: str
    sweep: str = ""  # the name before a sweep's brackets
    sweep_size: int = 1  # how many policies its sweep has
    diagnostic: str = ""  # what it sees that no real policy could, such as gold
    base: str = ""  # the policy that its fixes and flips are compared with, where that has a name
    swept: tuple[tuple[str, Any], ...] = ()  # its sweep's keys and its own values of them
    label: str = ""  # what tables and figures call it, if not by its name; of a sweep without the brackets

    def short_label(self, always: bool) -> str:
        """The policy's label with its own values of the sweep shortened, with `always` also where the sweep has no
        label.
        """
        if not self.swept or not (self.label or always):
            return self.label or self.name
        values = [swept_text(value, 4) for _, value in self.swept]
        keys = [key.rpartition(".")[2] for key, _ in self.swept]
        if self.label and len(values) == 1:
            return f"{self.label}[{values[0]}]"
        return f"{self.label or self.sweep}[{', '.join(map('='.join, zip(keys, values, strict=True)))}]"


def swept_text(value: Any, digits: int) -> str:
    """A value of a sweep in words: numbers with so many digits, tables as a policy file has them, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}={swept_text(part, digits)}' for key, part in value.items())}}}"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def short_names(policies: Sequence[PolicyRow], always: bool = False) -> dict[str, str]:
    """The names that tables and figures write for policies, by full name. Where two would be equal, they show all
    values of their sweeps.

    `always` shortens the names of sweeps without a label, too.
    """
    names = {policy.name: policy.short_label(always) for policy in policies}
    often = Counter(names.values())
    whole = {p.name: f"{p.label or p.sweep}{p.name.removeprefix(p.sweep)}" for p in policies}
    return {name: short if often[short] == 1 else whole[name] for name, short in names.items()}


@dataclass(frozen=True)
class WithinMargin:
    """Policies cheaper than the baseline: the cheapest shown to be within a margin of it, with its lower limit `low`.
    `estimated`: the cheapest by estimates alone, if another; `needed`: the questions that would show it.
    """

    margin: float
    policy: str | None
    low: float | None
    estimated: str | None
    needed: NeededQuestions | None


@dataclass(frozen=True)
class RankedInput:
    """A run's result frames with the settings of the run. Shares and margins are fractions, not per cent."""

    summary: pl.DataFrame
    comparisons: pl.DataFrame
    policies: tuple[PolicyRow, ...]
    n: int  # examples compared
    title: str = ""
    metric: str = "accuracy"  # what ranks: a metric whose column is a quality
    by_cost: str | None = None  # the cost that tables and figure show, by name; None: the first that is known
    baseline: str | None = None
    leader: str | None = None
    margin: float | None = None
    simulated: bool = False
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95
    method: str = "percentile"
    notes: tuple[Note, ...] = ()
    columns: tuple[OutcomeColumn, ...] = COLUMNS
    ranks: pl.DataFrame = field(default_factory=NO_RANKS.clone)
    within: Callable[[], WithinMargin | None] | None = None  # of all examples, not of a group of them
    short: bool = False  # whether the names of sweeps without a label are shortened, too

    @property
    def quality_column(self) -> OutcomeColumn:
        """The column of the metric that ranks."""
        return metric_column(self.metric, self.columns)

    @property
    def judged_count(self) -> int:
        """The examples on which the metric that ranks is known."""
        known: Any = self.summary.filter(metric=self.metric)["n"].max()
        return self.n if known is None else int(known)

    @property
    def clustered(self) -> bool:
        """Whether the intervals, if there are any, are over clusters of examples."""
        if any(note.code in ON_CLUSTERS for note in self.notes):
            return True
        return "method" in self.summary.columns and self.summary["method"].is_in(list(OF_CLUSTERS)).any()

    @property
    def has_comparable_costs(self) -> bool:
        """Whether the policies' costs are comparable. Calls of several pools are not, nor tokens of several models."""
        return not any(note.code in UNLIKE for note in self.notes)

    @cached_property
    def display_names(self) -> dict[str, str]:
        """The name that the table writes for each policy, by its full name."""
        return short_names(self.policies, self.short)

    @cached_property
    def ranked_policies(self) -> tuple[Ranked, ...]:
        """Every policy with the facts of its row, the best first."""
        return _rank_policies(self)

    @cached_property
    def within_margin(self) -> WithinMargin | None:
        """What is known of policies cheaper than the baseline; None without any, or where costs are not comparable."""
        return self.within() if self.within and self.baseline is not None and self.has_comparable_costs else None

    def sort_value(self, cell: IntervalCell | None) -> float | None:
        """The value of a cell that policies are ranked by, with the sign changed where less is better."""
        return None if cell is None else -cell.estimate if self.quality_column.cost else cell.estimate

    @cached_property
    def cost_column(self) -> OutcomeColumn:
        """The cost of the Pareto front: the one asked for, else tokens, else (where some tokens are unknown) calls or
        operations. Raises ThinkbackError where no cost has the name asked for.
        """
        real = {p.name for p in self.policies if not p.diagnostic} or {p.name for p in self.policies}
        known = self.summary.filter(pl.col("estimate").is_not_null()).group_by("metric").agg("policy")
        having = {metric: set(policies) for metric, policies in known.iter_rows()}
        return cost_column(
            lambda name: real <= having.get(name, set()), lambda name: name in having, self.columns, self.by_cost
        )


@dataclass(frozen=True)
class Ranked:
    """One policy with the facts of its row in the table; an unknown fact is None."""

    policy: PolicyRow
    place: int | None  # 1 is the best; None for diagnostics and where the metric that ranks is not known
    quality: IntervalCell | None  # of the metric that ranks
    cost: IntervalCell | None
    means: dict[str, float | None] = field(default_factory=dict)
    difference: IntervalCell | None = None  # to the baseline, with limits that hold for all such differences
    p_value: float | None = None  # of the difference to the baseline, adjusted for all such differences
    on_front: bool | None = None
    front_share: float | None = None  # of normal draws in which it is on the front
    ranks: tuple[int, int] | None = None  # from and to which it may have, all policies' at once
    leads: bool = False
    ties: bool | None = None  # not told apart from the leader by what holds for all pairs at once
    same_as: frozenset[str] = frozenset()  # the baseline, the leader, where it makes their calls on every example
    not_worse: bool | None = None  # than the baseline by more than the margin
    chosen: bool = False  # the best of its sweep, on the rows that are reported
    corrected: IntervalCell | None = None  # `quality`, corrected for having been chosen
    tried: int = 0  # policies that could have led
    baseline: bool = False

    @property
    def remark(self) -> str:
        """The remark that the policy's row ends with."""
        remarks = ["baseline"] if self.baseline else []
        if self.policy.diagnostic:
            remarks.append(f"diagnostic: {self.policy.diagnostic}")
        if self.leads and self.tried > 1:
            remarks.append(f"chosen on these rows (best of {self.tried:,} tried)")
        elif self.chosen:
            of = f"{self.policy.sweep_size:,} of its sweep, {self.tried:,} tried"
            remarks.append(f"chosen on these rows (best of {of})")
        if self.policy.base:
            remarks.append(f"base: {self.policy.base}")
        return "; ".join(remarks)


def cell_of(cell: Sequence[Any] | None) -> IntervalCell | None:
    """A table cell of (estimate, low, high, n, method), with a mark where the method's limits may cover too little."""
    if cell is None or cell[0] is None:
        return None
    estimate, low, high, _, method = cell
    return IntervalCell(estimate, low, high, "†" if method in MARKED else "")


def mark_reasons(methods: Iterable[str | None], clustered: bool) -> list[str]:
    """The sentences that say why the intervals of some methods are marked."""
    names = set(methods)
    return [why for method, why in (MARKED_IN_CLUSTERS if clustered else MARKED).items() if method in names]


def rank(results: RankedInput) -> tuple[Ranked, ...]:
    """Every policy, the best first; ties by cost, then as given. Those without the ranking metric come last."""
    return results.ranked_policies


def _rank_policies(results: RankedInput) -> tuple[Ranked, ...]:
    summary = _frame_cells(results.summary, ("policy", "metric"), "estimate")
    against = _frame_cells(results.comparisons, ("policy", "baseline", "metric"), "difference")
    ranks = {(row["policy"], row["metric"]): row for row in results.ranks.iter_rows(named=True)}
    metric, cost = results.metric, str(results.cost_column.metric)
    metrics = results.summary["metric"].unique().to_list()
    keys = [
        rank_key(
            results.sort_value(summary.get((policy.name, metric))), _estimate_of(summary.get((policy.name, cost))), i
        )
        for i, policy in enumerate(results.policies)
    ]
    best_first = [results.policies[key[2]] for key in sorted(keys)]
    front = pareto_front(
        {
            policy.name: (paid, -negative)
            for policy, (negative, paid, _) in zip(results.policies, keys, strict=True)
            if not policy.diagnostic and math.isfinite(negative) and math.isfinite(paid)
        }
    )
    exact, same = _pair_facts(results.comparisons, metric)
    chosen = _best_of_sweeps(best_first, summary, metric)
    tried = sum((policy.name, metric) in summary and not policy.diagnostic for policy in best_first)
    ranked, place = [], 0
    for policy in best_first:
        quality, price = summary.get((policy.name, metric)), summary.get((policy.name, cost))
        counts = quality is not None and not policy.diagnostic
        place += counts
        cells = ranks.get((policy.name, metric), {})
        difference = _with_joint_limits(against.get((policy.name, results.baseline, metric)), cells)
        ranked.append(
            Ranked(
                policy=policy,
                place=place if counts else None,
                quality=quality,
                cost=price,
                means={m: _estimate_of(summary.get((policy.name, m))) for m in metrics},
                difference=difference,
                p_value=_larger_p_value(cells.get("p_baseline"), exact.get((policy.name, results.baseline))),
                on_front=policy.name in front if counts and price is not None else None,
                front_share=ranks.get((policy.name, cost), {}).get("front_share"),
                ranks=None if cells.get("rank_low") is None else (cells["rank_low"], cells["rank_high"]),
                leads=policy.name == results.leader,
                ties=_is_tied(cells.get("ties"), exact.get((policy.name, results.leader)), 1 - results.level),
                same_as=same.get(policy.name, frozenset()),
                not_worse=_not_worse(difference, results),
                chosen=policy.name in chosen,
                corrected=IntervalCell.of([cells.get(f"corrected{end}") for end in ("", "_low", "_high")]),
                tried=tried,
                baseline=policy.name == results.baseline,
            )
        )
    return tuple(ranked)


def pareto_front(points: dict[str, tuple[float, float]]) -> frozenset[str]:
    """The names of the policies on the Pareto front: no other (cost, quality) point beats theirs.

    One beats another with at most its cost and at least its quality, and one of the two strictly.
    """
    front, best, paid = set(), -math.inf, math.nan
    for name, (cost, quality) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1])):
        if quality > best or (quality == best and cost == paid):
            front.add(name)
            best, paid = quality, cost
    return frozenset(front)


def _frame_cells(frame: pl.DataFrame, keys: tuple[str, ...], value: str) -> dict[tuple[Any, ...], IntervalCell]:
    """The cells of a result frame by key. Rows whose value is null are left out."""
    marked = "method" in frame.columns
    return {
        tuple(row[key] for key in keys): IntervalCell(
            row[value], row["low"], row["high"], "†" if marked and row["method"] in MARKED else ""
        )
        for row in frame.filter(pl.col(value).is_not_null()).iter_rows(named=True)
    }


def _with_joint_limits(difference: IntervalCell | None, cells: Mapping[str, Any]) -> IntervalCell | None:
    """A difference to the baseline with the limits that hold for all policies at once, where these are known."""
    limits = cells.get("baseline_low"), cells.get("baseline_high")
    if difference is None or None in limits:
        return difference
    return replace(difference, low=limits[0], high=limits[1])


def _estimate_of(cell: IntervalCell | None) -> float | None:
    return None if cell is None else cell.estimate


def _best_of_sweeps(
    best_first: Sequence[PolicyRow], summary: dict[tuple[Any, ...], IntervalCell], metric: str
) -> frozenset[str]:
    first: dict[str, str] = {}
    for policy in best_first:
        if policy.sweep_size > 1 and not policy.diagnostic and (policy.name, metric) in summary:
            first.setdefault(policy.sweep, policy.name)
    return frozenset(first.values())


def _pair_facts(
    comparisons: pl.DataFrame, metric: str
) -> tuple[dict[tuple[str, str | None], float], dict[str, frozenset[str]]]:
    """Exact p-values by (policy, reference) where few examples differ; by policy, references with the same calls."""
    exact, same = dict[tuple[str, str | None], float](), dict[str, frozenset[str]]()
    if not {"exact_p", "identical"} <= set(comparisons.columns):
        return {}, {}
    rows = comparisons.filter(metric=metric).select("policy", "baseline", "exact_p", "identical")
    for policy, reference, p_value, identical in rows.iter_rows():
        if p_value is not None:
            exact[policy, reference] = p_value
        if identical:
            same[policy] = same.get(policy, frozenset()) | {reference}
    return exact, same


def _is_tied(ties: bool | None, exact: float | None, tail: float) -> bool | None:
    """Whether a policy ties with the leader. Where few examples differ, the exact p-value must tell them apart too."""
    return ties if ties is None or exact is None else ties or exact >= tail


def _larger_p_value(p_value: float | None, exact: float | None) -> float | None:
    return p_value if p_value is None or exact is None else max(p_value, exact)


def _not_worse(difference: IntervalCell | None, results: RankedInput) -> bool | None:
    if results.margin is None or difference is None or difference.low is None or difference.high is None:
        return None
    low = -difference.high if results.quality_column.cost else difference.low
    return rules_out_loss(low, results.margin, results.judged_count)
