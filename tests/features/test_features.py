"""Features by hand, and against independent plain computations."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate.signals import numeric, serving, similarity
from generate.signals.peers import _peers_of, peer_contradiction

# (claim, justification, evidence, coverage of the claim's numbers, grounding of the justification's), by hand
CLAIMS = [
    # 80 is there; the justification's 80 and 2016 are both in the evidence
    ("Newark pays 80% by taxes", "80 percent in 2016", "In 2016 it paid 80 percent.", 1.0, 1.0),
    # 1,000 = 1000; 12.50 = 12.5
    ("It cost $1,000 and 12.50", "1000 dollars, then 12.5", "It cost 1,000.00", 1.0, 1 / 2),
    # 5 million = 5,000,000
    ("5 million people", "about 5,000,000 people", "There were 5.0 million.", 1.0, 1.0),
    # no number in the claim: nothing is missing; 3 and 4 are not in the evidence
    ("Many people came", "3 or 4 came", "People came.", 1.0, 0.0),
    # one of the claim's two numbers; no number in the justification is made up
    ("From 10 to 20", "It rose from 10.", "It was 10.", 1 / 2, 1.0),
    # none of them; the justification has none
    ("It was 7 in 1999", "That is wrong.", "It was 8 in 1998.", 0.0, 1.0),
    # a number counts once however often it comes: {3, 5}, of which 3; {3}, which is there
    ("3 of 3 and 5", "3, 3, 3", "3", 1 / 2, 1.0),
    # a minus, a hyphen and a unit don't count: {2010, 2015, 5}; the 5 is missing; {2010, 2015} are there
    ("-5C in 2010-2015", "2010 to 2015", "2010, 2015", 2 / 3, 1.0),
    # no evidence at all: nothing is grounded
    ("800,000 jobs", "800,000 jobs, not 1.5 thousand", "", 1.0, 0.0),
    # 1.5 thousand = 1500; 2 billion is not 2
    ("1.5 thousand and 2 billion", "1500 and 2", "2 billion, 1,500", 1 / 2, 1 / 2),
]


@pytest.mark.parametrize(("claim", "text", "evidence", "coverage", "grounding"), CLAIMS)
def test_numbers_of_ten_claims(claim: str, text: str, evidence: str, coverage: float, grounding: float) -> None:
    def one(value: str) -> pl.Series:
        return pl.Series([value])

    assert numeric.claim_numeric_coverage(one(claim), one(text))[0] == pytest.approx(coverage)
    assert numeric.evidence_numeric_grounding(one(text), one(evidence))[0] == pytest.approx(grounding)


def test_numbers_of_all_claims_at_once_and_of_nulls() -> None:
    claims, texts = (pl.Series([row[i] for row in CLAIMS]) for i in (0, 1))
    assert numeric.claim_numeric_coverage(claims, texts).to_list() == pytest.approx([row[3] for row in CLAIMS])
    assert numeric.numbers_in(pl.Series([None, "1 1.0 1"], dtype=pl.String)).to_list() == [None, [1.0]]
    assert numeric.relative_justification_length(pl.Series(["", "a b", "a " * 300]), 200).to_list() == [0, 2 / 200, 1]


VECTORS = {"up": [1.0, 0.0], "right": [0.0, 2.0], "between": [3.0, 3.0], "down": [-1.0, 0.0]}


class Letters:
    """An encoder of four words; it takes no text longer than `limit` characters."""

    def __init__(self, limit: int = 100):
        self.limit, self.asked = limit, 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += len(texts)
        return np.array([VECTORS[text.split()[0]] for text in texts])

    def fits(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text) <= self.limit for text in texts])

    def describe(self) -> dict[str, object]:
        return {"model": "letters"}


def test_digits_of_other_scripts_and_endless_numbers_are_no_error() -> None:
    found = numeric.numbers_in(pl.Series(["in २०२४ it was ५ million", "9" * 400 + " and 3"]))
    assert found[0].to_list() == []
    assert found[1].to_list()[-1] == 3
    assert serving.answer_format(pl.Series(["५"]), pl.Series([None], dtype=pl.List(pl.String))).to_list() == [4]


def test_a_cosine_is_that_of_the_vectors() -> None:
    encoder = Letters()
    rows = similarity.embed_texts(["up", "between", "up", "right"], encoder)
    assert encoder.asked == 3, "a text that comes twice is embedded once"
    got = similarity.claim_similarity(rows[:2], rows[2:])
    assert got.tolist() == pytest.approx([1.0, 1 / np.sqrt(2)])
    # two passages for the first trace, none for the second: the higher cosine; none
    best = similarity.evidence_similarity(rows[[3, 1]], np.array([2, 0]), rows[[0, 0]])
    assert best[0] == pytest.approx(1 / np.sqrt(2))
    assert np.isnan(best[1])


def test_what_the_encoder_does_not_take_whole_has_no_embedding_and_passages_are_halved() -> None:
    encoder = Letters(12)
    assert np.isnan(similarity.embed_texts(["up up up up up up", "up"], encoder)).all(axis=1).tolist() == [True, False]
    assert similarity.encoder_chunks(["up", "up right down between"], encoder) == [["up"], ["up right", "down between"]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.booleans(), st.integers(0, 99))
def test_peers_are_those_of_a_plain_loop(sizes: list[int], earlier: bool, seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.random.default_rng(seed).normal(size=(len(groups), 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    plain = []
    for i, group in enumerate(groups):
        peers = [j for j in range(len(groups)) if groups[j] == group and j != i and (j < i or not earlier)]
        plain.append(np.mean([rows[i] @ rows[j] for j in peers]) if peers else 1.0)
        assert _peers_of(groups.tolist(), earlier, None)[i] == peers
    np.testing.assert_allclose(similarity.peer_similarity(rows, groups, earlier), plain, atol=1e-12)


def test_a_text_without_an_embedding_is_nobodys_peer() -> None:
    rows = np.array([[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]])
    got = similarity.peer_similarity(rows, np.zeros(3, dtype=int), earlier=False)
    assert got[[0, 2]].tolist() == [0, 0]
    assert np.isnan(got[1])


def test_contradiction_is_the_mean_over_peers_and_zero_without() -> None:
    assert peer_contradiction(np.array([0.2, 0.6, 0.9]), np.array([2, 0, 1])).tolist() == pytest.approx([0.4, 0, 0.9])
    assert _peers_of([0, 0, 0, 0, 1], False, 2) == [[1, 2], [0, 2], [1, 3], [1, 2], []]


def test_serving_visible_features_by_hand() -> None:
    asks = "Find the sum of 3 distinct positive integers, each less than 10. Then halve it."
    questions = pl.Series([asks, "Who wrote it?", None], dtype=pl.String)
    words = 15
    assert len(re.findall(r"\S+", asks)) == words
    # words/100, two numbers over 10, no operators, over 3
    assert serving.difficulty(questions).to_list() == pytest.approx([(words / 100 + 2 / 10) / 3, 3 / 100 / 3, None])
    # it asks to find, has 2 numbers and constraints; ". ", "Then" and the last "." are three cues of sequence
    assert serving.verification_need(questions).to_list() == pytest.approx([1, 0, None])
    # distinct, positive, integers, each, less than: five constraints in 15 words, five times over
    assert serving.constraint_density(questions).to_list() == pytest.approx([min(1, 5 * 5 / words), 0, None])
    answers = pl.Series([None, "1,200", "3/4", "Refutes", "Paris"], dtype=pl.String)
    labels = pl.Series([None, None, None, ["Supports", "Refutes"], None], dtype=pl.List(pl.String))
    assert serving.answer_format(answers, labels).to_list() == [0, 1, 2, 3, 4]
    assert serving.answer_length(answers).to_list() == [0, 5, 3, 7, 5]
    texts = pl.Series(["a 1\n\n b 1 2\n", "", None])
    assert serving.response_lines(texts).to_list() == [2, 0, None]
    assert serving.response_words(texts).to_list() == [5, 0, None]
    assert serving.response_numbers(texts).to_list() == [2, 0, None]
