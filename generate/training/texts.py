"""The texts of a phase, without end: a format drawn by the mixture, a question, and an attempt where that is asked.

Attempts are made up, or are samples of the model at hand on new questions: what it learns to revise, to judge and to
choose from. A batch holds texts of like length, padded at their ends, with what is to be learnt marked.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generate.engines import open_engine
from generate.engines.base import Call, CallFailure
from generate.passes.batching import batches as alike
from generate.tasks import Item, Task, TaskText, answer_of
from generate.tasks.formats import choose, correct, fill, judge, reflect, repair, resume, solve, verify
from generate.training.llama import save_model
from generate.training.model_recipe import Attempts
from toolkit.errors import ThinkbackError

CHOICES = 6
"""A listwise prompt shows this many attempts at most: with more, its text is longer than what the model reads well."""


@dataclass(frozen=True)
class Attempted:
    """A question with attempts at it, and for each whether its answer is right. `cut` ones were stopped by a limit."""

    item: Item
    attempts: tuple[str, ...]
    verdicts: tuple[bool, ...]

    @property
    def share(self) -> float:
        """The share of right attempts: how easy the question is for the model that made them."""
        return sum(self.verdicts) / len(self.verdicts)


def attempted(item: Item, attempts: Sequence[str]) -> Attempted:
    """Attempts with their verdicts: right is an answer that equals the question's."""
    return Attempted(item, tuple(attempts), tuple(answer_of(attempt) == item.answer for attempt in attempts))


def made_attempts(task: Task, item: Item, rng: random.Random) -> Attempted:
    """Attempts without a model: a flawed solution, a whole one, and one of either that was cut off."""
    flawed = task.flawed(item, rng)
    source = rng.choice((flawed, item.solution))
    return attempted(item, (flawed, item.solution, source[: rng.randrange(len(source))]))


def texts(
    task: Task,
    questions: Iterator[Item],
    mixture: Mapping[str, float],
    rng: random.Random,
    samples: Sequence[Attempted] = (),
) -> Iterator[TaskText]:
    """Texts of the mixture, without end. Attempts come from `samples`, or are made up where there are none.

    ThinkbackError where the mixture can't be had from the samples: no wrong attempt to correct, say.
    """
    formats, weights = list(mixture), list(mixture.values())
    barren = 0
    while True:
        (name,) = rng.choices(formats, weights)
        if name == "solve":
            yield solve(next(questions))
            continue
        if name == "continue":
            item = next(questions)
            yield resume(item, rng.randrange(len(item.solution)))
            continue
        source = rng.choice(samples) if samples else made_attempts(task, next(questions), rng)
        text = _of_attempts(name, task, source, rng)
        barren = 0 if text is not None else barren + 1
        if text is not None:
            yield text
        elif barren > 10_000:
            raise ThinkbackError(
                f"the samples hold no attempt that `{name}` can learn from: ask for more questions or samples,"
                " or leave it out of the mixture"
            )


def _of_attempts(name: str, task: Task, source: Attempted, rng: random.Random) -> TaskText | None:
    """One text of a format from a question's attempts; null where they have none that fits."""
    item = source.item
    if name == "choose":
        shown = rng.sample(range(len(source.attempts)), min(len(source.attempts), rng.randint(2, CHOICES)))
        attempts, verdicts = [source.attempts[n] for n in shown], [source.verdicts[n] for n in shown]
        return choose(item.question, attempts, verdicts, rng)
    if name == "correct":
        wrong = [attempt for attempt, right in zip(source.attempts, source.verdicts, strict=True) if not right]
        return correct(item, rng.choice(wrong)) if wrong else None
    place = rng.randrange(len(source.attempts))
    attempt, right = source.attempts[place], source.verdicts[place]
    if name == "verify":
        return verify(task, item, attempt)
    if name == "repair":
        return repair(task, item, attempt)
    if name == "judge":
        return judge(task, item, attempt, right)
    return reflect(item.question, attempt, (right + source.share) / 2)


