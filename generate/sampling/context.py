"""The fields of prompts for a block of examples: their columns, chosen evidence and few-shot examples.

Passages are ranked by similarity to the question, cut to the top k above a floor that gives way: a claim without
evidence can't be judged, so where fewer than k passages reach the floor the best k are taken all the same, and the log
says that the floor was relaxed.

Few-shot examples are fixed ones, or those of a disjoint pool that are most like the question. An example of the pool
that is among the data, by its id or by its question (case and white space apart), is left out and counted: a prompt
must not hold the answer to its own question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from generate.engines.base import Prompt
from generate.engines.thoughts import with_thoughts
from generate.loops.loop import prompt_fields_of, prompts_of
from generate.passes.embedding import Embedder, MeanPooling, unit_rows
from generate.recipes.prompting import Template, field_texts, prompt_text
from generate.recipes.recipe import EvidenceSettings, FewShotSettings, PoolStep, Recipe
from toolkit.errors import (
    ConflictError,
    LimitError,
    RequiredError,
    UnknownError,
    UnsuitableError,
    error_prefix,
    suggest,
)


@dataclass(frozen=True)
class _ChosenEvidence:
    """The passages of one example, best first: their places among the candidates, cosines, and whether relaxed."""

    places: tuple[int, ...]
    similarities: tuple[float, ...]
    relaxed: bool


def choose_evidence(similarities: np.ndarray, rule: EvidenceSettings) -> _ChosenEvidence:
    """(n,) cosines of an example's candidates -> the chosen ones; ties go to the earlier candidate."""
    order = np.argsort(-similarities, kind="stable")[: rule.top]
    above_floor = int((similarities >= rule.floor).sum())
    return _ChosenEvidence(
        places=tuple(int(place) for place in order),
        similarities=tuple(float(similarities[place]) for place in order),
        relaxed=above_floor < len(order),
    )


def _rank_evidence(
    questions: Sequence[str], candidates: Sequence[Sequence[str]], rule: EvidenceSettings, embedder: Embedder
) -> list[_ChosenEvidence]:
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
    if template.is_chat:
        raise ConflictError(f"prompt `{template.name}` is of a few-shot example: leave out its `[[…]]` lines")
    ids, questions = set(data["example_id"]), {_normal_text(question) for question in data["question"]}
    rows = worked.to_dicts()
    usable = [row for row in rows if row["example_id"] not in ids and _normal_text(row["question"]) not in questions]
    excluded = len(rows) - len(usable)
    if rule.ids:
        by_id = {row["example_id"]: row for row in usable}
        for wanted in rule.ids:
            if wanted not in by_id:
                raise UnknownError(f"`few_shot.ids`: `{wanted}` is not in the pool; {suggest(wanted, by_id)}")
        usable = [by_id[wanted] for wanted in rule.ids]
    if len(usable) < rule.k:
        raise LimitError(
            f"`few_shot.k` is {rule.k}, but the pool has {len(usable)} examples ({excluded} are in the data)"
        )
    if usable:
        template.check_fields(field_texts(usable[0]))
    texts = tuple(str(template.render(field_texts(row))) for row in usable)
    names, questions_of = (tuple(row[name] for row in usable) for name in ("example_id", "question"))
    return FewShotPool(names, questions_of, texts, excluded)


def _choose_few_shot(
    questions: Sequence[str],
    pool: FewShotPool,
    rule: FewShotSettings,
    embedder: Embedder | None,
    rows: np.ndarray | None = None,
) -> list[tuple[int, ...]]:
    """Places in the pool for each question: nearest first; ties go to the earlier one. `rows`: the pool's rows."""
    if rule.choose == "fixed" or embedder is None:
        return [tuple(range(rule.k))] * len(questions)
    rows = _embed_pool(pool, embedder) if rows is None else rows  # (P, d)
    cosines = unit_rows(embedder, questions) @ rows.T  # (n, P)
    return [tuple(int(i) for i in np.argsort(-line, kind="stable")[: rule.k]) for line in cosines]


