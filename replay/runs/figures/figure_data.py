"""The numbers behind the figures of a result: rows to draw, and a frame of them to read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.runs.compare.comparing import compare, differences_to_policy
from replay.runs.compare.headroom import GAP, GENERATION, SELECTION, SHARE, STOPPING, Headroom
from replay.runs.saved.display import frontier_frame, policy_row, ranked_input, rows_frame
from replay.runs.saved.findings import Findings
from replay.runs.saved.provenance import PolicyRecord
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.errors import ConflictError, EmptyError, RequiredError, UnsuitableError, argument, counted, require_known
from toolkit.log import Log, collect
from toolkit.show import Ranked, frontier_figure, rank, why_no_frontier
from toolkit.show.drawing.page import draw_what_fits
from toolkit.show.figures.forest import PolicyDifference, forest_figure
from toolkit.show.figures.gap_bars import PolicyGap, gap_figure
from toolkit.show.figures.gate_curves import GateCurve, gates_figure
from toolkit.show.figures.stopping import StoppingTimes, stopping_figure
from toolkit.show.ranking.one_column import paper_names
from toolkit.show.ranking.ranking import PolicyRow, short_names
from toolkit.show.tables.latex import COLUMN
from toolkit.stats import summarise
from toolkit.stats.many.compare import ACCURACY
from toolkit.stats.metrics.outcomes import join_stores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ROWS, BARS, PANELS = 24, 12, 12
"""The most rows and panels of a figure where no policies are named."""
RATE, SEEN = "intervention_rate", "position_share"


@dataclass(frozen=True, eq=False)
class FigureRequest:
    """A request for a figure of a result: the policies and options named; `log` is the one that was named.

    `room`, its headroom, and `result_log`, the log where it was, are read where a figure needs them.
    """

    result: Findings
    room: Callable[[], Headroom]
    result_log: Callable[[], Log | None]
    log: Log | None = None
    baseline: str | None = None
    policies: tuple[str, ...] = ()
    cost: str | None = None


@dataclass(frozen=True, eq=False)
class FigureData:
    """A figure's data. `frame`: its numbers, those without room in it, too; `draw(width=, title=)` draws it."""

    frame: pl.DataFrame
    draw: Callable[..., Figure]


def frontier_data(request: FigureRequest) -> FigureData:
    """Every policy, or those named, with the ranking metric and a cost. ThinkbackError without any, or a front."""
    whole = ranked_input(request.result, cost=request.cost)
    results, note = whole, ""
    if request.policies:
        names = requested_policies(request, whole.policies)
        results = replace(whole, policies=tuple(policy for policy in whole.policies if policy.name in names))
        note = f"front of the {len(names)} of {counted(len(whole.policies), 'policy', 'policies')} shown"
    reason = why_no_frontier(results)
    if reason:
        raise EmptyError(f"there is no figure: {reason}")

    def draw(*, width: float, title: str) -> Figure:
        figure = frontier_figure(results, title, width, note)
        assert figure is not None
        return figure

    return FigureData(frontier_frame(results), draw)


def _figure_labels(result: Findings) -> dict[str, str]:
    return short_names([policy_row(policy) for policy in result.policies], always=True)


def requested_policies(request: FigureRequest, known: Sequence[PolicyRow | PolicyRecord]) -> set[str]:
    """The policies named, by themselves or by their sweep. ThinkbackError for a name that no policy has."""
    for name in request.policies:
        if name in request.result.dropped:
            raise UnsuitableError(f"policy `{name}` was dropped: {request.result.dropped[name]}")
        names = {one for policy in known for one in (policy.name, policy.sweep)}
        require_known(name, names, f"no policy and no sweep of the result is named `{name}`")
    return {policy.name for policy in known if {policy.name, policy.sweep} & {*request.policies}}


def figure_rows(request: FigureRequest, most: int, also: Collection[str] = ()) -> tuple[list[Ranked], int]:
    """The rows that a figure has room for, the best first, and how many it leaves out.

    Those of the policies and sweeps named; else those that are no settings of a sweep, its best and the front, and
    where there is still room the policies `also` named.
    """
    ranked = [row for row in rank(ranked_input(request.result)) if row.quality is not None]
    if request.policies:
        names = requested_policies(request, [row.policy for row in ranked])
        return [row for row in ranked if row.policy.name in names], 0
    must = {request.baseline or request.result.baseline, request.result.leader}
    plain = {row.policy.name for row in ranked if row.policy.sweep_size <= 1 or row.chosen}
    rows = [row for row in ranked if row.policy.name in {*must, *plain, *also}]
    urgent = sorted(rows, key=lambda row: (row.policy.name not in must, row.policy.name not in plain))
    subset = {row.policy.name for row in urgent[:most]}
    return [row for row in rows if row.policy.name in subset], len(ranked) - len(subset)


