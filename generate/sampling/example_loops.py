"""The loops of open examples: each goes on when what it asked for is there, and its next requests are due.

Earlier answers, from the journal, take the place of requests, so that a run that goes on asks what a run from the start
would have asked next. What a loop asked for is noted by its digest: one that asks for something else, once it is sent
the same answers, draws numbers beside its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from generate.engines.base import Completion
from generate.journal.events import Answered
from generate.journal.queue import JournalCall
from generate.loops.requests import Read, Steps, Together
from generate.recipes.recipe import AnswerSettings, Recipe
from generate.sampling.context import Prepared
from generate.sampling.samples import FINALIZER, key_of, read, readable
from generate.sampling.steps import RecipeSteps

Place = tuple[str, int]
"""A pool and a sample's index."""


@dataclass
class OpenExample:
    """An example on its way. known: earlier answers that no loop has come to yet; missing: samples asked for and not
    answered; stuck: calls among them that failed for now.
    """

    prepared: Prepared
    known: dict[Place, Answered] = field(default_factory=dict)
    waiting: dict[Place, _Waiting] = field(default_factory=dict)
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


@dataclass(eq=False)
class _Strand:
    """A loop on its way. above: the one that runs it beside others, as number `place` of them."""

    example: OpenExample
    loop: Steps
    above: _Strand | None = None
    place: int = 0
    results: list[Any] = field(default_factory=list)
    left: int = 0


@dataclass(eq=False)
class _Waiting:
    """A call of a strand with the samples that are there."""

    strand: _Strand
    samples: tuple[int, ...]
    answered: dict[int, Answered] = field(default_factory=dict)

    def completions(self) -> tuple[Completion | None, ...]:
        """The samples in their order; None for one that failed for good."""
        return tuple(self.answered[sample].completion for sample in self.samples)


@dataclass(frozen=True)
class _Due:
    """What follows from some answers: calls, strands that go on with a value, and texts to read for strands."""

    calls: list[JournalCall] = field(default_factory=list)
    ready: list[tuple[_Strand, Any]] = field(default_factory=list)
    reading: list[tuple[_Strand, Read]] = field(default_factory=list)


class ExampleLoops:
    """The loops of a recipe, example by example."""

    def __init__(self, recipe: Recipe):
        self.recipe, self._steps = recipe, RecipeSteps(recipe)
        self._kinds: Mapping[type, Callable[[_Strand, Any, _Due], None]] = {
            JournalCall: self._call,
            Read: self._read,
            Together: self._together,
        }

    def first(self, examples: Sequence[OpenExample]) -> list[JournalCall]:
        """The calls of examples that are opened."""
        due = _Due()
        for example in examples:
            due.ready.extend((_Strand(example, loop), None) for loop in self._steps.first(example.prepared))
        return self._go_on(due)

    def following(self, arrivals: Sequence[Arrival]) -> list[JournalCall]:
        """The calls that are due with some answers."""
        due = _Due()
        for example, event in arrivals:
            self._arrived(example.waiting.pop((event.pool, event.sample)), event, due)
        return self._go_on(due)

    def _go_on(self, due: _Due) -> list[JournalCall]:
        """Let strands go on until each waits for an engine; the texts of all are read at one time."""
        calls = due.calls
        while due.ready or due.reading:
            after = _Due(calls)
            for strand, value in due.ready:
                self._send(strand, value, after)
            if due.reading:
                answers = read_answers([one for _, one in due.reading], self.recipe.answers)
                after.ready.extend(zip((strand for strand, _ in due.reading), answers, strict=True))
            due = after
        return calls

    def _send(self, strand: _Strand, value: Any, due: _Due) -> None:
        """Send a loop its answer, and look what it asks for next."""
        try:
            request = strand.loop.send(value)
        except StopIteration as end:
            self._end(strand, end.value, due)
            return
        self._kinds[type(request)](strand, request, due)

    def _end(self, strand: _Strand, value: Any, due: _Due) -> None:
        """Give what a loop returned to the one above it, once all beside it have ended."""
        above = strand.above
        if above is not None:
            above.results[strand.place] = value
            above.left -= 1
            if not above.left:
                due.ready.append((above, above.results))

    def _call(self, strand: _Strand, call: JournalCall, due: _Due) -> None:
        """Ask for the samples of a call but those that are known."""
        example, waiting = strand.example, _Waiting(strand, call.samples)
        known = {i: example.known.pop((call.pool, i)) for i in call.samples if (call.pool, i) in example.known}
        missing = [i for i in call.samples if i not in known]
        for sample in missing:
            example.waiting[call.pool, sample] = waiting
        for event in known.values():
            self._arrived(waiting, event, due)
        if missing:
            due.calls.append(call if not known else _part(call, missing))
            example.missing += len(missing)

    def _arrived(self, waiting: _Waiting, event: Answered, due: _Due) -> None:
        waiting.answered[event.sample] = event
        if len(waiting.answered) == len(waiting.samples):
            due.ready.append((waiting.strand, waiting.completions()))

    def _read(self, strand: _Strand, request: Read, due: _Due) -> None:
        due.reading.append((strand, request))

    def _together(self, strand: _Strand, request: Together, due: _Due) -> None:
        strand.left = len(request.loops)
        strand.results = [None] * strand.left
        if not strand.left:
            due.ready.append((strand, []))
        for place, loop in enumerate(request.loops):
            due.ready.append((_Strand(strand.example, loop, strand, place), None))


def _part(call: JournalCall, samples: Sequence[int]) -> JournalCall:
    """The call for some of its samples alone."""
    places, whole = [call.samples.index(sample) for sample in samples], call.call
    name, end = (call.pool.removesuffix(FINALIZER), FINALIZER) if call.pool.endswith(FINALIZER) else (call.pool, "")
    some = replace(
        whole,
        key=key_of(call.about, name, samples) + end,
        seeds=tuple(whole.seeds[place] for place in places),
        temperatures=tuple(whole.temperatures[place] for place in places),
    )
    return replace(call, call=some, samples=tuple(samples))


def read_answers(texts: Sequence[Read], rules: AnswerSettings) -> list[str | None]:
    """The answers of texts, None where a text has none."""
    answers = read([(one.text, one.cut) for one in texts], rules)
    return [answer if readable(answer, rules) else None for answer in answers]
