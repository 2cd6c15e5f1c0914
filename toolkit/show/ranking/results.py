"""The ranked table of a run and the points of its figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from toolkit.columns import OutcomeColumn
from toolkit.errors import counted
from toolkit.notes import Severity, remark
from toolkit.show.drawing.page import WIDTH
from toolkit.show.figures.figure import FrontierPoint, frontier
from toolkit.show.ranking.one_column import paper_names
from toolkit.show.ranking.ranking import ON_WEIGHTS, PolicyRow, Ranked, RankedInput, mark_reasons, rank, short_names
from toolkit.show.tables.html import SIMULATED
from toolkit.show.tables.latex import COLUMN
from toolkit.show.tables.table import Table
from toolkit.show.tables.table_content import (
    ColumnNote,
    Form,
    FrontMark,
    IntervalCell,
    NameForm,
    Number,
    NumberWithInterval,
    PValue,
    RankSet,
    TableColumn,
    Tick,
    Words,
)
from toolkit.stats.metrics.resamples import fewest_examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NOT_APART = "open"
"""What stands beside a policy that is not told apart from the leader."""
IDENTICAL = "identical"
"""The cell for a comparison of policies that made the same calls on every example."""

GAPS = {"not_logged", "no_ratio"}
"""Codes of the notes that say why a column lacks values."""


@dataclass(frozen=True)
class RowLimits:
    """How many rows a ranked table shows; None stands for all.

    `rows`: long sweeps show no more than fits in so many. `of_sweep`: at most so many of each sweep. `most`: of all.
    What leads, the cheapest shown to be within the margin of the baseline, the baseline and the chosen row of a sweep
    are kept first; then, of one sweep along a number, rows spread over it, and else those on the front, then the best.
    Of `most` rows one is of a policy that sees gold. `rest` names the files that have the others.
    """

    rows: int | None = None
    of_sweep: int | None = None
    most: int | None = None
    rest: str = "table.csv and summary.parquet"


def ranked_table(results: RankedInput, limit: int | RowLimits | None = None, also: Collection[str] = ()) -> Table:
    """The ranked table of a run. With a `limit`, long sweeps show no more policies than fit in that many rows.

    `also`: metrics that have a column in any case, if they have a value.
    """
    ranked = rank(results)
    limits = limit if isinstance(limit, RowLimits) else RowLimits(rows=limit)
    rows = _visible_rows(results, ranked, limits)
    parts = _columns(results, ranked, also)
    columns = tuple(column for column, _ in parts)
    left_out = len(ranked) - len(rows)
    of = "" if any(row.policy.sweep_size <= 1 for row in ranked if row not in rows) else " of sweeps"
    below = []
    if left_out:
        more = f"{left_out:,} more rows{of} are"
        below = [ColumnNote(f"{more} in {limits.rest}.", paper=f"{more} not shown.")]
    return Table(
        title=results.title or f"Policies ranked by {results.quality_column.label}",
        columns=columns,
        rows=tuple(tuple(cell(row) for _, cell in parts) for row in rows),
        above=(*[SIMULATED] * results.simulated, *_column_notes(results, Severity.WARNING, columns)),
        below=(
            *below,
            *_explanation_notes(results, ranked, columns),
            *_column_notes(results, Severity.NOTE, columns),
            *(ColumnNote(text, paper="") for text in filter(None, [main_finding(results)])),
        ),
        strong=frozenset(i for i, row in enumerate(rows) if row.leads),
        faint=frozenset(i for i, row in enumerate(rows) if row.policy.diagnostic),
        marks=(("simulated", "true"),) if results.simulated else (),
    )


SAME = 1e-9
"""The largest relative difference of two costs that count as equal: they may be sums in different orders."""


def _differs_in_one_number(policy: PolicyRow) -> bool:
    """Whether the policies of a sweep differ in one number only, so that a line may join them."""
    values = [value for _, value in policy.swept]
    return len(values) == 1 and isinstance(values[0], int | float) and not isinstance(values[0], bool)


def frontier_points(results: RankedInput) -> tuple[FrontierPoint, ...]:
    """The points of the cost–quality figure. A policy without the ranking metric or a logged cost has none."""
    called = short_names(results.policies, always=True)
    return tuple(
        FrontierPoint(
            name=called[row.policy.name],
            sweep=row.policy.sweep or row.policy.name,
            cost=(cost := row.cost.scaled(results.cost_column.scale)).estimate,
            cost_low=cost.low,
            cost_high=cost.high,
            accuracy=row.quality.estimate,
            low=row.quality.low,
            high=row.quality.high,
            swept=row.policy.sweep_size > 1 and _differs_in_one_number(row.policy),
            chosen=row.chosen,
            on_front=bool(row.on_front),
            diagnostic=bool(row.policy.diagnostic),
            baseline=row.baseline,
        )
        for row in rank(results)
        if row.quality is not None and row.cost is not None
    )


def frontier_figure(results: RankedInput, title: str = "", width: float = WIDTH, note: str = "") -> Figure | None:
    """Draws quality against cost; None where `why_no_frontier` gives a reason against it."""
    if why_no_frontier(results):
        return None
    points = frontier_points(results)
    if width <= COLUMN:
        names, key = paper_names({point.name: point.name for point in points})
        note = "; ".join(filter(None, (key.rstrip("."), note)))
        points = tuple(replace(point, name=names[point.name]) for point in points)
    return frontier(
        points,
        title=title,
        cost=results.cost_column.axis_label,
        accuracy=results.quality_column.label,
        level=results.level,
        simulated=results.simulated,
        width=width,
        note=note,
    )


def why_no_frontier(results: RankedInput) -> str:
    """The reason why there is no figure of quality against cost; empty where there is one."""
    points = frontier_points(results)
    if not points or not results.quality_column.share:
        return f"no policy has a value of `{results.metric}`, a share, and of a cost"
    costs = [point.cost for point in points if not point.diagnostic]
    if len(costs) > 1 and max(costs) - min(costs) <= SAME * max(map(abs, costs)):
        return f"all policies cost the same, {costs[0]:,.4g} {results.cost_column.axis_label}, so there is no front"
    return ""


def _visible_rows(results: RankedInput, ranked: Sequence[Ranked], limits: RowLimits) -> list[Ranked]:
    name = None if results.within_margin is None else results.within_margin.policy
    cheapest = next((row for row in ranked if row.policy.name == name), None)
    names = {row.policy.name for row in ranked if _is_always_visible(row) or row is cheapest}
    swept = _limit_sweep_rows(ranked, limits.of_sweep, names)
    must = [row for row in swept if row.policy.sweep_size <= 1 or row.policy.name in names]
    some = _leading_rows(swept, must, limits.rows)
    if limits.most is None or len(some) <= limits.most:
        return some
    oracle = next((row for row in some if row.policy.diagnostic), None)
    few = [row for row in some if row is oracle or not row.policy.diagnostic]
    ends = (oracle, cheapest)
    return _leading_rows(few, [row for row in few if row.leads or row.baseline or row in ends], limits.most)


def _is_always_visible(row: Ranked) -> bool:
    return row.chosen or row.baseline or row.leads


def _limit_sweep_rows(ranked: Sequence[Ranked], most: int | None, must: Collection[str]) -> list[Ranked]:
    if most is None:
        return list(ranked)
    sweeps: dict[str, list[Ranked]] = {}
    for row in ranked:
        sweeps.setdefault(row.policy.sweep if row.policy.sweep_size > 1 else row.policy.name, []).append(row)
    names = set[str]()
    for rows in sweeps.values():
        some = [row for row in rows if row.policy.name in must]
        spread = len(rows) > most and all(_differs_in_one_number(row.policy) for row in rows)
        names |= {
            row.policy.name for row in (_spread_rows(rows, some, most) if spread else _leading_rows(rows, some, most))
        }
    return [row for row in ranked if row.policy.name in names]


def _spread_rows(rows: Sequence[Ranked], must: Sequence[Ranked], most: int) -> list[Ranked]:
    """Up to `most` rows of a sweep along one number, spread from end to end of it."""
    along = sorted((row for row in rows if row not in must), key=lambda row: float(row.policy.swept[0][1]))
    room = max(0, most - len(must))
    places = {round(place * (len(along) - 1) / max(room - 1, 1)) for place in range(room)}
    return [*must, *(along[place] for place in sorted(places))]


def _leading_rows(ranked: Sequence[Ranked], must: Sequence[Ranked], most: int | None) -> list[Ranked]:
    """Up to `most` rows in their order. Those in `must` are chosen first, then those on the front, then the best."""
    if most is None or len(ranked) <= most:
        return list(ranked)
    names = {row.policy.name for row in must}
    rest = [row for row in ranked if row.policy.name not in names]
    rest.sort(key=lambda row: not row.on_front)  # stable: the front first, each part by rank
    names |= {row.policy.name for row in rest[: max(0, most - len(must))]}
    return [row for row in ranked if row.policy.name in names]


CellColumn = tuple[TableColumn, Callable[[Ranked], Any]]
"""A column of the table, and the function that makes its cells."""


def _columns(results: RankedInput, ranked: Sequence[Ranked], also: Collection[str]) -> list[CellColumn]:
    """The table's columns in order: the ranking metric, costs, the comparison with the baseline, other metrics."""
    quality = results.quality_column
    value, change = NumberWithInterval.of(quality), NumberWithInterval.of(quality, signed=True)
    means = [column for column in results.columns if _has_column(column, results, ranked, also)]
    parts: list[CellColumn] = [
        (TableColumn("#", Number(0), "place"), lambda r: r.place),
        (TableColumn("policy", NameForm(results.display_names)), lambda r: r.policy.name),
        (TableColumn(quality.heading, value, results.metric), lambda r: r.quality),
    ]
    if any(row.corrected for row in ranked):
        heading = "corrected %" if quality.share else "corrected"
        parts.append((TableColumn(heading, value, "corrected", drop=4, if_filled=True), lambda r: r.corrected))
    parts += [_mean_column(column, results) for column in sorted(means, key=lambda column: column.place) if column.cost]
    if results.baseline is not None:
        heading = "Δ points" if quality.share else "Δ"
        parts.append((_core_column(heading, change, "difference", 1), lambda r: r.difference))
        if len(results.ranks):
            parts.append((TableColumn("p", PValue(), "p_adjusted", drop=5, if_filled=True), lambda r: r.p_value))
    parts += [_mean_column(column, results) for column in means if not column.cost]
    if results.margin is not None:
        tick = Tick("yes", "no")
        column = TableColumn("not worse", tick, "not_worse", drop=1, if_filled=True)
        parts.append((column, partial(_not_worse_cell, baseline=results.baseline)))
    parts.append((_core_column("Pareto", FrontMark(), "on_front", 3), _front_cell))
    if any(row.ranks for row in ranked):
        parts.append((_core_column("rank", RankSet(), "rank", 4), lambda r: r.ranks))
    parts.append((_core_column("leader", Words(), "leader", 2), partial(_standing_text, leader=results.leader)))
    parts.append((TableColumn("remark", Words(), "remark", beneath=True), lambda r: r.remark))
    return parts


