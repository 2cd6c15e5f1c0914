"""The texts of a phase, without end: a format drawn by the mixture, a question, and an attempt where that is asked.

Attempts are made up, or are samples of the model at hand on new questions: what it learns to revise, to judge and to
choose from.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from generate.engines import open_engine
from generate.engines.base import Call, CallFailure
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
