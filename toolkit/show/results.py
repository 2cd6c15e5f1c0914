"""From the result frames of a run to its ranked table and the points of its figure.

`summary` (policy, metric, estimate, low, high, n, method?) and `comparisons` (policy, baseline, metric,
difference, low, high, p_value, n, method?) are the frames that a replay saves; nothing else of it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from toolkit.show.figure import FrontierPoint
from toolkit.show.table import Table
from toolkit.show.table_content import Number, NumberWithInterval, ShownInterval, TableColumn, Tick, Words
from toolkit.stats.order import cost_column, rank_key

SIMULATED = "Simulated log: these numbers describe a model, not a system."
COST_NAMES = {"total_tokens": "tokens"}  # of costs that are not called as their column
FEW_EVENTS = {"wilson", "newcombe"}  # methods of intervals over columns with fewer than ten events of a kind
SHOWN = (
    "total_tokens", "calls", "operations", "verifications", "latency_s", "cost_eur", "cost_per_1000", "fix_rate",
    "flip_rate", "coverage", "set_size", "answer_rate", "accuracy_answered",
)  # metrics with a column of means  # fmt: skip
WARNING = "WARNING: "  # a note of the run that begins so is said above the table


@dataclass(frozen=True)
class PolicyRow:
    """What a table must know about a policy besides its numbers."""

    name: str
    family: str = ""  # the name before a sweep's brackets
    tried: int = 1  # how many policies its sweep has
    diagnostic: str = ""  # what it sees that no real policy could, such as gold


@dataclass(frozen=True)
class RankedInput:
    """A run's result frames with what was asked of it. Shares and margins are fractions, not per cent."""

    summary: pl.DataFrame
    comparisons: pl.DataFrame
    policies: tuple[PolicyRow, ...]
    n: int  # examples compared
    title: str = "Policies ranked by accuracy"
    metric: str = "accuracy"
    baseline: str | None = None
    leader: str | None = None
    margin: float | None = None
    simulated: bool = False
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95
    method: str = "percentile"
    notes: tuple[str, ...] = ()  # the run's sentences: said below the table, or above it after `WARNING: `


@dataclass(frozen=True)
class Ranked:
    """One policy with all that is said about it; None where that cannot be said."""

    policy: PolicyRow
    place: int | None  # 1 is the most accurate; None for diagnostics and where nothing was judged
    accuracy: ShownInterval | None
    cost: ShownInterval | None  # in the unit that `cost_metric` names
    means: dict[str, float | None] = field(default_factory=dict)
    difference: ShownInterval | None = None  # to the baseline
    p_value: float | None = None
    on_front: bool | None = None
    leads: bool = False
    ties: bool | None = None  # the interval of its difference to the leader contains 0
    not_worse: bool | None = None  # than the baseline by more than the margin
    chosen: bool = False  # the best of its sweep, on the rows that are reported
    baseline: bool = False

    @property
    def remark(self) -> str:
        """What must be said beside the row."""
        remarks = ["baseline"] if self.baseline else []
        if self.policy.diagnostic:
            remarks.append(f"diagnostic: {self.policy.diagnostic}")
        if self.chosen:
            remarks.append(f"chosen on these rows (best of {self.policy.tried:,} tried)")
        return "; ".join(remarks)


def cost_metric(results: RankedInput) -> str:
    """What the Pareto front measures: tokens; where a policy's are not known, calls; else operations."""
    real = {p.name for p in results.policies if not p.diagnostic} or {p.name for p in results.policies}
    known = results.summary.filter(pl.col("estimate").is_not_null()).group_by("metric").agg("policy")
    having = {metric: set(policies) for metric, policies in known.iter_rows()}
    return cost_column(lambda metric: real <= having.get(metric, set()))


