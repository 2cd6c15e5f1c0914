"""People who answered the same texts: how right they are and when, beside a method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.engine.positions import expected_wins, human_buzzes
from replay.studies.buzz.acts import Acts, Texts


@dataclass(frozen=True, eq=False)
class People:
    """What people did on each text (E,), NaN where none is recorded: the `share` that is right, whether `any` is (as a
    show counts them), and Δ of the earliest who is right, of texts with an error. `answers`: recorded in all.
    """

    share: np.ndarray
    any: np.ndarray
    deviation: np.ndarray
    answers: int

    @property
    def there(self) -> np.ndarray:
        """The texts (E,) bool that people answered."""
        return ~np.isnan(self.any)


def read_people(texts: Texts) -> People | None:
    """Reads the recorded people of some texts; None where there are none."""
    row, place, right = human_buzzes(texts.frame)
    if not len(row):
        return None
    size = len(texts.frame)
    count = np.bincount(row, minlength=size)
    rights = np.bincount(row, weights=right, minlength=size)
    earliest = np.full(size, np.inf)
    np.minimum.at(earliest, row[right], place[right])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(count > 0, rights / count, np.nan)
        earliest = np.where(np.isfinite(earliest) & (texts.error == 1), earliest, np.nan)
        return People(share, np.where(count > 0, rights > 0, np.nan), texts.deviation(earliest), len(row))


def wins_of(texts: Texts, acts: Acts) -> np.ndarray:
    """Returns expected wins (E,) of a method against the people of each text with an error: the share of them who were
    not right before it, where it found the error, else 0; NaN where nobody is recorded.
    """
    acted = np.where(acts.acted == 1, acts.position, np.inf)
    wins = expected_wins(texts.frame, acted, np.where(acts.finds == 1, 1.0, 0.0))
    return np.where(texts.error == 1, wins, np.nan)
