"""The file of sentences is that of the code."""

from __future__ import annotations

import ast

import pytest

from tests.sentences import CODE, GOLDEN, _Page, _script_texts, sentences, template


def test_the_file_has_every_sentence() -> None:
    assert GOLDEN.read_text(encoding="utf-8") == sentences(), "run `make sentences`, and read its diff"


@pytest.mark.parametrize(
    ("source", "text"),
    [("'a b'", "a b"), ("f'a {x + 1:.3f} b'", "a {…} b"), ("'a ' + f'{y}'", "a {…}"), ("a + 'b'", None)],
)
def test_a_template_has_places_for_values(source: str, text: str | None) -> None:
    assert template(ast.parse(source, mode="eval").body) == text


def test_strings_of_scripts_are_read_with_those_inside_templates() -> None:
    source = """// a comment's "words"
    const pattern = /["'`]/g, one = "a \\"b\\"", two = 'c', three = `d ${n} e ${yes ? `f ${n}` : "g"}`; /* "h" */"""
    assert list(_script_texts(source)) == ['a \\"b\\"', "c", "d {…} e {…}", "f {…}", "g"]


def test_of_a_page_what_is_shown_and_what_its_scripts_say() -> None:
    page = '<p title="a b" class="c">d <b>e</b></p><style>f</style><script>g("h")</script>'
    assert _Page(page).texts == ["a b", "d ", "e", "h"]


@pytest.mark.parametrize("text", ["SELECT * FROM {…}", r"\bbest of (\d+)", "({…}) AND dataset = '{…}'"])
def test_what_only_a_program_reads_is_no_sentence(text: str) -> None:
    assert CODE.search(text)
    assert not CODE.search(f"write `SELECT`: `\\boxed{text[0]}` stands (see {text[0]})")