def sample_attempts(
    model: Any, tokenizer: Any, questions: Iterator[Item], wanted: Attempts, seed: int
) -> list[Attempted]:
    """Attempts at the next `wanted.questions` questions, by the engine that a recipe would ask.

    Each question gets `wanted.samples` whole attempts, and one that is cut off where `wanted.short` names limits.
    """
    items = list(islice(questions, wanted.questions))
    shorts = cycle(wanted.short)
    heats = tuple(islice(cycle(wanted.temperatures), wanted.samples))
    calls = []
    for number, item in enumerate(items):
        prompt = fill("solve", question=item.question)
        seeds = tuple((seed * len(items) + number) * (wanted.samples + 1) + index for index in range(len(heats)))
        calls.append(Call(f"{number} whole", prompt, seeds, heats, wanted.max_tokens))
        if wanted.short:
            calls.append(Call(f"{number} short", prompt, (seeds[-1] + 1,), heats[:1], int(next(shorts))))
    made: list[list[str]] = [[] for _ in items]
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, tokenizer, Path(folder) / "model")
        engine = open_engine("transformers", {"model": str(Path(folder) / "model"), "batch_size": 256})
        for call, outcome in engine.run(calls):
            if isinstance(outcome, CallFailure):
                raise ThinkbackError(f"the model can't answer a question of its own task: {outcome.reason}")
            made[int(call.key.split()[0])] += [completion.text for completion in outcome]
        engine.close()
    return [attempted(item, attempts) for item, attempts in zip(items, made, strict=True)]


IGNORED = -100
"""The target of a place that is not learnt: torch's cross-entropy leaves it out."""
SORTED = 48
"""Batches that are cut from one run of texts: the more, the less padding and the less randomness."""


@dataclass(frozen=True)
class TextBatch:
    """ids (B, L): tokens, padded at the end; targets (B, L): the next token where it belongs to a completion or is the
    end behind it, else `IGNORED`. tokens: without padding.
    """

    ids: NDArray[np.int64]
    targets: NDArray[np.int64]
    tokens: int


def batches(
    texts: Iterator[TaskText], tokenizer: Any, places: int, context: int, rng: random.Random
) -> Iterator[TextBatch]:
    """Batches of at most `places` places, without end. A text longer than `context` is left out.

    ThinkbackError where a text holds a character that the tokenizer lacks, or none is short enough.
    """
    mean = 128
    while True:
        run = list(_encoded(islice(texts, max(8, SORTED * places // mean)), tokenizer))
        kept = sorted((pair for pair in run if len(pair[0]) <= min(context, places)), key=lambda pair: len(pair[0]))
        if not kept:
            raise ThinkbackError(f"no text is short enough for {min(context, places)} tokens: widen `model.context`")
        mean = max(1, sum(len(ids) for ids, _ in kept) // len(kept))
        groups = list(alike([len(ids) for ids, _ in kept], places))
        rng.shuffle(groups)
        for group in groups:
            yield _padded([kept[place] for place in group], tokenizer.pad_token_id)


def _encoded(texts: Iterator[TaskText], tokenizer: Any) -> Iterator[tuple[list[int], int]]:
    """Each text's tokens with the end behind them, and how many of them are its prompt's."""
    taken = list(texts)
    whole = tokenizer([text.prompt + text.completion for text in taken])["input_ids"]
    for text, ids in zip(taken, whole, strict=True):
        if tokenizer.unk_token_id in ids:
            character = (text.prompt + text.completion)[ids.index(tokenizer.unk_token_id)]
            raise ThinkbackError(f"a text of `{text.format}` holds `{character}`, which is not in the tokenizer")
        yield [*ids, tokenizer.eos_token_id], len(text.prompt)


def _padded(group: Sequence[tuple[list[int], int]], pad: int) -> TextBatch:
    width = max(len(ids) for ids, _ in group)
    ids = np.full((len(group), width), pad, dtype=np.int64)
    targets = np.full((len(group), width), IGNORED, dtype=np.int64)
    for row, (tokens, prompt) in enumerate(group):
        ids[row, : len(tokens)] = tokens
        first = max(prompt, 1)  # the token that opens a text is predicted by none
        targets[row, first - 1 : len(tokens) - 1] = tokens[first:]
    return TextBatch(ids, targets, sum(len(tokens) for tokens, _ in group))
