"""Mistakes of a first policy file: each is one line that says what was meant."""

from __future__ import annotations

import pytest

import thinkback as tb
from toolkit.errors import counted, nearest, suggest

ONE = '[[policy]]\nname = "vote"\nkind = "sample"\nmax_traces = 3\nselect = "majority"\n'
MISTAKES = {
    "the plural": (ONE.replace("policy", "policies"), r"`\[\[policies\]\]` is no table of a .*`\[\[policy\]\]`"),
    "another key": (f'measures = "credit"\n{ONE}', "unknown key `measures`; did you mean `measure`?"),
    "a far-fetched key": (f"verbose = true\n{ONE}", "unknown key `verbose`; there are: `measure`, `policy`, `prices`"),
    "no rule": (f"{ONE}stop = {{ margin = 0.1 }}\n", "`stop` has no `rule`; it takes a table such as"),
    "a misspelt rule": (f'{ONE}stop = {{ rul = "margin" }}\n', "unknown key `rul` of `stop`; did you mean `rule`?"),
    "a rule that is no name": (f"{ONE}stop = {{ rule = 3 }}\n", "`stop.rule` is 3; it takes the name of a rule"),
    "a number as a stop": (f"{ONE}stop = 3\n", "`stop` is 3; it takes one of .*, a table such as"),
    "an unknown rule": (f'{ONE}stop = "margins"\n', "unknown stopping rule `margins`; did you mean `margin`?"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_was_meant(mistake: str) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(tb.ThinkbackError, match=message) as error:
        tb.load_policies(text)
    assert "\n" not in str(error.value)


def test_far_fetched_names_are_not_suggested() -> None:
    assert nearest("marign", ["margin", "budget"]) == "margin"
    assert nearest("Accuracy", ["accuracy", "recall"]) == "accuracy"
    assert nearest("n4", ["n3", "n16"]) == "n3"
    assert nearest("algebra", ["claims", "algebra_linear_1d"]) == "algebra_linear_1d"
    assert nearest("verbose", ["margin", "verifier", "prices"]) is None
    assert suggest("budget", ["majority", "greedy"]) == "there are: `greedy`, `majority`"


@pytest.mark.parametrize(("number", "said"), [(1, "1 trace"), (0, "0 traces"), (1_000, "1,000 traces")])
def test_one_is_not_several(number: int, said: str) -> None:
    assert counted(number, "trace") == said
    assert counted(2, "class", "classes") == "2 classes"
