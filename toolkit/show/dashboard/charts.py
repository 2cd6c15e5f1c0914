"""The charts of a dashboard as Vega-Lite, made by altair. The page gives them their data and fills what begins with @.

Nothing is told by colour alone: shapes, dashes, places and words tell the same. Colours stand out from a light and from
a dark ground alike; text has the page's colour.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from toolkit.errors import ThinkbackError

BLUE, ORANGE, GREEN, PURPLE, GREY, RED = "#2f7ec7", "#cf6f12", "#1b9273", "#a566c2", "#7c8590", "#d1495b"
KINDS = ("policy", "baseline", "leader", "sees gold", "slider")
KIND_SHAPES = ("circle", "diamond", "square", "cross", "triangle-up")
KIND_COLOURS = (BLUE, ORANGE, GREEN, GREY, PURPLE)
ANSWERS = (BLUE, ORANGE, PURPLE, GREEN, RED, "#8c7a1f", "#5f6fd0", GREY)
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
PARTS = ("right", "selection", "stopping", "generation")
PART_COLOURS = ("#3f9474", "#67a5dc", "#eeb978", "#dfe4e8")
"""In steps of lightness, told apart in grey too; dark words stand in each."""
INK = "#101418"
TOLD = ("told apart", "not told apart", "no limits")
RING = "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0ZM.55 0A.55 .55 0 1 0-.55 0A.55 .55 0 1 0 .55 0Z"
"""An open circle that stands on a line."""
VERDICTS = ("right", "wrong", "part right", "unjudged")
VERDICT_SHAPES = ("circle", "cross", "diamond", "square")
ROW_OF_LEGEND = "@legend"
"""Names in a row of a legend."""
ROWS = "@height"
"""Pixels of a chart with one policy, or answer, a row."""
NAMES = "@names"
"""Pixels that the names at the left of such a chart take."""
LINES = "@lines"
"""What stands at the places of an axis that has names, by the numbers of its places, each in lines that fit."""
MARK = "@mark"
"""The size of a mark where as many stand beside each other as the data have."""

Spec = dict[str, Any]


def charts() -> dict[str, Spec]:
    """Every chart of the page, by name."""
    alt = import_altair()
    return {
        "frontier": _frontier(alt),
        "forest": _forest(alt),
        "changes": _changes(alt),
        "headroom": _headroom(alt),
        "captured": _captured(alt),
        "curves": _curves(alt),
        "sweep": _sweep(alt),
        "results": _results(alt),
        "traces": _traces(alt),
        "scores": _scores(alt),
        "spent": _spent(alt),
        "stops": _stops(alt),
    }


def import_altair() -> ModuleType:
    """The module `altair`. Raises ThinkbackError where it, or what inlines Vega, is not installed."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        needed = "a dashboard needs the packages altair and vl-convert-python"
        raise ThinkbackError(f"{needed}: pip install 'thinkback[dashboard]'") from None
    return altair


def config() -> Spec:
    """How all charts look."""
    ink = "currentColor"
    quiet = {"gridColor": ink, "gridOpacity": 0.14, "domainColor": ink, "tickColor": ink}
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 600}
    return {
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**quiet, **text},
        "legend": {**text, "symbolFillColor": ink, "symbolOpacity": 1, "orient": "top", "columns": ROW_OF_LEGEND},
        "header": text,
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": ink},
        "point": {"opacity": 1},
    }


def _named(alt: ModuleType, name: str, description: str, *layers: Any, height: Any = 320) -> Spec:
    """Layers over one another, as wide as their place. The data of each have a name: the page brings them."""
    chart = alt.layer(*layers).properties(width="container", description=description)
    made: Spec = chart.to_dict(validate=False)
    made["height"], made["autosize"] = height, {"type": "fit-x", "contains": "padding"}
    made["params"] = [{"name": "lines", "value": LINES}]
    made["usermeta"], made["config"] = {"name": name}, config()
    return made