def fitting_rows_drawer(
    figure: Callable[..., Figure], rows: Sequence[Any], always_drawn: Collection[str] = (),
    remarks: Sequence[str] = (), left_out: int = 0, what: tuple[str, str] = ("more policy", "more policies"),
    called: Mapping[str, str] | None = None, rest: Callable[[Collection[str]], str] = lambda drawn: "", **look: Any,
) -> Callable[..., Figure]:  # fmt: skip
    """A function that draws as many rows as a page has room for, the first ones, and always those in `always_drawn`.

    Below stand `remarks` and how many rows are in the CSV alone, the `left_out` among them, with what `rest` says of
    these, given the names drawn. Rows that are `called` as policies have their short names in one column.
    """

    def draw(*, width: float, title: str) -> Figure:
        texts = called if called is not None and width <= COLUMN else {}
        names, key = paper_names(texts)
        short = {texts[name]: text for name, text in names.items()}
        named = look | {"baseline": short.get(look["baseline"], look["baseline"])} if "baseline" in look else look

        def figure_of_first_rows(count: int) -> Figure:
            first = sorted(range(len(rows)), key=lambda number: rows[number].name not in always_drawn)[:count]
            more = left_out + len(rows) - len(first)
            chosen = [rows[number] for number in sorted(first)]
            others = f"{counted(more, *what)} in the CSV{rest({row.name for row in chosen})}" if more else ""
            note = "; ".join(filter(None, [key.rstrip("."), *remarks, others]))
            chosen = [replace(row, name=short.get(row.name, row.name)) for row in chosen] if short else chosen
            return figure(chosen, note=note, title=title, width=width, **named)

        return draw_what_fits(figure_of_first_rows, len(rows))

    return draw


def forest_data(request: FigureRequest) -> FigureData:
    """The difference of each policy to a baseline, in the metric that ranks.

    To the run's own baseline the limits hold for all such differences; to any other for all pairs, since it may have
    been chosen by what was seen. Without either, the leader is the baseline.
    """
    result = request.result
    to_baseline = request.baseline is None or request.baseline == result.baseline
    baseline = request.baseline or result.baseline or result.leader
    if baseline is None:
        raise RequiredError(f"there is no policy to compare with: name one as {argument('baseline')}")
    policies = {policy.name: policy for policy in result.policies}
    require_known(baseline, policies, f"no policy is named `{baseline}`")
    if policies[baseline].diagnostic and baseline != result.baseline:
        raise ConflictError(f"`{baseline}` sees gold: the figure `headroom` draws what lies below it")
    column = metric_column(result.summariser.metric, result.columns)
    scale = 100.0 if column.share else column.scale
    to_baseline = to_baseline and result.baseline is not None
    if to_baseline:
        limits, stepwise = dict(_limits_to_baseline(result)), _policies_apart_by_p_value(result)
    else:
        pairs = differences_to_policy(compare(result, None, None, None, None).pairs, baseline)
        limits, stepwise = (
            dict(_limits_to_policy(result, baseline, column, pairs)),
            {*pairs.filter("differs")["policy"]},
        )
    differences = {
        name: PolicyDifference(
            name,
            scale * change,
            _scale_value(low, scale),
            _scale_value(high, scale),
            bool(policies[name].diagnostic),
            stepwise=name in stepwise,
        )
        for name, (change, low, high) in limits.items()
    }
    called = _figure_labels(result)
    tied = {
        difference.name
        for difference in differences.values()
        if not (difference.differs_from_baseline or difference.diagnostic)
    } - {baseline}
    rows, left_out = figure_rows(request, ROWS, tied)
    listed = [row.policy.name for row in rows if row.policy.name in differences]
    points = [replace(differences[name], name=called[name]) for name in listed]
    level = f"{100 * result.summariser.settings.level:g} %"
    remarks = [f"{level} limits, for all {'differences' if to_baseline else 'pairs'} at once"]
    if any(row.stepwise and row.holds_zero for row in points):
        remarks.append("p is adjusted step by step, so it may tell apart where limits do not")
    frame = rows_frame([*differences.values()], PolicyDifference).select(
        "policy", baseline=pl.lit(baseline), metric=pl.lit(result.summariser.metric), difference="difference",
        low="low", high="high", diagnostic="diagnostic",
    )  # fmt: skip
    look: dict[str, Any] = {
        "baseline": called[baseline],
        "quality": column.label,
        "unit": "points" if column.share else "",
        "simulated": result.simulated,
    }
    must = {called[one] for one in (baseline, result.leader) if one in called}

    def apart(drawn: Collection[str]) -> str:
        open_ones = len({called[name] for name in tied} - {*drawn})
        return f", {open_ones} of them not told apart" if open_ones else ", all told apart"

    draw = fitting_rows_drawer(
        forest_figure, points, must, remarks, left_out, called=called, rest=apart, **look
    )  # fmt: skip
    return FigureData(frame, draw)


