"""Figures as papers print them: of a width, in small text, without colour, and with nothing hidden or cut off."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tests.errors import numbers, refuses
from tests.seeds import seeds
from toolkit.show import (
    FrontierPoint,
    IntervalCell,
    PlottedBand,
    PlottedCurve,
    ReliabilityPanel,
    bands_figure,
    curves_figure,
    frontier,
    outcomes_figure,
    reliability_figure,
    save_figure,
    width_in_inches,
)
from toolkit.show.drawing.lettering import text_width, wrapped
from toolkit.show.drawing.region import View, in_view_region
from toolkit.show.drawing.style import GREY
from toolkit.show.figures.curves import line_look
from toolkit.show.figures.figure import LAYERS
from toolkit.show.tables.latex import COLUMN

NARROW, WIDE = 3.3, 6.75


def lightness(color: str) -> float:
    """L* of CIELAB, which is what a print in grey keeps of a colour."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def policies(n: int, seed: int = 0) -> list[FrontierPoint]:
    """`n` policies of a plausible run: a baseline, a front, a sweep of four, an oracle and one far below."""
    rng = np.random.default_rng(seed)
    costs = 120 * 2 ** rng.uniform(0, 5, n)
    values = 0.6 + 0.03 * np.log2(costs / 120) + rng.normal(0, 0.02, n)
    names = [f"{('best of', 'weighted vote of', 'window')[i % 3]} {i} by verifier_{i % 5}" for i in range(n)]
    points = [
        FrontierPoint(name, float(cost), float(value), low=float(value) - 0.03, high=float(value) + 0.03)
        for name, cost, value in zip(names, costs, values, strict=True)
    ]
    best = [all(p.cost <= q.cost or p.accuracy > q.accuracy for q in points if q is not p) for p in points]
    points = [
        FrontierPoint(p.name, p.cost, p.accuracy, low=p.low, high=p.high, on_front=front, baseline=i == 0)
        for i, (p, front) in enumerate(zip(points, best, strict=True))
    ]
    points += [
        FrontierPoint(
            f"stop[stop.confidence={k / 7:.17g}]", 200.0 * k, 0.6 + 0.01 * k, "stop", swept=True, chosen=k == 4
        )
        for k in range(1, 5)
    ]
    points.append(FrontierPoint("any of 16", 2000.0, 0.97, low=0.96, high=0.98, diagnostic=True))
    if n >= 10:
        points.append(FrontierPoint("budget too short", 125.0, 0.2, low=0.18, high=0.22))
    return points


