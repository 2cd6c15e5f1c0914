"""The charts of a dashboard as Vega-Lite, made by altair. The page gives them their data and sets their parameters.

Nothing is told by colour alone: shapes, dashes, places and words tell the same. Colours stand out from a light and from
a dark ground alike; text has the page's colour.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import altair as alt

BLUE, ORANGE, GREEN, PURPLE, GREY, RED = "#2f7ec7", "#cf6f12", "#1b9273", "#a566c2", "#7c8590", "#d1495b"
KINDS = ("policy", "baseline", "leader", "sees gold", "slider")
KIND_SHAPES = ("circle", "diamond", "square", "cross", "triangle-up")
KIND_COLOURS = (BLUE, ORANGE, GREEN, GREY, PURPLE)
ANSWERS = (BLUE, ORANGE, PURPLE, GREEN, RED, "#8c7a1f", "#5f6fd0", GREY)
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
PARTS = ("right", "selection", "stopping", "generation")
PART_COLOURS = ("#3f9474", "#67a5dc", "#eeb978", "#dfe4e8")
"""Colours in steps of lightness, distinct in grey too; dark words stand in each."""
INK = "#101418"
DIFFERENCES = ("told apart", "not told apart", "no limits")
RING = "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0ZM.55 0A.55 .55 0 1 0-.55 0A.55 .55 0 1 0 .55 0Z"
"""An open circle that stands on a line."""
VERDICTS = ("right", "wrong", "part right", "unjudged")
VERDICT_SHAPES = ("circle", "cross", "diamond", "square")
REWARDS, REWARD_SHAPES = ("rewarded", "not rewarded", "weighed by a factor"), ("circle", RING, "diamond")
CHECKS = ("supported", "refuted", "not enough")
CHECK_COLOURS, CHECK_SHAPES = (GREEN, RED, GREY), ("circle", "cross", "diamond")
ROWS = 100
"""Pixels of a chart with one policy, or answer, a row; the page sets as many as its rows take."""
COMMON: dict[str, Any] = {"names": 100, "lines": [], "legend": 4, "words": 200}
"""Parameters of every chart: pixels that the names at the left of rows take; what stands at the places of an axis that
has names, by the numbers of its places, each in lines that fit; names in a row of a legend; pixels of a mark's name."""
IN_LINE: dict[str, Any] = COMMON | {
    "left": 0, "right": 0, "top": 0, "bottom": 0, "from": 0, "across": 200, "raised": 0, "label": 200, "mark": 50,
    "steps": [0.5, 1.5], "ticks": [], "now": 1e9,
}  # fmt: skip
"""Parameters of the parts of a question's picture: the pixels around the plot, where the title begins and how long it
may be, where the legend is and how long its names may be; the size of a mark; the ends of the axis, and its ticks; the
step to which it is played. What comes later is not seen, and keeps its place on the axes."""
SO_FAR, ENDED = "datum.step <= now", "datum.step <= now + 0.5"

TIP = alt.ExprRef("datum.tip")
"""The text of a mark's tooltip, which the page fills in with names."""

Spec = dict[str, Any]


@cache
def charts() -> dict[str, Spec]:
    """The Vega-Lite specification of every chart of the dashboard, by the chart's name."""
    named: dict[str, Callable[[], Spec]] = {
        "frontier": _frontier, "forest": _forest, "changes": _changes, "headroom": _headroom, "captured": _captured,
        "curves": _curves, "sweep": _sweep, "results": _results, "traces": _traces, "scores": _score_chart,
        "spent": _spent, "stops": _stops, "clusters": _cluster_chart, "rewards": _reward_chart,
        "claims": _claim_chart, "buzzes": _buzz_chart,
    }  # fmt: skip
    return {**{name: chart() for name, chart in named.items()}, "frontier_log": _frontier(log=True)}


def _chart_config() -> Spec:
    ink = "currentColor"
    quiet = {"gridColor": ink, "gridOpacity": 0.14, "domainColor": ink, "tickColor": ink}
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 600}
    return {
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**quiet, **text},
        "legend": {**text, "symbolFillColor": ink, "symbolOpacity": 1, "orient": "top"},
        "header": text,
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": ink},
        "point": {"opacity": 1},
    }


