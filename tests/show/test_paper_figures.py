"""The figures of a result as papers print them: nothing hidden, nothing cut off, and read in grey."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.errors import numbers, refuses
from tests.seeds import seeds
from tests.show.test_paper import NARROW, WIDE, assert_whole, lightness, markers
from toolkit.show.drawing import page
from toolkit.show.drawing.lettering import folded_name
from toolkit.show.drawing.panels import panel_grid, ticks_on_values
from toolkit.show.figures.distributions import ScoreDistribution, distributions_figure
from toolkit.show.figures.forest import KINDS, PolicyDifference, forest_figure
from toolkit.show.figures.gap_bars import PARTS, PolicyGap, gap_figure
from toolkit.show.figures.gate_curves import AS_IF_NEVER, ENDS, GateCurve, gates_figure
from toolkit.show.figures.stopping import StoppingTimes, stopping_figure
from toolkit.show.ranking.results import NOT_APART

NAMES = (
    "majority@16",
    "weighted vote of 16 by reflection",
    "probe, then majority@16 where sum_logprob is low[gate.below=-1.7912345678]",
    "budget too short",
    "any of 16",
    "costs $5 & more, 100 %",
    *(f"best of {k} by verifier_{k}" for k in range(18)),
)
NOTE = "95 % limits, for all differences at once; 47 more policies in the CSV"


def forest(n: int, width: float, **look: object) -> Figure:
    changes = [0.0, 2.1, 1.2, -23.0, 22.0, *(0.1 * k - 1 for k in range(19))]
    rows = [
        PolicyDifference(name, change, *((change - 1, change + 1.1) if i else (None, None)), diagnostic=i == 4)
        for i, (name, change) in enumerate(zip(NAMES[:n], changes, strict=False))
    ]
    return forest_figure(rows, baseline="majority@16", note=NOTE, width=width, **look)


def gaps(n: int, width: float, **look: object) -> Figure:
    rows = [
        PolicyGap(name, 0.7 - 0.01 * i, 0.2, 0.05, 0.05 + 0.01 * i, *(() if i % 2 else (0.3, -0.2, 0.4)))
        for i, name in enumerate(NAMES[:n])
    ]
    return gap_figure(rows, note=NOTE, width=width, **look)


def stops(n: int, width: float, **look: object) -> Figure:
    rng = np.random.default_rng(0)
    made = [StoppingTimes(name, tuple(range(1, 17)), tuple(rng.dirichlet(np.ones(16))), 7.25) for name in NAMES[:n]]
    return stopping_figure(made, note=NOTE, width=width, **look)


def scores(n: int, width: float, **look: object) -> Figure:
    rng = np.random.default_rng(0)
    edges = tuple(np.linspace(-3, 0, 25))
    made = [
        ScoreDistribution(name, edges, *(tuple(rng.dirichlet(np.ones(24))) for _ in range(2)), None if i else 0.7)
        for i, name in enumerate(NAMES[:n])
    ]
    return distributions_figure(made, note=NOTE, width=width, **look)


def gates(n: int, width: float, **look: object) -> Figure:
    x = np.linspace(0, 1, 30)
    y = 0.6 + 0.2 * x * (1 - x)
    whole = GateCurve(
        NAMES[0], tuple(x), tuple(y), tuple(y - 0.02), tuple(y + 0.02), whole=True, never=True, always=True
    )
    some = [
        GateCurve(name, (0.0, 0.1, 0.5), (0.6, 0.62, 0.64), (None, 0.61, 0.63), (None, 0.63, 0.65), never=True)
        for name in NAMES
    ]
    return gates_figure([whole, *some[1:]][:n], note=NOTE, width=width, **look)


FIGURES = {"forest": forest, "headroom": gaps, "stopping": stops, "scores": scores, "gates": gates}


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("n", seeds(1, [6, 1, 24]))
@pytest.mark.parametrize("draw", FIGURES.values(), ids=list(FIGURES))
def test_figures_are_whole(draw: Callable[..., Figure], n: int, width: float) -> None:
    if n == 24 and draw not in (forest, gaps):
        n = 12
    figure = draw(n, width, simulated=n == 6, title="A title that is asked for" if n == 6 else "")
    assert figure.get_figwidth() == width
    written = assert_whole(figure)
    assert ("simulated log" in written) == (n == 6)
    assert ("A title that is asked for" in written) == (n == 6)


@pytest.mark.parametrize("width", seeds(1, [NARROW, WIDE]))
@pytest.mark.parametrize("draw", [stops, scores, gates], ids=["stopping", "scores", "gates"])
def test_headings_of_panels_are_over_no_other_panel(draw: Callable[..., Figure], width: float) -> None:
    figure = draw(6, width)
    figure.draw_without_rendering()
    frames = [axes.get_window_extent() for axes in figure.axes if axes.get_visible()]
    headings = [axes.title if axes.title.get_text() else axes._left_title for axes in figure.axes if axes.get_visible()]
    boxes = [heading.get_window_extent() for heading in headings]
    assert len(boxes) == 6
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert not any(box.overlaps(frame) for box in boxes for frame in frames)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_what_is_far_has_its_number_at_the_edge_over_no_marker(width: float) -> None:
    axes = forest(24, width).axes[0]
    left, right = axes.get_xlim()
    assert left > -10
    assert right < 10
    numbers = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert set(numbers) == {"← −23.0", "+22.0 →"}
    frame = axes.get_window_extent()
    for box in numbers.values():
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert not any(box.overlaps(dot) for dot in markers(axes))


def test_bars_of_the_gap_add_up_and_stand_beside_their_numbers() -> None:
    axes, beside = gaps(6, WIDE).axes
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert ends[-6:] == pytest.approx([30.0, 31.0, 32.0, 33.0, 34.0, 35.0])
    assert [text.get_text() for text in beside.get_yticklabels()][:2] == ["70.0 (30 [−20, 40])", "69.0"]


def test_ends_of_gates_are_marked() -> None:
    figure = gates(2, WIDE)
    marked = [{line.get_marker() for line in axes.get_lines()} & {end.marker for end in ENDS} for axes in figure.axes]
    assert marked == [{"s", "D"}, {"s"}]
    legend = [text.get_text() for one in figure.legends for text in one.get_texts()]
    assert legend == [AS_IF_NEVER, *(end.label for end in ENDS)]


def test_panels_of_gates_end_where_the_gates_do() -> None:
    some = GateCurve("some", (0.0, 0.1, 0.4), (0.6, 0.62, 0.64), (None,) * 3, (None,) * 3, never=True)
    assert gates_figure([some]).axes[0].get_xlim()[1] == pytest.approx(40.8)
    whole = GateCurve("whole", (0.0, 0.5, 1.0), (0.6, 0.62, 0.64), (None,) * 3, (None,) * 3, always=True)
    assert gates_figure([some, whole]).axes[0].get_xlim()[1] == pytest.approx(102)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_many_numbers_of_traces_share_bars(width: float) -> None:
    one = StoppingTimes("window of 4", tuple(range(1, 101)), (0.01,) * 100, 50.5)
    figure = stopping_figure([one], width=width)
    bars = figure.axes[0].patches
    assert len(bars) == 25
    assert sum(bar.get_height() for bar in bars) == pytest.approx(100)
    assert bars[0].get_x() + bars[0].get_width() / 2 == pytest.approx(2.5)  # of 1, 2, 3 and 4
    assert bars[0].get_window_extent().width > figure.dpi / 72
    assert ["4"] in [numbers(text.get_text()) for text in figure.texts]
    assert len(stops(1, width).axes[0].patches) == 16


def test_nine_panels_are_three_by_three() -> None:
    for count, columns in ((9, 3), (12, 4)):
        with panel_grid(NAMES[:count], "", "", width=WIDE) as (_, axes):
            assert axes[0].get_subplotspec().get_gridspec().ncols == columns


def test_the_baseline_of_a_forest_is_no_tie() -> None:
    figure = forest(3, WIDE)
    shapes = {one.get_label(): one.get_offsets().tolist() for one in figure.axes[0].collections if one.get_label()}
    assert [x for x, _ in shapes["baseline"]] == [0.0]
    assert NOT_APART not in {text.get_text() for one in figure.legends for text in one.get_texts()}


def test_scores_of_zero_and_one_have_these_ticks() -> None:
    one = ScoreDistribution("judge", (-0.45, 0.45, 0.55, 1.45), (0.5, 0.0, 0.5), (0.9, 0.0, 0.1), values=(0.0, 1.0))
    assert distributions_figure([one]).axes[0].get_xticks().tolist() == [0, 1]


def test_ticks_of_stopping_times_stand_at_numbers_that_were_paid() -> None:
    one = StoppingTimes("window of 4", (4, 8, 12, 16), (0.4, 0.1, 0.2, 0.3), 9.6)
    assert stopping_figure([one]).axes[0].get_xticks().tolist() == [4, 8, 12, 16]
    every = StoppingTimes("adaptive", tuple(range(4, 17)), (0.4, *[0.02] * 11, 0.38), 9.6)
    ticks = stopping_figure([every]).axes[0].get_xticks().tolist()
    assert ticks[0] == 4
    assert ticks[-1] == 16
    assert len(ticks) <= 5


@pytest.mark.parametrize(
    ("values", "weights", "ticks"),
    [
        ([], [], []),
        ([3], [1.0], [3]),
        ([0, 1], [0.9, 0.1], [0, 1]),
        ([1, 2, 3, 9, 10], [0.05, 0.45, 0.01, 0.4, 0.09], [2, 9]),  # next to each other numbers would overlap
        ([0.0, 0.5, 1.0], [0.1, 0.8, 0.1], [0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_values_of_weight(values: list[float], weights: list[float], ticks: list[float]) -> None:
    assert ticks_on_values(values, weights, 3) == ticks


def test_no_word_is_left_alone_on_the_last_line() -> None:
    name = "long, then majority@16 where sum_logprob is low[below=-2.39]"
    *lines, setting = folded_name(name, 0.37 * NARROW, 7.0, 4).split("\n")
    assert setting == "[below=-2.39]"
    assert " ".join(lines) == name.removesuffix(setting)
    assert lines[-1] != "low"


def test_kinds_are_told_apart_in_grey() -> None:
    for a, b in itertools.combinations(KINDS.values(), 2):
        assert (a.marker, a.hollow) != (b.marker, b.hollow)
    for a, b in itertools.combinations(PARTS.values(), 2):
        assert abs(lightness(a.color) - lightness(b.color)) >= 20
    for a, b in itertools.combinations(ENDS, 2):
        assert a.marker != b.marker
    right, wrong = scores(1, WIDE).legends[0].get_lines() or [None] * 2
    patches = scores(1, WIDE).legends[0].get_patches()
    assert len({str(one.get_linestyle()) for one in (right, wrong, *patches) if one is not None}) == 2


@pytest.mark.parametrize("draw", FIGURES.values(), ids=list(FIGURES))
def test_nothing_to_draw_is_said_in_one_line(draw: Callable[..., Figure]) -> None:
    with refuses("empty", "draw"):
        draw(0, WIDE)


@pytest.mark.parametrize(("draw", "n", "slack"), [(scores, 8, 2.0), (gaps, 24, 0.7)], ids=["panels", "rows"])
def test_no_figure_is_higher_than_a_page(
    draw: Callable[..., Figure], n: int, slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "HIGHEST", 4.5)
    drawn = []
    figure = page.draw_what_fits(lambda some: drawn.append(some) or draw(some, NARROW), n)
    assert len(drawn) > 1
    assert 4.5 - slack < figure.get_figheight() <= 4.5
    assert_whole(figure)


def test_a_p_value_tells_apart_where_limits_hold_zero() -> None:
    row = PolicyDifference("vote", 1.0, -0.1, 2.1)
    assert not row.differs_from_baseline
    assert replace(row, stepwise=True).differs_from_baseline
