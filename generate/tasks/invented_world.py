"""Questions of several hops about an invented world, whose passages are a corpus to retrieve from.

    Where was the director of the film The Golden Promise born?
    The film The Golden Promise was directed by Edwin Ashman.
    Edwin Ashman was born in Dresvik.
    #### Dresvik

A question asks for a place, a date, a class or a person at the end of a bridge, for which of two came first, or whether
two have something in common. What is right is what the passages say: `gold_documents` has the ids of those that a
solution needs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from generate.tasks.claim_texts import CLAIM_TEXTS
from generate.tasks.task import ANSWER, Difficulty, Item, QuestionAttempts, TaskText
from generate.tasks.world_texts import TEXTS, mixed_texts
from generate.worlds.names import WORDS
from generate.worlds.passages import WorldPassages, draw_world
from generate.worlds.questions import Question, draw_question
from toolkit.errors import InvalidError
from toolkit.settings import setting

HOPS = (2, 3, 4)
WORLD_TEXTS = {**TEXTS, **CLAIM_TEXTS}
"""What draws the training texts of worlds, by format."""
_DRAWS = 50
world_of = lru_cache(maxsize=4)(draw_world)
"""The world of a seed, with its passages, drawn once."""


@dataclass(frozen=True)
class InventedWorld(Difficulty):
    """Difficulty: a world of about so many `people`, drawn by the seed `world`, and how often questions of two, three
    and four hops are wanted.
    """

    world: int = setting(0, low=0)
    people: int = setting(900, low=60, high=2_000)
    shares: tuple[float, ...] = setting((0.5, 0.25, 0.25), low=0)

    name: ClassVar[str] = "invented_world"
    labels: ClassVar[None] = None
    formats: ClassVar[tuple[str, ...]] = tuple(WORLD_TEXTS)
    vocabulary: ClassVar[tuple[str, ...]] = WORDS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shares", tuple(self.shares))
        if len(self.shares) != len(HOPS) or not sum(self.shares):
            raise InvalidError("`shares` takes three weights, of questions of two, three and four hops")

    @property
    def passages(self) -> WorldPassages:
        """Its world, with the passages of the corpus."""
        return world_of(self.world, self.people)

    def draw(self, rng: random.Random) -> Item | None:
        """Draws a question; null where this try came to nothing. How many hops it has is drawn first and kept."""
        (hops,) = rng.choices(HOPS, self.shares)
        drawn = (draw_question(self.passages.world, hops, rng) for _ in range(_DRAWS))
        question = next((one for one in drawn if one is not None), None)
        return None if question is None else self._item(question)

    def _item(self, question: Question) -> Item:
        documents = dict.fromkeys(self.passages.passage_of_fact[hop.fact].id for hop in question.hops)
        extra: dict[str, str | int | list[str]] = {
            "golds": list(question.answers), "gold_documents": list(documents), "question_type": question.type,
            "hops": len(question.hops),
        }  # fmt: skip
        solution = "\n".join((*question.steps, f"{ANSWER}{question.answers[0]}"))
        return Item(question.text, question.answers[0], solution, question.canonical, extra, question.steps)

    def training_texts(
        self,
        mixture: Mapping[str, float],
        rng: random.Random,
        questions: Iterator[Item],
        samples: Sequence[QuestionAttempts] = (),
    ) -> Iterator[TaskText]:
        """Yields training texts of other worlds without end, in formats drawn in the proportions of a mixture."""
        return mixed_texts(WORLD_TEXTS, mixture, rng)
