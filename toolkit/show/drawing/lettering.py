"""Text as a figure can show it: in signs that its font has, on lines as long as there is room."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from toolkit.printable import printable

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

FONT = "DejaVu Sans"
BOUND = "\u00a0"
"""A space where no line ends."""
_SPARE = 1.03  # a line as it is drawn may be a little longer than the sum of its letters


def drawable_text(text: str) -> str:
    """The text as a figure can show it: printable, with signs that the font lacks written as Python escapes them."""
    known = _known_glyphs()
    return "".join(
        sign if ord(sign) in known else sign.encode("unicode_escape").decode("ascii") for sign in printable(text)
    )


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width in inches of a line of text at a size in typographic points."""
    return _SPARE * size / 72 * sum(_sign_width(sign, bold) for sign in text)


def wrapped(text: str, space: float, size: float, most: int = 2, bold: bool = False) -> str:
    """Breaks a text into up to `most` lines of `space` inches, at blanks or, in a word that is too long, within it."""
    lines = [""]
    for word in _split_words(drawable_text(text), space, size, bold):
        longer = f"{lines[-1]} {word}".strip(" ")
        if lines[-1] and text_width(longer, size, bold) > space:
            lines.append(word)
        else:
            lines[-1] = longer
    if len(lines) > most:
        last = lines[most - 1]
        while last and text_width(f"{last} …", size, bold) > space:
            last = last[:-1]
        lines = [*lines[: most - 1], f"{last.rstrip()} …"]
    return "\n".join(lines)


def folded_name(name: str, space: float, size: float, lines: int = 3) -> str:
    """A policy's name on up to `lines` lines, broken before a setting rather than within; long fractions are cut."""
    short = re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.4g}", name)
    rows = [short]
    if text_width(short, size) > space:
        head, setting = re.fullmatch(r"([^\[]*)(.*)", short, re.DOTALL).groups()  # type: ignore[union-attr]
        rows = _break_evenly(head, space, size) + wrapped(setting, 1.25 * space, size, 99).split("\n")
    rows = [line for line in rows if line]
    text = "\n".join(rows if len(rows) <= lines else [*rows[: lines - 1], f"{rows[lines - 1]} …"])
    return text.replace(BOUND, " ")


def _break_evenly(text: str, space: float, size: float) -> list[str]:
    """Breaks a text into as few lines as fit, of about equal length, so that no word stands alone."""
    lines = wrapped(text, space, size, 99).split("\n")
    for share in (0.6, 0.7, 0.8, 0.9):
        even = wrapped(text, share * space, size, 99).split("\n")
        if len(even) == len(lines) and " ".join(even) == " ".join(lines):
            return even
    return lines


def _split_words(text: str, space: float, size: float, bold: bool) -> list[str]:
    """The words of a text. A word that is longer than a line is split into parts that fit."""
    parts = []
    for word in re.split(" +", text.strip(" ")):
        part = ""
        for sign in word:
            if part and text_width(part + sign, size, bold) > space:
                parts.append(part)
                part = ""
            part += sign
        parts.append(part)
    return parts


@cache
def _sign_width(sign: str, bold: bool) -> float:
    """The width of a character as a share of the font's size."""
    from matplotlib.ft2font import LoadFlags

    font = _load_fonts()[bold]
    font.set_size(100.0, 72.0)
    return float(font.load_char(ord(sign), flags=LoadFlags.NO_HINTING).linearHoriAdvance / 65536 / 100)


@cache
def _load_fonts() -> tuple[FT2Font, FT2Font]:
    """The regular and the bold font that come with matplotlib."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    plain, bold = (get_font(findfont(FontProperties(family=FONT, weight=weight))) for weight in ("normal", "bold"))
    return plain, bold


@cache
def _known_glyphs() -> frozenset[int]:
    """The code points that the font has in both regular and bold."""
    return frozenset.intersection(*(frozenset(font.get_charmap()) for font in _load_fonts()))