def _core_column(heading: str, form: Form, key: str, drop: int) -> TableColumn:
    """A column that a narrow terminal drops only as a last resort."""
    return TableColumn(heading, form, key, drop=drop, core=True, if_filled=True)


def _has_column(column: OutcomeColumn, results: RankedInput, ranked: Sequence[Ranked], also: Collection[str]) -> bool:
    """Whether the table shows an outcome column beside the metric that ranks."""

    def has_mean(one: OutcomeColumn) -> bool:
        return any(row.means.get(str(one.metric)) is not None for row in ranked)

    if column == results.cost_column:
        return True
    if column.metric in also and column.metric != results.metric and has_mean(column):
        return True
    if not column.header or column.metric == results.metric:
        return False

    if column.stands_for:
        return has_mean(column) and not any(has_mean(one) for one in results.columns if one.name == column.stands_for)
    if any(has_mean(one) for one in results.columns if one.stands_for == column.name) and not has_mean(column):
        return False  # another stands here in its place
    return {
        "always": True,
        "known": has_mean(column) or any(has_mean(one) for one in results.columns if one.name == column.beside),
        "above 0": any(row.means.get(str(column.metric)) for row in ranked),
        "as cost": False,
        "asked": False,
    }[column.display]


def _mean_column(column: OutcomeColumn, results: RankedInput) -> CellColumn:
    metric = str(column.metric)
    decimals = column.decimals if column.header else column.precision
    form = (
        Number(1, scale=100) if column.share else Number(decimals, scale=column.scale, significant=column.significant)
    )
    ranks = column == results.cost_column
    drop = 0 if ranks else column.place
    head = TableColumn(column.heading, form, metric, drop=drop, core=ranks, if_filled=not column.beside)
    return head, lambda row: row.means.get(metric)


