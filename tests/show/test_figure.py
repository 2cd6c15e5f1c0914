"""The figures: what is drawn, and the same bytes each time."""

import itertools
import re
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from PIL import Image

from tests.errors import numbers, refuses
from tests.seeds import seeds
from toolkit.show import (
    FrontierPoint,
    Heat,
    IntervalCell,
    PlottedBand,
    PlottedCurve,
    RankedInput,
    ReliabilityPanel,
    add_warnings,
    bands_figure,
    curves_figure,
    frontier,
    frontier_points,
    heat_figure,
    outcomes_figure,
    reliability_figure,
    save_figure,
    save_formats,
)
from toolkit.show.drawing import style as drawing_style
from toolkit.show.drawing.labels import MOST
from toolkit.show.drawing.style import DPI, style
from toolkit.show.figures.figure import LAYERS


def texts(figure: object) -> list[str]:
    words = [text.get_text() for text in figure.texts]
    return words + [text.get_text() for axes in figure.axes for text in axes.texts]


def legends(figure: object) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def crowd(n: int) -> list[FrontierPoint]:
    return [
        FrontierPoint(f"policy number {i} with a name", 1_000 + 40 * (i % 7), 0.6 + i / 500, low=0.55, high=0.7)
        for i in range(n)
    ]


def test_a_figure_of_many_policies_tries_the_most_urgent_labels_alone() -> None:
    points = [*crowd(300), *(replace(point, name=f"front {i}", on_front=True) for i, point in enumerate(crowd(5)))]
    drawn = texts(frontier(points))
    assert any(text.startswith("front") for text in drawn)
    named = [text for text in drawn if re.match("policy|front|[a-z]( |$)", text.replace("\xa0", " "))]  # or by a letter
    assert len(named) <= MOST
    assert [numbers(text) for text in drawn if "without room" in text] == [[str(305 - len(named))]]


def test_the_front_goes_through_its_points(results: RankedInput) -> None:
    axes = frontier(frontier_points(results)).axes[0]
    (front,) = [line for line in axes.get_lines() if line.get_label() == "Pareto front"]
    corners = {(float(x), round(float(y), 6)) for x, y in front.get_xydata()}
    # first, stop .1, stop .2, each with the corner below it
    assert {(300.0, 50.0), (1100.0, 50.0), (1100.0, 68.0), (1500.0, 68.0), (1500.0, 70.5)} <= corners
    assert max(y for _, y in corners) == 70.5  # the diagnostic's 90 is not on it


def test_every_kind_of_point_is_named_in_the_legend(results: RankedInput) -> None:
    named = legends(frontier(frontier_points(results)))
    assert named == ["Pareto front", *(layer.label for layer in LAYERS.values())]
    assert [*LAYERS] == ["sweep", "other", "front", "baseline", "diagnostic"]


def test_names_are_written_but_not_those_of_a_sweep_off_the_front(results: RankedInput) -> None:
    points = frontier_points(results)
    inner = FrontierPoint("stop[margin=0.3]", 1600, 0.69, sweep="stop", swept=True)
    written = texts(frontier([*points, inner]))
    assert {"best of 4", "vote", "first", "stop[margin=0.1]", "stop[margin=0.2]"} <= set(written)
    assert "stop[margin=0.3]" not in written
    assert any(text.startswith("any of 4") for text in written)


def test_intervals_are_drawn(results: RankedInput) -> None:
    axes = frontier(frontier_points(results)).axes[0]
    bars = [bar for lines in axes.collections if isinstance(lines, LineCollection) for bar in lines.get_segments()]
    drawn = [tuple(round(float(y), 6) for _, y in bar) for bar in bars]
    assert (63.0, 69.0) in drawn  # vote's accuracy
    assert (66.0, 66.0) in drawn  # and its tokens, level


def test_simulated_is_said_in_the_figure(results: RankedInput) -> None:
    points = frontier_points(results)
    assert "simulated log" in texts(frontier(points, simulated=True))
    assert "simulated log" not in texts(frontier(points))


@pytest.mark.parametrize("length", [10, 70, 90, 400])
def test_a_long_title_leaves_room(length: int) -> None:
    figure = frontier([FrontierPoint("a", 1, 0.5)], title="W" * length, simulated=True)
    title = next(text for text in figure.texts if text.get_text().startswith("W"))
    badge = next(text for text in figure.texts if text.get_text() == "simulated log")
    assert title.get_window_extent().x1 < badge.get_window_extent().x0
    assert title.get_fontsize() == 8
    assert title.get_window_extent().x0 >= 0
    assert badge.get_window_extent().x1 <= figure.bbox.x1