def _embed_pool(pool: FewShotPool, embedder: Embedder) -> np.ndarray:
    """(P, d): the pool's questions, embedded once for a whole run."""
    return unit_rows(embedder, pool.questions)


def _few_shot_text(places: Sequence[int], pool: FewShotPool, rule: FewShotSettings) -> str:
    """The worked examples as they stand in the prompt, nearest first."""
    return rule.separator.join(pool.texts[place] for place in places)


def _normal_text(text: str) -> str:
    return " ".join(text.casefold().split())


EVIDENCE = "evidence"
SCORED_FIELDS = ("attempt", "answer", "query")
"""What the prompt of a score may name beside the columns of examples."""
ATTEMPT_FIELDS = ("attempt", "answer", "prompt", "reasoning")


@dataclass(frozen=True)
class PreparedExample:
    """One example with the fields of its prompts, its further columns in the log, its gold documents, and the labels of
    its claims (the columns `claims` and `claim_labels`).
    """

    example_id: str
    fields: dict[str, str]
    columns: dict[str, Any]
    gold_documents: tuple[str, ...] = ()
    claim_labels: Mapping[str, str] = field(default_factory=dict)


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
            raise RequiredError("the examples have no `evidence`: add it, or leave out `[evidence]`")
        _check_prompts(self.recipe, self.examples.columns)

    def embedder(self) -> Embedder:
        """The embedder given, else the recipe's."""
        if self.opened is None:
            assert self.recipe.embedding is not None  # the recipe was checked
            self.opened = MeanPooling(self.recipe.resolve_path(self.recipe.embedding.model))
        return self.opened

    def prepare(self, rows: pl.DataFrame) -> list[PreparedExample]:
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
                self._rows = _embed_pool(pool, self.embedder())
            chosen = _choose_few_shot(questions, pool, rule, self.embedder() if similar else None, self._rows)
            for texts, more, places in zip(fields, columns, chosen, strict=True):
                texts["examples"] = _few_shot_text(places, pool, rule)
                more["few_shot"] = [pool.ids[place] for place in places]
        golds = [tuple(row.get("gold_documents") or ()) for row in listed]
        labels = [_claim_labels(row) for row in listed]
        ids = [row["example_id"] for row in listed]
        return [PreparedExample(*parts) for parts in zip(ids, fields, columns, golds, labels, strict=True)]

    def longest_examples(self, rows: pl.DataFrame) -> list[PreparedExample]:
        """The examples with the longest passages and few-shot examples there are: no prompt is longer."""
        listed, longest = rows.to_dicts(), ""
        rule, pool = self.recipe.few_shot, self.pool
        if rule is not None and pool is not None:
            places = sorted(range(len(pool.texts)), key=lambda i: -len(pool.texts[i].encode()))[: rule.k]
            longest = _few_shot_text(range(rule.k) if rule.choose == "fixed" else places, pool, rule)
        for row in listed:
            if self.recipe.evidence is not None:
                passages = sorted((text for text in row[EVIDENCE] or () if text), key=lambda text: -len(text.encode()))
                row[EVIDENCE] = passages[: self.recipe.evidence.top]
        return [PreparedExample(row["example_id"], {**field_texts(row), "examples": longest}, {}) for row in listed]

    def _choose_evidence(
        self, listed: list[dict[str, Any]], questions: Sequence[str], columns: list[dict[str, Any]]
    ) -> None:
        rule = self.recipe.evidence
        if rule is None:
            return
        candidates = [[text for text in row[EVIDENCE] or () if text] for row in listed]
        for row, passages, more, chosen in zip(
            listed, candidates, columns, _rank_evidence(questions, candidates, rule, self.embedder()), strict=True
        ):
            row[EVIDENCE] = [passages[place] for place in chosen.places]
            more |= {
                EVIDENCE: row[EVIDENCE],
                "evidence_places": list(chosen.places),
                "evidence_similarity": list(chosen.similarities),
                "evidence_relaxed": chosen.relaxed,
            }


