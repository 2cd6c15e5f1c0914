"""How figures look and how they are saved: the same bytes from the same numbers.

The font comes with matplotlib, PDF embeds it as TrueType (type 42), and no file carries a date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import ThinkbackError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind readers and in grey
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#8F5AA8", "#56B4E9"
INK, GREY, RULE = "#222222", "#6B7280", "#E5E7EB"
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "pdf.fonttype": 42,
    "svg.hashsalt": "thinkback",  # names of clip paths, which are random otherwise
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
_LETTER = 0.062  # inches that a letter of a warning takes, on average and bold
DPI = 200  # text is measured as it will be drawn: at another resolution its width differs a little
_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}


@contextmanager
def style() -> Iterator[None]:
    """Our settings on matplotlib's own defaults, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@contextmanager
def drawing(width: float, height: float, title: str, simulated: bool) -> Iterator[Figure]:
    """A figure of this size in inches to draw on, with its heading and, when all is drawn, one legend for all axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(figure)  # measures text; no window, no global state
        _heading(figure, title, simulated)
        yield figure
        _legend(figure)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write `figure` as .pdf, .svg or .png, with nothing in the file that changes from run to run."""
    suffix = Path(path).suffix
    if suffix not in _METADATA:
        raise ThinkbackError(f"a figure is written as `.pdf`, `.svg` or `.png`, not as `{Path(path).name}`")
    with style():
        figure.savefig(path, dpi=DPI, metadata=_METADATA[suffix])


def _heading(figure: Figure, title: str, simulated: bool) -> None:
    """The title at the upper left, as large as it fits; a simulated log is called so at the upper right."""
    y = 1 - 0.24 / figure.get_figheight()
    free = 0.97
    if simulated:
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#FFF4E5", "edgecolor": ORANGE, "linewidth": 0.8}
        figure.text(0.975, y, "simulated log", fontsize=8, color=ORANGE, ha="right", va="center", bbox=box)
        free = 0.97 - 0.95 / figure.get_figwidth()
    text = figure.text(0.02, y, title, fontsize=12, fontweight="bold", va="center", parse_math=False)
    right = free * figure.bbox.width
    for size in range(11, 6, -1):
        if text.get_window_extent().x1 <= right:
            return
        text.set_fontsize(size)
    while text.get_window_extent().x1 > right and len(text.get_text()) > 2:
        text.set_text(text.get_text()[:-2] + "…")


def _legend(figure: Figure) -> None:
    """One legend line under the title for everything labelled in axes without a legend of their own."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if axes.get_legend() is None:
                found.setdefault(label, handle)
    if not found:
        return
    figure.legend(
        list(found.values()),
        list(found),
        loc="center left",
        bbox_to_anchor=(0.012, 1 - 0.56 / figure.get_figheight()),
        ncols=len(found),
        frameon=False,
        fontsize=8,
        handletextpad=0.4,
        handlelength=2.0,
        columnspacing=1.4,
        borderpad=0.2,
    )


def footnotes(figure: Figure, left: str, right: str = "") -> None:
    """Small print at the lower corners."""
    y = 0.065 / figure.get_figheight()
    figure.text(0.02, y, left, fontsize=7, color=GREY)
    if right:
        figure.text(0.975, y, right, fontsize=7, color=GREY, ha="right")


def warned(figure: Figure, warnings: Sequence[str]) -> Figure:
    """The same figure with warnings in a strip of its own below everything else; nothing in it changes its size."""
    width, height = figure.get_size_inches()
    lines = [line for text in warnings for line in textwrap.wrap(text, int(width / _LETTER), break_long_words=True)]
    if not lines:
        return figure
    strip = 0.14 * len(lines) + 0.1
    whole = height + strip

    def lifted(y: float) -> float:
        return (y * height + strip) / whole

    boxes = [(axes, axes.get_position()) for axes in figure.axes]
    anchors = [(one, one.get_bbox_to_anchor().transformed(figure.transFigure.inverted())) for one in figure.legends]
    texts = [(text, text.get_position()) for text in figure.texts]
    figure.set_size_inches(width, whole)
    for axes, box in boxes:
        axes.set_position((box.x0, lifted(box.y0), box.width, box.height * height / whole))
    for found, anchor in anchors:
        found.set_bbox_to_anchor((anchor.x0, lifted(anchor.y0)))
    for text, (x, y) in texts:
        text.set_position((x, lifted(y)))
    with style():
        for number, line in enumerate(reversed(lines)):
            y = (0.06 + 0.14 * number) / whole
            figure.text(0.02, y, line, fontsize=7, color=ORANGE, fontweight="bold", parse_math=False)
    return figure


def percent_limits(low: float, high: float) -> tuple[float, float]:
    """Ends of an axis of per cent: within 0 and 100, and at least a point apart."""
    low, high = max(low, 0.0), min(high, 100.0)
    return (low, high) if high - low >= 1 else (max(0.0, min(low, 99.0)), min(100.0, max(high, low + 1.0)))


def readable_on(color: tuple[float, ...]) -> str:
    """Black or white, whichever contrasts more with a colour (RGB from 0 to 1) by the luminances of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"


def calm(axes: Axes) -> None:
    """A light grid behind the data and no tick marks."""
    axes.grid(color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
