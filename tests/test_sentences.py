"""The file of sentences is that of the code."""

from __future__ import annotations

import ast

import pytest

from tests.sentences import GOLDEN, sentences, template


def test_the_file_has_every_sentence() -> None:
    assert GOLDEN.read_text(encoding="utf-8") == sentences(), "run `make sentences`, and read its diff"


@pytest.mark.parametrize(
    ("source", "text"),
    [("'a b'", "a b"), ("f'a {x + 1:.3f} b'", "a {…} b"), ("'a ' + f'{y}'", "a {…}"), ("a + 'b'", None)],
)
def test_a_template_has_places_for_values(source: str, text: str | None) -> None:
    assert template(ast.parse(source, mode="eval").body) == text
