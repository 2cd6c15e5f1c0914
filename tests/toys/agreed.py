"""A select with a parameter: the latest answer that has `lead` votes, else the first answer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay import SELECTS, Prefix
from replay.sampling.selects import Select
from toolkit.settings import setting


@dataclass(frozen=True)
class Agreed(Select):
    lead: int = setting(2, low=1)
    name: ClassVar[str] = "latest agreed"
    reads: ClassVar[frozenset[str]] = frozenset({"votes"})

    def chooses(self, seen: Prefix) -> np.ndarray:
        votes = seen.answer_votes >= self.lead
        return np.where(votes.any(axis=2), votes.shape[2] - 1 - votes[:, :, ::-1].argmax(axis=2), 0)


SELECTS[Agreed.name] = Agreed
