"""Reading an answer out of a text. Several ways may be given; the first that finds something counts.

`boxed`        the inside of the last `\\boxed{…}` that closes (`\\fbox` too), braces balanced; a box that a limit cut
               off is passed over.
`answer is`    what follows the last `answer is`, `answer:` or `answer =`, to the end of its sentence or line.
`####`         what follows the last `####` on its line (GSM8K's reference solutions).
`last number`  the last number of the text, with its sign, commas, fraction, exponent and percent sign. A minus
               directly behind a digit, letter or bracket is an operator, not a sign.
`last line`    the last line that is not blank.
`pattern`      the last match of the user's regular expression (Python's syntax): its first group, else the whole.
Each gives the trimmed raw string; bring it into a normal form with `normalise`. In a text that its limit cut off, what
reaches the very end is not read, for nobody can tell whether it is whole: `#### 1` may have been about to say 12.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

import polars as pl

from toolkit.errors import ThinkbackError, suggest

_ANSWER_IS = r"(?i)^[\s\S]*\banswer(?:\s+is\b|\s*[:=])[\s:=]*([^\n]+?)\s*(?:\.\s[\s\S]*|\.?$|\n[\s\S]*)$"
_HASHES = r"^[\s\S]*####[ \t]*([^\n]+)"
_LAST_LINE = r"([^\n]+)\s*$"
_OPERATOR = r"([0-9A-Za-z)\]}])[-−]([$0-9.])"
_UNSIGNED = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_CUT = "\x00"
"""Stands at the end of a text that its limit cut off, so that what reaches this end is known by it."""

_LAST_NUMBER = rf"[-−]?\$?(?:{_UNSIGNED})(?:[eE][-+]?[0-9]+|/[0-9]+)?\s?%?{_CUT}?"
_BOX = re.compile(r"\\(?:boxed|fbox)\s*")
_WORD = re.compile(r"[^\s$]+")


def read_answers(
    texts: pl.Series, ways: Sequence[str], pattern: str | None = None, cut: pl.Series | None = None
) -> pl.Series:
    """Answers of a column of texts, null where no way finds one. `pattern` is for the way of that name.

    `cut`: which of the texts were cut off by their limit (boolean, null for not known); none where it is not given.
    Raises ThinkbackError for an unknown way, a missing or invalid `pattern`.
    """
    if cut is not None:
        ends = pl.when(pl.col("cut").fill_null(False) & ~pl.col("text").str.ends_with("\n"))
        marked = pl.col("text") + ends.then(pl.lit(_CUT)).otherwise(pl.lit(""))
        texts = pl.DataFrame({"text": texts, "cut": cut}).select(marked.alias(texts.name)).to_series()
    found = pl.Series(texts.name, [None] * len(texts), dtype=pl.String)
    for way in ways:
        if way not in WAYS:
            raise ThinkbackError(f"unknown way to read an answer `{way}`; {suggest(way, WAYS)}")
        more = _by_pattern(texts, pattern) if way == "pattern" else _READERS[way](texts)
        more = more.str.strip_chars().replace("", None)
        if cut is not None:
            more = more.clear(len(more)).zip_with(more.str.contains(_CUT, literal=True), more)
        found = found.zip_with(found.is_not_null(), more)
    return found


def boxed(text: str) -> str | None:
    """The inside of the last box in `text` that closes, None where none does.

    `\\boxed 7`, without braces, gives what comes up to the next white space or dollar sign.
    """
    for start in reversed([match.end() for match in _BOX.finditer(text)]):
        if text[start : start + 1] == "{":
            inside = _balanced(text, start)
        else:
            word = _WORD.match(text, start)
            inside = word and word.group()
        if inside is not None:
            return inside.strip()
    return None


def _balanced(text: str, start: int) -> str | None:
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + 1 : place]
    return None


def _boxes(texts: pl.Series) -> pl.Series:
    """Only texts that hold a box are looked at one by one: balanced braces are beyond regular expressions."""
    values = [boxed(text) if text is not None and "box" in text else None for text in texts.to_list()]
    return pl.Series(texts.name, values, dtype=pl.String)


def _last_number(texts: pl.Series) -> pl.Series:
    # Twice: in `1-2-3` the first pass takes the 2 and so passes over the second minus.
    apart = texts.str.replace_all(_OPERATOR, "${1} ${2}").str.replace_all(_OPERATOR, "${1} ${2}")
    return apart.str.extract_all(_LAST_NUMBER).list.last()


def _by_pattern(texts: pl.Series, pattern: str | None) -> pl.Series:
    if pattern is None:
        raise ThinkbackError("reading by `pattern` needs one: set `pattern = 'a regular expression'`")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ThinkbackError(f"`pattern` is not a regular expression: {error} in `{pattern}`") from None
    group = 1 if compiled.groups else 0

    def last(text: str | None) -> str | None:
        whole = (text or "").removesuffix(_CUT)
        found = deque(compiled.finditer(whole), maxlen=1)
        if not found:
            return None
        return _CUT if text != whole and found[0].end(group) == len(whole) else found[0].group(group)

    return pl.Series(texts.name, [last(text) for text in texts.to_list()], dtype=pl.String)


_READERS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "boxed": _boxes,
    "answer is": lambda texts: texts.str.extract(_ANSWER_IS, 1),
    "####": lambda texts: texts.str.extract(_HASHES, 1),
    "last number": _last_number,
    "last line": lambda texts: texts.str.strip_chars().str.extract(_LAST_LINE, 1),
}
WAYS = (*_READERS, "pattern")
