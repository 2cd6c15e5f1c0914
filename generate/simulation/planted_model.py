"""The model of a log with planted states, and what is known of it: areas under the ROC curve, and best-of-n.

- *difficulty*: u ~ N(0, 1). A trace is right with probability 1/(1 + exp(`slope` · u − `ease`)).
- *states*: at each of the places, x = e + (b · right + c · u) · w, where w is a unit vector, b is `signal`, c is
  `difficulty`, and the numbers of e are standard normal. The share `shared` of the variance of e is the same at all
  places of a trace.

- *log-probabilities*, where `logprob` is given: `logprob` · right + c · u, and noise of variance 1, less a constant.
- *probe*, where it is asked for: one more trace of each question, in a pool of its own.

So w · x, averaged over any places, is normal with the variance `variance`, and tells right traces from wrong ones as
well as anything can. Within a question u is a constant, so the area is Φ(b / √(2 · variance)). Over all traces it is
the mean of Φ((b + c · (u − v)) / √(2 · variance)) over the difficulties u of right and v of wrong traces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from toolkit.settings import check, setting

NODES = 80
"""Of the integrals over normal variables: enough for six decimals."""


@dataclass(frozen=True)
class PlantedModel:
    """Parameters of the simulation; the module's docstring says what each does."""

    dimensions: int = setting(8, low=1, high=65_536)
    places: int = setting(4, low=1, high=1_024)
    signal: float = setting(1.0)
    difficulty: float = setting(-0.5)
    ease: float = setting(0.5)
    slope: float = setting(1.2)
    shared: float = setting(0.5, low=0, high=1)
    logprob: float | None = setting(None)
    probe: bool = False

    def __post_init__(self) -> None:
        check(self)

    @property
    def told(self) -> PlantedModel | None:
        """The model of log-probabilities, as if they were states of one number; None where there are none."""
        if self.logprob is None:
            return None
        return replace(self, signal=self.logprob, shared=1.0, places=1, logprob=None)

    def variance(self, places: int | None = None) -> float:
        """Of the projection's noise, averaged over so many places, by default all."""
        return self.shared + (1 - self.shared) / (places or self.places)

    def right(self, difficulty: np.ndarray) -> np.ndarray:
        """Probability that a trace of a question of this difficulty is right."""
        return 1 / (1 + np.exp(self.slope * difficulty - self.ease))

    def direction(self, seed: int) -> np.ndarray:
        """The unit vector w."""
        drawn = np.random.default_rng([seed, self.dimensions]).normal(size=self.dimensions)
        return drawn / np.linalg.norm(drawn)

    @cached_property
    def _difficulties(self) -> tuple[np.ndarray, np.ndarray]:
        """Places and weights of a standard normal variable."""
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
        return points, weights / weights.sum()

    def auc_within(self, places: int | None = None) -> float:
        """Of the projection, among the traces of one question."""
        from scipy.stats import norm

        return float(norm.cdf(self.signal / np.sqrt(2 * self.variance(places))))

    def auc(self, places: int | None = None) -> float:
        """Of the projection, over all traces."""
        from scipy.stats import norm

        u, weights = self._difficulties
        right = weights * self.right(u)
        wrong = weights - right
        apart = self.signal + self.difficulty * (u[:, None] - u[None, :])
        above = norm.cdf(apart / np.sqrt(2 * self.variance(places)))
        return float(right @ above @ wrong / (right.sum() * wrong.sum()))

    def random_pick(self) -> float:
        """The share of right traces."""
        u, weights = self._difficulties
        return float(weights @ self.right(u))

    def best_of(self, traces: int, places: int | None = None) -> float:
        """Share of questions on which the trace with the highest projection, of so many, is right."""
        from scipy.integrate import quad
        from scipy.stats import norm

        u, weights = self._difficulties
        probability, ahead = self.right(u), self.signal / np.sqrt(self.variance(places))

        def density(z: float) -> float:
            """That a right trace of the value z has the highest one."""
            below = probability * norm.cdf(z - ahead) + (1 - probability) * norm.cdf(z)
            return float(weights @ (probability * below ** (traces - 1)) * norm.pdf(z - ahead))

        chosen, _ = quad(density, ahead - 9, ahead + 9, limit=200)
        return float(traces * chosen)