def _front_cell(row: Ranked) -> tuple[bool, float | None] | None:
    return None if row.on_front is None else (row.on_front, row.front_share)


def _not_worse_cell(row: Ranked, baseline: str | None) -> bool | str | None:
    return IDENTICAL if baseline in row.same_as else row.not_worse


def _standing_text(row: Ranked, leader: str | None) -> str | None:
    if row.leads:
        return "leads"
    if leader in row.same_as:
        return IDENTICAL
    if row.ties is None:
        return None
    return NOT_APART if row.ties else ""


def _column_notes(results: RankedInput, severity: Severity, columns: Sequence[TableColumn]) -> list[ColumnNote]:
    """The run's notes of one severity, without those on metrics that have no column here."""
    keys = {column.key for column in columns}
    return [
        ColumnNote(str(note), note.metrics, on_gaps=note.code in GAPS, code=note.code)
        for note in results.notes
        if note.severity is severity and (not note.metrics or keys & set(note.metrics))
    ]


def _explanation_notes(
    results: RankedInput, ranked: Sequence[Ranked], columns: Sequence[TableColumn]
) -> Iterator[ColumnNote]:
    """Yields the sentences below the table that explain its columns and marks, in order."""
    how = f"{results.method}, {results.resamples:,} resamples paired by example, seed {results.seed}"
    weighed = any(note.code in ON_WEIGHTS for note in results.notes)
    if results.clustered:
        how = f"exact limits of rates and Student's t, over {'weighed examples' if weighed else 'clusters'}"
    brackets = f" In brackets {100 * results.level:g} % intervals: {how}."
    without = results.clustered and results.summary["low"].null_count() == len(results.summary)
    code, means = ("weighed_means", "weighed means") if weighed else ("means", "means per example")
    yield ColumnNote(f"{results.n:,} examples; {means}.{'' if without else brackets}", code=code)
    short = {policy.label: policy.sweep or policy.name for policy in results.policies if policy.label}
    if short:
        yield ColumnNote(f"{'; '.join(f'{label}: {name}' for label, name in short.items())}.", ("policy",))
    share, falling = results.quality_column.share, results.quality_column.cost
    if results.baseline is not None:
        delta, unit = ("Δ points", " in percentage points") if share else ("Δ", "")
        text = f"{delta}: difference to `{results.display_names[results.baseline]}`{unit}, on the same examples"
        at_once = results.ranks["baseline_low"].count() > 0
        text += f"; its {100 * results.level:g} % intervals hold for all policies at once." if at_once else "."
        yield ColumnNote(text, ("difference",))
        if len(results.ranks):
            yield ColumnNote("p: two-sided, adjusted for all differences to the baseline.", ("p_adjusted",))
    keys = {column.key for column in columns}
    extra = [column for column in results.columns if column.needs and column.metric in keys]
    if extra:
        text = f"{', '.join(column.heading for column in extra)}: compared with the policy's own base"
        named = ", which its remark names" if any(policy.base for policy in results.policies) else ""
        other = f"; Δ is to `{results.baseline}`" if results.baseline is not None else ""
        yield ColumnNote(f"{text}{named}{other}.", tuple(str(column.metric) for column in extra))
    if results.margin is not None:
        size = f"{100 * results.margin if share else results.margin:g}"
        above = f"above {f'−{size}' if results.margin else 0}"
        rule = f"the upper end of Δ is below {size}" if falling else f"the lower end of Δ is {above}"
        fewest = fewest_examples(results.margin) if share else None
        few = f" (0 on fewer than {fewest:,} examples)" if fewest is not None and results.judged_count < fewest else ""
        yield ColumnNote(f"not worse: {rule}{' points' * share}{few}.", ("not_worse",), code="not_worse")
    most = "most" if falling else "least"
    text = (
        f"Pareto ●: no other policy has at {most} this {results.quality_column.label} {results.cost_column.lower_text}."
    )
    yield ColumnNote(text, ("on_front",))
    level = f"{100 * results.level:g} %"
    if any(row.front_share is not None for row in ranked):
        yield ColumnNote("Pareto %: the share of normal draws in which a policy is on that front.", ("on_front",))
    for column in results.columns:
        if column.remark and column.metric in keys:
            yield ColumnNote(f"{column.label}: {column.remark}.", (str(column.metric),))
    if any(row.ranks for row in ranked):
        yield ColumnNote(f"rank: the places that a policy may have; all of them hold at once at {level}.", ("rank",))
    if any(row.ties is not None for row in ranked):
        text = (
            f"leader: `{NOT_APART}` where a policy is not told apart from the leader; this holds for all pairs at once."
        )
        yield ColumnNote(text, ("leader",))
        yield from _ties_below(results, ranked)
    references = {results.leader, results.baseline if results.margin is not None else results.leader}
    if any(references & row.same_as for row in ranked):
        text = "identical: the same answers and costs on every example; other examples may tell them apart."
        yield ColumnNote(text, ("leader", "not_worse"), code="identical")
    if any(row.corrected for row in ranked):
        text = "corrected: the value of what was chosen on these rows, where one half chooses and the other half scores"
        text += "; its interval ends at the upper limit that is not corrected."
        yield ColumnNote(text, ("corrected",))
    if any("†" in cell.mark for row in ranked for cell in (row.quality, row.difference) if cell is not None):
        yield ColumnNote(f"†: {'; '.join(_mark_reasons(results))}.", (results.metric, "difference"), code="marks")


