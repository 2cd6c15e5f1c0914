"""A stop: the first `size` traces are valid and give one answer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.sampling.known import STOPS
from toolkit.settings import setting
from toolkit.stopping.prefix import VOTES, Prefix
from toolkit.stopping.stops import StopRule


@dataclass(frozen=True)
class Unanimous(StopRule):
    size: int = setting(2, low=1)
    name: ClassVar[str] = "unanimous"
    reads: ClassVar[frozenset[str]] = frozenset({VOTES})

    def holds(self, seen: Prefix) -> np.ndarray:
        return (seen.traces == self.size) & (seen.votes == self.size)


STOPS[Unanimous.name] = Unanimous