def _chart(*layers: Any, height: float = 320, **params: Any) -> Spec:
    """A chart of several layers, as wide as its place. Each layer's data have a name; the page brings them."""
    spec: Spec = alt.layer(*layers).properties(width="container", height=height).to_dict(validate=False)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec["params"] = [{"name": name, "value": value} for name, value in (COMMON | params).items()]
    spec["config"] = _chart_config()
    return spec


def _aligned_chart(*layers: Any, height: float, **params: Any) -> Spec:
    """One chart of a question's picture. Its plot begins and ends where those of the charts above and below do."""
    padding = alt.ExprRef("{left: left, right: right, top: top, bottom: bottom}").to_dict()
    chart = _chart(*layers, height=height, **IN_LINE, **params)
    return {**chart, "width": 400, "autosize": {"type": "none"}, "padding": padding}


def _title_ref(name: str) -> Any:
    """A chart title that the page sets through the parameter `name`."""
    return {"signal": name}


def _data_chart(name: str) -> Any:
    return alt.Chart(alt.NamedData(name=name))


def _policy_axis(title: str | None = None, **axis: Any) -> Any:
    """An axis with one row for each policy name. Rows are numbered, so that Vega reads no meaning into a name."""
    label = {"labelExpr": NAMED, "labelLineHeight": 14, "labelOffset": {"condition": [*_RAISED], "value": 0}}
    look = {"ticks": False, "domain": False, **_name_room(), **label, **axis}
    return alt.Y("row:O", title=title, axis=alt.Axis(**look))


NAMED = "(lines[datum.value] || '')"
"""A tick that goes as names become fewer has none."""
_RAISED = [{"test": f"length({NAMED}) == {count}", "value": 7 * (1 - count)} for count in (2, 3, 4)]


def _name_room() -> Spec:
    """The room for names beside a chart, the same in all of them, so that charts below one another are in line."""
    return dict.fromkeys(("minExtent", "maxExtent", "labelLimit"), alt.ExprRef("names"))


def _fixed_scale(domain: tuple[str, ...], values: tuple[str, ...]) -> Any:
    return alt.Scale(domain=list(domain), range=list(values))


def _untitled_legend() -> Any:
    return alt.Legend(title=None, columns=alt.ExprRef("legend"))


def _series_encodings(field: str, legend: Any = None) -> tuple[Any, Any]:
    """The colour and the shape of the lines that the page names, with one legend for both."""
    look = {"legend": legend or _untitled_legend()}
    colours, shapes = (alt.Scale(domain=alt.ExprRef("series"), range=list(of)) for of in (ANSWERS, SHAPES))
    return alt.Color(field, scale=colours, **look), alt.Shape(field, scale=shapes, **look)


def _kind_encodings() -> tuple[Any, Any]:
    """The colour and the shape of each kind of policy in the cost–quality plane, with one legend for both."""
    shape = alt.Shape("kind:N", scale=_fixed_scale(KINDS, KIND_SHAPES), legend=_untitled_legend())
    colour = alt.Color("kind:N", scale=_fixed_scale(KINDS, KIND_COLOURS), legend=_untitled_legend())
    return colour, shape


def _frontier(log: bool = False) -> Spec:
    points = _data_chart("points")
    axis = alt.Axis(values=alt.ExprRef("ticks"), format=",~r") if log else alt.Axis()
    zero = {} if log else {"zero": False}
    costs = alt.Scale(type="log" if log else "linear", domain=alt.ExprRef("xs"), nice=False, **zero)
    x = alt.X("cost:Q", title=_title_ref("cost"), scale=costs, axis=axis)
    y = alt.Y("at:Q", title=_title_ref("quality"), scale=alt.Scale(domain=alt.ExprRef("ys"), nice=False, zero=False))
    colour, shape = _kind_encodings()
    pointed = {"test": "datum.number === under", "value": 1}
    bars = {"opacity": alt.Opacity("bar:Q", scale=None, legend=None, condition=pointed), "color": colour}
    words = {"dx": alt.ExprRef("datum.dx"), "dy": alt.ExprRef("datum.dy"), "align": "left", "baseline": "middle"}
    front = _data_chart("front").mark_line(interpolate="step-after", strokeDash=[5, 3], color=GREY, clip=True)
    return _chart(
        front.encode(x=x, y=y),
        points.mark_rule(strokeWidth=1.5).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **bars),
        points.mark_rule(strokeWidth=1.5).encode(x=alt.X("cost_low:Q"), x2="cost_high:Q", y=y, **bars),
        points.mark_point(filled=True, strokeWidth=1.5, cursor="pointer", tooltip=TIP).encode(
            x=x, y=y, color=colour, shape=shape, stroke=colour,
            size=alt.Size("size:Q", scale=None, legend=None),
            opacity=alt.Opacity("opacity:Q", scale=None, legend=None),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None, legend=None),
        ),
        points.transform_filter("datum.label").mark_text(**words).encode(x=x, y=y, text=alt.Text("label:N")),
        height=380, cost="", quality="", xs=[1, 10], ys=[0, 100], ticks=[], under=-2,
    )  # fmt: skip