def _ties_below(results: RankedInput, ranked: Sequence[Ranked]) -> Iterator[ColumnNote]:
    """A note where a policy ties with the leader although a better policy does not."""
    real = [row for row in ranked if row.place is not None and row.ties is not None and not row.leads]
    last = max((place for place, row in enumerate(real) if row.ties), default=0)
    apart = next((row for row in real[:last] if not row.ties), None)
    if apart is not None:
        text = (
            f"`{apart.policy.name}` is told apart from the leader and `{real[last].policy.name}`, below it, is not: "
            "the examples on which a policy and the leader differ decide, and who wins there, not the distance alone."
        )
        yield ColumnNote(text, ("leader",))


def _mark_reasons(results: RankedInput) -> list[str]:
    """The reasons why intervals of the ranking metric are marked."""
    pairs = results.comparisons.filter(metric=results.metric, baseline=results.baseline or "")
    methods = {*results.summary.filter(metric=results.metric)["method"], *pairs["method"]}
    return mark_reasons(methods, results.clustered)


def main_finding(results: RankedInput) -> str | None:
    """The run's main finding in words: the best policy, its distance to the baseline, how many tie with it, and the
    cheapest within the margin. None where nothing can be said.
    """
    return " ".join([*best_policy_sentences(results), *cheapest_policy_sentences(results)]) or None