def _scale_value(value: float | None, scale: float) -> float | None:
    return None if value is None else scale * value


LIMITS = ("difference", "low", "high")
Limits = tuple[float, float | None, float | None]


def _limits_to_baseline(result: Findings) -> Iterator[tuple[str, Limits]]:
    for row in rank(ranked_input(result)):
        if row.baseline:
            yield row.policy.name, (0.0, None, None)
        elif row.difference is not None:
            yield row.policy.name, (row.difference.estimate, row.difference.low, row.difference.high)


def _policies_apart_by_p_value(result: Findings) -> set[str]:
    """The policies whose adjusted p-value is below 1 - level: they differ from the run's baseline."""
    tail = 1 - result.summariser.settings.level
    return {row.policy.name for row in rank(ranked_input(result)) if row.p_value is not None and row.p_value < tail}


def _limits_to_policy(
    result: Findings, baseline: str, column: OutcomeColumn, pairs: pl.DataFrame
) -> Iterator[tuple[str, Limits]]:
    """Limits of differences to a policy, from all pairs; a policy in no pair, such as a diagnostic, has none."""
    values = dict(result.summary.filter(metric=column.metric).select("policy", "estimate").iter_rows())
    limits = {name: (gain, low, high) for name, gain, low, high in pairs.select("policy", *LIMITS).iter_rows()}
    if values.get(baseline) is None:
        raise UnsuitableError(f"`{baseline}` has no {column.label}, so nothing can be compared with it: name another")
    for row in rank(ranked_input(result)):
        name, value = row.policy.name, values.get(row.policy.name)
        if value is not None:
            yield name, limits.get(name, (value - values[baseline], None, None))


def headroom_data(request: FigureRequest) -> FigureData:
    """The parts of each policy's gap to an oracle and, with a baseline, the share of the headroom that it reaches."""
    result = request.result
    room = request.room()
    if not room.parts:
        how = f"replay again with {argument('headroom')}"
        raise UnsuitableError(f"the result was saved without the parts of the gap, which the figure shows: {how}")
    measures = {(policy, measure): rest for policy, measure, *rest in room.frame.iter_rows()}
    right = dict(room.accuracy.select("policy", "estimate").iter_rows())
    rows, left_out = figure_rows(request, BARS)
    called = _figure_labels(result)
    bars = []
    for row in rows:
        parts = {part: measures.get((row.policy.name, part), [None])[0] for part in GAP}
        if None in parts.values():
            continue
        share, low, high = measures.get((row.policy.name, SHARE), [None] * 3)[:3]
        ends = row.policy.name in (room.baseline, room.oracle)
        bars.append(
            PolicyGap(
                name=called[row.policy.name],
                accuracy=right[row.policy.name],
                selection=parts[SELECTION],
                stopping=parts[STOPPING],
                generation=parts[GENERATION],
                share=share,
                low=None if ends else low,
                high=None if ends else high,
                diagnostic=bool(row.policy.diagnostic),
            )
        )
    if not bars:
        raise EmptyError("no policy that is shown has a gap by generation, stopping and selection")
    end_notes = []
    if room.baseline is not None:
        end_notes = [f"headroom: from {called[room.baseline]} (0) to {called[room.oracle]} (100)"]
    limits = [f"in brackets {100 * room.level:g} % limits"] if room.baseline is not None else []
    must = {called[one] for one in (room.baseline, room.oracle, result.leader) if one in called}
    accuracy = room.accuracy.rename({"metric": "measure"}).select(room.frame.columns)
    remarks = [*end_notes, *limits]
    draw = fitting_rows_drawer(gap_figure, bars, must, remarks, left_out, called=called, simulated=result.simulated)
    return FigureData(pl.concat([accuracy, room.frame]), draw)


