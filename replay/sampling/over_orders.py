"""Exact means over all orders of an example's logged traces, of which the first k are drawn: arrays in, arrays out.

Each function gives the probability with which each answer, or each trace, is the one that a select chooses. Given which
traces are drawn every order of them is as likely, so what ties shares evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

NEGLIGIBLE = 1e-18
"""Numbers of votes with which an answer wins more rarely than this are left out."""
ROUNDING = 1e-13
"""A probability below this is 0 but for rounding."""
CELLS = 1 << 19
"""Numbers of one array at most, so that memory does not follow the log."""


@dataclass(frozen=True)
class DrawnTraces:
    """The traces of which some are drawn: `drawn` (E,) of `size` (E,), each as likely as the others.

    `code`: answers, -1 for none; `verified` bool: those with a score that counts; `score`. (E, T) each.
    """

    code: np.ndarray
    verified: np.ndarray
    score: np.ndarray
    size: np.ndarray
    drawn: np.ndarray

    @property
    def there(self) -> np.ndarray:
        return np.asarray(np.arange(self.code.shape[1]) < self.size[:, None])

    def by_answer(self) -> np.ndarray:
        """Probability (E, T) that each trace is chosen by majority, equally often each of the winner's."""
        row, column = np.nonzero(self.code >= 0)
        answer = self.code[row, column]
        votes = np.zeros((len(self.code), int(self.code.max(initial=-1)) + 1), dtype=np.int64)
        np.add.at(votes, (row, answer), 1)
        chance = np.zeros(self.code.shape)
        chance[row, column] = (most_votes(votes, self.size, self.drawn) / np.maximum(votes, 1))[row, answer]
        return chance

    def by_score(self) -> np.ndarray:
        """Probability (E, T) that each trace has the highest score of those drawn; equal scores share evenly."""
        return highest(self.score, self.verified, self.size, self.drawn)

    def by_place(self) -> np.ndarray:
        """Probability (E, T) that each trace comes first, where it has an answer."""
        return np.asarray((self.code >= 0) / np.maximum(self.size, 1)[:, None])

    def in_place_of_none(self, chance: np.ndarray) -> np.ndarray:
        """Probability (E, T) that each trace stands for a null prediction, where traces win with `chance` (E, T)."""
        rest = self.there & (chance == 0)
        nothing = np.where(rest.sum(axis=1) >= self.drawn, np.maximum(1 - chance.sum(axis=1), 0.0), 0.0)
        return np.where(rest, (nothing / np.maximum(rest.sum(axis=1), 1))[:, None], 0.0)


def none_drawn(marked: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, M + 1) that none of the first 0 to M `marked` (E, M) of `size` (E,) traces is among those drawn:
    C(N - m, k) / C(N, k).
    """
    place = np.arange(marked.shape[1])
    factors = np.maximum((size - drawn)[:, None] - place, 0) / np.maximum(size[:, None] - place, 1)
    none = np.cumprod(np.where(marked, factors, 1.0), axis=1)
    return np.concatenate([np.ones((len(marked), 1)), none], axis=1)


def highest(value: np.ndarray, usable: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, T) that each trace has the highest value of those drawn; equal values share evenly.

    `value` (E, T), and which traces are `usable` bool (E, T); of `size` (E,) traces `drawn` (E,) are drawn. With
    scores it is best-of-N, with correctness pass@k (Chen et al. 2021, equation 1).
    """
    keys = np.where(usable, -value, np.inf)
    ranked = np.argsort(keys, axis=1, kind="stable")
    falling, there = np.take_along_axis(keys, ranked, axis=1), np.take_along_axis(usable, ranked, axis=1)
    place = np.broadcast_to(np.arange(keys.shape[1]), keys.shape)
    begins = np.ones(keys.shape, dtype=bool)
    begins[:, 1:] = falling[:, 1:] != falling[:, :-1]
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    after = np.where(begins[:, 1:], place[:, 1:], keys.shape[1])
    stop = np.minimum.accumulate(np.pad(after, ((0, 0), (0, 1)), constant_values=keys.shape[1])[:, ::-1], axis=1)
    stop = stop[:, ::-1]
    none = none_drawn(there, size, drawn)
    share = np.take_along_axis(none, start, axis=1) - np.take_along_axis(none, stop, axis=1)
    chance = np.zeros(keys.shape)
    np.put_along_axis(chance, ranked, np.where(there, share / (stop - start), 0.0), axis=1)
    return chance