def all_texts(figure: object) -> list[Text]:
    """Every text that is drawn."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    hidden = {tick for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in _out_of_view(axis)}
    return [text for text in found if text not in hidden]


def _out_of_view(axis: object) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [text for tick in ticks for text in (tick.label1, tick.label2) if not low <= tick.get_loc() <= high]


def markers(axes: object) -> list[Bbox]:
    """The box of every marker of the policies."""
    boxes = []
    for dots in (one for one in axes.collections if isinstance(one, PathCollection)):
        radius = math.sqrt(dots.get_sizes()[0]) / 2 * axes.figure.dpi / 72
        places = axes.transData.transform(dots.get_offsets())
        boxes += [Bbox([[x - radius, y - radius], [x + radius, y + radius]]) for x, y in places]
    return boxes


def assert_whole(figure: object) -> list[str]:
    """Nothing is cut off at an edge, text is of 7 to 8 points, and legend, axes, ticks and notes keep apart.

    Gives back what the texts say.
    """
    texts = all_texts(figure)
    page = figure.bbox
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= page.x0, text
        assert box.x1 <= page.x1, text
        assert box.y0 >= page.y0, text
        assert box.y1 <= page.y1, text
        assert 7 <= text.get_fontsize() <= 8, text
    legend = [text for one in figure.legends for text in one.get_texts()]
    around = [*legend, *figure.texts, *(axis.label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis))]
    for axes in figure.axes:
        frame = axes.get_window_extent()
        assert not any(text.get_window_extent().overlaps(frame) for text in around if text.get_text())
        for axis in (axes.xaxis, axes.yaxis):
            hidden = set(_out_of_view(axis))
            ticks = [text.get_window_extent() for text in axis.get_ticklabels() if text not in hidden]
            assert not any(a.overlaps(b) for a, b in itertools.combinations(ticks, 2))
    boxes = [text.get_window_extent() for text in around if text.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    return [text.get_text() for text in texts]


@pytest.mark.parametrize("width", seeds(1, [NARROW, WIDE]))
@pytest.mark.parametrize("n", [3, 10, 40])
def test_no_label_is_over_a_point_or_cut_off(n: int, width: float) -> None:
    points = policies(n, seed=n)
    figure = frontier(points, width=width, simulated=n == 10, title="A title" if n == 10 else "")
    assert figure.get_figwidth() == width
    assert_whole(figure)
    axes = figure.axes[0]
    labels = [text.get_window_extent() for text in axes.texts]
    frame = axes.get_window_extent()
    dots = markers(axes)
    assert len(labels) >= 4
    for box in labels:
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1
        assert not any(box.overlaps(dot) for dot in dots)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(labels, 2))
    named = sum(p.labelled and (width > COLUMN or p.on_front or p.baseline or bool(p.diagnostic)) for p in points)
    told = [numbers(text.get_text()) for text in figure.texts if "without room" in text.get_text()]
    left_out = named - len(labels)
    assert told == ([[str(left_out)]] if left_out else [])


def keys_below(figure: Any) -> dict[str, str]:
    """What each letter stands for."""
    below = " ".join(text.get_text() for text in sorted(figure.texts, key=lambda text: -text.get_position()[1]))
    told = re.split(r" bars: | arrows: | \d+ without", below)[0]
    return {letter: name.strip() for letter, name in re.findall(r"\b([a-z]): ([^;]+)", told)}


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_what_is_far_is_named_at_the_edge(width: float) -> None:
    figure = frontier(policies(40), width=width)
    axes = figure.axes[0]
    bottom, top = axes.get_ylim()
    keys = keys_below(figure)
    read = (" ".join(text.get_text().split()).partition(" ") for text in axes.texts)
    written = [f"{keys.get(first, first)}{blank}{rest}" for first, blank, rest in read]
    assert bottom > 40
    assert top < 90
    assert "any of 16 97.0 ↑" in written
    if width > COLUMN:
        assert "budget too short 20.0 ↓" in written
    else:
        assert any(re.search(r"\b1 point further\b", text.get_text()) for text in figure.texts)
    assert any(name.startswith("best of 0 by verifier_0") for name in written)  # the baseline
    assert len(markers(axes)) == 46 - (width <= COLUMN)  # everyone is drawn, but for who is far and unnamed


def fronts(n: int, swept: int = 0) -> list[FrontierPoint]:
    """A front of `n` policies close to each other, `swept` of which are settings of a sweep, among thirty others."""
    rng = np.random.default_rng(n)
    front = [
        FrontierPoint(
            f"adaptive consistency[confidence=0.{50 + i}]" if i < swept else f"vote of {i} where truncated",
            150.0 * 1.25**i,
            0.7 + 0.05 * (1 - 0.7**i),
            "ac" if i < swept else "",
            low=0.68,
            high=0.8,
            swept=i < swept,
            on_front=True,
        )
        for i in range(n)
    ]
    others = [
        FrontierPoint(f"best of {i} by trained", float(cost), float(value), baseline=i == 0)
        for i, (cost, value) in enumerate(zip(rng.uniform(200, 2000, 30), rng.uniform(0.62, 0.69, 30), strict=True))
    ]
    return [*front, *others, FrontierPoint("any of 16", 1500.0, 0.97, diagnostic=True)]


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize(("n", "swept"), seeds(2, [(5, 2), (14, 6), (2, 0), (9, 3)]))
def test_the_front_is_named_first(n: int, swept: int, width: float) -> None:
    points = fronts(n, swept)
    figure = frontier(points, width=width)
    assert_whole(figure)
    axes = figure.axes[0]
    labels = [text.get_window_extent() for text in axes.texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(labels, 2))
    assert not any(box.overlaps(dot) for box in labels for dot in markers(axes))
    written = {"".join(text.get_text().split()) for text in axes.texts}
    keys = keys_below(figure)
    for point in (p for p in points if p.on_front):
        named = "".join(point.name.split())
        letter = next((letter for letter, name in keys.items() if "".join(name.split()).startswith(named)), None)
        assert named in written or letter in written, point.name
    alone = [text.get_text().split()[0] for text in axes.texts]
    assert sorted(keys) == sorted(text for text in alone if len(text) == 1)
    if width == NARROW:  # no letter stands among names
        assert len(keys) in (0, len(alone))
    marks = next(dots for dots in axes.collections if dots.get_label() == LAYERS["front"].label)
    assert len(marks.get_offsets()) == n  # settings of sweeps too


def test_the_legend_is_complete_on_as_many_rows_as_it_needs() -> None:
    for width, rows in ((NARROW, 3), (WIDE, 2)):
        figure = frontier(policies(10), width=width)
        named = [text.get_text() for one in figure.legends for text in one.get_texts()]
        assert sorted(named) == sorted(
            ["Pareto front", *(layer.label for layer in LAYERS.values() if layer.label != "diagnostic")]
        )
        assert len(figure.legends) <= rows
        boxes = [one.get_window_extent() for one in figure.legends]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def lines(n: int) -> list[PlottedCurve]:
    ks = (1, 2, 4, 8, 16)
    values = [tuple(0.6 + 0.02 * i * j for j in range(5)) for i in range(n)]
    made = [PlottedCurve(f"best-of-k, verifier_{i}", ks, line, line, line) for i, line in enumerate(values)]
    gold = tuple(1 - 0.4 / k for k in ks)
    return [*made, PlottedCurve("pass@k", ks, gold, gold, gold, diagnostic=True)]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_curves_on_paper(width: float) -> None:
    figure = curves_figure(
        [("n16", lines(7)), ("a pool with quite a long name, and then some more of it", lines(2))], width=width
    )
    assert figure.get_figwidth() == width
    assert_whole(figure)
    assert len([text for one in figure.legends for text in one.get_texts()]) == 8
    low, high = figure.axes[0].get_ylim()
    assert high - low < 60
    assert {axes.get_subplotspec().colspan.start for axes in figure.axes} == ({0} if width == NARROW else {0, 1})


def test_a_diagnostic_curve_that_leaves_the_axes_has_its_number_at_the_edge() -> None:
    ks = (1, 16)
    flat = PlottedCurve("majority@k", ks, (0.6, 0.62), (0.59, 0.61), (0.61, 0.63))
    gold = PlottedCurve("pass@k", ks, (0.6, 0.95), (0.6, 0.94), (0.6, 0.96), diagnostic=True)
    axes = curves_figure([("", [flat, gold])]).axes[0]
    assert axes.get_ylim()[1] < 70
    assert [text.get_text() for text in axes.texts] == ["pass@k 95.0 at k = 16 ↑"]


def test_a_panel_of_diagnostics_has_a_scale_of_its_own_and_few_lines_have_bands() -> None:
    ks = (1, 16)
    flat = PlottedCurve("n16", ks, (0.6, 0.62), (0.59, 0.61), (0.61, 0.63))
    gold = PlottedCurve("n16", ks, (0.6, 0.95), (0.6, 0.94), (0.6, 0.96), diagnostic=True, sees="")
    figure = curves_figure([("majority@k", [flat]), ("best-of-k", lines(5)), ("pass@k, sees gold", [gold])])
    assert_whole(figure)
    majority, best, passed = figure.axes
    assert majority.get_ylim() == best.get_ylim() != passed.get_ylim()
    assert passed.get_ylim()[1] > 95
    assert [len(axes.collections) for axes in figure.axes] == [1, 0, 1]  # bands
    assert any(text.get_text().startswith("bands: 95 % ") for text in figure.texts)


def test_a_line_that_leaves_the_axes_is_cut_there_and_one_at_the_edge_is_whole() -> None:
    ks = (1, 16)
    flat = PlottedCurve("majority@k", ks, (0.6, 0.62), (0.59, 0.61), (0.61, 0.63))
    gold = PlottedCurve("pass@k", ks, (0.6, 1.0), (0.6, 1.0), (0.6, 1.0), diagnostic=True)
    assert [line.get_clip_on() for line in curves_figure([("", [flat, gold])]).axes[0].lines] == [False, True]
    assert [line.get_clip_on() for line in curves_figure([("", [gold])]).axes[0].lines] == [False]


def test_other_figures_are_whole() -> None:
    some = IntervalCell(0.1, 0.05, 0.2)
    bars = [(f"a policy {i} with long and many words", some, some) for i in range(4)]
    assert_whole(outcomes_figure(bars, title="Fixes, flips"))
    bands = [PlottedBand(f"panel {i}", (0.0, 50.0), (1.0, 2.0), (0.5, 1.0), (2.0, 3.0)) for i in range(3)]
    assert_whole(bands_figure(bands, title="Sweep", x="acts on, %", simulated=True))
    points = ((0.1, 0.2, 0.1, 0.4), (0.9, 0.7, None, None))
    gates = [ReliabilityPanel(f"gate {i}", points, "revise", 0.3) for i in range(5)]
    assert_whole(reliability_figure(gates, title="Calibration"))


def test_kinds_of_points_are_told_apart_in_grey() -> None:
    for a, b in itertools.combinations(LAYERS.values(), 2):
        shape = (a.marker, a.hollow) != (b.marker, b.hollow)
        assert shape or abs(lightness(a.color) - lightness(b.color)) >= 20, (a.label, b.label)
    for layer in LAYERS.values():
        assert lightness(layer.color) <= 65  # seen on white: a contrast of about 3


def test_lines_are_told_apart_in_grey() -> None:
    looks = [line_look(number) for number in range(40)]
    for a, b in itertools.combinations(looks, 2):
        assert (a.marker, a.dashes) != (b.marker, b.dashes)
    for a, b in itertools.pairwise(looks):
        assert a.marker != b.marker
        assert a.dashes != b.dashes
    assert all(a.marker != b.marker for a, b in itertools.combinations(looks[:8], 2))
    assert all(lightness(one.color) <= 65 for one in looks)
    drawn = curves_figure([("", lines(6))]).axes[0].get_lines()
    styles = {(line.get_marker(), str(line.get_linestyle()), line._unscaled_dash_pattern) for line in drawn}
    assert len(styles) == 7


@pytest.mark.parametrize(
    ("given", "size"),
    [("3.3in", 3.3), ("84mm", 84 / 25.4), (" 8.4 cm", 8.4 / 2.54), ("240pt", 240 / 72.27), (6.75, 6.75), (4, 4.0)],
)
def test_widths(given: str | float, size: float) -> None:
    assert width_in_inches(given) == pytest.approx(size)


@pytest.mark.parametrize("given", ["3.3", "wide", "3,3in", "-3in", "0.5in", "40cm0", "90in", 1.0, float("nan")])
def test_a_width_that_is_none_is_refused_in_one_line(given: str | float) -> None:
    with refuses("invalid", str(given)):
        width_in_inches(given)


def test_there_is_no_title_unless_one_is_asked_for() -> None:
    points = policies(5)
    long = "Mine: a title on two lines, since it is long"
    plain, named = (frontier(points, width=NARROW, title=title) for title in ("", long))
    assert not any(text.get_fontweight() == "bold" for text in plain.texts)
    (title,) = [text for text in named.texts if text.get_fontweight() == "bold"]
    assert " ".join(title.get_text().split()) == long
    assert named.get_figheight() > plain.get_figheight()
    assert named.axes[0].get_window_extent().height == pytest.approx(plain.axes[0].get_window_extent().height, rel=0.02)


def test_files_have_the_width_on_paper(tmp_path: Path) -> None:
    figure = frontier(policies(5), width=NARROW)
    for suffix in ("pdf", "svg", "png"):
        save_figure(figure, tmp_path / f"f.{suffix}")
    box = re.search(rb"/MediaBox \[ *0 0 ([\d.]+)", (tmp_path / "f.pdf").read_bytes())
    assert float(box[1]) / 72 == pytest.approx(NARROW, abs=0.01)
    assert float(re.search(r'width="([\d.]+)pt"', (tmp_path / "f.svg").read_text())[1]) / 72 == pytest.approx(
        NARROW, abs=0.01
    )
    assert int.from_bytes((tmp_path / "f.png").read_bytes()[16:20], "big") == pytest.approx(300 * NARROW, abs=1)


def test_the_region_that_matters() -> None:
    assert in_view_region([1, 2, 3, 90], [False] * 4) == [True] * 4  # too few to say
    near = [60.0, 61, 62, 63, 64, 65, 66, 67]
    assert in_view_region([*near, 5.0], [False] * 9) == [True] * 8 + [False]
    assert in_view_region([*near, 5.0], [False] * 8 + [True]) == [True] * 9
    spread = [0.0, 46, 47, 48, 49, 50, 51, 52, 58]
    assert in_view_region(spread, [True] + [False] * 8) == [True] * 9  # would hardly make room
    assert in_view_region(spread, [False] * 9) == [False] + [True] * 7 + [False]
    assert in_view_region([50.0] * 8 + [9.0], [False] * 9) == [True] * 9  # nothing to spread the others over
    seen = View(10, 1000, 50, 70, log=True)
    assert [seen.arrow_beyond(*at) for at in ((5, 60), (20, 60), (5000, 60), (20, 80), (20, 40))] == [
        "←",
        "",
        "→",
        "↑",
        "↓",
    ]
    assert seen.place_within(100, 60) == (100, 60)
    x, y = seen.place_within(5000, 90)
    assert 800 < x < 1000
    assert 68 < y < 70
    assert seen.share_of_axes(100, 60) == pytest.approx((0.5, 0.5))


def test_lines_of_text_are_measured() -> None:
    assert text_width("WWWW", 8) > 2 * text_width("iiii", 8)
    for text in ("a word and another, and more words to come", "W" * 60, "", "one"):
        lines = wrapped(text, 1.0, 7, most=9).split("\n")
        assert all(text_width(line, 7) <= 1.0 for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrapped("many words " * 20, 1.0, 7, most=2).endswith(" …")
    assert len(wrapped("many words " * 20, 1.0, 7, most=2).split("\n")) == 2


def outside(*more: FrontierPoint) -> list[FrontierPoint]:
    near = [FrontierPoint(f"p{i}", 100 + 20 * i, 0.6 + 0.004 * i, on_front=True) for i in range(6)]
    return [*near, *more]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_an_arrow_stands_for_what_is_beyond_the_axes_with_its_number(width: float) -> None:
    oracles = [FrontierPoint(f"any of {k}", 190.0, 0.9 + k / 100, diagnostic=True) for k in (2, 5)]
    figure = frontier(outside(*oracles), width=width)
    axes = figure.axes[0]
    top = axes.get_ylim()[1]
    arrows = [one for one in axes.collections if isinstance(one, PathCollection) and len(one.get_paths()[0]) == 8]
    places = [tuple(one.get_offsets()[0]) for one in arrows]
    assert len(places) == 2
    (left, low), (right, high) = axes.transData.transform(places)
    assert max(abs(left - right), abs(low - high)) > 9 * figure.dpi / 72  # neither hides the other
    assert all(y < top < 90 for _, y in places)
    numbers = {text.get_text(): text for text in axes.texts if "↑" in text.get_text()}
    for number in ("92.0", "95.0"):
        (box,) = [one.get_window_extent() for text, one in numbers.items() if number in text]
        near = [np.clip(one, (box.x0, box.y0), (box.x1, box.y1)) - one for one in [(left, low), (right, high)]]
        assert min(np.hypot(*one) for one in near) < 32 * figure.dpi / 72
    assert any("arrows: points" in text.get_text() for text in figure.texts)
    markers_drawn = [one for one in axes.collections if isinstance(one, PathCollection) and one not in arrows]
    assert all(y <= top for one in markers_drawn for _, y in one.get_offsets())
    assert LAYERS["diagnostic"].label in {text.get_text() for one in figure.legends for text in one.get_texts()}


@pytest.mark.parametrize("points", [fronts(9, 3), fronts(5, 2), policies(25)], ids=["nine", "five", "many"])
def test_no_leader_crosses_the_front(points: list[FrontierPoint]) -> None:
    axes = frontier(points, width=NARROW).axes[0]
    (front,) = [line for line in axes.get_lines() if line.get_label() == "Pareto front"]
    leaders = [line for line in axes.get_lines() if line.get_color() == GREY and len(line.get_xdata()) == 2]
    assert leaders
    corners = axes.transData.transform(np.asarray(front.get_xydata()))
    for leader in leaders:
        start, end = axes.transData.transform(np.asarray(leader.get_xydata()))
        if np.hypot(*(end - start)) > 9 * axes.figure.dpi / 72:
            steps = np.linspace(start, end, 400)[40:]
            under = np.interp(steps[:, 0], *corners.T) > steps[:, 1]
            assert len(set(under[np.abs(np.interp(steps[:, 0], *corners.T) - steps[:, 1]) > 1])) <= 1


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("seed", range(3))
def test_names_keep_clear_of_lines_and_bars(width: float, seed: int) -> None:
    figure = frontier(policies(25, seed), width=width)
    axes = figure.axes[0]
    (front,) = [line for line in axes.get_lines() if line.get_label() == "Pareto front"]
    path = axes.transData.transform(np.asarray(front.get_xydata()))
    steps = np.concatenate([np.linspace(a, b, 200) for a, b in itertools.pairwise(path)])
    bars = [bar for one in axes.collections if isinstance(one, LineCollection) for bar in one.get_segments()]
    steps = np.concatenate([steps, *(np.linspace(*axes.transData.transform(bar), 50) for bar in bars)])
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts if "↓" not in text.get_text()}
    hidden = [
        name
        for name, box in boxes.items()
        if ((steps > (box.x0, box.y0)) & (steps < (box.x1, box.y1))).all(axis=1).any()
    ]
    assert len(boxes) > 5
    assert hidden == []
    assert sum(len(name) == 1 for name in boxes) != 1  # a single letter among names is a riddle