def stopping_data(request: FigureRequest) -> FigureData:
    """How many traces each policy paid on each example; by default of policies that stop at several numbers."""
    result = request.result
    whole = pl.col("traces").round().cast(pl.Int64)
    counts = collect(
        result.outcomes.filter(pl.col("traces").is_not_null())
        .group_by("policy", traces=whole)
        .agg(examples=pl.len().cast(pl.Int64), paid=pl.col("traces").sum(), odd=(pl.col("traces") != whole).any())
    )
    if counts.is_empty():
        raise EmptyError("no policy has a number of traces")
    if not counts["paid"].sum():
        raise EmptyError("no policy draws a trace")
    place = {name: number for number, name in enumerate(result.summariser.names)}
    counts = counts.with_columns(share=pl.col("examples") / pl.col("examples").sum().over("policy"))
    counts = counts.sort(pl.col("policy").replace_strict(place, return_dtype=pl.Int64), "traces")
    by_policy = {name: rows for (name,), rows in counts.partition_by("policy", as_dict=True).items()}
    rows, _ = figure_rows(request, len(result.policies))
    rows = [row for row in rows if row.policy.name in by_policy]
    if not request.policies:
        varied = [row for row in rows if by_policy[row.policy.name].height > 1 and not row.policy.diagnostic]
        rows = [row for row in varied if row.means.get(RATE) is None] or varied  # a gate has two: before and after
    if not rows:
        raise EmptyError(
            "no histogram: each policy pays for the same number of traces on all examples; replay one that stops"
        )
    panel_rows = rows if request.policies else rows[:PANELS]
    called = _figure_labels(result)
    panels = [
        StoppingTimes(
            called[row.policy.name],
            tuple((mine := by_policy[row.policy.name])["traces"]),
            tuple(mine["share"]),
            float(mine["paid"].sum()) / float(mine["examples"].sum()),
            bool(row.policy.diagnostic),
        )
        for row in panel_rows
    ]
    rounded = any(by_policy[row.policy.name]["odd"].any() for row in panel_rows)
    remarks = ["means over orders are rounded"] * rounded
    left_out = len(rows) - len(panel_rows)
    frame = counts.select("policy", "traces", "examples", "share")
    return FigureData(
        frame, fitting_rows_drawer(stopping_figure, panels, (), remarks, left_out, simulated=result.simulated)
    )


BASE = "base_correct"
NAMING = {"name", "against", "label", "sweep", "sweep_size"}
"""Settings of a policy that do not change what it does."""


def gates_data(request: FigureRequest) -> FigureData:
    """Accuracy by the share of examples acted on, for every sweep of a gate and every gate with all thresholds."""
    result = request.result
    curves = [*_all_thresholds(result), *_swept_settings_curves(result)]
    if request.policies:
        names = [curve.name for curve in curves]
        for name in request.policies:
            require_known(name, names, f"no gate with several settings is named `{name}`")
        curves = [curve for curve in curves if curve.name in request.policies]
    if not curves:
        raise EmptyError(
            "no policy of the result has a gate with several settings: sweep its threshold, as `below = [0.2, 0.5]`, "
            '`below = { quantiles = 10 }` or `below = "all"`'
        )
    level = f"{100 * result.summariser.settings.level:g} %"
    kinds = {curve.whole for curve in curves}
    interval_notes = [f"band: {level}, for the whole curve"] * (True in kinds) + [f"bars: {level} intervals"] * (
        False in kinds
    )
    panels = curves if request.policies else curves[:PANELS]
    left_out = len(curves) - len(panels)
    frame = pl.concat(
        pl.DataFrame(
            {"policy": [curve.name] * len(curve.rate), RATE: curve.rate, ACCURACY: curve.accuracy, "low": curve.low,
             "high": curve.high, "whole_curve": [curve.whole] * len(curve.rate)},
            schema_overrides=dict.fromkeys((RATE, ACCURACY, "low", "high"), pl.Float64),
        )
        for curve in curves
    )  # fmt: skip
    labels = {policy.sweep: policy.label or policy.sweep for policy in result.policies}
    named = [replace(curve, name=labels.get(curve.name, curve.name)) for curve in panels]
    draw = fitting_rows_drawer(
        gates_figure, named, (), interval_notes, left_out, ("more gate", "more gates"), simulated=result.simulated
    )
    return FigureData(frame, draw)