def rank(results: RankedInput) -> tuple[Ranked, ...]:
    """Every policy, the most accurate first; ties by cost, then as given; those without a judgement last."""
    summary = _cells(results.summary, ("policy", "metric"), "estimate")
    against = _cells(results.comparisons, ("policy", "baseline", "metric"), "difference")
    p_values = {
        (row["policy"], row["baseline"], row["metric"]): row["p_value"]
        for row in results.comparisons.iter_rows(named=True)
    }
    metric, cost = results.metric, cost_metric(results)
    metrics = results.summary["metric"].unique().to_list()
    order = sorted(
        range(len(results.policies)),
        key=lambda i: _order(summary, results.policies[i].name, metric, cost, i),
    )
    front = pareto_front(
        {
            p.name: (cost_cell.estimate, accuracy.estimate)
            for p in results.policies
            if not p.diagnostic
            and (cost_cell := summary.get((p.name, cost)))
            and (accuracy := summary.get((p.name, metric)))
        }
    )
    chosen = _chosen(results.policies, [results.policies[i] for i in order], summary, metric)
    ranked, place = [], 0
    for i in order:
        policy = results.policies[i]
        accuracy, price = summary.get((policy.name, metric)), summary.get((policy.name, cost))
        counts = accuracy is not None and not policy.diagnostic
        place += counts
        difference = against.get((policy.name, results.baseline, metric))
        ranked.append(
            Ranked(
                policy=policy,
                place=place if counts else None,
                accuracy=accuracy,
                cost=price,
                means={m: _estimate(summary.get((policy.name, m))) for m in metrics},
                difference=difference,
                p_value=p_values.get((policy.name, results.baseline, metric)),
                on_front=policy.name in front if counts and price is not None else None,
                leads=policy.name == results.leader,
                ties=_holds_zero(against.get((policy.name, results.leader, metric))),
                not_worse=_not_worse(difference, results.margin),
                chosen=policy.name in chosen,
                baseline=policy.name == results.baseline,
            )
        )
    return tuple(ranked)


def pareto_front(points: dict[str, tuple[float, float]]) -> frozenset[str]:
    """Names of the (cost, accuracy) points that none beats.

    One beats another with at most its cost and at least its accuracy, and one of the two strictly.
    """
    front: set[str] = set()
    best = -float("inf")
    by_cost: dict[float, list[tuple[float, str]]] = {}
    for name, (cost, accuracy) in points.items():
        by_cost.setdefault(cost, []).append((accuracy, name))
    for cost in sorted(by_cost):
        top = max(accuracy for accuracy, _ in by_cost[cost])
        if top > best:
            front.update(name for accuracy, name in by_cost[cost] if accuracy == top)
            best = top
    return frozenset(front)


def ranked_table(results: RankedInput, limit: int | None = None) -> Table:
    """The ranked table; with a `limit`, long sweeps show no more than fits in that many rows.

    Their chosen row is always shown, then those on the front, then the best.
    """
    ranked = rank(results)
    shown = _shown(ranked, limit)
    columns, cells = _columns(results, ranked)
    left_out = len(ranked) - len(shown)
    below = _notes(results, ranked)
    if left_out:
        below.insert(0, f"{left_out:,} more rows of sweeps are in table.csv and summary.parquet.")
    return Table(
        title=results.title,
        columns=columns,
        rows=tuple(cells(row) for row in shown),
        above=tuple(_warnings(results)),
        below=tuple(below),
        strong=frozenset(i for i, row in enumerate(shown) if row.leads),
        faint=frozenset(i for i, row in enumerate(shown) if row.policy.diagnostic),
    )


def _along_one_number(policy: PolicyRow) -> bool:
    """Whether a sweep's policy is told from the others by one number, so that a line through them means something."""
    inside = policy.name.removeprefix(policy.family).strip("[]")
    _, sign, value = inside.partition("=")
    try:
        return bool(sign) and float(value) == float(value)
    except ValueError:
        return False


