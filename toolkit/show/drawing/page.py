"""A figure on its page: how wide it is, and its title, legend and notes around what is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolkit.errors import InvalidError
from toolkit.show.drawing.lettering import drawable_text, text_width, wrapped
from toolkit.show.drawing.style import GREY, ORANGE, SMALL, TEXT, drawing, plain_texts, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

WIDTH = 6.75
"""Inches across both columns of most papers; one column is about 3.3."""
NARROWEST, WIDEST = 2.5, 20.0
HIGHEST = 8.0
"""Inches that a figure may be high: what a page of most papers leaves above a caption."""
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # points as TeX counts them
_LINE = 0.14  # inches of a line of text
_ROW = 0.145  # inches of a row of the legend
_EDGE = 0.06  # inches free at the left and right


def width_in_inches(width: str | float) -> float:
    """A width such as `3.3in`, `84mm`, `8.4cm` or `240pt` in inches; a number is inches already."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(in|cm|mm|pt)\s*", width) if isinstance(width, str) else None
    if isinstance(width, str) and match is None:
        raise InvalidError(f"the width `{width}` of a figure is no length: write `3.3in`, `84mm`, `8.4cm` or `240pt`")
    size = float(match[1]) * _INCHES[match[2]] if match else float(width)
    if not NARROWEST <= size <= WIDEST:
        raise InvalidError(f"a figure is {NARROWEST:g} to {WIDEST:g} inches wide, not `{width}`")
    return size


def draw_what_fits(draw: Callable[[int], Figure], most: int) -> Figure:
    """The figure with as many rows or panels as fit on a page, at most `most`. `draw(n)` draws one with n of them."""
    count, figure = most, draw(most)
    while count > 1 and figure.get_figheight() > HIGHEST:
        count = max(1, min(count - 1, int(count * HIGHEST / figure.get_figheight())))
        figure = draw(count)
    return figure


@contextmanager
def page_figure(
    body: float, width: float, *, title: str = "", simulated: bool = False, note: str = "", handle: float = 2.6
) -> Iterator[Figure]:
    """A figure to draw on. Its axes and their labels are `body` inches high; at the end title, legend and notes are
    arranged.

    `note` is small print below; `handle` is how long a line in the legend is, in shares of its font's size.
    """
    with drawing(width, body) as figure:
        yield figure
        arrange(figure, body, title, simulated, handle)
        add_small_print(figure, note)


def arrange(figure: Figure, body: float, title: str = "", simulated: bool = False, handle: float = 2.6) -> None:
    """Sets the figure's height: axes and their labels, `body` inches, under the title and the legend.

    A simulated log is called so at the upper right. One legend stands for all axes without a legend of their own, on
    as many lines as it needs. From here on nothing moves the axes.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    plain_texts(figure)
    width = figure.get_figwidth()
    heading = wrapped(title, width - 0.15 - 0.95 * simulated, TEXT, bold=True)
    lines = len(heading.split("\n")) if heading else int(simulated)
    rows = _draw_legend(figure, handle)
    room = _ROW * len(rows) + 0.03 if rows else 0.0
    top = 0.05 + _LINE * lines + (0.06 if lines else 0.0)
    whole = body + top + room
    figure.set_size_inches(width, whole)
    if heading:
        look: dict[str, Any] = {"fontsize": TEXT, "fontweight": "bold", "va": "top", "parse_math": False}
        figure.text(_EDGE / width, 1 - 0.06 / whole, heading, linespacing=1.1, **look)
    if simulated:
        box = {"boxstyle": "round,pad=0.25", "facecolor": "#FFF4E5", "edgecolor": ORANGE, "linewidth": 0.7}
        right, y = 1 - (_EDGE + 0.03) / width, 1 - 0.13 / whole
        figure.text(right, y, "simulated log", fontsize=SMALL, color=ORANGE, ha="right", va="center", bbox=box)
    for number, row in enumerate(rows):
        row.set_bbox_to_anchor((0.02 / width, 1 - (top + _ROW * number) / whole))
    layout: Any = {"rect": (0.0, 0.0, 1.0, body / whole), "w_pad": 0.04, "h_pad": 0.04, "wspace": 0.03, "hspace": 0.04}
    # Executed once and never set: a figure with an engine is drawn twice whenever it is saved.
    ConstrainedLayoutEngine(**layout).execute(figure)


def _draw_legend(figure: Figure, handle: float) -> list[Legend]:
    """The legend of everything that has a label, in as few rows as the figure's width allows."""
    labels: dict[str, Any] = {}
    for axes in figure.axes:
        for artist, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if axes.get_legend() is None:
                labels.setdefault(label, artist)
    space = figure.get_figwidth() - 2 * _EDGE
    rows: list[Legend] = []
    held: list[str] = []
    for label in labels:
        row = _legend_row(figure, labels, [*held, label], handle)
        if held and row.get_window_extent().width > space * figure.dpi:
            row.remove()
            rows.append(_legend_row(figure, labels, held, handle))
            held = [label]
        else:
            row.remove()
            held.append(label)
    return [*rows, _legend_row(figure, labels, held, handle)] if held else []


