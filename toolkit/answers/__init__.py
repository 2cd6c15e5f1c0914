"""Answers: read them out of a text, bring them into one normal form, judge them against a reference.

Two answers are the same vote exactly when their normal forms are equal strings. An empty answer counts as no answer:
null.
"""

from toolkit.answers.forms import KINDS, normalise
from toolkit.answers.judging import CREDIT, JUDGES, MEASURES, judge, measure_answers
from toolkit.answers.numbers import number_form
from toolkit.answers.patterns import check_pattern, last_matches
from toolkit.answers.reading import WAYS, boxed, read_answers

__all__ = [
    "CREDIT", "JUDGES", "KINDS", "MEASURES", "WAYS", "boxed", "check_pattern", "judge", "last_matches",
    "measure_answers", "normalise", "number_form", "read_answers",
]  # fmt: skip