def test_a_far_diagnostic_does_not_squeeze_the_policies() -> None:
    near = [FrontierPoint("a", 100, 0.60), FrontierPoint("b", 200, 0.62)]
    figure = frontier([*near, FrontierPoint("oracle", 150, 0.99, diagnostic=True)])
    assert figure.axes[0].get_ylim()[1] < 65
    assert "oracle 99.0 ↑" in texts(figure)


def test_on_a_narrow_page_the_front_and_oracles_have_letters() -> None:
    """The points of a study: the front and the oracles have letters, and what lies between is grey."""
    front = [(77.5, 0.509), (81.1, 0.659), (81.4, 0.667), (113.4, 0.6675), (1302.6, 0.795)]
    others = [(222.6, 0.6085), (146.3, 0.6505), (159.0, 0.6675), (111.8, 0.6665), (220.4, 0.5595), (150.3, 0.661),
              (162.5, 0.667)]  # fmt: skip
    oracles = [(127.7, 0.873), (128.3, 0.8075), (78.8, 0.979), (81.1, 0.7434)]
    points = [FrontierPoint(f"policy on the front {n}", *at, on_front=True) for n, at in enumerate(front)]
    points += [FrontierPoint(f"another policy {n}", *at) for n, at in enumerate(others)]
    points += [FrontierPoint(f"oracle over actions {n}", *at, diagnostic=True) for n, at in enumerate(oracles)]
    figure = frontier(points, width=3.3)
    told = " ".join(texts(figure))
    assert "without room" not in told
    assert sorted(text.get_text()[0] for text in figure.axes[0].texts) == list("abcdefghi")


@pytest.mark.parametrize("n", [5, 40, 120])
def test_labels_never_overlap(n: int) -> None:
    figure = frontier(crowd(n))
    renderer = figure.canvas.get_renderer()
    axes = figure.axes[0]
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    frame = axes.get_window_extent(renderer).padded(1)
    assert len(boxes) >= min(n, 5)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1 for box in boxes)
    left_out = [numbers(text) for text in texts(figure) if "without room" in text]
    assert left_out == ([[str(n - len(boxes))]] if len(boxes) < n else [])


def test_log_scale_where_costs_are_far_apart(results: RankedInput) -> None:
    points = frontier_points(results)
    assert frontier(points).axes[0].get_xscale() == "linear"
    cheap = FrontierPoint("cheap", 3, 0.4)
    assert frontier([*points, cheap]).axes[0].get_xscale() == "log"
    assert frontier([*points, replace(cheap, cost=0)]).axes[0].get_xscale() == "linear"


@pytest.mark.parametrize(
    "points",
    [
        [FrontierPoint("alone", 100, 0.5)],
        [FrontierPoint("free", 0, 0.0), FrontierPoint("also free", 0, 0.0)],
        [FrontierPoint("gold", 10, 1.0, diagnostic=True)],
        [FrontierPoint("$x_1$ % {b}", 10, 1.0, on_front=True, low=1.0, high=1.0)],
    ],
    ids=["one", "equal", "diagnostic", "strange name"],
)
def test_degenerate_figures(tmp_path: Path, points: list[FrontierPoint]) -> None:
    figure = frontier(points)
    save_figure(figure, tmp_path / "f.png")
    assert all(low < high for low, high in [figure.axes[0].get_xlim(), figure.axes[0].get_ylim()])


def test_an_interval_of_a_cost_that_ends_at_none_fits_a_logarithmic_axis(tmp_path: Path) -> None:
    points = [
        FrontierPoint(f"p{cost}", cost, 0.5 + cost / 400, low=0.4, high=0.9, cost_low=0.0, cost_high=2.0 * cost)
        for cost in (1, 10, 100)
    ]
    figure = frontier(points)
    left, right = figure.axes[0].get_xlim()
    assert 0 < left < 1 < 100 < right
    save_figure(figure, tmp_path / "front.svg")


def test_names_are_not_formulas() -> None:
    assert "$x_1$ %" in texts(frontier([FrontierPoint("$x_1$ %", 10, 1.0)]))
    label = next(text for text in frontier([FrontierPoint("$x_1$ %", 10, 1.0)]).axes[0].texts)
    assert label.get_parse_math() is False