def best_policy_sentences(results: RankedInput) -> Iterator[str]:
    """Yields sentences on the best policy and how many tie with it; none where nothing ranks, or only one policy."""
    ranked = [row for row in rank(results) if not row.policy.diagnostic and row.quality is not None]
    leader = next((row for row in ranked if row.leads), None)
    if leader is None or leader.quality is None or len(ranked) < 2:
        return
    called = results.display_names
    best = "lowest" if results.quality_column.cost else "best"
    value = _quality_text(results, leader.quality)
    equal = [row for row in ranked if row is not leader and row.quality and _equal(row.quality, leader.quality)]
    text = f"`{called[leader.policy.name]}` has the {best} {results.quality_column.label}, {value}"
    if equal:
        names = [f"`{called[row.policy.name]}`" for row in equal[:2]]
        more = len(equal) - len(names)
        others = f"{', '.join(names)} and {counted(more, 'other')}" if more else " and ".join(names)
        text = f"`{called[leader.policy.name]}` shares the {best} {results.quality_column.label} with {others}, {value}"
    if leader.corrected is not None:
        text += f" ({_quality_text(results, IntervalCell(leader.corrected.estimate))} corrected for having been chosen)"
    if leader.baseline:
        text += "; it is the baseline"
    elif leader.difference is not None:
        points = " points" if results.quality_column.share else ""
        against = f"{points} against `{called[str(results.baseline)]}`"
        text += f"; {_quality_text(results, leader.difference, signed=True)}{against}"
    yield f"{text}."
    if any(row.ties is not None for row in ranked):
        alike = sum(bool(row.ties) and not row.leads for row in ranked) - sum(bool(row.ties) for row in equal)
        count = counted(alike, "other policy is not", "other policies are not") if alike else "Every other policy is"
        yield f"{count} told apart from it on {counted(results.judged_count, 'question')}."