def most_votes(votes: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, A) that each answer has most votes among the traces drawn; answers that tie share evenly.

    `votes` (E, A): how many of an example's `size` (E,) traces give each answer, the others give none; `drawn` (E,).

    With c votes of N traces, k of them drawn, an answer a wins with m of them with probability C(c_a, m) / C(N, k) ·
    ∫ [z^(k - m)] (1 + z)^(c_0) Π_(i ≠ a) (Σ_(x < m) C(c_i, x) z^x + t C(c_i, m) z^m) dt over t from 0 to 1, for
    ∫ t^j dt = 1 / (j + 1) is its share where j others tie. Here each trace is drawn by itself with probability k / N,
    so that all terms are probabilities, and the part with k drawn is a coefficient of a discrete Fourier transform.
    The integral is exact at Gauss-Legendre nodes.
    """
    if not votes.any():
        return np.zeros(votes.shape)
    counts = -np.sort(-votes, axis=1)
    keys, inverse = np.unique(np.column_stack([size, drawn, counts]), axis=0, return_inverse=True)
    by_votes = np.zeros((len(keys), int(votes.max(initial=0)) + 1))
    pairs, pair_of = np.unique(keys[:, :2], axis=0, return_inverse=True)
    for number, (traces, k) in enumerate(pairs.tolist()):
        rows = np.flatnonzero(pair_of.reshape(-1) == number)
        if k:
            by_votes[rows] = _by_votes(keys[rows, 2:], traces, k, by_votes.shape[1])
    return np.where(votes > 0, np.take_along_axis(by_votes[inverse.reshape(-1)], votes, axis=1), 0.0)


def _by_votes(counts: np.ndarray, size: int, drawn: int, width: int) -> np.ndarray:
    """Probability (U, width) that an answer with so many of all votes wins; `counts` (U, A) fall along each row."""
    wins = np.zeros(counts.shape)
    top = counts[:, :1]
    if drawn == size:
        wins[...] = (counts == top) / np.maximum((counts == top).sum(axis=1, keepdims=True), 1)
    else:
        reach = _reach(size, drawn)
        second = counts[:, 1] if counts.shape[1] > 1 else np.zeros(len(counts), dtype=np.int64)
        beaten = reach.alone[second] * reach.below[top[:, 0]]
        open_ = beaten.sum(axis=1) * counts.shape[1] > NEGLIGIBLE  # else the first always wins
        wins[~open_, 0] = reach.alone[size, drawn]
        for m in range(1, min(drawn, int(top.max(initial=0))) + 1):
            live = np.flatnonzero(open_ & (top[:, 0] >= m) & (reach.below[top[:, 0], m] > NEGLIGIBLE))
            rivals = np.count_nonzero(reach.above[counts[live], m] > NEGLIGIBLE, axis=1)
            live, rivals = live[rivals > 0], rivals[rivals > 0]
            for part in _parts(rivals, reach.places, drawn, m):
                most = int(rivals[part].max())
                wins[live[part], :most] += _wins_with(m, counts[live[part], :most], size, drawn, reach)
        wins /= reach.alone[size, drawn]
    out = np.zeros((len(counts), width))
    np.put_along_axis(out, counts, np.where((counts > 0) & (wins > ROUNDING), wins, 0.0), axis=1)
    out[:, 0] = 0.0
    return out


@dataclass(frozen=True, eq=False)
class _Reach:
    """Numbers of drawn traces among so many, each by itself with probability k / N: (N + 1, N + 1) each.

    `alone`: probabilities; `below`: of no more than a number where k are drawn in all, at most; `above`: of no fewer.
    `places`: length of a transform in which no other total falls on k, but for what is negligible.
    """

    alone: np.ndarray
    below: np.ndarray
    above: np.ndarray
    places: int


@lru_cache(maxsize=4)
def _reach(size: int, drawn: int) -> _Reach:
    share = drawn / size
    alone = np.zeros((size + 1, size + 1))
    alone[0, 0] = 1.0
    for traces in range(1, size + 1):
        alone[traces] = (1 - share) * alone[traces - 1]
        alone[traces, 1:] += share * alone[traces - 1, :-1]
    total = alone[size]
    below, above = np.cumsum(alone, axis=1), np.cumsum(alone[:, ::-1], axis=1)[:, ::-1]
    likely = np.flatnonzero(total > NEGLIGIBLE * total[drawn])
    places = int(max(likely[-1] - drawn, drawn - likely[0])) + 1
    return _Reach(alone, below / total[drawn], above / total[drawn], places)


def _nodes(drawn: int, m: int, rivals: int) -> int:
    """Gauss-Legendre nodes for the shares of ties: no more than k / m answers, and no more than there are, can tie."""
    return (min(drawn // m, rivals) + 1) // 2


def _parts(rivals: np.ndarray, places: int, drawn: int, m: int) -> Iterator[np.ndarray]:
    """Rows with so many `rivals` each in parts of like numbers, each of `CELLS` numbers at most."""
    order = np.argsort(rivals, kind="stable")
    start = 0
    while start < len(order):
        stop = len(order)
        while stop > start + 1:
            most = int(rivals[order[stop - 1]])
            if (stop - start) * most * (places // 2 + 1) * _nodes(drawn, m, most) <= CELLS:
                break
            stop = start + (stop - start + 1) // 2
        yield order[start:stop]
        start = stop


def _wins_with(m: int, counts: np.ndarray, size: int, drawn: int, reach: _Reach) -> np.ndarray:
    """Probability (U, R) that an answer wins with m of the votes that are drawn, times that of drawing k.

    `counts` (U, R): all votes of the answers that may have m.
    """
    share, places = drawn / size, reach.places
    half = np.arange(places // 2 + 1)
    z = np.exp(2j * np.pi * half / places)
    weight = np.where((half == 0) | (2 * half == places), 1.0, 2.0) / places * np.conj(z ** (drawn - m))
    node, node_weight = np.polynomial.legendre.leggauss(_nodes(drawn, m, counts.shape[1]))
    values, place = np.unique(counts, return_inverse=True)
    powers = z ** np.arange(m + 1)[:, None]
    tied = (reach.alone[values, m][:, None] * powers[m])[..., None]
    factor = (reach.alone[values, :m] @ powers[:m])[..., None] + (node + 1) / 2 * tied  # (V, P, N)
    every = factor[place.reshape(counts.shape)]  # (U, R, P, N)
    free = np.array([(1 - share + share * z) ** number for number in range(size + 1)])
    others = free[size - counts.sum(axis=1)] * weight  # (U, P) answers that cannot have m, and traces of none
    rest = np.ones_like(every)
    if counts.shape[1] > 1:
        rest[:, :-1] = np.cumprod(every[:, :0:-1], axis=1)[:, ::-1]
        rest[:, 1:] *= np.cumprod(every[:, :-1], axis=1)
    coefficient = ((rest @ (node_weight / 2)) * others[:, None]).real.sum(axis=2)
    return np.asarray(reach.alone[counts, m] * coefficient)
