"""Tests ask for codes, places and values. What still has a phrase of the program is listed, and only shrinks."""

from __future__ import annotations

from tests.wording import comparing_tests, phrases, sentences_of_match

MATCHES = {"tests/reference/test_plain.py": 1}
"""`match=` with a phrase: one goes through the reasons that the plain implementation gives, which are its own."""
INPUT = "texts that the test gives, in the words of answers, servers or goals"
NAMES = "names of policies and rows, which are values"
PAGE = "what a browser shows, or an explanation, which is a page of words without codes"
STAY = {
    "tests/answers/test_answers.py::test_ways_of_reading": INPUT,
    "tests/answers/test_answers.py::test_what_reaches_the_end_of_a_text_cut_by_its_limit_is_not_read": INPUT,
    "tests/answers/test_plain_numbers.py::test_reading_never_changes_the_value_of_a_plain_number": INPUT,
    "tests/dashboard/test_browser.py::test_differences_to_a_baseline_of_choice": PAGE,
    "tests/dashboard/test_browser.py::test_the_example_browser_walks": PAGE,
    "tests/dashboard/test_browser.py::test_what_is_unjudged_is_no_fix_and_what_sees_gold_is_not_looked_at_first": PAGE,
    "tests/dashboard/test_hostile.py::test_no_example_and_nothing_that_ranks": PAGE,
    "tests/dashboard/test_hostile.py::test_one_policy": PAGE,
    "tests/engines/test_openai.py::test_a_limit_that_is_too_large_is_no_prompt_that_is_too_long": INPUT,
    "tests/formats/test_named_files.py::test_helms_answers_are_read_from_its_solutions_and_its_verdicts_stay": INPUT,
    "tests/generate/test_claims.py::"
    "test_distances_are_twice_as_far_for_the_small_data_set_but_within_two_sampling_errors": NAMES,
    "tests/replay/test_suite.py::test_a_pool_and_a_verifier": NAMES,
    "tests/replay/test_tune.py::test_bad_input": INPUT,
    "tests/replay/test_tune.py::test_goals_are_read": INPUT,
    "tests/retrieval/test_commands.py::test_commands": NAMES,
    "tests/retrieval/test_commands.py::test_the_suite_has_every_ranking": NAMES,
    "tests/test_toys.py::test_explain_follows_them": PAGE,
}
"""The test functions that have a phrase of the program, and why."""
MOST = 17
"""How many there are: fewer lower it, and nothing raises it."""


def test_no_match_is_a_sentence() -> None:
    assert dict(sentences_of_match()) == MATCHES, "ask for the code and the values: `refuses` of tests/errors.py"


def test_no_other_test_compares_a_sentence() -> None:
    tests = comparing_tests()
    assert sorted(tests - STAY.keys()) == [], "ask for the code, the place and the value: tests/errors.py"
    assert sorted(STAY.keys() - tests) == [], "these compare none now: take them out"
    assert len(STAY) == MOST, "the list only shrinks, and so does its number"


def test_phrases_are_parted_by_what_is_no_word() -> None:
    assert list(phrases("`x` is 3; one two three four")) == [("one", "two", "three"), ("two", "three", "four")]
