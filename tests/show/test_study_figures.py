"""Figures of studies as papers print them: whole at both widths, at most one band a panel, read in grey."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure

from replay.studies.factcheck.figures import _setting_heat_maps, _SweptSettings
from tests.errors import refuses
from tests.seeds import seeds
from tests.show.test_paper import NARROW, WIDE, assert_whole, lightness
from toolkit.show import (
    DifferenceCurve,
    Heat,
    IntervalCell,
    MethodPoint,
    PlottedCurve,
    ReliabilityPanel,
    curves_figure,
    differences_figure,
    heat_figure,
    reliability_figure,
    trade_offs_figure,
)
from toolkit.show.drawing.page import HIGHEST
from toolkit.show.figures.curves import APART, CLOSE, PUBLISHED, line_look
from toolkit.show.figures.trade_offs import SIZE
from toolkit.stopping.stops import Margin

METHODS = ("Exhaustive BoN", "Adaptive Stopping", "Surrogate-Guided Selective Verification")
KS = tuple(range(1, 51))


def trade_offs(n: int, width: float, **more: object) -> Figure:
    def point(i: int) -> MethodPoint:
        cost, quality = 15.0 - 3 * i, 0.5 - 0.01 * i
        ends = IntervalCell(cost, cost - 0.3, cost + 0.3), IntervalCell(quality, quality - 0.05, quality + 0.05)
        return MethodPoint(*ends, (cost + 0.2, 100 * quality + 1) if i else None)

    panels = {f"data set {i}, of a long name": {name: point(j) for j, name in enumerate(METHODS)} for i in range(n)}
    return trade_offs_figure(panels, cost="verifier calls per claim", quality="Macro-F1", width=width, **more)


def differences(n: int, width: float, **more: object) -> Figure:
    line = tuple(np.sin(np.array(KS) / 5))
    low, high = (tuple(value + shift for value in line) for shift in (-1.0, 1.5))
    made = [
        DifferenceCurve(
            f"quantemp, validation, 50 traces: number {i} − generation order", KS, line, low, high, ((5, 2.0),)
        )
        for i in range(n)
    ]
    return differences_figure(made, x="verifier calls, k", y="Macro-F1, points", width=width, **more)


def reliability(n: int, width: float, **more: object) -> Figure:
    bins = tuple((i / 10 + 0.05, 0.4 + i / 30, 0.3 + i / 30, 0.5 + i / 30) for i in range(10))
    made = [ReliabilityPanel(f"verifier {i}, of a data set", bins, "ECE 0.123") for i in range(n)]
    return reliability_figure(made, note="without bins of fewer than 20 traces", width=width, **more)


def heat(n: int, width: float, **more: object) -> Figure:
    caps, margins = ("5", "10", "15", "20", "30", "40"), ("0.05", "0.1", "0.15", "0.2")
    cells = tuple(tuple(40.0 + i + j for j in range(6)) for i in range(4))
    made = [Heat(f"surrogate from {i}, min. 3", caps, margins, cells, ("15", "0.15")) for i in range(n)]
    return heat_figure(
        made, columns=3, x="cap", y="margin", note="framed: the study's own", width=width, **{"title": "", **more}
    )


def budgets(n: int, width: float, **more: object) -> Figure:
    def line(i: int) -> PlottedCurve:
        values = 0.4 + 0.02 * i + np.array(KS) / 500
        ends = (tuple(values + shift) for shift in (0, -0.05, 0.05))
        return PlottedCurve(f"order {i}", KS, *ends, published=((10, 0.45),))

    panels = [(f"data set {i}, validation, 50 traces", [line(j) for j in range(5)]) for i in range(n)]
    words = {"x": "verifier calls, k", "note": "see the differences", "scales": [name for name, _ in panels]}
    return curves_figure(panels, doubling=False, banded=0, width=width, **words, **more)


DRAWN = {
    "trade-offs": trade_offs,
    "differences": differences,
    "calibration": reliability,
    "heat": heat,
    "budgets": budgets,
}


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("n", seeds(1, [2, 1, 4]))
@pytest.mark.parametrize("draw", DRAWN.values(), ids=list(DRAWN))
def test_figures_are_whole_and_no_legend_or_band_is_on_data(draw: Callable[..., Figure], n: int, width: float) -> None:
    figure = draw(n, width, simulated=n == 2, title="A title that is asked for" if n == 2 else "")
    assert figure.get_figwidth() == width
    assert figure.get_figheight() <= HIGHEST
    assert ("simulated log" in assert_whole(figure)) == (n == 2)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    frames = [axes.get_window_extent() for axes in shown]
    assert all(axes.get_legend() is None for axes in shown)
    assert not any(legend.get_window_extent().overlaps(frame) for legend in figure.legends for frame in frames)
    headings = [axes._left_title.get_window_extent() for axes in shown if axes._left_title.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(headings, 2))
    assert not any(heading.overlaps(frame) for heading in headings for frame in frames)
    for axes in shown:
        bands = [
            one for one in axes.collections if isinstance(one, PolyCollection) and not isinstance(one, PathCollection)
        ]
        assert len(bands) <= 1


def test_ten_differences_fit_a_page_of_one_column() -> None:
    assert differences(10, NARROW, title="Differences of pairs under budgets of verifiers").get_figheight() <= HIGHEST


def test_methods_differ_in_shape_and_published_points_are_hollow() -> None:
    axes = trade_offs(1, WIDE).axes[0]
    dots = [one for one in axes.collections if isinstance(one, PathCollection) and len(one.get_offsets())]
    hollow = [one for one in dots if not len(one.get_facecolors())]
    filled = [one for one in dots if len(one.get_facecolors())]
    assert [tuple(one.get_offsets()[0]) for one in hollow] == [(12.2, 50.0), (9.2, 49.0)]
    assert [tuple(one.get_offsets()[0]) for one in filled] == [(15.0, 50.0), (12.0, 49.0), (9.0, 48.0)]
    shapes = [one.get_paths()[0].vertices.tobytes() for one in filled]
    assert len(set(shapes)) == 3
    assert len({line_look(i).marker for i in range(5)}) == 5
    assert all(abs(lightness(line_look(i).color) - lightness(line_look(i + 1).color)) > 5 for i in range(4))


def test_lines_of_many_points_have_markers_apart_and_published_points_on_them() -> None:
    lines = budgets(1, WIDE).axes[0].get_lines()
    own = [line for line in lines if len(line.get_xdata()) == len(KS)]
    assert len(KS) > CLOSE
    assert [line.get_markevery() for line in own] == [(i, APART) for i in range(5)]
    theirs = [line for line in lines if len(line.get_xdata()) == 1]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in theirs] == [(10, 45.0)] * 5
    assert {line.get_markerfacecolor() for line in theirs} == {"white"}


def test_the_setting_in_use_is_framed() -> None:
    axes = heat(1, WIDE).axes[0]
    places = {(round(one.get_x() + 0.44), round(one.get_y() + 0.44)) for one in axes.patches}
    assert places == {(2, 2)}  # cap 15 is the third column, margin 0.15 the third row


def test_published_points_are_beside_one_another_and_not_hidden() -> None:
    figure = budgets(3, WIDE)
    for axes in figure.axes:
        marks = [line for line in axes.get_lines() if line.get_gid() == PUBLISHED]
        at = np.array([line.get_transform().transform(line.get_xydata())[0] for line in marks])
        assert len(at) == 5
        apart = [np.hypot(*(a - b)) for a, b in itertools.combinations(at, 2)]
        assert min(apart) > marks[0].get_markersize() * figure.dpi / 72
        assert np.ptp(at[:, 1]) < 0.01  # none has another height


def test_data_sets_have_axes_of_their_own_and_panels_are_high() -> None:
    def curve(level: float) -> PlottedCurve:
        line = tuple(level + 0.001 * k for k in KS)
        return PlottedCurve("order", KS, line, line, line)

    panels = [(name, [curve(level)]) for name, level in (("a, 15", 0.4), ("a, 50", 0.45), ("b, 15", 0.7))]
    figure = curves_figure(panels, doubling=False, banded=0, width=WIDE, scales=["a", "a", "b"])
    first, second, third = (axes.get_ylim() for axes in figure.axes)
    assert first == second
    assert third[0] > first[1]
    shared = curves_figure(panels, doubling=False, banded=0, width=WIDE)
    assert len({axes.get_ylim() for axes in shared.axes}) == 1
    tall = [one.axes[0].get_window_extent().height / one.dpi for one in (figure, shared)]
    assert tall[0] > 1.5 * tall[1]
    assert tall[0] > 1.4


def test_own_and_published_marks_are_of_one_size() -> None:
    axes = trade_offs(2, WIDE).axes[0]
    sizes = {float(size) for one in axes.collections if isinstance(one, PathCollection) for size in one.get_sizes()}
    assert sizes == {SIZE}


@pytest.mark.parametrize(("cap", "framed"), [(15, True), (16, False)])
def test_a_frame_is_told_of_where_there_is_one(cap: int, framed: bool) -> None:
    rows = [(0.15, c, 3, None, "macro_f1", 0.5) for c in (5, 15)]
    names = ["margin", "cap", "min_valid", "bootstrap", "metric", "estimate"]
    table = pl.DataFrame(rows, schema=names, orient="row")
    (figure,) = _setting_heat_maps(_SweptSettings(table, "claims", Margin(0.15, 3), cap), WIDE).values()
    assert bool(figure.axes[0].patches) == framed
    assert any("framed" in text.get_text() for text in figure.texts) == framed


def test_differences_have_their_zero_and_scores_their_diagonal() -> None:
    zero = differences(1, WIDE).axes[0].get_lines()[0]
    assert list(zero.get_ydata()) == [0.0, 0.0]
    diagonal = reliability(1, WIDE).axes[0].get_lines()[0]
    assert (list(diagonal.get_xdata()), list(diagonal.get_ydata())) == ([0, 100], [0, 100])
    bars = reliability(1, WIDE).axes[0].collections
    ends = [tuple(segment[:, 1]) for one in bars for segment in one.get_segments()]
    assert ends[0] == pytest.approx((30.0, 50.0))


@pytest.mark.parametrize(
    ("draw", "refusal"), [(trade_offs, ("empty",)), (differences, ("empty",)), (reliability, ("empty",))]
)
def test_nothing_to_draw_is_said(draw: Callable[..., Figure], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        draw(0, WIDE)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_heat_map_that_is_too_wide_for_numbers_has_a_bar_of_colours(width: float) -> None:
    x = tuple(str(token) for token in range(-32, 0))
    cells = tuple(tuple(50.0 + i + j for j in range(32)) for i in range(5))
    made = heat_figure(
        [Heat("last tokens", x, ("−1", "−2", "−4", "−8", "−16"), cells)], columns=1, title="", x="token", y="layer",
        note="AUC, %", width=width,
    )  # fmt: skip
    assert_whole(made)
    axes, bar = made.axes
    assert not axes.texts
    assert not axes.get_window_extent().overlaps(bar.get_window_extent())
    ticks = [tick.get_window_extent() for tick in axes.get_xticklabels() if tick.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(ticks))


def test_a_level_to_compare_with_is_in_every_panel() -> None:
    line = PlottedCurve("one", (1, 2), (0.8, 0.9), (0.75, 0.85), (0.85, 0.95))
    made = curves_figure([("a", [line]), ("b", [line])], doubling=False, reference=("chance", 0.5))
    for axes in made.axes:
        bottom, top = axes.get_ylim()
        assert bottom < 50 < top
        assert [50.0, 50.0] in [list(one.get_ydata()) for one in axes.get_lines()]
    assert "chance" in {text.get_text() for one in made.legends for text in one.get_texts()}


def test_ticks_of_a_plain_scale_may_be_named() -> None:
    line = PlottedCurve("one", (0.25, 0.5, 1.0), (0.8, 0.9, 0.9), (None,) * 3, (None,) * 3)
    axes = curves_figure([("", [line])], doubling=False, ticks=(0.25, 0.5, 1.0)).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.25", "0.5", "1"]
    assert axes.get_xlim()[0] > 0
