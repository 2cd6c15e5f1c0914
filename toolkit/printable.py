"""Text from a log, a policy or an error, made safe to print: it cannot control a terminal or hide characters.

The one function for it is used where cells, titles, notes, figures, errors and console lines are made, so whoever makes
a table or raises an error need not think of it.
"""

from __future__ import annotations

import re

# Python calls these printable, but they show nothing: Unicode's Default_Ignorable_Code_Point beyond its categories of
# control and format characters, and Braille's empty cell.
_INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_NUMBER = re.compile(r"[+−-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s?%?|[+-]?(?:inf|nan)")
_RUN = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_SEEN = re.compile(f"[{_INVISIBLE}]")


def printable(text: str) -> str:
    r"""The text on one line of visible characters. Other characters are written as Python escapes them.

    These are control characters (line ends and tabs among them), marks of direction, what has no width, lone
    surrogates, and code points that nobody has assigned. Spaces of other widths stay.

    >>> print(printable("red\x1b[31m\u202egnp.exe"))
    red\x1b[31m\u202egnp.exe
    """
    if text.isprintable() and not _SEEN.search(text):
        return text
    return "".join(map(_escape_sign, text))


def spreadsheet_text(text: str) -> str:
    """The text for a CSV cell that no spreadsheet runs: an apostrophe is put before what would begin a formula.

    Numbers such as `-3.2` stay numbers.
    """
    cell = printable(text)
    return f"'{cell}" if text.startswith(_RUN) and not _NUMBER.fullmatch(cell) else cell


def _escape_sign(sign: str) -> str:
    if sign.isspace() and sign not in "\u2028\u2029" and sign > "\x9f":  # spaces of other widths
        return sign
    if sign.isprintable() and not _SEEN.match(sign):
        return sign
    return sign.encode("unicode_escape").decode("ascii")
