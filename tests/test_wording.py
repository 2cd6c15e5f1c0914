"""Tests ask for codes, places and values. What still has a phrase of the program is listed, and only shrinks."""

from __future__ import annotations

import pytest

from tests.house import parsed
from tests.wording import _module, _texts, bare_refusals, comparing_tests, functions_of, phrases, sentences_of_match

MATCHES = {"tests/reference/test_plain.py": 1}
"""`match=` with a phrase: one goes through the reasons that the plain implementation gives, which are its own."""
INPUT = "texts that the test gives, in the words of answers, servers or goals"
NAMES = "names of policies and rows, which are values"
ROWS = "names of rows in a study's CSV files, such as the questions of its verdicts, which have no other"
COMMAND = "commands and SQL, which the test runs or a user copies"
TRUTH = "reads each finding of a report for its numbers, and holds these to what the files were made of"
PAGE = "what a browser shows, or an explanation, which is a page of words without codes"
STAY = {
    "tests/answers/test_answers.py::test_ways_of_reading": INPUT,
    "tests/answers/test_answers.py::test_what_reaches_the_end_of_a_text_cut_by_its_limit_is_not_read": INPUT,
    "tests/answers/test_plain_numbers.py::test_reading_never_changes_the_value_of_a_plain_number": INPUT,
    "tests/cli/test_cures.py::test_a_file_in_the_place_of_a_log": COMMAND,
    "tests/cli/test_report_truth.py::test_a_sentence_that_is_wrong_fails": TRUTH,
    "tests/dashboard/test_browser.py::test_a_missing_folder_of_texts_is_said": PAGE,
    "tests/dashboard/test_browser.py::test_all_is_reached_by_keyboard_and_texts_are_loaded_one_file_at_a_time": PAGE,
    "tests/dashboard/test_browser.py::test_differences_to_a_baseline_of_choice": PAGE,
    "tests/dashboard/test_browser.py::test_rows_of_charts_stand_for_all_policies": PAGE,
    "tests/dashboard/test_browser.py::test_several_results_stand_side_by_side": PAGE,
    "tests/dashboard/test_browser.py::test_the_example_browser_walks": PAGE,
    "tests/dashboard/test_browser.py::test_what_is_unjudged_is_no_fix_and_what_sees_gold_is_not_looked_at_first": PAGE,
    "tests/dashboard/test_hostile.py::test_a_thousand_policies": PAGE,
    "tests/dashboard/test_hostile.py::test_no_example_and_nothing_that_ranks": PAGE,
    "tests/dashboard/test_hostile.py::test_one_policy": PAGE,
    "tests/dashboard/test_print_and_play.py::test_traces_of_one_request_are_joined": PAGE,
    "tests/dashboard/test_two_results.py::test_differences_and_changes_of_two_models": PAGE,
    "tests/engines/test_openai.py::test_a_limit_that_is_too_large_is_no_prompt_that_is_too_long": INPUT,
    "tests/features/test_features.py::test_serving_visible_features_by_hand": INPUT,
    "tests/formats/test_lm_eval.py::test_a_letter_is_read_as_one_where_the_target_is_one": INPUT,
    "tests/formats/test_named_files.py::test_helms_answers_are_read_from_its_solutions_and_its_verdicts_stay": INPUT,
    "tests/generate/test_claims.py::"
    "test_distances_are_twice_as_far_for_the_small_data_set_but_within_two_sampling_errors": NAMES,
    "tests/generate/test_steps.py::test_a_guess_in_thoughts_is_no_answer_finished_or_not": INPUT,
    "tests/imports/test_many_files.py::test_files_as_csv_writers_leave_them_are_read_as_one": INPUT,
    "tests/imports/test_mapping_language.py::test_a_text_is_no_number_and_no_time_by_itself": COMMAND,
    "tests/replay/test_positions.py::test_a_report_of_guesses_compares_with_whole_questions": NAMES,
    "tests/replay/test_suite.py::test_a_pool_and_a_verifier": NAMES,
    "tests/replay/test_suite.py::test_a_pool_that_cannot_be_cut_short_is_taken_whole": NAMES,
    "tests/replay/test_tune.py::test_bad_input": INPUT,
    "tests/replay/test_tune.py::test_goals_are_read": INPUT,
    "tests/retrieval/test_commands.py::test_commands": NAMES,
    "tests/retrieval/test_commands.py::test_the_suite_has_every_ranking": NAMES,
    "tests/studies/test_buzz.py::test_what_needs_what_a_log_lacks_says_so_and_the_rest_is_as_it_was": ROWS,
    "tests/studies/test_buzz.py::test_without_dev_people_hops_and_confidences_the_rest_is_written": ROWS,
    "tests/studies/test_buzz_by_hand.py::test_ties_on_dev_are_counted": ROWS,
    "tests/studies/test_buzz_by_hand.py::test_verdicts_on_texts_are_beaten_where_all_are": ROWS,
    "tests/studies/test_buzz_by_hand.py::"
    "test_verdicts_on_texts_are_counted_and_timed_as_the_system_is_beside_them": ROWS,
    "tests/studies/test_buzz_by_hand.py::test_without_dev_gains_on_dense_texts_are_over_each_baseline": ROWS,
    "tests/studies/test_buzz_derived.py::test_verdicts_rest_on_these_differences": ROWS,
    "tests/studies/test_buzz_planted.py::"
    "test_a_hasty_system_gains_by_a_threshold_and_confidences_are_off_where_planted": ROWS,
    "tests/studies/test_buzz_planted.py::test_a_system_that_is_quicker_than_people_acts_sooner": ROWS,
    "tests/studies/test_buzz_planted.py::test_planted_effects_get_their_verdicts": ROWS,
    "tests/studies/test_buzz_planted.py::test_the_rules_that_are_planted_as_best_are_chosen_and_beat_the_papers": ROWS,
    "tests/studies/test_buzz_planted.py::test_what_changes_nothing_is_seldom_decided": ROWS,
    "tests/studies/test_buzz_runs.py::test_what_differs_in_no_row_is_not_asked": ROWS,
    "tests/studies/test_multihop.py::test_a_verifier_fixes_and_spoils_what_a_plain_loop_says": ROWS,
    "tests/studies/test_multihop.py::test_planted_effects_get_their_verdicts_and_nulls_none": ROWS,
    "tests/studies/test_multihop.py::test_rankings_are_those_of_a_plain_loop": ROWS,
    "tests/studies/test_multihop_by_hand.py::test_cases_are_the_first_questions_of_their_rules": ROWS,
    "tests/studies/test_multihop_by_hand.py::test_errors_by_every_rule": ROWS,
    "tests/studies/test_multihop_by_hand.py::test_the_two_explorations_are_ranked_alike": ROWS,
    "tests/studies/test_verdicts.py::test_the_study_answers_the_questions_of_the_thesis": ROWS,
    "tests/tasks/test_claims.py::test_labels_follow_from_the_words": INPUT,
    "tests/test_toys.py::test_explain_follows_them": PAGE,
}
"""The test functions that have a phrase of the program, and why."""
MOST = 54
"""How many there are: fewer lower it, and nothing raises it."""


