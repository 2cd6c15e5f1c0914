"""How the ties of a vote are broken, which `tie` of a policy names.

Of the answers that tie the one with the lowest rank wins, where a rank is that of an answer, or of one of its traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import polars as pl

from toolkit.answers.numbers import number_form


@dataclass(frozen=True)
class TieRanks:
    """Ranks that break ties: `step` int (E, S) ranks each step's trace; an answer has the lowest of its traces.

    Where the answers themselves are ranked, `text` and `number` int (E, A): by their texts, from 1, and by their
    values, 0 for those that are no numbers. The values decide where all that tie are numbers. A null has the highest.
    """

    step: np.ndarray
    text: np.ndarray | None = None
    number: np.ndarray | None = None

    def rows(self, examples: slice) -> TieRanks:
        """The ranks on some examples."""
        arrays = {name: None if array is None else array[examples] for name, array in vars(self).items()}
        return TieRanks(**arrays)  # type: ignore[arg-type]

    def first_steps(self, steps: int) -> TieRanks:
        """The ranks of the first `steps` steps."""
        return replace(self, step=self.step[:, :steps])

    def winning_answers(self, count: Callable[[np.ndarray], np.ndarray], code: np.ndarray) -> np.ndarray:
        """The winning answers (E, S) of a count whose ties the ranks break; -1 where there is none.

        `code` (E, S): the answer of each step, -1 for none.
        """
        by_text = count(self.step)
        if self.number is None:
            return by_text
        by_number = count(np.take_along_axis(self.number, np.maximum(code, 0), axis=1))
        numbers = np.take_along_axis(self.number, np.maximum(by_number, 0), axis=1) > 0
        return np.where(numbers & (by_number >= 0), by_number, by_text)


@dataclass(frozen=True)
class VotingSteps:
    """The steps of a vote, to rank by. `code` (E, S): the answer of each step, -1 for none; `keys` (E, S): of the
    random order, if it is drawn; `words` (E, A): the answers' numbers in a sorted `vocabulary`, -1 for a null.
    """

    code: np.ndarray
    keys: np.ndarray | None
    words: np.ndarray
    vocabulary: pl.Series


def _earliest_ranks(steps: VotingSteps) -> None:
    """Gives no ranks, since the count itself breaks ties by the order of generation."""


def _smallest_text_ranks(steps: VotingSteps) -> TieRanks:
    text, number = answer_ranks(steps.words, steps.vocabulary)
    return TieRanks(np.take_along_axis(text, np.maximum(steps.code, 0), axis=1), text, number)


def _random_ranks(steps: VotingSteps) -> TieRanks:
    if steps.keys is None:
        raise ValueError("a random order needs its keys")
    order = np.argsort(steps.keys, axis=1, kind="stable")
    return TieRanks(np.argsort(order, axis=1, kind="stable").astype(np.int64))


def answer_ranks(words: np.ndarray, vocabulary: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Ranks (E, A) of answers by their texts, and by their values as numbers; the two arrays of `TieRanks`."""
    last = len(vocabulary) + 1
    used = np.unique(words[words >= 0])
    forms = ((word, number_form(text)) for word, text in zip(used.tolist(), vocabulary[used].to_list(), strict=True))
    values = sorted((Fraction(form), word) for word, form in forms if form is not None)
    number = np.zeros(last, dtype=np.int64)
    number[[word for _, word in values]] = np.arange(1, len(values) + 1)
    number[-1] = last  # where a null, -1, looks
    return np.where(words >= 0, words + 1, last).astype(np.int64), number[words]


@dataclass(frozen=True)
class TieBreak:
    """A way to break ties: its `name` in policy files, its `text` in explanations, whether it reads the keys of the
    random order (`drawn`), and the `ranks` of the answers that steps reveal; None: the order of generation.
    """

    name: str
    text: str
    ranks: Callable[[VotingSteps], TieRanks | None]
    drawn: bool = False


EARLIEST = TieBreak("earliest", "", _earliest_ranks)
TIES: Mapping[str, TieBreak] = {
    tie.name: tie
    for tie in (
        EARLIEST,
        TieBreak("smallest", "ties to the smallest answer", _smallest_text_ranks),
        TieBreak("random", "ties in the random order", _random_ranks, drawn=True),
    )
}
