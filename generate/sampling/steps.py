"""The steps of a recipe as loops: a sample, its finalizer where no answer can be read, and the revisions of it. Each
call is due as soon as what it reads is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generate.engines.base import Completion
from generate.engines.thoughts import with_thoughts
from generate.journal.queue import JournalCall
from generate.loops.requests import Read, Steps, Together
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling.context import AttemptTexts, PreparedExample, finalizer_prompt, prompt_of
from generate.sampling.samples import finalizer_call, sample_calls

LoggedTables = Mapping[str, Sequence[Mapping[str, Any]]]
Attempts = Mapping[tuple[str, int], AttemptTexts]
"""What was answered before a step, by pool and sample."""


class RecipeSteps:
    """The steps `[[sample]]`, `[[revise]]` and `[finalizer]` of a recipe."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self._revisions: dict[tuple[str, int], list[PoolStep]] = {}
        for step in recipe.revise:
            self._revisions.setdefault((step.of, step.of_sample), []).append(step)
        self._on_log = recipe.logged_trace_revisions
        # the attempts whose answers later prompts name
        self._named = {(s.of, s.of_sample) for s in recipe.revise if "answer" in recipe.prompts[s.prompt].fields}

    def first_loops(self, example: PreparedExample, logged: LoggedTables) -> list[Steps]:
        """The loops that an example begins with. logged: its rows in the log that is added to, for revisions."""
        loops = [self._pool_loop(step, example, {}) for step in self.recipe.sample]
        for step in self._on_log:
            if (row := logged_attempt(logged, step)) is not None:
                loops.append(self._pool_loop(step, example, {(step.of, step.of_sample): attempt_of_row(row)}))
        return loops

    def _pool_loop(self, step: PoolStep, example: PreparedExample, before: Attempts) -> Steps:
        """All traces of a step, side by side."""
        prompt = prompt_of(self.recipe, step, example, lambda *place: before.get(place))
        per_call = self.recipe.engine_of(step.engine).samples_at_once(step.samples)
        if prompt is not None:
            places = range(step.samples)
            calls = sample_calls(step, self.recipe.seed, example.example_id, prompt, places, per_call)
            yield from _run_side_by_side([self._samples_loop(step, example, before, call) for call in calls])

    def _samples_loop(self, step: PoolStep, example: PreparedExample, before: Attempts, call: JournalCall) -> Steps:
        """The traces that come with one call."""
        completions = yield call
        drawn = zip(call.samples, completions, strict=True)
        goes_on = self.recipe.finalizer is not None and step.finalize
        traces = [(i, one) for i, one in drawn if one is not None and (goes_on or (step.pool, i) in self._revisions)]
        yield from _run_side_by_side([self._trace_loop(step, example, before, *trace) for trace in traces])

    def _trace_loop(
        self, step: PoolStep, example: PreparedExample, before: Attempts, index: int, completion: Completion
    ) -> Steps:
        """What follows from a sample: its finalizer, and its revisions with its answer."""
        rule, revisions = self.recipe.finalizer, self._revisions.get((step.pool, index), ())
        finalized = rule is not None and step.finalize
        parent = before[step.of, step.of_sample] if step.joined and step.of is not None else None
        named, answer = (step.pool, index) in self._named, None
        if finalized or named:
            answer = yield Read(*answer_text(completion, parent))
        if rule is not None and finalized and answer is None and completion.tool_calls is None:
            whole = with_thoughts(completion.reasoning, completion.text)
            whole = whole if parent is None else with_thoughts(parent.reasoning, parent.text) + whole
            prompt = finalizer_prompt(self.recipe, example, whole)
            (final,) = yield finalizer_call(rule, self.recipe.seed, example.example_id, step.pool, prompt, index)
            answer = (yield Read(*answer_text(final))) if final is not None and named else None
        after = {**before, (step.pool, index): AttemptTexts(completion.text, answer, completion.reasoning)}
        yield from _run_side_by_side([self._pool_loop(revision, example, after) for revision in revisions])


def _run_side_by_side(loops: Sequence[Steps]) -> Steps:
    """Runs loops side by side; one alone within the loop that asks."""
    if len(loops) == 1:
        yield from loops[0]
    elif loops:
        yield Together(loops)


def logged_attempt(tables: LoggedTables, step: PoolStep) -> Mapping[str, Any] | None:
    """The trace that a step revises, among an example's rows in a log; None where it is not there, or has no text."""
    place, rows = (step.of, step.of_sample), tables.get("traces", ())
    there = [row for row in rows if (row["pool"], row["sample_index"]) == place]
    return next((row for row in there if row.get("text") is not None), None)


def attempt_of_row(row: Mapping[str, Any]) -> AttemptTexts:
    """What a revision reads of a trace in a log."""
    return AttemptTexts(row["text"], row.get("answer"), row.get("reasoning"))


def answer_text(completion: Completion, parent: AttemptTexts | Completion | None = None) -> tuple[str | None, bool]:
    """The text that an answer is read from, behind that of the attempt it goes on from, and whether its limit cut it
    off. A tool call has none.
    """
    text = None if completion.tool_calls is not None else (parent.text if parent else "") + completion.text
    return text, completion.finish_reason == "length"
