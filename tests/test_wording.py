"""Tests ask for codes, places and values. What still compares a sentence is counted, and only shrinks."""

from __future__ import annotations

from tests.wording import comparing_tests, phrases, sentences_of_match

MATCHES = {"tests/reference/test_plain.py": 1}
"""`match=` with a phrase: one goes through the reasons that the plain implementation gives, which are its own."""
MOST = 200
"""Test functions that compare a sentence of the program: of pages, tables and notes. Lowered, never raised."""


def test_no_match_is_a_sentence() -> None:
    assert dict(sentences_of_match()) == MATCHES, "ask for the code and the values: `refuses` of tests/errors.py"


def test_sentences_are_compared_in_fewer_tests_than_before() -> None:
    counts = comparing_tests()
    assert counts.total() <= MOST, dict(counts.most_common(8))


def test_phrases_are_parted_by_what_is_no_word() -> None:
    assert list(phrases("`x` is 3; it takes a number")) == [("it", "takes", "a"), ("takes", "a", "number")]