def _difference_axis() -> Any:
    return alt.X("difference:Q", title=_title_ref("difference"))


def _zero_line() -> Any:
    return _data_chart("zero").mark_rule(strokeDash=[3, 3]).encode(x=alt.X("zero:Q"))


def _forest() -> Spec:
    rows, x, y = _data_chart("rows"), _difference_axis(), _policy_axis()
    colour = alt.Color("told:N", scale=_fixed_scale(DIFFERENCES, (BLUE, GREY, ORANGE)), legend=_untitled_legend())
    shape = alt.Shape("told:N", scale=_fixed_scale(DIFFERENCES, ("circle", RING, "diamond")), legend=_untitled_legend())
    return _chart(
        _zero_line(),
        rows.mark_rule(strokeWidth=2, tooltip=TIP).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        rows.mark_point(filled=True, size=110, tooltip=TIP).encode(x=x, y=y, color=colour, shape=shape),
        height=ROWS, difference="",
    )  # fmt: skip


def _changes() -> Spec:
    rows, y = _data_chart("changes"), _policy_axis()
    colour = alt.Color("change:N", scale=_fixed_scale(("fixes", "flips"), (GREEN, RED)), legend=_untitled_legend())
    x = alt.X("count:Q", title="flips ← examples → fixes", stack=None, scale=alt.Scale(padding=alt.ExprRef("ends")))
    ends = {"text": alt.Text("text:N"), "x": x, "y": y}
    return _chart(
        rows.mark_bar(height={"band": 0.7}).encode(x=x, y=y, color=colour, tooltip=["name:N", "change:N", "text:N"]),
        rows.transform_filter("datum.count > 0").mark_text(align="left", dx=3).encode(**ends),
        rows.transform_filter("datum.count < 0").mark_text(align="right", dx=-3).encode(**ends),
        height=ROWS, ends=8,
    )  # fmt: skip


def _headroom() -> Spec:
    bars, y = _data_chart("bars"), _policy_axis()
    colour = alt.Color("part:N", scale=_fixed_scale(PARTS, PART_COLOURS), legend=_untitled_legend(), sort=None)
    x = alt.X("from:Q", title="% of the examples", scale=alt.Scale(domain=[0, 100]))
    return _chart(
        bars.mark_bar(height={"band": 0.75}, stroke=INK, strokeWidth=0.7).encode(
            x=x, x2="to:Q", y=y, color=colour, tooltip=["name:N", "part:N", "text:N"]
        ),
        bars.mark_text(color=INK, fontSize=11).encode(x=alt.X("middle:Q"), y=y, text="label:N"),
        height=ROWS,
    )  # fmt: skip


def _captured() -> Spec:
    rows, ends, y = _data_chart("rows"), _data_chart("ends"), _policy_axis()
    tooltip = ["name:N", alt.Tooltip("said:N", title="% of the headroom")]
    return _chart(
        ends.mark_rule(strokeDash=[3, 3]).encode(x=alt.X("end:Q")),
        rows.mark_rule(strokeWidth=2, color=BLUE).encode(x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=tooltip),
        rows.mark_point(filled=True, size=70, color=BLUE).encode(
            x=alt.X("share:Q", title="% of the headroom", scale=alt.Scale(padding=8)), y=y, tooltip=tooltip
        ),
        height=ROWS,
    )  # fmt: skip