@pytest.mark.parametrize("suffix", seeds(1, [".pdf", ".png"]))
def test_the_same_bytes_each_time(tmp_path: Path, results: RankedInput, suffix: str) -> None:
    for name in "ab":
        save_figure(frontier(frontier_points(results), simulated=True), tmp_path / (name + suffix))
    one, two = ((tmp_path / (name + suffix)).read_bytes() for name in "ab")
    assert one == two
    assert b"CreationDate" not in one
    assert len(one) > 5_000


def test_pdf_fonts_are_truetype(tmp_path: Path, results: RankedInput) -> None:
    save_figure(frontier(frontier_points(results)), tmp_path / "f.pdf")
    content = (tmp_path / "f.pdf").read_bytes()
    assert b"/FontFile2" in content or b"/CIDFontType2" in content
    assert b"/Type3" not in content


def test_a_users_matplotlib_settings_do_not_matter(tmp_path: Path, results: RankedInput) -> None:
    import matplotlib as mpl

    save_figure(frontier(frontier_points(results)), tmp_path / "a.png")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "lines.linewidth": 9}):
        save_figure(frontier(frontier_points(results)), tmp_path / "b.png")
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_refusals(tmp_path: Path, results: RankedInput) -> None:
    with refuses("empty", "policy"):
        frontier([])
    with refuses("empty", "curve"):
        curves_figure([])
    with refuses("invalid", "`f.gif`"):
        save_figure(frontier(frontier_points(results)), tmp_path / "f.gif")


def test_curves(tmp_path: Path) -> None:
    ks = (1, 2, 4, 6)
    rising = PlottedCurve("majority@k", ks, (0.5, 0.5, 0.6, 0.62), (0.4, 0.4, 0.5, None), (0.6, 0.6, 0.7, None))
    gold = PlottedCurve("pass@k", ks, (0.5, 0.7, 0.8, 0.9), (None,) * 4, (None,) * 4, diagnostic=True)
    figure = curves_figure([("n6, verified by a", [rising, gold]), ("n6, verified by b", [rising])], simulated=True)
    assert legends(figure) == ["majority@k", "pass@k (sees gold)"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["n6, verified by a", "n6, verified by b"]
    line = figure.axes[0].get_lines()[0]
    assert [float(y) for y in line.get_ydata()] == pytest.approx([50, 50, 60, 62])
    assert [float(x) for x in figure.axes[0].get_xticks()] == [1, 2, 4, 6]
    assert figure.axes[0].get_lines()[1].get_linestyle() == "--"
    assert "simulated log" in texts(figure)
    for name in ("a.pdf", "b.pdf"):
        save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_axes_end_where_numbers_do() -> None:
    """Rates lie between 0 and 100 %, costs are never negative, and a point on the edge is drawn at its own height."""
    none = frontier([FrontierPoint("none", 0, 0.0, low=0.0, high=0.0, cost_low=0, cost_high=0)]).axes[0]
    assert none.get_xlim()[0] == 0
    assert none.get_ylim()[0] == 0
    points = [FrontierPoint("all", 2, 1.0, low=0.99, high=1.0), FrontierPoint("some", 1, 0.9, low=0.85, high=0.95)]
    full = frontier(points).axes[0]
    assert full.get_ylim()[1] == 100
    assert full.get_xlim()[0] >= 0
    heights = {
        float(y) for dots in full.collections for _, y in dots.get_offsets() if dots.get_label() == "other policies"
    }
    assert heights == {90.0, 100.0}
    for value, ends in ((0.0, (0, 1)), (1.0, (94.5, 100))):
        axes = curves_figure([("n2", [PlottedCurve("flat", (1, 2), (value,) * 2, (value,) * 2, (value,) * 2)])]).axes[0]
        assert axes.get_ylim() == pytest.approx(ends)


def test_a_heat_map_is_readable() -> None:
    """A single value has the middle of the scale; light text stands on dark cells, dark text on light ones."""
    from matplotlib import colormaps

    colors = colormaps["cividis"]
    one = heat_figure([Heat("one", ("a", "b"), ("c",), ((6.0, None),))], columns=1, title="t", x="x", y="y").axes[0]
    assert one.images[0].norm(6.0) == pytest.approx(0.5)
    assert [text.get_text() for text in one.texts] == ["–", "6.0"]
    line = tuple(float(i) for i in range(21))
    axes = heat_figure([Heat("many", tuple("a" * 21), ("c",), (line,))], columns=1, title="t", x="x", y="y").axes[0]
    shown = [text.get_color() for text in axes.texts]
    assert shown[0] == "white"
    assert shown[-1] == "black"
    for value, color in zip(line, shown, strict=True):
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colors(value / 20)[:3])
        light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        contrast = (light + 0.05) / 0.05 if color == "black" else 1.05 / (light + 0.05)
        assert contrast > 4.5


