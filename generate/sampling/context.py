"""What goes into the prompts of a block of examples: their columns, chosen evidence and few-shot examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from generate.engines.base import Prompt
from generate.passes.embedding import Embedder, MeanPooling
from generate.recipes.prompting import field_texts, text_of
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling.prompt_parts import FewShotPool, choose_few_shot, embed_pool, few_shot_text, rank_evidence
from toolkit.errors import ThinkbackError

EVIDENCE = "evidence"
ATTEMPT_FIELDS = ("attempt", "answer", "prompt")


@dataclass(frozen=True)
class Prepared:
    """One example, ready to be asked about: its fields, and the further columns that it gets in the log."""

    example_id: str
    fields: dict[str, str]
    columns: dict[str, Any]


@dataclass
class Context:
    """Prepares examples. The embedder is opened when it is first needed, the few-shot pool embedded once."""

    recipe: Recipe
    examples: pl.DataFrame
    pool: FewShotPool | None = None
    opened: Embedder | None = None
    _rows: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.recipe.evidence is not None and EVIDENCE not in self.examples.columns:
            raise ThinkbackError("`[evidence]` ranks the column `evidence` of the examples, and they have none")
        check_prompts(self.recipe, self.examples.columns)

    def embedder(self) -> Embedder:
        """The embedder given, else the recipe's."""
        if self.opened is None:
            assert self.recipe.embedding is not None  # the recipe was checked
            self.opened = MeanPooling(self.recipe.find(self.recipe.embedding.model))
        return self.opened

    def prepare(self, rows: pl.DataFrame) -> list[Prepared]:
        """The examples of a block, with their evidence ranked and their few-shot examples chosen."""
        listed = rows.to_dicts()
        columns: list[dict[str, Any]] = [{} for _ in listed]
        questions = [row["question"] for row in listed]
        self._choose_evidence(listed, questions, columns)
        fields = [field_texts(row) for row in listed]
        rule, pool = self.recipe.few_shot, self.pool
        if rule is not None and pool is not None:
            similar = rule.choose == "similar"
            if similar and self._rows is None:
                self._rows = embed_pool(pool, self.embedder())
            chosen = choose_few_shot(questions, pool, rule, self.embedder() if similar else None, self._rows)
            for texts, more, places in zip(fields, columns, chosen, strict=True):
                texts["examples"] = few_shot_text(places, pool, rule)
                more["few_shot"] = [pool.ids[place] for place in places]
        return [Prepared(r["example_id"], f, c) for r, f, c in zip(listed, fields, columns, strict=True)]

    def bound(self, rows: pl.DataFrame) -> list[Prepared]:
        """The examples with the longest passages and few-shot examples there are: no prompt is longer."""
        listed, longest = rows.to_dicts(), ""
        rule, pool = self.recipe.few_shot, self.pool
        if rule is not None and pool is not None:
            places = sorted(range(len(pool.texts)), key=lambda i: -len(pool.texts[i].encode()))[: rule.k]
            longest = few_shot_text(range(rule.k) if rule.choose == "fixed" else places, pool, rule)
        for row in listed:
            if self.recipe.evidence is not None:
                passages = sorted((text for text in row[EVIDENCE] or () if text), key=lambda text: -len(text.encode()))
                row[EVIDENCE] = passages[: self.recipe.evidence.top]
        return [Prepared(row["example_id"], {**field_texts(row), "examples": longest}, {}) for row in listed]

    def _choose_evidence(
        self, listed: list[dict[str, Any]], questions: Sequence[str], columns: list[dict[str, Any]]
    ) -> None:
        rule = self.recipe.evidence
        if rule is None:
            return
        candidates = [[text for text in row[EVIDENCE] or () if text] for row in listed]
        for row, passages, more, chosen in zip(
            listed, candidates, columns, rank_evidence(questions, candidates, rule, self.embedder()), strict=True
        ):
            row[EVIDENCE] = [passages[place] for place in chosen.places]
            more |= {
                EVIDENCE: row[EVIDENCE],
                "evidence_places": list(chosen.places),
                "evidence_similarity": list(chosen.similarities),
                "evidence_relaxed": chosen.relaxed,
            }


def check_prompts(recipe: Recipe, columns: Sequence[str]) -> None:
    """ThinkbackError where a prompt names a field that nothing fills, or a revision can't follow its parent's form."""
    known = [*columns, "labels"]
    if recipe.few_shot is not None:
        known.append("examples")
    for step in recipe.steps:
        template = recipe.prompts[step.prompt]
        template.check([*known, *ATTEMPT_FIELDS] if step.of is not None else known)
        talks = any(role == "conversation" for role, _ in template.parts)
        if talks and (step.of is None or not recipe.prompts[recipe.step_of(step.of).prompt].chat):
            raise ThinkbackError(f"prompt `{step.prompt}`: `[[conversation]]` needs a revised attempt that was a chat")
    if recipe.finalizer is not None:
        recipe.prompts[recipe.finalizer.prompt].check([*known, "tail"])


Attempt = Callable[[str, str, int], tuple[str, str | None] | None]
"""(example, pool, index) -> the attempt's text and answer; None where there is none."""


def prompt_of(recipe: Recipe, step: PoolStep, example: Prepared, attempt: Attempt) -> Prompt | None:
    """The prompt of a step for one example; None where the attempt that it revises is missing."""
    template = recipe.prompts[step.prompt]
    if step.of is None:
        return template.render(example.fields)
    before = prompt_of(recipe, recipe.step_of(step.of), example, attempt)
    found = attempt(example.example_id, step.of, step.of_sample)
    if before is None or found is None:
        return None
    text, answer = found
    values = {**example.fields, "attempt": text, "answer": answer or "", "prompt": text_of(before)}
    return template.render(values, before)


def finalizer_prompt(recipe: Recipe, example: Prepared, text: str) -> Prompt:
    """The prompt that asks for the answer of a text, of which it sees the end."""
    assert recipe.finalizer is not None  # asked for only where there is one
    values = {**example.fields, "tail": text[-recipe.finalizer.tail :]}
    return recipe.prompts[recipe.finalizer.prompt].render(values)