def _in_line(chart: Spec) -> Spec:
    """A part of a question's picture: its plot begins and ends where those of the parts above and below do."""
    padding = {side: f"@{side}" for side in ("left", "right", "top", "bottom")}
    return {**chart, "width": "@wide", "autosize": {"type": "none"}, "padding": padding}


def _of(alt: ModuleType, name: str) -> Any:
    return alt.Chart(alt.NamedData(name=name))


def _by_name(alt: ModuleType, **axis: Any) -> Any:
    """One row for each name. The rows are numbered, so that no name means anything to what draws them."""
    label = {"labelExpr": NAMED, "labelLineHeight": 14, "labelOffset": {"condition": [*_RAISED], "value": 0}}
    told = {"title": None, "ticks": False, "domain": False, **_room(alt), **label, **axis}
    return alt.Y("row:O", axis=alt.Axis(**told))


NAMED = "lines[datum.value]"
_RAISED = [{"test": f"length({NAMED}) == {count}", "value": 7 * (1 - count)} for count in (2, 3, 4)]


def _room(alt: ModuleType) -> Spec:
    """Room for names: the same in every chart, so that charts below one another are in line."""
    return dict.fromkeys(("minExtent", "maxExtent", "labelLimit"), alt.ExprRef(NAMES))


def _scale(alt: ModuleType, domain: tuple[str, ...], values: tuple[str, ...]) -> Any:
    return alt.Scale(domain=list(domain), range=list(values))


def _untitled(alt: ModuleType) -> Any:
    return alt.Legend(title=None)


def _series(alt: ModuleType, field: str) -> tuple[Any, Any]:
    """Colour and shape of lines that the page names, one legend for both."""
    colours, shapes = (alt.Scale(domain=alt.ExprRef("@series"), range=list(of)) for of in (ANSWERS, SHAPES))
    return alt.Color(field, scale=colours, legend=_untitled(alt)), alt.Shape(field, scale=shapes, legend=_untitled(alt))


def _kinds(alt: ModuleType) -> tuple[Any, Any]:
    """Colour and shape of a policy in the cost-quality plane, one legend for both."""
    shape = alt.Shape("kind:N", scale=_scale(alt, KINDS, KIND_SHAPES), legend=_untitled(alt))
    colour = alt.Color("kind:N", scale=_scale(alt, KINDS, KIND_COLOURS), legend=_untitled(alt))
    return colour, shape


def _frontier(alt: ModuleType) -> Spec:
    points, x = _of(alt, "points"), alt.X("cost:Q", title="@cost", scale=alt.Scale(zero=False, nice=True))
    y = alt.Y("value:Q", title="@quality", scale=alt.Scale(zero=False))
    colour, shape = _kinds(alt)
    bars = {"opacity": alt.Opacity("bar:Q", scale=None, legend=None), "color": colour}
    words = {"dy": alt.ExprRef("datum.lift"), "limit": alt.ExprRef("@words")}
    label = alt.Text("label:N")
    told = [
        alt.Tooltip("name:N", title="policy"),
        alt.Tooltip("told:N", title="@quality"),
        alt.Tooltip("price:N", title="@cost"),
        alt.Tooltip("state:N", title="state"),
    ]
    return _named(
        alt, "frontier", "@description",
        _of(alt, "front").mark_line(interpolate="step-after", strokeDash=[5, 3], color=GREY).encode(x=x, y=y),
        points.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **bars),
        points.mark_rule().encode(x=alt.X("cost_low:Q"), x2="cost_high:Q", y=y, **bars),
        points.mark_point(filled=True, strokeWidth=1.5, cursor="pointer").encode(
            x=x, y=y, color=colour, shape=shape, stroke=colour, tooltip=told,
            size=alt.Size("size:Q", scale=None, legend=None),
            opacity=alt.Opacity("opacity:Q", scale=None, legend=None),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None, legend=None),
        ),
        *(_leader(alt, points, turned) for turned in (False, True)),
        points.transform_filter("!datum.turned").mark_text(align="left", dx=8, **words).encode(x, y, label),
        points.transform_filter("datum.turned").mark_text(align="right", dx=-8, **words).encode(x, y, label),
        height=380,
    )  # fmt: skip


