"""Text as LaTeX sets it: every sign that it would read as a command is escaped, and lines are as long as there is room.

The widths are those of Computer Modern, LaTeX's own font, as its metric files have them; Times and most others are
narrower. What pdfTeX cannot set without further packages is written as Python escapes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_lowercase

POINTS_AN_INCH = 72.27
MARKS = 260
"""The number of distinct marks."""
_SPARE = 1.03  # kerning makes a few pairs of letters wider than the sum of the two
_GROWN = {10: 1.0, 9: 1.028, 8: 1.063}  # smaller sizes of the font are wider for their height
_SIGNS = {
    278: "!',.:;[]il", 306: "fj", 333: "- ", 361: "I", 389: "()t", 392: "r", 394: "s", 444: "cez", 472: "?",
    500: "*/0123456789ago", 514: "J", 528: "kqvxy", 556: "Sbdhnpu", 611: "Z", 625: "L", 653: "F", 681: "EP", 708: "B",
    722: "CTw", 736: "R", 750: "AHNUVXY", 764: "D", 778: "+=@KOQ", 785: "G", 833: "m", 917: "M", 1028: "W",
}  # fmt: skip
_COMMANDS = {
    "\\": (r"\textbackslash{}", 500), "&": (r"\&", 778), "%": (r"\%", 833), "$": (r"\$", 500), "#": (r"\#", 833),
    "_": (r"\_", 333), "{": (r"\{", 500), "}": (r"\}", 500), "~": (r"\textasciitilde{}", 500), '"': ("''", 500),
    "^": (r"\textasciicircum{}", 500), "<": (r"\textless{}", 778), ">": (r"\textgreater{}", 778), "`": ("'", 278),
    "|": (r"\textbar{}", 278), "−": ("$-$", 778), "–": ("--", 500), "—": ("---", 1000), "Δ": (r"$\Delta$", 833),
    "●": (r"$\bullet$", 500), "†": (r"$\dagger$", 444), "≥": (r"$\geq$", 778), "≤": (r"$\leq$", 778),
    "€": (r"\texteuro{}", 800), "×": (r"$\times$", 778), "·": (r"$\cdot$", 278), "±": (r"$\pm$", 778),
    "…": (r"\ldots{}", 1334), "→": (r"$\to$", 1000), "∞": (r"$\infty$", 1000), "\u00a0": ("~", 333),
    "α": (r"$\alpha$", 640), "β": (r"$\beta$", 619), "γ": (r"$\gamma$", 574), "δ": (r"$\delta$", 483),
    "ε": (r"$\epsilon$", 406), "λ": (r"$\lambda$", 584), "μ": (r"$\mu$", 603), "π": (r"$\pi$", 606),
    "ρ": (r"$\rho$", 517), "σ": (r"$\sigma$", 607), "τ": (r"$\tau$", 550), "φ": (r"$\phi$", 596),
    "θ": (r"$\theta$", 470),
    **{sign: (rf"\textsuperscript{{{number}}}", 400) for number, sign in enumerate("¹²³⁴", 1)},
}  # fmt: skip
_WIDTHS = {sign: width for width, signs in _SIGNS.items() for sign in signs}
_WIDTHS |= {sign: width for sign, (_, width) in _COMMANDS.items()}
_LETTERS = {"ß": 500, "æ": 722, "œ": 778, "ø": 500, "Æ": 903, "Œ": 1014, "Ø": 778, "ł": 278, "Ł": 625, "ı": 278}
_ACCENTS = frozenset(map(chr, (0x300, 0x301, 0x302, 0x303, 0x304, 0x306, 0x307, 0x308, 0x30A, 0x30B, 0x30C, 0x327)))
_QUOTED = re.compile("`([^`]*)`")
_LIGATURE = re.compile("(?<=-)(?=-)|(?<=')(?=')|(?<=[!?])(?=\x01)")
_HIDDEN = {"\x00": r"\allowbreak{}", "\x01": "`", "\x02": "{}"}  # no printable text has these signs
_JOINTS = re.compile(r"(?<=[\[\],.=_/:-])(?![\d.])|(?<=[=\[])")
_MARKS = 0xE000  # of a private area, of which no printable text has a sign


def as_tex(text: str) -> str:
    """The text escaped, so that LaTeX sets it as it is. What stands in backticks gets quotation marks."""
    marked = _LIGATURE.sub("\x02", _QUOTED.sub("\x01\\1'", _plain_signs(text)))
    return "".join(map(_sign_tex, marked))


def note_mark(number: int) -> str:
    """A placeholder that LaTeX later shows as a raised letter: a for 0, b for 1 …, aa after z."""
    return chr(_MARKS + number)


@lru_cache(16_384)
def width_in_em(text: str) -> float:
    """The width of a line of text, in em."""
    return _SPARE * sum(_sign_width(sign) for sign in _plain_signs(text)) / 1000


def point_width(text: str, size: int) -> float:
    """The width of a line of text at a font size, in TeX points."""
    return size * _GROWN[size] * width_in_em(text)


def fold_lines(text: str, space: float, size: int) -> list[str]:
    """Breaks a text into lines of `space` points. It breaks at blanks, and within a word that is longer than a line.

    Every line but the first begins with two blanks, which stand for an indent of one em.
    """
    lines = [""]
    for word, glued in _split_words(text, space - size * _GROWN[size], size):
        longer = f"{lines[-1]}{'' if glued or not lines[-1].strip() else ' '}{word}"
        if lines[-1].strip() and _indented_width(longer, size) > space:
            lines.append(f"  {word}")
        else:
            lines[-1] = longer
    return lines


def _split_words(text: str, space: float, size: int) -> Iterator[tuple[str, bool]]:
    """Yields the words of a text, longer ones in parts that fit, each with whether it continues the one before."""
    for word in text.split(" "):
        if point_width(word, size) <= space:
            yield word, False
            continue
        glued = False
        for part in (one for one in _JOINTS.split(word) if one):
            line = ""
            for sign in part:
                if line and point_width(line + sign, size) > space:
                    yield line, glued
                    line, glued = "", True
                line += sign
            yield line, glued
            glued = True


def paragraph(text: str, space: float, size: int) -> str:
    """A text whose lines LaTeX itself breaks, within long words too."""
    lines = ""
    for word, glued in _split_words(text, space, size):
        lines += ("\x00" if glued else " " if lines else "") + word
    return as_tex(lines)


def _indented_width(line: str, size: int) -> float:
    """The width in points of a line, whose two leading blanks, if any, stand for an indent."""
    return point_width(line.removeprefix("  "), size) + size * _GROWN[size] * line.startswith("  ")


def _sign_tex(sign: str) -> str:
    if _note_mark_letters(sign):
        return rf"\textsuperscript{{{_note_mark_letters(sign)}}}"
    return _COMMANDS[sign][0] if sign in _COMMANDS else _HIDDEN.get(sign, sign)


def _note_mark_letters(sign: str) -> str:
    """The letters that a mark shows; empty for every other character."""
    number = ord(sign) - _MARKS
    return ascii_lowercase[number % 26] * (1 + number // 26) if 0 <= number < MARKS else ""


def _plain_signs(text: str) -> str:
    """The text in characters that LaTeX sets without further packages."""
    return "".join(sign if _is_known_sign(sign) else sign.encode("unicode_escape").decode("ascii") for sign in text)


@lru_cache(4_096)
def _is_known_sign(sign: str) -> bool:
    return sign in _WIDTHS or sign in _LETTERS or sign in _HIDDEN or _base_letter(sign) + _note_mark_letters(sign) != ""


def _base_letter(sign: str) -> str:
    """The base letter of an accented character that LaTeX knows; empty for every other one."""
    parts = unicodedata.normalize("NFD", sign)
    fits = len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS
    return parts[0] if fits and sign <= "\u017f" else ""


@lru_cache(4_096)
def _sign_width(sign: str) -> int:
    if _note_mark_letters(sign):
        return 600 * len(_note_mark_letters(sign))
    return _WIDTHS.get(sign) or _LETTERS.get(sign) or _WIDTHS.get(_base_letter(sign), 0)
