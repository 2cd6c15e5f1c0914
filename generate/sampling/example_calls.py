"""The calls of one example: which of them are due, by what was answered before. A call is due as soon as what it reads
is there: a sample at once, the finalizer with an unreadable text, a revision with its attempt's answer.

Earlier answers, from the journal, take the place of calls, so that a run that goes on asks what a run from the start
would have asked next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from generate.engines.base import Completion
from generate.engines.thoughts import with_thoughts
from generate.journal.events import Answered
from generate.journal.queue import JournalCall
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling.context import Attempt, Prepared, finalizer_prompt, prompt_of
from generate.sampling.samples import FINALIZER, ask_finalizer, ask_samples, read, readable

Place = tuple[str, int]
"""A pool and a sample's index."""


@dataclass
class OpenExample:
    """An example on its way through the steps. known: earlier answers that no step has come to yet; attempts: what
    later steps read; unread: the same of those that wait for a finalizer; missing: samples asked for and not answered;
    stuck: calls among them that failed for now.
    """

    prepared: Prepared
    known: dict[Place, Answered] = field(default_factory=dict)
    attempts: dict[Place, Attempt] = field(default_factory=dict)
    unread: dict[Place, Attempt] = field(default_factory=dict)
    missing: int = 0
    stuck: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The example's id."""
        return self.prepared.example_id

    @property
    def idle(self) -> bool:
        """Whether nothing of it is on its way."""
        return self.missing == sum(self.stuck.values())


Arrival = tuple[OpenExample, Answered]


@dataclass(frozen=True)
class _Due:
    """What follows from some answers: calls, and answers that were there before."""

    calls: list[JournalCall] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


class ExampleCalls:
    """The steps of a recipe, asked example by example."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self._steps = {step.pool: step for step in recipe.steps}
        self._revisions: dict[Place, list[PoolStep]] = {}
        for step in recipe.revise:
            self._revisions.setdefault((step.of, step.of_sample), []).append(step)
        # the attempts whose answers later prompts name
        self._named = {(s.of, s.of_sample) for s in recipe.revise if "answer" in recipe.prompts[s.prompt].fields}

    def first(self, examples: Sequence[OpenExample]) -> list[JournalCall]:
        """The calls of examples that are opened."""
        due = _Due()
        for example in examples:
            for step in self.recipe.sample:
                self._ask(example, step, due)
        return due.calls + self.following(due.arrivals)

    def following(self, arrivals: Sequence[Arrival]) -> list[JournalCall]:
        """The calls that are due with some answers; the answers of all are read at one time."""
        calls: list[JournalCall] = []
        while arrivals:
            due, answers = _Due(), self._read(arrivals)
            for place, (example, event) in enumerate(arrivals):
                if event.pool.endswith(FINALIZER):
                    self._finalized(example, event, answers.get(place), due)
                elif event.completion is not None:
                    self._answered(example, event, event.completion, answers.get(place), due)
            calls += due.calls
            arrivals = due.arrivals
        return calls

    def _ask(self, example: OpenExample, step: PoolStep, due: _Due) -> None:
        """Ask for a step's samples but those that are known."""
        missing = []
        for index in range(step.samples):
            event = example.known.pop((step.pool, index), None)
            if event is None:
                missing.append(index)
            else:
                due.arrivals.append((example, event))
        if missing:
            prompt = prompt_of(self.recipe, step, example.prepared, lambda *place: example.attempts.get(place))
            per_call = self.recipe.engine.samples_at_once(step.samples)
            if prompt is not None:
                due.calls.extend(ask_samples(step, self.recipe.seed, example.name, prompt, missing, per_call))
                example.missing += len(missing)

    def _answered(
        self, example: OpenExample, event: Answered, completion: Completion, answer: str | None, due: _Due
    ) -> None:
        """What follows from a sample: the finalizer's call where its answer is wanted and can't be read."""
        step, place, rule = self._steps[event.pool], (event.pool, event.sample), self.recipe.finalizer
        attempt = Attempt(completion.text, answer, completion.reasoning)
        if rule is None or not step.finalize or answer is not None or completion.tool_calls is not None:
            self._revise(example, place, attempt, due)
            return
        example.unread[place] = attempt if place in self._revisions else Attempt()
        name = step.pool + FINALIZER
        known = example.known.pop((name, event.sample), None)
        if known is not None:
            due.arrivals.append((example, known))
            return
        prompt = finalizer_prompt(self.recipe, example.prepared, self._whole(example, step, completion))
        seed, pool = self.recipe.seed, step.pool
        due.calls.append(ask_finalizer(rule, seed, example.name, pool, prompt, event.sample))
        example.missing += 1

    def _finalized(self, example: OpenExample, event: Answered, answer: str | None, due: _Due) -> None:
        place = (event.pool.removesuffix(FINALIZER), event.sample)
        self._revise(example, place, replace(example.unread.pop(place), answer=answer), due)

    def _revise(self, example: OpenExample, place: Place, attempt: Attempt, due: _Due) -> None:
        """Ask for the revisions of an attempt whose answer is there."""
        if place in self._revisions:
            example.attempts[place] = attempt
            for step in self._revisions[place]:
                self._ask(example, step, due)

    def _read(self, arrivals: Sequence[Arrival]) -> dict[int, str | None]:
        """The answers that later calls depend on, by the place of the arrival; null where none can be read."""
        texts: dict[int, tuple[str | None, bool]] = {}
        for place, (example, event) in enumerate(arrivals):
            pool = event.pool.removesuffix(FINALIZER)
            step = self._steps[pool]
            finalized = self.recipe.finalizer is not None and step.finalize and pool == event.pool
            if event.completion is not None and (finalized or (pool, event.sample) in self._named):
                parent = self._parent(example, step) if pool == event.pool else None
                texts[place] = answering(event.completion, parent)
        if not texts:
            return {}
        rules = self.recipe.answers
        answers = read(list(texts.values()), rules)
        return {
            place: answer if readable(answer, rules) else None for place, answer in zip(texts, answers, strict=True)
        }

    def _parent(self, example: OpenExample, step: PoolStep) -> Attempt | None:
        """The attempt that a step goes on from."""
        return example.attempts[step.of, step.of_sample] if step.joined and step.of is not None else None

    def _whole(self, example: OpenExample, step: PoolStep, completion: Completion) -> str:
        """A trace's text with its thoughts, after the attempt's where the step goes on from there."""
        parent, text = self._parent(example, step), with_thoughts(completion.reasoning, completion.text)
        return text if parent is None else with_thoughts(parent.reasoning, parent.text) + text


def answering(completion: Completion, parent: Attempt | Completion | None = None) -> tuple[str | None, bool]:
    """The text that an answer is read from, behind that of the attempt it goes on from, and whether its limit cut it
    off. A tool call has none.
    """
    text = None if completion.tool_calls is not None else (parent.text if parent else "") + completion.text
    return text, completion.finish_reason == "length"
