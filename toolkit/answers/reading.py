"""Reading an answer out of a text. Several ways may be given; the first that finds something counts.

`boxed`        the inside of the last `\\boxed{…}` that closes (`\\fbox` too), braces balanced; a box that a limit cut
               off is passed over.
`answer is`    what follows the last `answer is`, `answer:` or `answer =`, to the end of its sentence or line.
`####`         what follows the last `####` on its line (GSM8K's reference solutions).
`last number`  the last number of the text, with its sign, commas, fraction, exponent and percent sign. A minus
               directly behind a digit, letter or bracket is an operator, not a sign.
`last line`    the last line that is not blank.
`whole text`   all of the text: the last way of a list, for texts that are answers themselves.
`pattern`      the last match of the user's regular expression: its first group, else the whole; see patterns.py.
Each gives the trimmed raw string; bring it into a normal form with `normalise`. In a text that its limit cut off, what
reaches the very end is not read, for nobody can tell whether it is whole: `#### 1` may have been about to say 12.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

from toolkit.answers.numbers import FULL_WIDTH
from toolkit.answers.patterns import last_matches
from toolkit.errors import RequiredError, UnknownError, suggest

_ANSWER = r"(?i)\banswer(?:\s+is\b|\s*[:=])"
_SENTENCE = r"[\s:=]*([^\n]+?)\s*(?:\.\s[\s\S]*|\.?$|\n[\s\S]*)$"
_HASHES = r"^[\s\S]*####[ \t]*([^\n]+)"
_OPERATOR = r"([0-9A-Za-z)\]}])[-−]([$0-9.])"
_UNSIGNED = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_CUT = "\x00"
"""Mark put at the end of a text that its token limit cut off; an answer that contains it was cut off, too."""

_EXPONENT = r"([0-9.][eE])[-−]([0-9])"
_MINUS = "\ufdd0"  # a noncharacter in the place of an exponent's minus, which is no operator
_MARK = "\ufdd1"  # a noncharacter in the place of `answer is`
_LAST_NUMBER = rf"[-−]?\$?(?:{_UNSIGNED})(?:[eE][-+]?[0-9]+|/(?:{_UNSIGNED}))?\s?%?{_CUT}?"
_BOX = re.compile(r"\\(?:boxed|fbox)\s*")
_SPACES = "".join(map(chr, (*range(9, 14), *range(28, 33), 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239,
                           8287, 12288)))  # fmt: skip
"""The characters that Python counts as white space."""
_INSIDE = r"^\{((?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*)\}"  # braces up to three deep
_BARE = rf"^([^{{{_SPACES}$][^{_SPACES}$]*)"
_BRACE = re.compile(r"[{}]")
_WORD = re.compile(r"[^\s$]+")


def read_answers(
    texts: pl.Series, ways: Sequence[str], pattern: str | None = None, cut: pl.Series | None = None
) -> pl.Series:
    """The answers in a column of texts, null where no way finds one. `pattern` is for the way called `pattern`.

    `cut`: whether the token limit cut each text off (Boolean, null for not known); by default it cut none. Raises
    ThinkbackError for an unknown way, a missing or invalid `pattern`.
    """
    if cut is not None:
        ends = pl.when(pl.col("cut").fill_null(False) & ~pl.col("text").str.ends_with("\n"))
        marked = pl.col("text") + ends.then(pl.lit(_CUT)).otherwise(pl.lit(""))
        texts = pl.DataFrame({"text": texts, "cut": cut}).select(marked.alias(texts.name)).to_series()
    answers = pl.Series(texts.name, [None] * len(texts), dtype=pl.String)
    for way in ways:
        if way not in WAYS:
            raise UnknownError(f"unknown way to read an answer `{way}`; {suggest(way, WAYS)}")
        more = _by_pattern(texts, pattern) if way == "pattern" else _READERS[way](texts)
        trimmed = pl.col("more").str.strip_chars()
        whole = pl.lit(True) if cut is None else ~pl.col("more").str.contains(_CUT, literal=True)
        first = pl.coalesce("answers", pl.when(whole & (trimmed != "")).then(trimmed))
        answers = pl.DataFrame({"answers": answers, "more": more}).select(first.alias(texts.name)).to_series()
    return answers


def boxed(text: str) -> str | None:
    """The content of the last LaTeX box in `text` that is closed; None where none is.

    `\\boxed 7`, without braces, gives what comes up to the next white space or dollar sign.
    """
    starts = [match.end() for match in _BOX.finditer(text)]
    closing = _closing_braces(text) if starts else {}
    for start in reversed(starts):
        if text[start : start + 1] == "{":
            inside = text[start + 1 : closing[start]] if start in closing else None
        else:
            word = _WORD.match(text, start)
            inside = word and word.group()
        if inside is not None:
            return inside.strip()
    return None


def _closing_braces(text: str) -> dict[int, int]:
    """The index of the closing brace for each opening brace that is closed, by the opening one's index."""
    places: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            opened.append(brace.start())
        elif opened:
            places[opened.pop()] = brace.start()
    return places


