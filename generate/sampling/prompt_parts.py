"""What goes into prompts by similarity: passages of evidence, and few-shot examples.

Passages are ranked by similarity to the question, cut to the top k above a floor that gives way: a claim without
evidence can't be judged, so where fewer than k passages reach the floor the best k are taken all the same, and the log
says that the floor was relaxed.

Few-shot examples are fixed ones, or those of a disjoint pool that are most like the question. An example of the pool
that is among the data, by its id or by its question (case and white space apart), is left out and counted: a prompt
must not hold the answer to its own question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from generate.passes.embedding import Embedder, unit_rows
from generate.recipes.prompting import Template, field_texts
from generate.recipes.recipe import EvidenceSettings, FewShotSettings
from toolkit.errors import ThinkbackError, suggest


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


@dataclass(frozen=True)
class FewShotPool:
    """The worked examples to choose from, rendered; `excluded` were among the data."""

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    texts: tuple[str, ...]
    excluded: int


def make_pool(worked: pl.DataFrame, data: pl.DataFrame, rule: FewShotSettings, template: Template) -> FewShotPool:
    """The pool without the data's own examples. ThinkbackError where fewer than `k` are left, or an id is unknown."""
    if template.chat:
        raise ThinkbackError(f"prompt `{template.name}` renders one few-shot example: it can't hold messages")
    ids, questions = set(data["example_id"]), {_folded(question) for question in data["question"]}
    rows = worked.to_dicts()
    kept = [row for row in rows if row["example_id"] not in ids and _folded(row["question"]) not in questions]
    excluded = len(rows) - len(kept)
    if rule.ids:
        by_id = {row["example_id"]: row for row in kept}
        for wanted in rule.ids:
            if wanted not in by_id:
                raise ThinkbackError(f"`few_shot.ids`: `{wanted}` is not in the pool; {suggest(wanted, by_id)}")
        kept = [by_id[wanted] for wanted in rule.ids]
    if len(kept) < rule.k:
        raise ThinkbackError(
            f"`few_shot.k` is {rule.k}, but the pool has {len(kept)} examples ({excluded} are in the data)"
        )
    if kept:
        template.check(field_texts(kept[0]))
    texts = tuple(str(template.render(field_texts(row))) for row in kept)
    names, asked = (tuple(row[name] for row in kept) for name in ("example_id", "question"))
    return FewShotPool(names, asked, texts, excluded)


def choose_few_shot(
    questions: Sequence[str],
    pool: FewShotPool,
    rule: FewShotSettings,
    embedder: Embedder | None,
    rows: np.ndarray | None = None,
) -> list[tuple[int, ...]]:
    """Places in the pool for each question: nearest first; ties go to the earlier one. `rows`: the pool's rows."""
    if rule.choose == "fixed" or embedder is None:
        return [tuple(range(rule.k))] * len(questions)
    rows = embed_pool(pool, embedder) if rows is None else rows  # (P, d)
    cosines = unit_rows(embedder, questions) @ rows.T  # (n, P)
    return [tuple(int(i) for i in np.argsort(-line, kind="stable")[: rule.k]) for line in cosines]


def embed_pool(pool: FewShotPool, embedder: Embedder) -> np.ndarray:
    """(P, d): the pool's questions, embedded once for a whole run."""
    return unit_rows(embedder, pool.questions)


def few_shot_text(places: Sequence[int], pool: FewShotPool, rule: FewShotSettings) -> str:
    """The worked examples as they stand in the prompt, nearest first."""
    return rule.separator.join(pool.texts[place] for place in places)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