def _curves() -> Spec:
    lines = _data_chart("lines")
    x = alt.X(
        "k:Q",
        title="traces k",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(format="d", values=alt.ExprRef("ticks")),
    )
    colour, shape = _series_encodings("series:N")
    dash = alt.StrokeDash("series:N", legend=None)
    y = alt.Y("estimate:Q", title="%", scale=alt.Scale(zero=False))
    tooltip = ["series:N", "k:Q", alt.Tooltip("said:N", title="%")]
    return _chart(
        lines.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        lines.mark_point(filled=True, size=50).encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip),
        ticks=[], series=[],
    )  # fmt: skip


def _sweep() -> Spec:
    line, settings, here = (_data_chart(name) for name in ("line", "settings", "here"))
    axis = alt.Axis(values=alt.ExprRef("ticks"), grid=False, labelOverlap=False, labelExpr=NAMED)
    scale = alt.Scale(domain=alt.ExprRef("places"), nice=False)
    x = alt.X("place:Q", title=_title_ref("key"), axis=axis, scale=scale)
    y = alt.Y("value:Q", title=_title_ref("quality"), scale=alt.Scale(zero=False))
    return _chart(
        line.mark_line(color=PURPLE, strokeWidth=1, opacity=0.6).encode(x=x, y=y),
        settings.mark_rule(color=PURPLE, tooltip=TIP).encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        settings.mark_point(filled=True, size=alt.ExprRef("mark"), color=PURPLE, tooltip=TIP).encode(x=x, y=y),
        here.mark_rule(strokeDash=[3, 3], color=PURPLE).encode(x=x),
        here.mark_point(filled=True, size=130, shape="triangle-up", color=PURPLE, tooltip=TIP).encode(x=x, y=y),
        height=150, key="", quality="", ticks=[], places=[0, 1], mark=60,
    )  # fmt: skip


def _results() -> Spec:
    rows, x = _data_chart("results"), alt.X("value:Q", title=_title_ref("quality"), scale=alt.Scale(zero=False))
    colour, shape = _series_encodings("result:N")
    look = {"color": colour, "yOffset": alt.YOffset("result:N", scale=alt.Scale(domain=alt.ExprRef("series")))}
    y = _policy_axis(grid=True)
    return _chart(
        rows.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, **look),
        rows.mark_point(filled=True, size=60).encode(
            x=x, y=y, shape=shape, tooltip=["name:N", "result:N", "told:N"], **look
        ),
        height=ROWS, quality="", series=[],
    )  # fmt: skip


def _step_axis(title: str | None = None) -> Any:
    axis = alt.Axis(title=title, values=alt.ExprRef("ticks"), format="d", grid=False, labels=title is not None,
                    ticks=False)  # fmt: skip
    return alt.X("step:Q", axis=axis, scale=_step_scale())


def _step_scale() -> Any:
    return alt.Scale(domain=alt.ExprRef("steps"), nice=False)


def _axis_title_above() -> Spec:
    at = {"titleX": alt.ExprRef("from"), "titleY": -8, "titleAlign": "left", "titleBaseline": "bottom"}
    return {"titleAngle": 0, "titleLimit": alt.ExprRef("across"), **at}


def _legend_beside_title() -> Any:
    """A legend that stands on the line of an axis title above its chart."""
    place = {"orient": "none", "legendX": 0, "legendY": alt.ExprRef("raised"), "direction": "horizontal"}
    return alt.Legend(title=None, columns=alt.ExprRef("legend"), labelLimit=alt.ExprRef("label"), **place)


def _answer_colour() -> Any:
    return alt.Color("answer:N", scale=alt.Scale(domain=alt.ExprRef("answers"), range=list(ANSWERS)), legend=None)


def _opacity_so_far() -> Any:
    """A mark's own opacity, and none while what it stands for is yet to come."""
    return alt.OpacityValue(alt.ExprRef(f"{SO_FAR} ? isValid(datum.opacity) ? datum.opacity : 1 : 0"))


