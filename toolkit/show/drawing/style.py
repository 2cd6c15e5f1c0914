"""The style of figures, and saving them: equal numbers give equal bytes.

The font comes with matplotlib, PDF embeds it as TrueType (type 42), and no file carries a date. Text has the size that
it has on paper, so a figure is drawn as wide as it will be printed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from toolkit.errors import InvalidError
from toolkit.show.drawing.lettering import FONT, drawable_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# After Okabe and Ito: told apart by colour-blind readers. In grey, markers and dashes tell them apart.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#7A3E94", "#3F9BD3"
NAVY, WINE = "#00457A", "#8C2F5B"
INK, GREY, RULE = "#222222", "#6B7280", "#E5E7EB"
TEXT, SMALL = 8.0, 7.0  # typographic points on paper: labels of axes and titles; all else
_STYLE: dict[Any, Any] = {
    "font.family": FONT, "font.size": TEXT, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL, "legend.fontsize": SMALL, "axes.linewidth": 0.7, "pdf.fonttype": 42,
    "svg.hashsalt": "thinkback",  # names of clip paths, which are random otherwise
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY, "axes.labelcolor": INK,
    "xtick.color": GREY, "ytick.color": GREY, "text.color": INK, "figure.facecolor": "white",
    "savefig.facecolor": "white",
}  # fmt: skip
DPI = 300  # text is measured as it will be drawn: at another resolution its width differs a little
SCREEN_DPI, ON_SCREEN = 165, 110
"""Pixels an inch of a notebook's pictures, and of those that they take up on a screen."""
_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}
_PACKING = 3  # zlib's level of a PNG; at 6 it is 7 % smaller and takes half more time
_OF_GLYPHS = ("glyf", "loca", "head", "hhea", "hmtx", "maxp", "cvt ", "fpgm", "prep")
"""Tables of a TrueType font that a PDF needs, which names glyphs by their numbers (ISO 32000-1, 9.9)."""


@contextmanager
def style() -> Iterator[None]:
    """Sets the style of our figures on matplotlib's own defaults, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches to draw on. When all is drawn, its texts are made fit for the font."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(figure)  # measures text; no window, no global state
        yield figure
        plain_texts(figure)
        vars(figure)["_repr_png_"] = partial(_notebook_png, figure)


def _notebook_png(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """The PNG that a notebook shows of a figure, sharp on high-resolution screens, and its size on screen in pixels."""
    from PIL import Image

    drawn, picture = io.BytesIO(), io.BytesIO()
    with style():
        figure.savefig(drawn, format="png", dpi=SCREEN_DPI, metadata=_METADATA[".png"])
    few = Image.open(drawn).convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(picture, "png", optimize=True)  # a notebook keeps it: a third of the bytes, and no eye sees a difference
    width, height = figure.get_size_inches()
    return picture.getvalue(), {"width": round(ON_SCREEN * width), "height": round(ON_SCREEN * height)}


def plain_texts(figure: Figure) -> None:
    """Makes every text of a figure printable, and keeps matplotlib from reading any as a formula."""
    for text in _texts(figure):
        text.set_text("\n".join(map(drawable_text, text.get_text().split("\n"))))
        text.set_parse_math(False)  # a dollar sign is a dollar sign


def _texts(figure: Figure) -> Iterator[Text]:
    """The titles, labels, notes and legend texts of a figure. Ticks are left out, since formatters make their texts."""
    from matplotlib.text import Text

    yield from figure.texts
    for axes in figure.axes:
        yield from (child for child in axes.get_children() if isinstance(child, Text))
        yield from (axes.xaxis.label, axes.yaxis.label)
    for legend in (*figure.legends, *(axes.get_legend() for axes in figure.axes)):
        if legend is not None:
            yield from legend.get_texts()


def save_figure(figure: Figure, path: str | Path | BinaryIO, ending: str = "") -> None:
    """Writes `figure` as .pdf, .svg or .png. Nothing in the file changes from run to run.

    `ending` is the format where the path has another ending.
    """
    save_figures(figure, {ending or Path(str(path)).suffix: path})


def save_figures(figure: Figure, places: Mapping[str, str | Path | BinaryIO]) -> None:
    """Writes `figure` to several places, by the ending of the format: .pdf, .svg or .png."""
    for suffix, path in places.items():
        if suffix not in _METADATA:
            raise InvalidError(f"a figure is written as `.pdf`, `.svg` or `.png`, not as `{Path(str(path)).name}`")
    with style():
        from toolkit.show.drawing.recording import RecordedFigure

        drawn = figure if any(axes.images for axes in figure.axes) else RecordedFigure(figure)
        for suffix, path in places.items():
            if suffix == ".png":
                _save_picture(drawn, path)
                continue
            with _embed_glyphs_alone() if suffix == ".pdf" else nullcontext():
                drawn.savefig(path, format=suffix[1:], dpi=DPI, metadata=_METADATA[suffix])


def _save_picture(figure: Figure, path: str | Path | BinaryIO) -> None:
    """Writes a figure as PNG without the transparency that it does not have: a third of the time, smaller files."""
    from PIL import Image

    pixels = io.BytesIO()
    figure.savefig(pixels, format="rgba", dpi=DPI)
    size: Any = figure.canvas.get_width_height(physical=True)
    picture = Image.frombuffer("RGBA", size, pixels.getvalue(), "raw", "RGBA", 0, 1).convert("RGB")
    picture.save(path, "png", compress_level=_PACKING, dpi=(DPI, DPI))


@contextmanager
def _embed_glyphs_alone() -> Iterator[None]:
    """Embeds nothing of a font but its glyphs and how to draw them; all else is slow to read."""
    import matplotlib as mpl
    from fontTools import subset

    load_font = subset.load_font
    needed = _OF_GLYPHS if mpl.__version_info__ >= (3, 11) else (*_OF_GLYPHS, "cmap")  # it asked for signs before

    def load_glyphs(*arguments: Any, **options: Any) -> Any:
        font = load_font(*arguments, **options)
        for name in set(font.keys()) - {"GlyphOrder", *needed}:
            del font[name]
        font.setGlyphOrder([f"g{number}" for number in range(font["maxp"].numGlyphs)])
        return font

    subset.load_font = load_glyphs
    try:
        yield
    finally:
        subset.load_font = load_font


def percent_limits(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis in per cent, clipped to 0 and 100 and at least one point apart."""
    low, high = max(low, 0.0), min(high, 100.0)
    return (low, high) if high - low >= 1 else (max(0.0, min(low, 99.0)), min(100.0, max(high, low + 1.0)))


def readable_on(color: tuple[float, ...]) -> str:
    """Black or white, whichever contrasts more with a background colour (RGB from 0 to 1) by WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"


def calm(axes: Axes) -> None:
    """Puts a light grid behind the data and removes the tick marks."""
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