def _all_thresholds(result: Findings) -> Iterator[GateCurve]:
    if result.bands is None:
        return
    for (name,), rows in result.bands.partition_by("policy", as_dict=True, maintain_order=True).items():
        rate, accuracy = (rows.filter(metric=metric) for metric in (RATE, ACCURACY))
        both = rate.select("threshold", rate="estimate").join(
            accuracy.select("threshold", "estimate", "band_low", "band_high"), on="threshold", maintain_order="left"
        )
        both = both.drop_nulls(["rate", "estimate"])
        if both.height > 1:
            rates, values, low, high = (tuple(both[one]) for one in ("rate", "estimate", "band_low", "band_high"))
            yield GateCurve(str(name), rates, values, low, high, whole=True, never=True, always=True)


def _swept_settings_curves(result: Findings) -> Iterator[GateCurve]:
    """The curves of sweeps of a gate's threshold, from the base (`never`) to what the gate leads to (`always`)."""
    whole = set() if result.bands is None else {*result.bands["policy"]}
    sweeps: dict[str, list[str]] = {}
    for policy in result.policies:
        if [key.startswith("gate.") for key, _ in policy.swept] == [True] and policy.sweep not in whole:
            sweeps.setdefault(policy.sweep, []).append(policy.name)
    estimates = {(policy, metric): rest for policy, metric, *rest in result.summary.iter_rows()}
    firsts = [names[0] for names in sweeps.values()]
    base = _base_accuracies(result, firsts) if firsts else {}
    for (sweep, names), first in zip(sweeps.items(), firsts, strict=True):
        points = []
        for name in names:
            rate, accuracy = estimates.get((name, RATE), [None])[0], estimates.get((name, ACCURACY), [None] * 3)[:3]
            if rate is not None and accuracy[0] is not None:
                points.append((rate, *accuracy))
        points.sort()
        if len(points) < 2:
            continue
        if points[0][0] > 0 and first in base:
            points.insert(0, (0.0, *base[first]))
        always = estimates.get((_always_policy(result, first), ACCURACY), [None] * 3)[:3]
        if points[-1][0] < 1 and always[0] is not None:
            points.append((1.0, *always))
        rates, values, low, high = zip(*points, strict=True)
        yield GateCurve(sweep, rates, values, low, high, never=rates[0] == 0, always=rates[-1] == 1)


def _always_policy(result: Findings, gate: str) -> str:
    """The policy that does everywhere what a gate leads to; empty where the result has no such policy."""

    def unnamed(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in settings.items() if key not in NAMING}

    named = {policy.name: policy.settings for policy in result.policies}
    then = named[gate].get("then")
    if not isinstance(then, Mapping):
        return ""
    return next((name for name, settings in named.items() if unnamed(settings) == unnamed(then)), "")


def _base_accuracies(result: Findings, names: Sequence[str]) -> dict[str, tuple[float, float | None, float | None]]:
    summariser = result.summariser
    store = summariser.outcomes.statistics().only_columns([BASE])
    numbers = [summariser.names.index(name) for name in names]
    column = OutcomeColumn(BASE, rate=True, quality=True)
    summary = summarise(
        join_stores([(store, numbers)], [BASE], 0), names, leaders=(), metric=BASE, columns=[column],
        settings=summariser.settings,
    )  # fmt: skip
    rows = summary.summary.filter(pl.col("estimate").is_not_null() & (pl.col("metric") == BASE))
    return {
        name: (value, low, high)
        for name, value, low, high in rows.select("policy", "estimate", "low", "high").iter_rows()
    }


def positions_data(request: FigureRequest) -> FigureData:
    """Accuracy by the share of a text that was seen, at every threshold of policies that answer while it unfolds."""
    result, curves = request.result, list[GateCurve]()
    frame = pl.DataFrame() if result.positions is None else result.positions
    names = [*dict.fromkeys(frame["policy"])] if frame.height else []
    for name in request.policies:
        require_known(name, names, f"no policy with thresholds on an unfolding text is named `{name}`")
    for name in names if not request.policies else request.policies:
        rows = frame.filter(policy=name).drop_nulls([SEEN, ACCURACY]).reverse()  # from the first words on
        if rows.height > 1:
            nothing = (None,) * rows.height
            curves.append(GateCurve(name, tuple(rows[SEEN]), tuple(rows[ACCURACY]), nothing, nothing, whole=True))
    if not curves:
        raise EmptyError(
            "no policy of the result answers while a text unfolds, by a threshold and on questions that have a "
            "`length`: use the stop `at_least` on a pool with positions"
        )
    panels = curves if request.policies else curves[:PANELS]
    draw = fitting_rows_drawer(
        gates_figure, panels, (), ["every threshold"], len(curves) - len(panels), ("more policy", "more policies"),
        simulated=result.simulated, across="text seen, %",
    )  # fmt: skip
    return FigureData(frame, draw)
