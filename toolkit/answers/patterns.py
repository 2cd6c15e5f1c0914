"""Regular expressions of users, run in linear time.

A pattern has Python's syntax. Polars (Rust's `regex`) runs it and never goes back over a text, so no pattern can hang a
run; look-around, back-references and possessive repeats are refused. Where the two engines read a sign differently, the
pattern is rewritten.
"""

from __future__ import annotations

import re
import warnings

import polars as pl

from toolkit.errors import InvalidError, ThinkbackError, quote

_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|\{(?:\d+(?:,\d*)?|,\d*)\}\+?|[*+?]\+|.", re.DOTALL)
_OTHERWISE = {r"\Z": r"\z", r"\<": "<", r"\>": ">", "{": r"\{"}
_IN_CLASS = re.compile(r"\\.|[\[&~]", re.DOTALL)
_POSSESSIVE = re.compile(r"(?:[*+?]|\{.+\})\+")
_MULTILINE = re.compile(r"\(\?[a-zA-Z]*m")
_LAST_LINE_END = r"(?:\n?\z)"  # `$` of Python also stands before a line feed at the very end

# Noncharacters, which no text has any use for, mark where a match and its group lie.
_BEGIN, _GROUP_END, _END = "\ufdd0", "\ufdd1", "\ufdd2"


def check_pattern(pattern: str) -> int:
    """The number of groups of a pattern. Raises ThinkbackError where it is no regular expression, or cannot run in
    linear time.
    """
    return _polars_pattern(pattern)[1]


def last_matches(texts: pl.Series, pattern: str) -> pl.DataFrame:
    """The last match in each text: its first group (the whole without groups) as `content`, and whether it is `at_end`.

    `content` is null without a match, and empty where the match does not use the group. `at_end`: nothing follows the
    group. Raises ThinkbackError as `check_pattern` does.
    """
    spelled, groups = _polars_pattern(pattern)
    marks = f"{_BEGIN}${{{min(groups, 1)}}}{_GROUP_END}${{0}}{_END}"
    plain = texts.cast(pl.String).str.replace_all(f"[{_BEGIN}-{_END}]", "")
    marked = plain.str.replace_all(spelled, marks)
    last = pl.col("marked").str.split(_BEGIN).list.last()
    parts = pl.when(pl.col("marked").str.contains(_BEGIN, literal=True)).then(last).str.split(_GROUP_END)
    frame = pl.DataFrame({"marked": marked}).select(content=parts.list.first(), behind=parts.list.last())
    # what stands behind the group's end: the whole match, its end, the rest of the text
    match = pl.col("behind").str.strip_suffix(_END)
    at_end = pl.col("behind").str.ends_with(_END) & match.str.ends_with(pl.col("content"))
    return frame.select("content", at_end=at_end.fill_null(False))


def _polars_pattern(pattern: str) -> tuple[str, int]:
    """The pattern in polars' syntax, and its number of groups."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # signs that Python may read otherwise one day
            groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as error:
        reason = str(error) or "it is nested too deeply"
        raise InvalidError(f"`pattern` is not a regular expression: {reason} in {quote(pattern)}") from None
    spelled = _pattern_text(pattern)
    try:
        pl.Series([""]).str.contains(spelled)
    except pl.exceptions.PolarsError as error:
        lines = [line for line in str(error).splitlines() if line.startswith("error:")]
        raise _refuse_pattern(
            pattern, lines[-1].removeprefix("error:").strip() if lines else "it is too large"
        ) from None
    return spelled, groups


def _pattern_text(pattern: str) -> str:
    lines = _MULTILINE.search(pattern) is not None
    parts = []
    for token in _TOKENS.findall(pattern):
        if _POSSESSIVE.fullmatch(token):
            raise _refuse_pattern(pattern, f"`{token}` repeats possessively")
        if token == "$" and not lines:
            parts.append(_LAST_LINE_END)
        elif token.startswith("[") and len(token) > 1:
            inside = _IN_CLASS.sub(lambda sign: sign[0] if len(sign[0]) > 1 else f"\\{sign[0]}", token[1:])
            parts.append(f"[{inside}")
        elif token.startswith("{,"):
            parts.append(f"{{0{token[1:]}")
        else:
            parts.append(_OTHERWISE.get(token, token))
    return "".join(parts)


def _refuse_pattern(pattern: str, why: str) -> ThinkbackError:
    return InvalidError(
        f"`pattern` {quote(pattern)} can't be run in linear time ({why}): write it without look-around, "
        "back-references, conditions and possessive repeats"
    )
