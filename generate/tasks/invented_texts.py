"""Texts about an invented world, of which half hold one wrong fact, to be checked while they unfold.

    Jorwin Ashberg was born in Arndale. He had the occupation crime writer and married Marana Holgate.

The corpus that they are checked against is that of `invented_world` with the same `world` and `people`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from generate.tasks.claim_texts import REFUTED, SUPPORTED
from generate.tasks.invented_world import WORLD_TEXTS, world_of
from generate.tasks.task import Difficulty, Item, QuestionAttempts, TaskText
from generate.tasks.world_texts import mixed_texts
from generate.worlds.names import WORDS
from generate.worlds.texts import draw_text
from toolkit.settings import setting


@dataclass(frozen=True)
class InventedTexts(Difficulty):
    """Difficulty: a world of about so many `people`, drawn by the seed `world`.

    Columns: `gold_error`, `gold_position`, `length`, `error` (the wrong claim, understood without its text), `claims`
    (all of them) with their `claim_labels`, `hops`: facts that the wrong claim needs, of a text without one the most
    that any of its claims needs.
    """

    world: int = setting(0, low=0)
    people: int = setting(900, low=60, high=2_000)

    name: ClassVar[str] = "invented_texts"
    labels: ClassVar[tuple[str, ...]] = (SUPPORTED, REFUTED)
    formats: ClassVar[tuple[str, ...]] = tuple(WORLD_TEXTS)
    vocabulary: ClassVar[tuple[str, ...]] = WORDS

    def draw(self, rng: random.Random) -> Item | None:
        """Draws a text; null where this try came to nothing. Texts with and without an error take turns."""
        flawed = rng.random() < 0.5
        text = draw_text(world_of(self.world, self.people).world, flawed, rng)
        if text is None:
            return None
        error = text.error
        extra: dict[str, str | int | list[str] | None] = {
            "gold_error": flawed, "gold_position": text.gold_position, "length": len(text.text.split()),
            "error": None if error is None else error.statement, "claims": [one.statement for one in text.claims],
            "claim_labels": [SUPPORTED if one.holds else REFUTED for one in text.claims],
            "hops": max(len(one.hops) for one in text.claims) if error is None else len(error.hops),
        }  # fmt: skip
        facts = sorted(f"{one.hops[0].fact[0].name} {[hop.fact[1] for hop in one.hops]}" for one in text.claims)
        return Item(text.text, REFUTED if flawed else SUPPORTED, "", repr(facts), extra, turn=int(flawed))

    def training_texts(
        self,
        mixture: Mapping[str, float],
        rng: random.Random,
        questions: Iterator[Item],
        samples: Sequence[QuestionAttempts] = (),
    ) -> Iterator[TaskText]:
        """Yields training texts of other worlds without end, in formats drawn in the proportions of a mixture."""
        return mixed_texts(WORLD_TEXTS, mixture, rng)