def test_no_match_is_a_sentence() -> None:
    assert dict(sentences_of_match()) == MATCHES, "ask for the code and the values: `refuses` of tests/errors.py"


def test_a_refusal_asks_for_the_place_or_the_value_too() -> None:
    assert bare_refusals() == []


def test_no_other_test_compares_a_sentence() -> None:
    tests = comparing_tests()
    assert sorted(tests - STAY.keys()) == [], "ask for the code, the place and the value: tests/errors.py"
    assert sorted(STAY.keys() - tests) == [], "these compare none now: take them out"
    assert len(STAY) == MOST, "the list only shrinks, and so does its number"


def test_phrases_are_parted_by_what_is_no_word() -> None:
    assert list(phrases("`x` is 3; one two three four")) == [("one", "two", "three"), ("two", "three", "four")]


@pytest.mark.parametrize(
    "source",
    [
        "def test_it(): assert line == 'a b c'",
        "def test_it():\n    text = f'a b c{1}'\n    assert line == text",
        "TEXT = ('a b c', 1)\ndef test_it(): assert line == TEXT[0]",
        "def test_it(): noted(notes, 'code', 'a b c')",
        "def test_it():\n    texts = [f'a b c' for _ in x]\n    assert lines == texts",
        "def test_it():\n    for text in ('a b c',):\n        with refuses('code', text): pass",
        "def check(line, text): assert text in line\ndef test_it(): check(line, 'a b c')",
        "def check(line): assert 'a b c' in line\ndef test_it(): check(line)",
    ],
)
def test_names_and_functions_are_followed(source: str) -> None:
    tree = parsed(source)
    texts = [text for test in functions_of(tree) for text in _texts(test, _module(tree))]
    assert any("a b c" in text for text in texts)


def test_inputs_are_no_texts_that_are_compared() -> None:
    tree = parsed("def test_it():\n    line = read('a b c')\n    assert line == 3")
    assert "a b c" not in {text for test in functions_of(tree) for text in _texts(test, _module(tree))}