def frontier_points(results: RankedInput) -> tuple[FrontierPoint, ...]:
    """The points of the cost–accuracy figure; policies without a judgement or a logged cost have none."""
    return tuple(
        FrontierPoint(
            name=row.policy.name,
            family=row.policy.family or row.policy.name,
            cost=row.cost.estimate,
            cost_low=row.cost.low,
            cost_high=row.cost.high,
            accuracy=row.accuracy.estimate,
            low=row.accuracy.low,
            high=row.accuracy.high,
            swept=row.policy.tried > 1 and _along_one_number(row.policy),
            chosen=row.chosen,
            on_front=bool(row.on_front),
            diagnostic=bool(row.policy.diagnostic),
            baseline=row.baseline,
        )
        for row in rank(results)
        if row.accuracy is not None and row.cost is not None
    )


def _cells(frame: pl.DataFrame, keys: tuple[str, ...], value: str) -> dict[tuple[Any, ...], ShownInterval]:
    """Rows of a result frame by key; those whose value is null are left out."""
    marked = "method" in frame.columns
    return {
        tuple(row[key] for key in keys): ShownInterval(
            row[value], row["low"], row["high"], "†" if marked and row["method"] in FEW_EVENTS else ""
        )
        for row in frame.filter(pl.col(value).is_not_null()).iter_rows(named=True)
    }


def _estimate(cell: ShownInterval | None) -> float | None:
    return None if cell is None else cell.estimate


def _order(
    summary: dict[tuple[Any, ...], ShownInterval], name: str, metric: str, cost: str, i: int
) -> tuple[float, float, int]:
    accuracy, price = summary.get((name, metric)), summary.get((name, cost))
    return rank_key(_estimate(accuracy), _estimate(price), i)


def _chosen(
    policies: Sequence[PolicyRow],
    best_first: Sequence[PolicyRow],
    summary: dict[tuple[Any, ...], ShownInterval],
    metric: str,
) -> frozenset[str]:
    """The best row of each sweep."""
    first: dict[str, str] = {}
    for policy in best_first:
        if policy.tried > 1 and not policy.diagnostic and (policy.name, metric) in summary:
            first.setdefault(policy.family, policy.name)
    return frozenset(first.values())


def _holds_zero(difference: ShownInterval | None) -> bool | None:
    if difference is None or difference.low is None or difference.high is None:
        return None
    return difference.low <= 0 <= difference.high


def _not_worse(difference: ShownInterval | None, margin: float | None) -> bool | None:
    if margin is None or difference is None or difference.low is None:
        return None
    return difference.low > -margin


def _shown(ranked: Sequence[Ranked], limit: int | None) -> list[Ranked]:
    if limit is None or len(ranked) <= limit:
        return list(ranked)
    must = [r for r in ranked if r.policy.tried <= 1 or r.chosen or r.baseline or r.leads]
    kept = {r.policy.name for r in must}
    rest = [r for r in ranked if r.policy.name not in kept]
    rest.sort(key=lambda r: not r.on_front)  # stable: the front first, each part by rank
    names = {r.policy.name for r in must + rest[: max(0, limit - len(must))]}
    return [r for r in ranked if r.policy.name in names]