def _leader(alt: ModuleType, points: Any, turned: bool) -> Any:
    """Lines from marks to their names, where those stand apart from them."""
    named = points.transform_filter(f"datum.label && datum.level && {'' if turned else '!'}datum.turned")
    ends = {"x2Offset": -6 if turned else 6, "y2Offset": alt.ExprRef("datum.lift + 4")}
    line = named.mark_rule(color=GREY, **ends).properties(name="leader_turned" if turned else "leader")
    return line.encode(x=alt.X("cost:Q"), x2="cost:Q", y=alt.Y("value:Q"), y2="value:Q")


def _difference(alt: ModuleType) -> Any:
    return alt.X("difference:Q", title="@difference")


def _zero(alt: ModuleType) -> Any:
    return _of(alt, "zero").mark_rule(strokeDash=[3, 3]).encode(x=alt.X("zero:Q"))


def _forest(alt: ModuleType) -> Spec:
    rows, x, y = _of(alt, "rows"), _difference(alt), _by_name(alt)
    colour = alt.Color("told:N", scale=_scale(alt, TOLD, (BLUE, GREY, ORANGE)), legend=_untitled(alt))
    shape = alt.Shape("told:N", scale=_scale(alt, TOLD, ("circle", RING, "diamond")), legend=_untitled(alt))
    said = [alt.Tooltip("name:N", title="policy"), alt.Tooltip("said:N", title="@difference"), alt.Tooltip("p:N")]
    return _named(
        alt, "forest", "@description", _zero(alt),
        rows.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour, tooltip=said),
        rows.mark_point(filled=True, size=110).encode(x=x, y=y, color=colour, shape=shape, tooltip=said),
        height=ROWS,
    )  # fmt: skip


def _changes(alt: ModuleType) -> Spec:
    rows, y = _of(alt, "changes"), _by_name(alt)
    colour = alt.Color("change:N", scale=_scale(alt, ("fixes", "flips"), (GREEN, RED)), legend=_untitled(alt))
    x = alt.X("count:Q", title="flips ← examples → fixes", stack=None, scale=alt.Scale(padding=alt.ExprRef("@ends")))
    ends = {"text": alt.Text("text:N"), "x": x, "y": y}
    return _named(
        alt, "changes", "@description",
        rows.mark_bar(height={"band": 0.7}).encode(x=x, y=y, color=colour, tooltip=["name:N", "change:N", "text:N"]),
        rows.transform_filter("datum.count > 0").mark_text(align="left", dx=3).encode(**ends),
        rows.transform_filter("datum.count < 0").mark_text(align="right", dx=-3).encode(**ends),
        height=ROWS,
    )  # fmt: skip


def _headroom(alt: ModuleType) -> Spec:
    bars, y = _of(alt, "bars"), _by_name(alt)
    colour = alt.Color("part:N", scale=_scale(alt, PARTS, PART_COLOURS), legend=_untitled(alt), sort=None)
    x = alt.X("from:Q", title="% of the examples", scale=alt.Scale(domain=[0, 100]))
    return _named(
        alt, "headroom", "@description",
        bars.mark_bar(height={"band": 0.75}, stroke=INK, strokeWidth=0.7).encode(
            x=x, x2="to:Q", y=y, color=colour, tooltip=["name:N", "part:N", "text:N"]
        ),
        bars.mark_text(color=INK, fontSize=11).encode(x=alt.X("middle:Q"), y=y, text="label:N"),
        height=ROWS,
    )  # fmt: skip