def _claim_labels(row: Mapping[str, Any]) -> dict[str, str]:
    """The label of each claim that is annotated. ConflictError where claims and labels differ in number."""
    claims, labels = (row.get(name) or [] for name in ("claims", "claim_labels"))
    if labels and len(labels) != len(claims):
        raise ConflictError(
            f"example `{row['example_id']}` has {len(claims)} `claims` and {len(labels)} `claim_labels`: give each its"
            " label, null where it has none"
        )
    return {claim: label for claim, label in zip(claims, labels, strict=False) if label is not None}


def _check_prompts(recipe: Recipe, columns: Sequence[str]) -> None:
    """ThinkbackError where a prompt names a field that nothing fills, or a revision can't follow its parent's form."""
    known = [*columns, "labels"]
    if recipe.few_shot is not None:
        known.append("examples")
    for step in recipe.steps:
        template = recipe.prompts[step.prompt]
        template.check_fields([*known, *ATTEMPT_FIELDS] if step.of is not None else known)
        if step in recipe.logged_trace_revisions and template.quotes_attempt_prompt:
            raise UnsuitableError(
                f"prompt `{step.prompt}` of revision `{step.pool}` repeats the attempt's prompt, which the log does not"
                " have: leave it out"
            )
        talks = any(role == "conversation" for role, _ in template.parts)
        if talks and (step.of is None or not recipe.prompts[recipe.step_of(step.of).prompt].is_chat):
            raise UnsuitableError(f"prompt `{step.prompt}`: `[[conversation]]` needs a revised attempt that was a chat")
    for loop in recipe.loop:
        for setting, file in prompts_of(loop.loop).items():
            place = f"`loop.{loop.pool}.{setting}`: "
            with error_prefix(place):
                recipe.prompts[file].check_fields([*known, *prompt_fields_of(loop.loop, setting)])
    for name, table in recipe.score.items():
        if isinstance(table.get("prompt"), str):
            with error_prefix(f"`score.{name}.prompt`: "):
                recipe.prompts[table["prompt"]].check_fields([*known, *SCORED_FIELDS])
    if recipe.finalizer is not None:
        recipe.prompts[recipe.finalizer.prompt].check_fields([*known, "tail"])


@dataclass(frozen=True)
class AttemptTexts:
    """What later calls read of a trace: its text, its answer and its thoughts."""

    text: str = ""
    answer: str | None = None
    reasoning: str | None = None


FindAttempt = Callable[[str, int], AttemptTexts | None]
"""(pool, index) -> the example's trace; None where there is none."""


def prompt_of(recipe: Recipe, step: PoolStep, example: PreparedExample, find: FindAttempt) -> Prompt | None:
    """The prompt of a step for one example; None where the attempt that it revises is missing. A step that goes on
    where the attempt stops sees its thoughts, too.
    """
    template = recipe.prompts[step.prompt]
    if step.of is None:
        return template.render(example.fields)
    revised = find(step.of, step.of_sample)
    before = prompt_of(recipe, recipe.step_of(step.of), example, find) if template.quotes_attempt_prompt else ""
    if before is None or revised is None:
        return None
    text = with_thoughts(revised.reasoning, revised.text) if step.joined else revised.text
    values = {**example.fields, "attempt": text, "answer": revised.answer or "", "prompt": prompt_text(before)}
    return template.render({**values, "reasoning": revised.reasoning or ""}, before)


def finalizer_prompt(recipe: Recipe, example: PreparedExample, text: str) -> Prompt:
    """The prompt that asks for the answer of a text, of which it sees the end."""
    assert recipe.finalizer is not None  # asked for only where there is one
    values = {**example.fields, "tail": text[-recipe.finalizer.tail :]}
    return recipe.prompts[recipe.finalizer.prompt].render(values)
