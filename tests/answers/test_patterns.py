"""A user's own patterns and boxes: read as Python would read them, in linear time."""

from __future__ import annotations

import re
import time
from collections import deque

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import refuses
from toolkit.answers import boxed, check_pattern, read_answers

PIECES = ("<a>", "</a>", "1", "22", "label: x", "**", "Final answer: ", "\n", " ", "a", "{", "}", "x{", "[", "&", "$")
PATTERNS = (
    "<a>(.*?)</a>", "<a>", r"(?i)\[?label\]?\**\s*:\s*\**\s*\[?\"?([a-z]+)", r"(\d+)$", r"(?m)^(\w+)$", r"[a[](\d)",
    r"(?i)final answer\**\s*:\s*\**\s*([^\n]*[^\s.*])", r"x{(\d+)}", "(1|2)?a", r"\<a\>(\d)", r"(\d+)\Z",
    r"(?P<n>\d+)\s*$", "2{1,}(a)", "2{,2}(a)", r"[]a](.)", r"\b(\w+)\b", "([a&]+)",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.sampled_from(PATTERNS))
def test_patterns_read_what_python_would(text: str, pattern: str) -> None:
    found = deque(re.compile(pattern).finditer(text), maxlen=1)
    wanted = (found[0].group(min(1, found[0].re.groups)) or "").strip() if found else ""
    assert read_answers(pl.Series([text]), ["pattern"], pattern).to_list() == [wanted or None]


@pytest.mark.parametrize("pattern", ["(?<=a)b", "a(?!b)", r"(a)\1", "a*+b", "a{2}+b", "(?>a)b", "(a)(?(1)b|c)"])
def test_what_takes_more_than_linear_time_is_refused(pattern: str) -> None:
    with refuses("invalid", "`pattern`"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "[b-a]", "(" * 3000 + ")" * 3000])
def test_what_is_no_pattern_is_one_short_line(pattern: str) -> None:
    with refuses("invalid", "`pattern`") as caught:
        check_pattern(pattern)
    assert len(str(caught.value)) < 300


def test_a_pattern_that_would_go_back_for_ever_ends_at_once() -> None:
    start = time.process_time()
    assert read_answers(pl.Series(["a" * 41]), ["pattern"], "(a+)+$x?b").to_list() == [None]
    assert time.process_time() - start < 5


def plainly_boxed(text: str) -> str | None:
    """The definition, brace by brace from each box."""
    for start in reversed([match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*", text)]):
        if text[start : start + 1] != "{":
            word = re.compile(r"[^\s$]+").match(text, start)
            if word:
                return word.group().strip()
            continue
        depth = 0
        for place in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                return text[start + 1 : place].strip()
    return None


BOXES = ("\\boxed", "\\fbox", "{", "}", " ", "$", "a", "\\frac{1}{2}", "\\", "\n")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(BOXES), max_size=16).map("".join))
def test_boxes_by_their_definition(text: str) -> None:
    assert boxed(text) == plainly_boxed(text)


def test_boxes_that_never_close_take_no_time() -> None:
    start = time.process_time()
    assert boxed("\\boxed{" * 50_000) is None
    assert time.process_time() - start < 5