def _traces() -> Spec:
    traces, y = _data_chart("traces"), _policy_axis("answers", grid=True, **_axis_title_above())
    shape = alt.Shape("verdict:N", scale=_fixed_scale(VERDICTS, VERDICT_SHAPES), legend=_legend_beside_title())
    names = ("answer", "verdict", "scores", "tokens", "seconds", "request", "paid")
    tooltip = ["step:Q", "sample:Q", *(f"{name}:N" for name in names)]
    ends = {"x": alt.X("from:Q", scale=_step_scale()), "x2": "to:Q", "y": alt.YValue(alt.ExprRef("height"))}
    requests = _data_chart("requests").mark_rule(strokeWidth=3, opacity=0.6).encode(**ends, tooltip=["request:N"])
    points = traces.mark_point(filled=True, size=alt.ExprRef("mark"), cursor="pointer").encode(
        x=_step_axis(), y=y, color=_answer_colour(), shape=shape, tooltip=tooltip, opacity=_opacity_so_far()
    )
    return _aligned_chart(requests, points, height=ROWS, answers=[])


def _score_chart() -> Spec:
    """The chart of one verifier's scores. Each verifier has an axis of its own, since each has a scale of its own."""
    scores = _data_chart("scores")
    axis = alt.Axis(tickCount=3, grid=True, **_name_room(), **_axis_title_above())
    by = {
        "x": _step_axis(),
        "y": alt.Y("score:Q", title=_title_ref("verifier"), axis=axis, scale=alt.Scale(zero=False, padding=8)),
    }
    return _aligned_chart(
        scores.transform_filter(SO_FAR).mark_line(opacity=0.4, color=GREY).encode(**by),
        scores.mark_point(filled=True, size=alt.ExprRef("mark"), color=BLUE).encode(
            tooltip=["step:Q", "sample:Q", "verifier:N", "score:Q", "paid:N"], opacity=_opacity_so_far(), **by
        ),
        height=60, verifier="",
    )  # fmt: skip


def _spent() -> Spec:
    spent, axis = _data_chart("spent"), alt.Axis(tickCount=3, grid=True, **_name_room(), **_axis_title_above())
    colour, shape = _series_encodings("series:N", _legend_beside_title())
    by = {"x": _step_axis(), "y": alt.Y("spent:Q", title="tokens so far", axis=axis), "color": colour}
    return _aligned_chart(
        spent.transform_filter(SO_FAR).mark_line(interpolate="step-before", opacity=0.5).encode(**by),
        spent.mark_point(filled=True, size=alt.ExprRef("mark")).encode(
            shape=shape, tooltip=["step:Q", "series:N", "spent:Q"], opacity=_opacity_so_far(), **by
        ),
        height=70, series=[],
    )  # fmt: skip


def _policies_so_far(stops: Any) -> Any:
    """Policies as far as the picture is played: `reach` ends their lines."""
    return stops.transform_calculate(reach="min(datum.step, max(now, datum.from))")


def _stops() -> Spec:
    stops, x = _data_chart("stops"), _step_axis("traces in order")
    y, colour = _policy_axis("where each policy stopped", **_axis_title_above()), _answer_colour()
    start, chosen = (alt.X(field, scale=_step_scale()) for field in ("from:Q", "chosen:Q"))
    tooltip = ["name:N", "steps:Q", "generated:Q", "verified:N", "said:N", "ending:N", "chose:N"]
    return _aligned_chart(
        _policies_so_far(stops).mark_rule(strokeWidth=3).encode(
            x=start, x2="reach:Q", y=y, color=colour, tooltip=tooltip
        ),
        stops.mark_tick(orient="vertical", thickness=5, size=16).encode(
            x=x, y=y, color=colour, tooltip=tooltip, opacity=_opacity_so_far()
        ),
        stops.transform_filter(f"datum.chosen && {SO_FAR}").mark_point(size=90, strokeWidth=2.5).encode(
            x=chosen, y=y, color=colour, tooltip=tooltip
        ),
        stops.mark_text(align="left", dx=9).encode(x=x, y=y, text="words:N", opacity=_opacity_so_far()),
        height=ROWS, answers=[],
    )  # fmt: skip


def _cluster_chart() -> Spec:
    """The chart of the rounds of a hop: how many of each round's answers are in each cluster."""
    clusters, y = _data_chart("clusters"), _policy_axis("answers by cluster", grid=True, **_axis_title_above())
    x, tooltip = _step_axis(), ["round:Q", "answer:N", "cluster:Q", "answers:Q"]
    return _aligned_chart(
        clusters.mark_circle(opacity=1).encode(
            x=x, y=y, color=_answer_colour(), size=alt.Size("size:Q", scale=None, legend=None), tooltip=tooltip,
            opacity=_opacity_so_far(),
        ),
        clusters.mark_text(align="left", dx=11).encode(x=x, y=y, text="answers:Q", opacity=_opacity_so_far()),
        height=ROWS, answers=[],
    )  # fmt: skip


