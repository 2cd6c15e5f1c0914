"""The surrogate: recursive least squares that predicts verifier scores and picks the next trace to verify.

One model per example (thesis on fact checking, section 3.5 and algorithm 3), all examples advanced together:
one pass over the verifications, and within it small loops over dimensions. Arrays have the examples last, and
sums over dimensions are taken in their order, so that no result depends on how many examples there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from replay.sampling.learned import Prior
from replay.sampling.orders import GeneratedTraces, Order, WalkSteps
from toolkit.stopping.prefix import FEATURES, SCORES, VOTES

MODES = ("lazy", "pool")
STATE = ("vote_ratio", "label_score", "constant")
"""The entries of the feature vector after the named features: two that change from step to step, and the constant 1."""
LABEL_SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "mean": lambda total, count, highest: total / count,
    "max": lambda total, count, highest: highest,
}
"""`label_score` -> its value, from sum, number and maximum of the scores of an answer's verified traces."""
NEVER = np.iinfo(np.int32).max
TOGETHER = 1024
"""How many examples advance together, so that their matrices fit the processor's cache; it changes no result."""


@dataclass(frozen=True)
class SurrogateOrder(Order, name="surrogate", predicts=True, reads=frozenset({VOTES, SCORES, FEATURES})):
    """Verifies next the trace whose score is predicted highest, by a small model of the example's verified traces."""

    features: tuple[str, ...] = ()
    mode: str = "lazy"
    bootstrap: int = 3
    ridge: float = 1.0
    forgetting: float = 1.0
    bonus: float = 0.0
    unseen: float = 0.5
    label_score: str = "mean"
    prior: Prior | None = None

    @property
    def is_lazy(self) -> bool:
        """Whether a step generates one trace more, so that nothing may be left to verify before the cap."""
        return self.mode == "lazy"

    def walk_steps(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps of a walk that verifies in each step the trace with the highest prediction.

        In the mode `lazy` a last step follows in which nothing is verified: it stands for ending without a rule, when
        one more trace may have been generated.
        """
        return surrogate_walk_steps(
            traces.code, traces.score, traces.features, traces.count, self, verified=traces.verified_code
        )

    @property
    def weight_names(self) -> tuple[str, ...]:
        return (*self.features, *STATE)

    def steps_with_weights(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps, with the weights after each and the prediction by which each trace was picked."""
        parts = traces.code, traces.score, traces.features, traces.count
        return surrogate_walk_steps(*parts, self, keep_weights=True, verified=traces.verified_code)


def surrogate_walk_steps(
    code: np.ndarray, score: np.ndarray, features: np.ndarray, generated: np.ndarray, settings: SurrogateOrder,
    keep_weights: bool = False, verified: np.ndarray | None = None,
) -> WalkSteps:  # fmt: skip
    """The steps of walks that verify the trace with the highest prediction and that no rule stops; S = T + 1.

    `code` int (E, T): answers in the order of generation, -1 invalid or not generated; `score` (E, T), read only where
    a trace is picked; `features` (F, E, T), NaN null; `generated` (E,): traces that the cap allows. `verified` (E, T):
    the answers of traces that may be picked, -1 for the others; None: of all valid ones.
    """
    start = time.perf_counter()
    verified = code if verified is None else verified
    parts = [
        _surrogate_walk_arrays(
            _SurrogateState(code[rows], verified[rows] >= 0, score[rows], features[:, rows], settings),
            generated[rows],
            keep_weights,
        )
        for rows in (slice(i, i + TOGETHER) for i in range(0, max(len(code), 1), TOGETHER))
    ]
    at, count, horizon, final, unread, *learnt = (np.concatenate(column) for column in zip(*parts, strict=True))
    limit, seconds = count + (1 if settings.is_lazy else 0), time.perf_counter() - start
    return WalkSteps(at, count, limit, horizon, final, unread, seconds, *(learnt if keep_weights else ()))


def _surrogate_walk_arrays(state: _SurrogateState, generated: np.ndarray, keep_weights: bool) -> tuple[np.ndarray, ...]:
    """The arrays of `WalkSteps` without `limit`, and weights and predictions, of examples that advance together."""
    settings, (traces, examples) = state.settings, state.code.shape
    at = np.zeros((traces + 1, examples), dtype=np.int32)
    horizon = np.zeros((traces + 2, examples), dtype=np.int32)
    count = np.zeros(examples, dtype=np.int32)
    unread = np.full(examples, NEVER, dtype=np.int32)
    history = np.zeros((traces + 1, state.size, examples)) if keep_weights else None
    predicted = np.full((traces + 1 if keep_weights else 0, examples), np.nan)
    lazy = settings.is_lazy
    now = generated.astype(np.int32)
    if lazy:  # until enough traces can be verified, or the cap
        enough = np.cumsum(state.usable, axis=0) >= settings.bootstrap
        now = np.where(enough.any(axis=0), enough.argmax(axis=0) + 1, now).astype(np.int32)
    horizon[0] = now
    going = np.ones(examples, dtype=bool)
    for step in range(traces + 1):
        state.reveal_traces(now)
        open_ = state.open[: state.top]  # (T, E) unverified valid traces generated by now
        going &= open_.any(axis=0)
        if lazy and step > 0:
            going &= now < generated
        at[step] = at[step - 1] if step else 0
        if going.any():
            if state.has_null:
                blind = (open_ & state.null[: state.top]).any(axis=0) & going
                unread = np.where(blind & (unread == NEVER), step + 1, unread)
            at[step] = np.where(going, state.best_unverified_place(), at[step])
            if history is not None:
                predicted[step] = np.where(going, state.highest, np.nan)
            state.update_weights(at[step], going)
            count += going
        horizon[step + 1] = now
        if history is not None:
            history[step] = state.w
        if lazy and step > 0:
            now = np.where(going, now + 1, now)
    weights = np.zeros(0) if history is None else np.moveaxis(history, (0, 1, 2), (1, 2, 0))
    return at.T, count, horizon.T, now, unread, weights, predicted.T


class _SurrogateState:
    """The surrogates of all examples: votes, observed scores, weights w (d, E) and the matrix P (d, d, E).

    `usable` bool (E, T): the valid traces that may be picked.
    """

    def __init__(
        self, code: np.ndarray, usable: np.ndarray, score: np.ndarray, features: np.ndarray, settings: SurrogateOrder
    ) -> None:
        examples, traces = code.shape
        self.settings = settings
        self.code = np.ascontiguousarray(code.T)
        self.valid, self.usable = self.code >= 0, usable.T
        self.score = np.nan_to_num(score.T)
        self.rows = np.arange(examples)
        static = np.ascontiguousarray(np.swapaxes(features, 1, 2))  # (F, T, E)
        self.null = np.isnan(static).any(axis=0)
        self.has_null = bool(self.null.any())
        self.static = np.nan_to_num(static) if self.has_null else static
        prior = settings.prior
        self.prior = prior.predict_scores(self.static) if prior is not None else None
        answers = max(int(code.max(initial=0)) + 1, 1)
        self.cell = np.maximum(self.code, 0) * examples + self.rows  # (T, E) into the flat (A, E)
        self.votes = np.zeros((answers, examples))
        self.sums, self.counts = np.zeros(self.votes.size), np.zeros(self.votes.size)
        self.maxima = np.full(self.votes.size, -np.inf)
        self.voters = np.zeros(examples)
        self.place = np.arange(traces, dtype=np.int32)[:, None]
        self.now = np.zeros(examples, dtype=np.int32)
        self.top = 0  # no example has generated more: rows from here on are not looked at
        self.open = np.zeros(code.T.shape, dtype=bool)
        self.size = len(self.static) + len(STATE)
        self.w = np.zeros((self.size, examples))
        self.p = np.zeros((self.size, self.size, examples))
        self.p[np.arange(self.size), np.arange(self.size)] = 1.0 / settings.ridge
        self.square = np.empty_like(self.p)  # room for products, allocated once
        self.phi = np.ones((self.size, examples))
        self.label_score = np.full(self.votes.size, settings.unseen)
        self.grid = np.empty((traces, examples))
        self.highest = np.zeros(examples)  # what the last pick was picked by

    def reveal_traces(self, count: np.ndarray) -> None:
        """Add the traces generated up to `count` (E,)."""
        if not (count > self.now).any():
            return
        low, self.top = int(self.now.min()), int(count.max())
        rows = slice(low, self.top)
        fresh = self.valid[rows] & (self.place[rows] >= self.now) & (self.place[rows] < count)
        self.open[rows] |= fresh & self.usable[rows]
        flat = self.votes.reshape(-1)
        flat += np.bincount(self.cell[rows][fresh], minlength=len(flat))
        self.voters += fresh.sum(axis=0)
        self.now = count
        self.vote_ratio = flat.take(self.cell[: self.top]) / np.maximum(self.voters, 1.0)

    def best_unverified_place(self) -> np.ndarray:
        """Place (E,) of the trace not verified yet with the highest prediction; of equal ones the earliest."""
        with np.errstate(over="ignore", invalid="ignore"):  # as in `update_weights`
            predicted = self._linear_prediction()
            if self.prior is not None:
                predicted += self.prior[: self.top]
            np.clip(predicted, 0.0, 1.0, out=predicted)
            if self.settings.bonus:
                predicted += self.settings.bonus * np.sqrt(self._prediction_variance())
        predicted[~self.open[: self.top]] = -np.inf
        place = predicted.argmax(axis=0)
        self.highest = predicted[place, self.rows]
        return place

    def update_weights(self, at: np.ndarray, on: np.ndarray) -> None:
        """Update the weights by the score of trace `at` (E,), on the examples in `on` (E,)."""
        flat = at * len(at) + self.rows
        phi, cell = self._feature_vector(flat), self.cell.reshape(-1).take(flat)
        target = self.score.reshape(-1).take(flat)
        residual = target if self.prior is None else target - self.prior.reshape(-1).take(flat)
        with np.errstate(over="ignore", invalid="ignore"):  # a tiny `forgetting` may overflow: as it would anywhere
            u = np.multiply(self.p, phi, out=self.square).sum(axis=1)  # (d, E)
            gain = u / (self.settings.forgetting + (phi * u).sum(axis=0))
            gain *= on
            self.w += gain * (residual - (self.w * phi).sum(axis=0))
            self.p -= np.multiply(gain[:, None], u, out=self.square)
            if self.settings.forgetting != 1.0:
                self.p /= np.where(on, self.settings.forgetting, 1.0)
        cell = cell[on]
        self.sums[cell] += target[on]
        self.counts[cell] += 1.0
        self.maxima[cell] = np.maximum(self.maxima[cell], target[on])
        statistic = LABEL_SCORES[self.settings.label_score]
        self.label_score[cell] = statistic(self.sums[cell], self.counts[cell], self.maxima[cell])
        self.open.reshape(-1)[flat[on]] = False

    def _feature_columns(self) -> list[np.ndarray]:
        """Features, vote ratio and label score of every trace (T, E)."""
        return [*self.static[:, : self.top], self.vote_ratio, self.label_score.take(self.cell[: self.top])]

    def _linear_prediction(self) -> np.ndarray:
        """The prediction w'phi of every trace (T, E), summed in the order of the dimensions."""
        columns = self._feature_columns()
        total = self.w[0] * columns[0]
        for weight, column in zip(self.w[1:], columns[1:], strict=False):
            total += np.multiply(weight, column, out=self.grid[: self.top])
        total += self.w[-1]
        return total

    def _prediction_variance(self) -> np.ndarray:
        """The variance term phi'P phi of every trace (T, E)."""
        columns = [*self._feature_columns(), np.ones_like(self.vote_ratio)]
        total = np.zeros_like(self.vote_ratio)
        for i, left in enumerate(columns):
            for j, right in enumerate(columns):
                total += self.p[i, j] * left * right
        return np.maximum(total, 0.0)

    def _feature_vector(self, flat: np.ndarray) -> np.ndarray:
        """The feature vector (d, E) of the traces at flat places of (T, E)."""
        for row, column in enumerate(self.static):
            column.reshape(-1).take(flat, out=self.phi[row])
        self.vote_ratio.reshape(-1).take(flat, out=self.phi[-3])
        self.label_score.take(self.cell.reshape(-1).take(flat), out=self.phi[-2])
        return self.phi
