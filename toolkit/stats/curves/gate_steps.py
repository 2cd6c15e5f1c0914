"""A gate that opens step by step: what an example is worth before and after, and sums and means at every point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.kept import Floats, Ints


@dataclass(frozen=True, eq=False)
class GateSteps:
    """N examples that a gate lets through group by group.

    `group` (N,): the point (1 to P) from which an example is let through. `kept` and `fired` (metrics, N): values
    before and after. `unit` (N,): resampling unit, numbered from 0. `rate` names the metrics that are shares of
    examples, within 0 and 1. An unjudged example has NaN in both and is left out of that metric. `among` names ratios
    of two of them, such as flips among those acted on; they are NaN where the second is 0.
    """

    group: Ints
    unit: Ints
    kept: Mapping[str, Floats]
    fired: Mapping[str, Floats]
    rate: frozenset[str]
    least: int = 0  # points there are at least, where the last ones let no further example through
    among: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """The last point, at which all examples are through."""
        return max(int(self.group.max(initial=0)), self.least)

    @property
    def independent(self) -> bool:
        """Whether every resampling unit is one example."""
        return len(np.unique(self.unit)) == len(self.unit)

    def known(self, metric: str) -> NDArray[np.bool_]:
        """Examples (N,) with a value of a metric both before and after; of both metrics of a ratio."""
        if metric in self.among:
            top, of = self.among[metric]
            return self.known(top) & self.known(of)
        return ~np.isnan(self.kept[metric]) & ~np.isnan(self.fired[metric])

    def totals(
        self, metric: str, on: NDArray[np.bool_], of: Callable[[Floats], Floats] = lambda values: values
    ) -> Floats:
        """Sums over some examples of a function of a metric's values at every point, (P + 1,)."""
        kept, fired = of(self.kept[metric][on]), of(self.fired[metric][on])
        gained = np.bincount(self.group[on], weights=fired - kept, minlength=self.points + 1)
        return np.asarray(kept.sum() + np.cumsum(gained))


def means(steps: GateSteps, metric: str) -> Floats:
    """Mean of a metric at every point, 0 (nothing let through) to P: (P + 1,), NaN where none is known."""
    if metric in steps.among:
        return ratio(*(means(steps, name) for name in steps.among[metric]))
    known = steps.known(metric)
    count = known.sum()
    return steps.totals(metric, known) / count if count else np.full(steps.points + 1, np.nan)


def ratio(top: Floats, of: Floats) -> Floats:
    """One over the other, NaN where that is 0."""
    return np.divide(top, of, out=np.full(top.shape, np.nan), where=of > 0)