def _columns(results: RankedInput, ranked: Sequence[Ranked]) -> tuple[tuple[TableColumn, ...], Any]:
    """The columns, and the function that makes a row's cells."""

    def known(metric: str) -> bool:
        return any(row.means.get(metric) is not None for row in ranked)

    def mean(metric: str) -> Any:
        return lambda row: row.means.get(metric)

    points = NumberWithInterval(1, 100, signed=True)
    parts: list[tuple[TableColumn, Any]] = [
        (TableColumn("#", Number(0), "place"), lambda r: r.place),
        (TableColumn("policy"), lambda r: r.policy.name),
        (TableColumn(f"{results.metric} %", NumberWithInterval(1, 100), results.metric), lambda r: r.accuracy),
        (TableColumn("tokens", Number(0), "total_tokens", drop=1), mean("total_tokens")),
        (TableColumn("calls", Number(2), "calls", drop=2), mean("calls")),
    ]
    if cost_metric(results) == "operations":
        parts.append((TableColumn("operations", Number(2), "operations"), mean("operations")))
    if any(row.means.get("verifications") for row in ranked):
        parts.append((TableColumn("verified", Number(2), "verifications", drop=6), mean("verifications")))
    if known("latency_s"):
        parts.append((TableColumn("seconds", Number(1), "latency_s", drop=7), mean("latency_s")))
    if known("cost_eur"):
        parts.append((TableColumn("€/1,000", Number(3, scale=1000), "cost_eur", drop=8), mean("cost_eur")))
    if known("cost_per_1000"):
        parts.append((TableColumn("price/1,000", Number(3), "cost_per_1000", drop=8), mean("cost_per_1000")))
    if results.baseline is not None:
        parts.append((TableColumn("Δ points", points, "difference"), lambda r: r.difference))
        parts.append((TableColumn("p", Number(4), "p_value", drop=5), lambda r: r.p_value))
    for metric, name in (("fix_rate", "fixes %"), ("flip_rate", "flips %")):
        if known(metric):
            parts.append((TableColumn(name, Number(1, scale=100), metric, drop=9), mean(metric)))
    shares = (("coverage", "coverage %"), ("answer_rate", "answered %"), ("accuracy_answered", "right of answered %"))
    for metric, name in shares:
        if known(metric):
            parts.append((TableColumn(name, Number(1, scale=100), metric, drop=9), mean(metric)))
    if known("set_size"):
        parts.append((TableColumn("set size", Number(2), "set_size", drop=9), mean("set_size")))
    if results.margin is not None:
        tick = Tick("yes", "no")
        parts.append((TableColumn("not worse", tick, "not_worse"), lambda r: r.not_worse))
    parts.append((TableColumn("Pareto", Tick(), "on_front", drop=3), lambda r: r.on_front))
    parts.append((TableColumn("leader", Words(), "leader", drop=4), _standing))
    parts.append((TableColumn("remark", Words(), "remark", beneath=True), lambda r: r.remark))
    return tuple(column for column, _ in parts), lambda row: tuple(cell(row) for _, cell in parts)


def _standing(row: Ranked) -> str | None:
    if row.leads:
        return "leads"
    if row.ties is None:
        return None
    return "ties" if row.ties else ""


def _warnings(results: RankedInput) -> list[str]:
    lines = [SIMULATED] if results.simulated else []
    return lines + [note for note in results.notes if note.startswith(WARNING)]


def _notes(results: RankedInput, ranked: Sequence[Ranked]) -> list[str]:
    """What must be said below the table, in order."""
    cost = cost_metric(results)
    lines = [
        f"{results.n:,} examples; means per example. In brackets {100 * results.level:g} % intervals: "
        f"{results.method}, {results.resamples:,} resamples paired by example, seed {results.seed}."
    ]
    if results.baseline is not None:
        lines.append(
            f"Δ points: difference to `{results.baseline}` in percentage points, on the same examples; p is "
            "two-sided, from the same resamples."
        )
    if results.margin is not None:
        lines.append(
            f"not worse: the lower end of Δ is above {f'−{100 * results.margin:g}' if results.margin else '0'} points."
        )
    lines.append(
        f"Pareto ●: no other policy has at least this {results.metric} for fewer {COST_NAMES.get(cost, cost)}."
    )
    if results.leader is not None:
        lines.append("leader: `ties` where the interval of the difference to the leader holds 0.")
    if any("†" in cell.mark for row in ranked for cell in (row.accuracy, row.difference) if cell is not None):
        lines.append("†: fewer than ten examples of a kind, so Wilson's or Newcombe's interval.")
    return lines + [note for note in results.notes if _concerns(note, results)]


def _concerns(note: str, results: RankedInput) -> bool:
    """Whether a note belongs below this table: not above it, and not about a metric that is no column here."""
    metrics = set(results.summary["metric"]) - {results.metric, *SHOWN}
    return not note.startswith(WARNING) and note.partition(":")[0] not in metrics