def _boxed_contents(texts: pl.Series) -> pl.Series:
    """The content of the last closed LaTeX box of each text.

    Only texts whose last box does not close, or nests deeply, are read one by one.
    """
    parts = texts.str.replace_all("\\fbox", "\\boxed", literal=True).str.split("\\boxed")
    last = parts.list.last().zip_with(parts.list.len() > 1, pl.Series([None], dtype=pl.String))
    last = last.str.strip_chars_start(_SPACES)
    inner = last.str.extract(_INSIDE, 1)
    inner = inner.zip_with(inner.is_not_null(), last.str.extract(_BARE, 1)).str.strip_chars(_SPACES)
    odd = last.is_not_null() & inner.is_null()
    if not odd.any():
        return inner.alias(texts.name)
    slowly = pl.Series([boxed(text) for text in texts.filter(odd).to_list()], dtype=pl.String)
    return inner.scatter(odd.arg_true(), slowly).alias(texts.name)


def _answer_is(texts: pl.Series) -> pl.Series:
    """What follows the last `answer is` of each text, or an earlier one where nothing follows the last."""
    parts = texts.str.replace_all(_ANSWER, _MARK).str.split(_MARK)
    marked = parts.list.len() > 1
    last = parts.list.last().zip_with(marked, pl.Series([None], dtype=pl.String)).str.extract(f"^{_SENTENCE}", 1)
    odd = marked & last.is_null()
    if not odd.any():
        return last
    return last.scatter(odd.arg_true(), texts.filter(odd).str.extract(rf"^[\s\S]*{_ANSWER}{_SENTENCE}", 1))


def _after_hashes(texts: pl.Series) -> pl.Series:
    """What follows the last `####` of each text, or an earlier one where nothing follows the last."""
    parts = texts.str.split("####")
    marked = parts.list.len() > 1
    last = parts.list.last().zip_with(marked, pl.Series([None], dtype=pl.String))
    last = last.str.strip_chars_start("#").str.extract(r"^[ \t]*([^\n]+)", 1)
    odd = marked & last.is_null()
    return last.scatter(odd.arg_true(), texts.filter(odd).str.extract(_HASHES, 1)) if odd.any() else last


def _last_number(texts: pl.Series) -> pl.Series:
    if texts.str.contains("[０-９]").any():
        texts = texts.str.replace_many(list(map(chr, FULL_WIDTH)), list(FULL_WIDTH.values()))
    # Twice: in `1-2-3` the first pass takes the 2 and so passes over the second minus.
    plain = texts.str.replace_all(_EXPONENT, f"${{1}}{_MINUS}${{2}}")
    apart = plain.str.replace_all(_OPERATOR, "${1} ${2}").str.replace_all(_OPERATOR, "${1} ${2}")
    return apart.str.replace_all(_MINUS, "-", literal=True).str.extract_all(_LAST_NUMBER).list.last()


def _by_pattern(texts: pl.Series, pattern: str | None) -> pl.Series:
    if pattern is None:
        raise RequiredError("reading by `pattern` needs one: set `pattern = 'a regular expression'`")
    plain = texts.cast(pl.String)
    matches = last_matches(plain.str.strip_suffix(_CUT), pattern).with_columns(cut=plain.str.ends_with(_CUT))
    match = pl.when(pl.col("cut") & pl.col("at_end")).then(pl.lit(_CUT)).otherwise("content")
    return matches.select(match.alias(texts.name)).to_series()


_READERS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "boxed": _boxed_contents,
    "answer is": _answer_is,
    "####": _after_hashes,
    "last number": _last_number,
    "last line": lambda texts: texts.str.strip_chars().str.split("\n").list.last(),
    "whole text": lambda texts: texts,
}
WAYS = (*_READERS, "pattern")
