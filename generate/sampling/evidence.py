"""Evidence: passages ranked by similarity to the question, cut to the top k above a floor that gives way.

A claim without evidence can't be judged, so where fewer than k passages reach the floor the best k are taken all the
same, and the log says that the floor was relaxed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from generate.passes.embedding import Embedder, unit_rows
from generate.recipes.recipe import EvidenceSettings


@dataclass(frozen=True)
class ChosenEvidence:
    """The passages of one example, best first: their places among the candidates, cosines, and whether relaxed."""

    places: tuple[int, ...]
    similarities: tuple[float, ...]
    relaxed: bool


def choose_evidence(similarities: np.ndarray, rule: EvidenceSettings) -> ChosenEvidence:
    """(n,) cosines of an example's candidates -> the chosen ones; ties go to the earlier candidate."""
    order = np.argsort(-similarities, kind="stable")[: rule.top]
    passing = int((similarities >= rule.floor).sum())
    return ChosenEvidence(
        places=tuple(int(place) for place in order),
        similarities=tuple(float(similarities[place]) for place in order),
        relaxed=passing < len(order),
    )


def rank_evidence(
    questions: Sequence[str], candidates: Sequence[Sequence[str]], rule: EvidenceSettings, embedder: Embedder
) -> list[ChosenEvidence]:
    """The chosen passages of each example. A passage that several examples share is embedded once."""
    texts = list(dict.fromkeys([*questions, *(text for passages in candidates for text in passages)]))
    place = {text: i for i, text in enumerate(texts)}
    rows = unit_rows(embedder, texts)
    chosen = []
    for question, passages in zip(questions, candidates, strict=True):
        mine = rows[[place[text] for text in passages]] if passages else np.zeros((0, rows.shape[1]))
        chosen.append(choose_evidence(mine @ rows[place[question]], rule))
    return chosen