def _legend_row(figure: Figure, handles: dict[str, Any], labels: Sequence[str], handle: float) -> Legend:
    row = figure.legend(
        [handles[label] for label in labels],
        [wrapped(label, figure.get_figwidth() - 0.6, SMALL, 1) for label in labels],
        loc="upper left", bbox_to_anchor=(0.0, 1.0), ncols=len(labels), frameon=False, fontsize=SMALL,
        handletextpad=0.5, handlelength=handle, columnspacing=1.2, borderpad=0.1, borderaxespad=0.0,
    )  # fmt: skip
    for text in row.get_texts():
        text.set_parse_math(False)
    return row


def add_small_print(figure: Figure, left: str, right: str = "", most: int = 4) -> None:
    """Adds small print below the figure: `left` and `right` side by side where there is room, else one below the other.

    Each is on `most` lines at most.
    """
    width = figure.get_figwidth() - 2 * _EDGE
    if text_width(drawable_text(f"{left}   {right}"), SMALL) <= width:
        pairs = [(left, right)]
    else:
        lines = [line for text in (left, right) if text for line in wrapped(text, width, SMALL, most).split("\n")]
        pairs = [(line, "") for line in lines]
    if not any(map(any, pairs)):
        return
    whole = _grow_at_foot(figure, _LINE * len(pairs) + 0.04)
    for number, (start, end) in enumerate(reversed(pairs)):
        y = (0.05 + _LINE * number) / whole
        look: dict[str, Any] = {"fontsize": SMALL, "color": GREY, "parse_math": False}
        figure.text(_EDGE / figure.get_figwidth(), y, drawable_text(start), **look)
        if end:
            figure.text(1 - _EDGE / figure.get_figwidth(), y, drawable_text(end), ha="right", **look)


def add_warnings(figure: Figure, warnings: Sequence[str]) -> Figure:
    """The same figure with warnings in a strip below it. Nothing else in the figure changes its size."""
    width = figure.get_figwidth()
    space = width - 2 * _EDGE
    lines = [line for text in warnings for line in wrapped(text, space, SMALL, 99, bold=True).split("\n") if line]
    if not lines:
        return figure
    whole = _grow_at_foot(figure, _LINE * len(lines) + 0.1)
    with style():
        for number, line in enumerate(reversed(lines)):
            y = (0.06 + _LINE * number) / whole
            figure.text(_EDGE / width, y, line, fontsize=SMALL, color=ORANGE, fontweight="bold", parse_math=False)
    return figure


def _grow_at_foot(figure: Figure, strip: float) -> float:
    """Makes the figure `strip` inches higher, with the new room empty at its foot; returns the new height."""
    width, height = figure.get_size_inches()
    whole = float(height + strip)

    def lifted(y: float) -> float:
        return (y * height + strip) / whole

    boxes = [(axes, axes.get_position()) for axes in figure.axes]
    anchors = [(one, one.get_bbox_to_anchor().transformed(figure.transFigure.inverted())) for one in figure.legends]
    texts = [(text, text.get_position()) for text in figure.texts]
    figure.set_size_inches(width, whole)
    for axes, box in boxes:
        axes.set_position((box.x0, lifted(box.y0), box.width, box.height * height / whole))
    for legend, anchor in anchors:
        legend.set_bbox_to_anchor((anchor.x0, lifted(anchor.y0)))
    for text, (x, y) in texts:
        text.set_position((x, lifted(y)))
    return whole