def _reward_chart() -> Spec:
    """The chart of what policies made of the rounds of a hop: whether each is rewarded, who leads, where they stop."""
    rewards, stops, x = _data_chart("rewards"), _data_chart("stops"), _step_axis("rounds read")
    y = _policy_axis("policies", **_axis_title_above())
    shape = alt.Shape("reward:N", scale=_fixed_scale(REWARDS, REWARD_SHAPES), legend=_legend_beside_title())
    tips = ["name:N", "round:Q", "reward:N", alt.Tooltip("frontier:N", title="cluster: support"), "moved up:N"]
    return _aligned_chart(
        _policies_so_far(stops).mark_rule(strokeWidth=2, opacity=0.5).encode(
            x=alt.X("from:Q", scale=_step_scale()), x2="reach:Q", y=y
        ),
        stops.transform_filter(ENDED).mark_tick(orient="vertical", thickness=5, size=16).encode(
            x=x, y=y, tooltip=["name:N", "rounds:Q"]
        ),
        rewards.mark_point(filled=True, size=110).encode(
            x=x, y=y, shape=shape, color=_answer_colour(), tooltip=tips, opacity=_opacity_so_far()
        ),
        *(
            rewards.mark_text(align="center", dy=dy, fontSize=11).encode(
                x=x, y=y, text=words, opacity=_opacity_so_far()
            )
            for dy, words in ((-15, "words:N"), (15, "below:N"))
        ),
        stops.transform_filter(ENDED).mark_text(align="left", dx=9).encode(x=x, y=y, text="words:N"),
        height=ROWS, answers=[],
    )  # fmt: skip


def _claim_chart() -> Spec:
    """The chart of the rounds of a text's claims over the words that each had, and of the word that shows the error."""
    checks, x = _data_chart("checks"), _step_axis()
    y = _policy_axis("claims", grid=True, **_axis_title_above())
    legend = _legend_beside_title()
    colour = alt.Color("verdict:N", scale=_fixed_scale(CHECKS, CHECK_COLOURS), legend=legend)
    shape = alt.Shape("verdict:N", scale=_fixed_scale(CHECKS, CHECK_SHAPES), legend=legend)
    tooltip = [
        "claim:N", "round:Q", "stage:N", alt.Tooltip("step:Q", title="words heard"), "verdict:N", "confidence:N",
        alt.Tooltip("matches:N", title="names the error"), alt.Tooltip("paid:N", title="paid by"),
    ]  # fmt: skip
    return _aligned_chart(
        _error_rule(),
        checks.mark_point(filled=True, size=alt.ExprRef("mark"), xOffset=alt.ExprRef("datum.shift")).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=tooltip, opacity=_opacity_so_far()
        ),
        height=ROWS,
    )  # fmt: skip


def _buzz_chart() -> Spec:
    """The chart of how far policies heard a text, and at which word they acted."""
    stops, x = _data_chart("stops"), _step_axis("words of the text")
    y = _policy_axis("where each policy acted", **_axis_title_above())
    tooltip = ["name:N", "heard:N", "acted:N", "said:N", "rounds:Q"]
    return _aligned_chart(
        _error_rule(),
        _policies_so_far(stops).mark_rule(strokeWidth=3, color=BLUE).encode(
            x=alt.X("from:Q", scale=_step_scale()), x2="reach:Q", y=y, tooltip=tooltip
        ),
        stops.transform_filter(f"datum.acts && {SO_FAR}")
        .mark_point(shape="triangle-up", filled=True, size=130, color=ORANGE)
        .encode(x=x, y=y, tooltip=tooltip),
        stops.transform_filter(SO_FAR).mark_text(align="left", dx=9).encode(x=x, y=y, text="words:N"),
        height=ROWS,
    )  # fmt: skip


def _error_rule() -> Any:
    """The dashed line at the word from which on the error of a text can be seen."""
    rule = _data_chart("error").transform_filter(SO_FAR).mark_rule(strokeDash=[4, 3], strokeWidth=2)
    return rule.encode(x=alt.X("step:Q", scale=_step_scale()))
