"""Exercises: tasks whose solutions are written line by line, so that attempts can be checked, revised and judged.

Their training texts are those of `generate.tasks.formats`, in proportions that a recipe says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from generate.tasks.formats import (
    PROMPTS,
    choice_text,
    continuation_text,
    correction_text,
    judgement_text,
    reflection_text,
    repair_text,
    solution_text,
    verification_text,
)
from generate.tasks.task import Difficulty, Item, QuestionAttempts, TaskText, WrongSolutionTask, answer_of
from toolkit.errors import EmptyError

CHOICES = 6
"""Most attempts in a listwise prompt; with more, the text is longer than the model reads well."""


def judge_attempts(item: Item, attempts: Sequence[str]) -> QuestionAttempts:
    """Judges attempts at a question: one is right if its answer equals the question's."""
    return QuestionAttempts(item, tuple(attempts), tuple(answer_of(attempt) == item.answer for attempt in attempts))


def _synthetic_attempts(task: WrongSolutionTask, item: Item, rng: random.Random) -> QuestionAttempts:
    """Makes attempts without a model: a flawed solution, a correct one, and one of them cut off."""
    flawed = task.wrong_solution(item, rng)
    source = rng.choice((flawed, item.solution))
    return judge_attempts(item, (flawed, item.solution, source[: rng.randrange(len(source))]))


class ExerciseTask(Difficulty, WrongSolutionTask):
    """A task of exercises. A token of its models is a character."""

    formats: ClassVar[tuple[str, ...]] = tuple(PROMPTS)
    vocabulary: ClassVar[None] = None

    def training_texts(
        self,
        mixture: Mapping[str, float],
        rng: random.Random,
        questions: Iterator[Item],
        samples: Sequence[QuestionAttempts] = (),
    ) -> Iterator[TaskText]:
        """Yields training texts of the mixture without end. Attempts come from `samples`, or are synthetic where there
        are none.

        ThinkbackError where the mixture can't be had from the samples: no wrong attempt to correct, say.
        """
        formats, weights = list(mixture), list(mixture.values())
        barren = 0
        while True:
            (name,) = rng.choices(formats, weights)
            if name == "solve":
                yield solution_text(next(questions))
                continue
            if name == "continue":
                item = next(questions)
                yield continuation_text(item, rng.randrange(len(item.solution)))
                continue
            source = rng.choice(samples) if samples else _synthetic_attempts(self, next(questions), rng)
            text = _attempt_text(name, self, source, rng)
            barren = 0 if text is not None else barren + 1
            if text is not None:
                yield text
            elif barren > 10_000:
                raise EmptyError(
                    f"the samples hold no attempt that `{name}` can learn from: ask for more questions or samples,"
                    " or leave it out of the mixture"
                )


def _attempt_text(name: str, task: WrongSolutionTask, source: QuestionAttempts, rng: random.Random) -> TaskText | None:
    """Makes one training text of a format from a question's attempts; None where no attempt fits the format."""
    item = source.item
    if name == "choose":
        places = rng.sample(range(len(source.attempts)), min(len(source.attempts), rng.randint(2, CHOICES)))
        attempts, verdicts = [source.attempts[n] for n in places], [source.verdicts[n] for n in places]
        return choice_text(item.question, attempts, verdicts, rng)
    if name == "correct":
        wrong = [attempt for attempt, right in zip(source.attempts, source.verdicts, strict=True) if not right]
        return correction_text(item, rng.choice(wrong)) if wrong else None
    place = rng.randrange(len(source.attempts))
    attempt, right = source.attempts[place], source.verdicts[place]
    if name == "verify":
        return verification_text(task, item, attempt)
    if name == "repair":
        return repair_text(task, item, attempt)
    if name == "judge":
        return judgement_text(task, item, attempt, right)
    return reflection_text(item.question, attempt, (right + source.share_right) / 2)