def _equal(one: IntervalCell, other: IntervalCell) -> bool:
    """Whether two estimates are equal but for what sums of floats round."""
    return math.isclose(one.estimate, other.estimate)


def cheapest_policy_sentences(results: RankedInput) -> Iterator[str]:
    """Yields sentences on the cheapest policy shown to be within the margin of the baseline, or on the questions that
    would decide; then on the cheapest by estimates alone.
    """
    near, rows = results.within_margin, {row.policy.name: row for row in rank(results)}
    if near is None:
        return
    points = f"{100 * near.margin:g}"
    within = f"within {points} point{'' if points == '1' else 's'} of `{results.display_names[str(results.baseline)]}`"
    if near.policy is not None and near.low is not None:
        row = rows[near.policy]
        least = NumberWithInterval.of(results.quality_column, signed=True).show(IntervalCell(near.low))
        yield (
            f"The cheapest that is shown to be {within} is `{results.display_names[near.policy]}`: "
            f"{_gain_text(results, row)}, at least {least}{_saving_text(results, row, rows[str(results.baseline)])}."
        )
    else:
        yield remark("none_within", f"No cheaper policy is shown to be {within}.")
    if near.policy is None and near.estimated is None:
        yield f"By estimates alone no cheaper policy is {within} either: more questions like these would show none."
    if near.estimated is not None:
        row, needed = rows[near.estimated], near.needed
        gain = _gain_text(results, row, whole=True) + _saving_text(results, row, rows[str(results.baseline)])
        name = results.display_names[near.estimated]
        text = f"By estimates alone the cheapest is `{name}`, {gain}, which is not shown"
        decide = "" if needed is None else f"; {needed.number_text} would decide"
        yield remark("by_estimates", f"{text}{decide}.")


def _gain_text(results: RankedInput, row: Ranked, whole: bool = False) -> str:
    """A policy's difference to the baseline in points as text, with its interval if `whole`."""
    if row.difference is None:
        return "not compared"
    cell = row.difference if whole else IntervalCell(row.difference.estimate)
    return f"{_quality_text(results, cell, signed=True)} points"


def _saving_text(results: RankedInput, row: Ranked, baseline: Ranked) -> str:
    """A policy's cost beside the baseline's as text, and how much less it is."""
    if row.cost is None or baseline.cost is None:
        return ""
    now, before = (_cost_text(results, cost.estimate) for cost in (row.cost, baseline.cost))
    pair = {"policy": row.policy.name, "baseline": baseline.policy.name}
    less = results.comparisons.filter(metric=f"reduction:{results.cost_column.metric}", **pair).drop_nulls("difference")
    share = [f" ({NumberWithInterval(0, 100.0).show(IntervalCell(value))} % less)" for value in less["difference"]]
    return f", for {now} {results.cost_column.label} instead of {before}{''.join(share)}"


def _quality_text(results: RankedInput, value: IntervalCell, signed: bool = False) -> str:
    if results.quality_column.share and not signed:
        return percent_text(value)
    return NumberWithInterval.of(results.quality_column, signed).show(value)


def percent_text(share: IntervalCell) -> str:
    """A share with its interval as text: `74.8 % [72.9, 76.6]`."""
    number, bracket, rest = NumberWithInterval(1, 100.0).show(share).partition(" [")
    return f"{number} %{bracket}{rest}"


def _cost_text(results: RankedInput, value: float) -> str:
    return NumberWithInterval.of(results.cost_column).show(IntervalCell(value))