def _captured(alt: ModuleType) -> Spec:
    rows, ends, y = _of(alt, "rows"), _of(alt, "ends"), _by_name(alt)
    said = ["name:N", alt.Tooltip("said:N", title="% of the headroom")]
    return _named(
        alt, "captured", "@description",
        ends.mark_rule(strokeDash=[3, 3]).encode(x=alt.X("end:Q")),
        rows.mark_rule(strokeWidth=2, color=BLUE).encode(x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=said),
        rows.mark_point(filled=True, size=70, color=BLUE).encode(
            x=alt.X("share:Q", title="% of the headroom", scale=alt.Scale(padding=8)), y=y, tooltip=said
        ),
        height=ROWS,
    )  # fmt: skip


def _curves(alt: ModuleType) -> Spec:
    lines = _of(alt, "lines")
    x = alt.X(
        "k:Q",
        title="traces k",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(format="d", values=alt.ExprRef("@ticks")),
    )
    colour, shape = _series(alt, "series:N")
    dash = alt.StrokeDash("series:N", legend=None)
    y = alt.Y("estimate:Q", title="%", scale=alt.Scale(zero=False))
    said = ["series:N", "k:Q", alt.Tooltip("said:N", title="%")]
    return _named(
        alt, "curves", "@description",
        lines.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        lines.mark_point(filled=True, size=50).encode(x=x, y=y, color=colour, shape=shape, tooltip=said),
    )  # fmt: skip


def _sweep(alt: ModuleType) -> Spec:
    line, settings, here = (_of(alt, name) for name in ("line", "settings", "here"))
    axis = alt.Axis(values=alt.ExprRef("@ticks"), grid=False, labelOverlap=False, labelExpr=NAMED)
    x = alt.X("place:Q", title="@key", axis=axis, scale=alt.Scale(domain=alt.ExprRef("@places"), nice=False))
    y = alt.Y("value:Q", title="@quality", scale=alt.Scale(zero=False))
    said = [alt.Tooltip("setting:N", title="@key"), alt.Tooltip("told:N", title="@quality")]
    return _named(
        alt, "sweep", "@description",
        line.mark_line(color=PURPLE, strokeWidth=1, opacity=0.6).encode(x=x, y=y),
        settings.mark_rule(color=PURPLE).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", tooltip=said),
        settings.mark_point(filled=True, size=alt.ExprRef(MARK), color=PURPLE).encode(x=x, y=y, tooltip=said),
        here.mark_rule(strokeDash=[3, 3], color=PURPLE).encode(x=x),
        here.mark_point(filled=True, size=130, shape="triangle-up", color=PURPLE).encode(x=x, y=y, tooltip=said),
        height=150,
    )  # fmt: skip


def _results(alt: ModuleType) -> Spec:
    rows, x = _of(alt, "results"), alt.X("value:Q", title="@quality", scale=alt.Scale(zero=False))
    colour, shape = _series(alt, "result:N")
    look = {"color": colour, "yOffset": alt.YOffset("result:N")}
    y = _by_name(alt, grid=True)
    return _named(
        alt, "results", "@description",
        rows.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, **look),
        rows.mark_point(filled=True, size=60).encode(
            x=x, y=y, shape=shape, tooltip=["name:N", "result:N", "told:N"], **look
        ),
        height=ROWS,
    )  # fmt: skip


def _steps(alt: ModuleType, title: str | None = None) -> Any:
    axis = alt.Axis(title=title, values=alt.ExprRef("@ticks"), format="d", grid=False, labels=title is not None,
                    ticks=False)  # fmt: skip
    return alt.X("step:Q", axis=axis, scale=_all_steps(alt))


def _all_steps(alt: ModuleType) -> Any:
    return alt.Scale(domain=alt.ExprRef("@steps"), nice=False)


def _above(alt: ModuleType, title: str) -> Spec:
    """The title of an axis above it, from the left."""
    at = {"titleX": alt.ExprRef("@from"), "titleY": -8, "titleAlign": "left", "titleBaseline": "bottom"}
    return {"title": title, "titleAngle": 0, "titleLimit": alt.ExprRef("@across"), **at}