def test_warnings_stand_below_a_figure_and_move_nothing() -> None:
    points = [FrontierPoint("a", 1, 0.5), FrontierPoint("b", 2, 0.6)]
    plain, told = frontier(points), frontier(points)
    words = "WARNING: these are words of a caption that is long enough for two lines below `n15`, if not for three"
    assert add_warnings(told, []) is told
    before = plain.axes[0].get_window_extent()
    add_warnings(told, [words, "left out: 1 example"])
    after = told.axes[0].get_window_extent()
    assert (after.width, after.height) == pytest.approx((before.width, before.height))
    assert told.bbox.height - after.y1 == pytest.approx(plain.bbox.height - before.y1)
    assert words in " ".join(text.get_text() for text in reversed(told.texts))
    strip = [text.get_window_extent() for text in told.texts if text not in told.texts[: len(plain.texts)]]
    assert all(box.x1 < told.bbox.width for box in strip)
    top = max(box.y1 for box in strip)
    rest = [text.get_window_extent() for text in told.texts[: len(plain.texts)] if text.get_text()]
    assert all(top <= box.y0 for box in rest)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(strip, 2))


def test_axes_of_rates_of_interventions_end_too() -> None:
    """A sweep's rate ends at 0 and 100 %, its tokens do not; fixes of every example end at 100 %."""
    sweep = PlottedBand("accuracy, %", (0.0, 50.0), (100.0, 90.0), (98.0, 0.0), (100.0, 100.0), rate=True)
    tokens = PlottedBand("tokens", (0.0, 50.0), (100.0, 400.0), (90.0, 380.0), (110.0, 420.0))
    rate, other = bands_figure([sweep, tokens], title="t", x="acts on, %").axes
    assert rate.get_ylim() == (0, 100)
    assert other.get_ylim()[1] > 420
    whole = IntervalCell(1.0, 0.99, 1.0)
    axes = outcomes_figure([("revise", whole, whole)]).axes[0]
    assert axes.get_xlim() == (-100, 100)
    gate = ReliabilityPanel("gate", ((0.1, 0.0, 0.0, 0.2), (0.9, 1.0, 0.8, 1.0)), "revise")
    assert reliability_figure([gate], title="t").axes[0].get_ylim() == (0, 100)


def test_a_figure_that_is_walked_through_once_is_drawn_as_it_would_be_by_itself(
    tmp_path: Path, results: RankedInput
) -> None:
    points = frontier_points(results)
    save_formats(frontier(points, simulated=True), tmp_path, "all")
    for suffix in (".pdf", ".svg", ".png"):
        save_figure(frontier(points, simulated=True), tmp_path / f"one{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"all{suffix}").read_bytes()
    with style():
        frontier(points, simulated=True).savefig(tmp_path / "plain.png", dpi=DPI)
    drawn, plain = (Image.open(tmp_path / name) for name in ("all.png", "plain.png"))
    assert drawn.mode == "RGB"
    assert drawn.info["dpi"] == plain.info["dpi"]
    assert (np.asarray(drawn.convert("RGBA")) == np.asarray(plain)).all()


@pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="needs pdftoppm")
def test_what_a_pdf_leaves_out_of_a_font_is_not_drawn(
    tmp_path: Path, results: RankedInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = frontier(frontier_points(results), title="Größe ≤ 5 → −1 †", simulated=True)
    save_figure(figure, tmp_path / "cut.pdf")
    monkeypatch.setattr(drawing_style, "_embed_glyphs_alone", nullcontext)
    save_figure(figure, tmp_path / "whole.pdf")
    for name in ("cut", "whole"):
        subprocess.run(["pdftoppm", "-r", "150", "-singlefile", f"{name}.pdf", name], cwd=tmp_path, check=True)
    assert (tmp_path / "cut.ppm").read_bytes() == (tmp_path / "whole.ppm").read_bytes()
    assert (tmp_path / "cut.pdf").stat().st_size < (tmp_path / "whole.pdf").stat().st_size
