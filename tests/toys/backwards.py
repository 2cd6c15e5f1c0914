"""An order: everything is generated, then verified from the last trace to the first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.sampling.known import ORDERS
from replay.sampling.orders import GeneratedTraces, _GenerateAllFirst, by_rising_key


@dataclass(frozen=True)
class Backwards(_GenerateAllFirst):
    name: ClassVar[str] = "backwards"

    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        places = np.arange(traces.code.shape[1])
        return by_rising_key(traces.code, np.broadcast_to(-places, traces.code.shape))


ORDERS[Backwards.name] = Backwards