def _beside(alt: ModuleType) -> Any:
    """A legend in the line of such a title."""
    place = {"orient": "none", "legendX": 0, "legendY": alt.ExprRef("@raised"), "direction": "horizontal"}
    return alt.Legend(title=None, labelLimit=alt.ExprRef("@label"), **place)


def _answers(alt: ModuleType) -> Any:
    return alt.Color("answer:N", scale=alt.Scale(domain=alt.ExprRef("@answers"), range=list(ANSWERS)), legend=None)


def _traces(alt: ModuleType) -> Spec:
    traces, y = _of(alt, "traces"), _by_name(alt, grid=True, **_above(alt, "answers"))
    shape = alt.Shape("verdict:N", scale=_scale(alt, VERDICTS, VERDICT_SHAPES), legend=_beside(alt))
    said = ["step:Q", "sample:Q", "answer:N", "verdict:N", "scores:N", "tokens:N"]
    points = traces.mark_point(filled=True, size=alt.ExprRef(MARK), cursor="pointer").encode(
        x=_steps(alt), y=y, color=_answers(alt), shape=shape, tooltip=said
    )
    return _in_line(_named(alt, "traces", "@description", points, height=ROWS))


def _scores(alt: ModuleType) -> Spec:
    """The scores of one verifier: each has an axis of its own, since each has a scale of its own."""
    scores = _of(alt, "scores")
    axis = alt.Axis(tickCount=3, grid=True, **_room(alt), **_above(alt, "@verifier"))
    by = {"x": _steps(alt), "y": alt.Y("score:Q", axis=axis, scale=alt.Scale(zero=False, padding=8))}
    return _in_line(_named(
        alt, "scores", "@description",
        scores.mark_line(opacity=0.4, color=GREY).encode(**by),
        scores.mark_point(filled=True, size=alt.ExprRef(MARK), color=BLUE).encode(
            tooltip=["step:Q", "sample:Q", "verifier:N", "score:Q"], **by
        ),
        height=60,
    ))  # fmt: skip


def _spent(alt: ModuleType) -> Spec:
    spent, axis = _of(alt, "spent"), alt.Axis(tickCount=3, grid=True, **_room(alt), **_above(alt, "tokens so far"))
    series, shapes = alt.ExprRef("@series"), list(SHAPES)
    colour = alt.Color("series:N", scale=alt.Scale(domain=series, range=list(ANSWERS)), legend=_beside(alt))
    shape = alt.Shape("series:N", scale=alt.Scale(domain=series, range=shapes), legend=_beside(alt))
    by = {"x": _steps(alt), "y": alt.Y("spent:Q", axis=axis), "color": colour}
    return _in_line(_named(
        alt, "spent", "@description",
        spent.mark_line(interpolate="step-before", opacity=0.5).encode(**by),
        spent.mark_point(filled=True, size=alt.ExprRef(MARK)).encode(
            shape=shape, tooltip=["step:Q", "series:N", "spent:Q"], **by
        ),
        height=70,
    ))  # fmt: skip


def _stops(alt: ModuleType) -> Spec:
    stops, x = _of(alt, "stops"), _steps(alt, "traces in order")
    y, colour = _by_name(alt, **_above(alt, "where each policy stopped")), _answers(alt)
    start, chosen = (alt.X(field, scale=_all_steps(alt)) for field in ("from:Q", "chosen:Q"))
    said = ["name:N", "steps:Q", "generated:Q", "verified:N", "said:N", "ending:N", "chose:N"]
    return _in_line(_named(
        alt, "stops", "@description",
        stops.mark_rule(strokeWidth=3).encode(x=start, x2="step:Q", y=y, color=colour, tooltip=said),
        stops.mark_tick(orient="vertical", thickness=5, size=16).encode(x=x, y=y, color=colour, tooltip=said),
        stops.transform_filter("datum.chosen").mark_point(size=90, strokeWidth=2.5).encode(
            x=chosen, y=y, color=colour, tooltip=said
        ),
        stops.mark_text(align="left", dx=9).encode(x=x, y=y, text="words:N"),
        height=ROWS,
    ))  # fmt: skip
