"""An order: everything is generated, then verified from the last trace to the first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.sampling.known import ORDERS
from replay.sampling.orders import GeneratedTraces, _GenerateFirst, later


@dataclass(frozen=True)
class Backwards(_GenerateFirst):
    name: ClassVar[str] = "backwards"

    def arranged(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        places = np.arange(traces.code.shape[1])
        return later(traces.code, np.broadcast_to(-places, traces.code.shape))


ORDERS[Backwards.name] = Backwards
