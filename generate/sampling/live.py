"""A loop that listens, run on a text while its words come: nothing is written but what is said on the way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from generate.engines.base import Engine
from generate.engines.several import SeveralEngines
from generate.journal.database import Journal
from generate.journal.queue import JournalQueue
from generate.loops.requests import Hear, Row, Trace
from generate.loops.unfolding import ends_sentence
from generate.recipes.recipe import LoopStep, Recipe
from generate.sampling.context import PreparedExample
from generate.sampling.example_loops import ExampleLoops, OpenExample
from generate.sampling.services import Services
from toolkit.errors import FormatError, RequiredError, UnknownError, UnsuitableError, suggest
from toolkit.settings import MOST

TEXT = "text"
"""The id of the example."""


class LiveText:
    """A text that is read word by word. pace: words a second, at most; without it as fast as they come. count: the
    words that were revealed.
    """

    def __init__(self, source: TextIO, pace: float | None = None):
        self._source_words, self._pace = _words(source), pace
        self._text, self._began, self.count = "", time.monotonic(), 0

    def reveal(self, _: PreparedExample, request: Hear) -> str:
        """The text up to where a request asks for it; waits for the words."""
        if not self.count:
            self._began = time.monotonic()
        while request.more is None or self.count < request.after + request.more:
            word = next(self._source_words, None)
            if word is None:
                break
            self._text, self.count = self._text + word, self.count + 1
            if self._pace is not None:
                time.sleep(max(0.0, self._began + self.count / self._pace - time.monotonic()))
            if request.more is None and ends_sentence(word):
                break
        return self._text


def _words(source: TextIO) -> Iterator[str]:
    """Yields each word with the white space before it, as soon as what follows it has come. A mark of the byte order is
    no part of the first. FormatError where the text is no text in its encoding.
    """
    word = ""
    for character in _characters(source):
        if character.isspace() and word and not word[-1].isspace():
            yield word
            word = ""
        word += character
    if word.strip():
        yield word


def _characters(source: TextIO) -> Iterator[str]:
    try:
        character = source.read(1).removeprefix("\ufeff") or source.read(1)
        while character:
            yield character
            character = source.read(1)
    except UnicodeDecodeError as error:
        raise FormatError(f"the text is no {error.encoding.upper()} ({error.reason}): convert it first") from None


def listening_step(recipe: Recipe, pool: str | None) -> LoopStep:
    """The loop of a recipe that listens, the one of a pool where there are several. ThinkbackError where there is none,
    or the recipe does not say which.
    """
    steps = {step.pool: step for step in recipe.loop if getattr(step.loop, "table", None) == "checks"}
    if not steps:
        raise UnsuitableError(f"recipe `{recipe.file}` has no `[[loop]]` that listens, such as of kind `listen`")
    if pool is None and len(steps) > 1:
        raise RequiredError(f"recipe `{recipe.file}` has several loops that listen: name a pool; {suggest('', steps)}")
    if pool is not None and pool not in steps:
        raise UnknownError(f"no loop that listens makes pool `{pool}`; {suggest(pool, steps)}")
    return steps[pool] if pool is not None else next(iter(steps.values()))


def listen(
    recipe: Recipe,
    step: LoopStep,
    text: LiveText,
    note_row: Callable[[Row], None],
    open_engine: Callable[[Recipe], Engine] | None = None,
    allow_keys: Collection[str] = (),
) -> None:
    """Runs a loop on a text; `note_row` is given each row of `checks` when it is there. The requests and their seeds
    are those of `generate` for an example called `text`.

    ThinkbackError where a call fails for good.
    """

    def note(row: Trace | Row) -> None:
        if isinstance(row, Row):
            note_row(row)

    alone = replace(recipe, loop=(replace(step, requests=MOST),), sample=(), revise=())
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        opens = open_engine or (lambda one: one.engine.opened(one, allow_keys))
        several = SeveralEngines(lambda name: opens(alone.with_engine(name)))
        engine = several if alone.engines else opens(alone)  # before the first word, which would wait for it
        queue = JournalQueue(journal, "the text", lambda: engine)
        loops = ExampleLoops(alone, Services(alone), lambda _: None, reveal=text.reveal, note_row=note)
        example = OpenExample(PreparedExample(TEXT, {"question": ""}, {}))
        queue.submit_calls(loops.first_calls([example]))
        while queue.waiting or loops.workers.busy:
            if queue.waiting:
                settled = queue.completed()
                arrivals = [(example, event) for _, answered in settled for event in answered]
                example.missing -= len(arrivals)
                queue.submit_calls(loops.calls_after_answers(arrivals))
                queue.check_failures()
            if loops.workers.busy:
                calls, _ = loops.calls_after_threads(0 if queue.waiting else None)
                queue.submit_calls(calls)
