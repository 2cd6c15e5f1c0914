"""Exact probabilities that a trace or an answer wins, over all orders of an example's traces of which the first k
count.

Each function gives the probability with which each answer, or each trace, is the one that a select chooses. Given which
traces are drawn every order of them is as likely, so what ties shares evenly, unless the answers are ranked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from toolkit.stopping.ties import TieRanks

NEGLIGIBLE = 1e-18
"""A number of votes with which an answer wins less often than this is left out."""
ROUNDING = 1e-13
"""A probability below this is 0 but for rounding."""
CELLS = 1 << 19
"""The most numbers that one array may hold, so that memory does not grow with the log."""


@dataclass(frozen=True)
class DrawnTraces:
    """Traces of a pool of which `drawn` (E,) of `size` (E,) are drawn at random, each as likely as the others.

    `code`: answers, -1 for none; `verified` bool: those with a score that counts; `score`. (E, T) each. `nulls` bool
    (E, T): those that vote for none; None: no trace does. `ranks`: of the answers and, last, of a null, where they
    break ties.
    """

    code: np.ndarray
    verified: np.ndarray
    score: np.ndarray
    size: np.ndarray
    drawn: np.ndarray
    nulls: np.ndarray | None = None
    ranks: TieRanks | None = None

    @property
    def has_trace(self) -> np.ndarray:
        return np.asarray(np.arange(self.code.shape[1]) < self.size[:, None])

    @cached_property
    def votes(self) -> np.ndarray:
        """How many traces vote for each answer, and in the last column for none: (E, A + 1)."""
        null = int(self.code.max(initial=-1)) + 1
        row, column = np.nonzero((self.code >= 0) if self.nulls is None else (self.code >= 0) | self.nulls)
        votes = np.zeros((len(self.code), null + 1), dtype=np.int64)
        np.add.at(votes, (row, np.where(self.code >= 0, self.code, null)[row, column]), 1)
        return votes

    def majority_probability(self) -> np.ndarray:
        """Probability (E, T) that a majority vote takes each trace; the winning answer's traces are equally likely."""
        wins = self._answer_win_probability()
        row, column = np.nonzero(self.code >= 0)
        chance = np.zeros(self.code.shape)
        chance[row, column] = (wins / np.maximum(self.votes, 1))[row, self.code[row, column]]
        return chance

    def _answer_win_probability(self) -> np.ndarray:
        """Probability (E, A + 1) that each answer wins the majority vote, and in the last column that a null does."""
        if self.ranks is None or self.ranks.text is None or self.ranks.number is None:
            return most_votes_probability(self.votes, self.size, self.drawn)
        null = self.votes.shape[1] - 1
        text, number = (np.delete(ranks, np.s_[null:-1], axis=1) for ranks in (self.ranks.text, self.ranks.number))
        return smallest_of_tied(self.votes, text, number, self.size, self.drawn)

    def highest_score_probability(self) -> np.ndarray:
        """Probability (E, T) that each trace has the highest score of those drawn; equal scores share evenly."""
        return highest_value_probability(self.score, self.verified, self.size, self.drawn)

    def weighted_vote_probability(self) -> np.ndarray:
        """Probability (E, T) that a weighted vote takes each trace: the first of the answer with the highest sum.

        It goes over all sets of traces that may be drawn, which is one where all are. Of answers that tie the one whose
        verified trace comes first wins, which is more often the one with more of them; or the smallest, where answers
        are ranked. Where an answer wins, each of its drawn traces is as likely to come first.
        """
        chance = np.zeros(self.code.shape)
        sizes, of_size = np.unique(np.column_stack([self.size, self.drawn]), axis=0, return_inverse=True)
        for number, (size, drawn) in enumerate(sizes.tolist()):
            if not drawn:
                continue
            rows = np.flatnonzero(of_size.reshape(-1) == number)
            chosen = np.array(list(combinations(range(size), drawn)), np.int64)
            for some in np.array_split(rows, max(1, -(-len(rows) * chosen.size * drawn // CELLS))):
                shares = self._weighted_vote_winner_shares(some, chosen) / len(chosen)
                flat = np.broadcast_to(chosen, shares.shape).reshape(len(some), -1)
                np.add.at(chance, (some[:, None], flat), shares.reshape(len(some), -1))
        return chance

    def _weighted_vote_winner_shares(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Probability (R, C, k) that a weighted vote takes each trace of the C sets `chosen` (C, k), for R examples."""
        code, verified, score = (values[rows][:, chosen] for values in (self.code, self.verified, self.score))
        weight = np.where(verified, score, 0.0)
        same = (code[..., None] == code[..., None, :]) & (code >= 0)[..., None]
        total = np.where(verified, (same * weight[..., None, :]).sum(axis=-1), -np.inf)
        wins = verified & (total == total.max(axis=-1, keepdims=True, initial=-np.inf))
        if self.ranks is not None and self.ranks.text is not None and self.ranks.number is not None:
            text, value = (
                np.take_along_axis(ranks[rows], np.maximum(code, 0).reshape(len(rows), -1), axis=1).reshape(code.shape)
                for ranks in (self.ranks.text, self.ranks.number)
            )
            rank = np.where((~wins | (value > 0)).all(axis=-1, keepdims=True), value, text)
            rank = np.where(wins, rank, np.iinfo(np.int64).max)
            wins &= rank == rank.min(axis=-1, keepdims=True, initial=np.iinfo(np.int64).max)
        first = wins / np.maximum(wins.sum(axis=-1, keepdims=True), 1)
        by_answer = (same * first[..., None, :]).sum(axis=-1)
        return np.asarray(by_answer / np.maximum(same.sum(axis=-1), 1))

    def first_drawn_probability(self) -> np.ndarray:
        """Probability (E, T) that each trace is the first one drawn, where it has an answer."""
        return np.asarray((self.code >= 0) / np.maximum(self.size, 1)[:, None])

    def spread_null_probability(self, chance: np.ndarray) -> np.ndarray:
        """Probability (E, T) that each trace stands for a null prediction; `chance` (E, T): that each wins."""
        if self.nulls is not None:
            return self._stand_for_null_probability(self.nulls)
        rest = self.has_trace & (chance == 0)
        nothing = np.where(rest.sum(axis=1) >= self.drawn, np.maximum(1 - chance.sum(axis=1), 0.0), 0.0)
        return np.where(rest, (nothing / np.maximum(rest.sum(axis=1), 1))[:, None], 0.0)

    def _stand_for_null_probability(self, nulls: np.ndarray) -> np.ndarray:
        """Probability (E, T) that a null wins the vote and each trace, the first drawn, stands for it."""
        even = self.ranks is None or self.ranks.text is None
        joint = null_win_and_first_probability(self.votes, self.size, self.drawn, even)
        null = self.votes.shape[1] - 1
        voted = np.where(self.code >= 0, self.code, np.where(nulls, null, null + 1))
        chance = np.take_along_axis(joint, voted, axis=1) / np.maximum(self.drawn, 1)[:, None]
        return np.where(self.has_trace, chance, 0.0)


def none_drawn_probability(marked: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, M + 1) that none of 0 to M marked traces is among those drawn: C(N - m, k) / C(N, k)."""
    place = np.arange(marked.shape[1])
    factors = np.maximum((size - drawn)[:, None] - place, 0) / np.maximum(size[:, None] - place, 1)
    none = np.cumprod(np.where(marked, factors, 1.0), axis=1)
    return np.concatenate([np.ones((len(marked), 1)), none], axis=1)


def highest_value_probability(value: np.ndarray, usable: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, T) that each trace has the highest value of those drawn; traces with equal values share evenly.

    `value` (E, T), and which traces are `usable` bool (E, T); of `size` (E,) traces `drawn` (E,) are drawn. With scores
    it is best-of-N, with correctness pass@k (Chen et al. 2021, equation 1).
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
    none = none_drawn_probability(there, size, drawn)
    share = np.take_along_axis(none, start, axis=1) - np.take_along_axis(none, stop, axis=1)
    chance = np.zeros(keys.shape)
    np.put_along_axis(chance, ranked, np.where(there, share / (stop - start), 0.0), axis=1)
    return chance


def most_votes_probability(votes: np.ndarray, size: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (E, A) that each answer has most votes among the traces drawn; answers that tie share evenly.

    `votes` (E, A): how many of an example's `size` (E,) traces give each answer, the others give none; `drawn` (E,).

    With c votes of N traces, k of them drawn, an answer a wins with m of them with probability C(c_a, m) / C(N, k) · ∫
    [z^(k - m)] (1 + z)^(c_0) Π_(i ≠ a) (Σ_(x < m) C(c_i, x) z^x + t C(c_i, m) z^m) dt over t from 0 to 1, for ∫ t^j dt
    = 1 / (j + 1) is its share where j others tie. Here each trace is drawn by itself with probability k / N, so that
    all terms are probabilities, and the part with k drawn is a coefficient of a discrete Fourier transform. The
    integral is exact at Gauss-Legendre nodes.
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
            by_votes[rows] = _win_probability_by_votes(keys[rows, 2:], traces, k, by_votes.shape[1])
    return np.where(votes > 0, np.take_along_axis(by_votes[inverse.reshape(-1)], votes, axis=1), 0.0)


def _win_probability_by_votes(counts: np.ndarray, size: int, drawn: int, width: int) -> np.ndarray:
    """Probability (U, width) that an answer with 0, 1, … votes wins; `counts` (U, A) fall along each row."""
    wins = np.zeros(counts.shape)
    top = counts[:, :1]
    if drawn == size:
        wins[...] = (counts == top) / np.maximum((counts == top).sum(axis=1, keepdims=True), 1)
    else:
        reach = _draw_probabilities(size, drawn)
        second = counts[:, 1] if counts.shape[1] > 1 else np.zeros(len(counts), dtype=np.int64)
        beaten = reach.alone[second] * reach.below[top[:, 0]]
        open_ = beaten.sum(axis=1) * counts.shape[1] > NEGLIGIBLE  # else the first always wins
        wins[~open_, 0] = reach.probability_of_total
        for m in range(1, min(drawn, int(top.max(initial=0))) + 1):
            live = np.flatnonzero(open_ & (top[:, 0] >= m) & (reach.below[top[:, 0], m] > NEGLIGIBLE))
            rivals = np.count_nonzero(reach.above[counts[live], m] > NEGLIGIBLE, axis=1)
            live, rivals = live[rivals > 0], rivals[rivals > 0]
            for part in _row_parts_of_equal_counts(rivals, reach.places, drawn, m):
                most = int(rivals[part].max())
                wins[live[part], :most] += _win_probability_with_votes(m, counts[live[part], :most], reach)
        wins /= reach.probability_of_total
    out = np.zeros((len(counts), width))
    np.put_along_axis(out, counts, np.where((counts > 0) & (wins > ROUNDING), wins, 0.0), axis=1)
    out[:, 0] = 0.0
    return out


@dataclass(frozen=True, eq=False)
class _DrawProbabilities:
    """Probabilities (N + 1, N + 1) of how many of so many traces are drawn, if each is drawn by itself with k / N.

    Of `size` traces `drawn`. `alone`: probabilities; `below`: of no more than a number where k are drawn in all, at
    most; `above`: of no fewer. `places`: length of a transform in which no other total falls on k, but for what is
    negligible.
    """

    size: int
    drawn: int
    alone: np.ndarray
    below: np.ndarray
    above: np.ndarray
    places: int

    @property
    def share_drawn(self) -> float:
        return self.drawn / self.size

    @property
    def probability_of_total(self) -> float:
        """The probability that exactly `drawn` traces are drawn in all."""
        return float(self.alone[self.size, self.drawn])


@lru_cache(maxsize=64)
def _draw_probabilities(size: int, drawn: int) -> _DrawProbabilities:
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
    return _DrawProbabilities(size, drawn, alone, below / total[drawn], above / total[drawn], places)


def _quadrature_nodes(drawn: int, m: int, rivals: int) -> int:
    """How many Gauss-Legendre nodes make shares of ties exact: no more than k / m answers, nor than there are,
    can tie.
    """
    return (min(drawn // m, rivals) + 1) // 2


def _row_parts_of_equal_counts(rivals: np.ndarray, places: int, drawn: int, m: int) -> Iterator[np.ndarray]:
    order = np.argsort(rivals, kind="stable")
    start = 0
    while start < len(order):
        stop = len(order)
        while stop > start + 1:
            most = int(rivals[order[stop - 1]])
            if (stop - start) * most * (places // 2 + 1) * _quadrature_nodes(drawn, m, most) <= CELLS:
                break
            stop = start + (stop - start + 1) // 2
        yield order[start:stop]
        start = stop


@dataclass(frozen=True)
class _VoteGeneratingFunctions:
    """Generating functions of the drawn votes at points `z` (P,), for an answer that wins with `m` votes. `others` (U,
    P): the factor of traces that do not vote, times the weights that pick the coefficient with k drawn.
    """

    m: int
    reach: _DrawProbabilities
    z: np.ndarray
    others: np.ndarray

    @classmethod
    def functions_of_rows(cls, m: int, reach: _DrawProbabilities, counted: np.ndarray) -> _VoteGeneratingFunctions:
        """The generating functions of rows with `counted` (U,) traces that vote."""
        half = np.arange(reach.places // 2 + 1)
        z = np.exp(2j * np.pi * half / reach.places)
        once = np.where((half == 0) | (2 * half == reach.places), 1.0, 2.0) / reach.places
        free = np.array([(1 - reach.share_drawn + reach.share_drawn * z) ** number for number in range(reach.size + 1)])
        return cls(m, reach, z, free[reach.size - counted] * once * np.conj(z ** (reach.drawn - m)))

    def factors_below(self, counts: np.ndarray, mean: bool = False) -> np.ndarray:
        """Factors (U, R, P) for answers with `counts` (U, R) votes of which fewer than m are drawn; `mean`: times the
        share drawn.
        """
        values, place = np.unique(counts, return_inverse=True)
        votes = np.arange(self.m)
        alone = self.reach.alone[values, : self.m] * (votes / np.maximum(values, 1)[:, None] if mean else 1.0)
        return np.asarray((alone @ self.z ** votes[:, None])[place.reshape(counts.shape)])

    def factors_tied(self, counts: np.ndarray) -> np.ndarray:
        """Factors (U, R, P) for answers with `counts` (U, R) votes of which exactly m are drawn."""
        return np.asarray(self.reach.alone[counts, self.m][..., None] * self.z**self.m)


def _win_probability_with_votes(m: int, counts: np.ndarray, reach: _DrawProbabilities) -> np.ndarray:
    """Probability (U, R) that an answer wins with exactly m drawn votes, times the probability that k traces are drawn.

    `counts` (U, R): all votes of the answers that may have m.
    """
    draws = _VoteGeneratingFunctions.functions_of_rows(m, reach, counts.sum(axis=1))
    node, node_weight = np.polynomial.legendre.leggauss(_quadrature_nodes(reach.drawn, m, counts.shape[1]))
    every = (
        draws.factors_below(counts)[..., None] + draws.factors_tied(counts)[..., None] * (node + 1) / 2
    )  # (U, R, P, N)
    rest = _prefix_products(every)[:, :-1] * _prefix_products(every[:, ::-1])[:, -2::-1]
    coefficient = ((rest @ (node_weight / 2)) * draws.others[:, None]).real.sum(axis=2)
    return np.asarray(reach.alone[counts, m] * coefficient)


def smallest_of_tied(
    votes: np.ndarray, text: np.ndarray, number: np.ndarray, size: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Probability (E, A) that each answer wins the vote where the smallest of tied answers wins: by `number` (E, A) if
    all of them have one above 0, else by `text` (E, A).

    An answer wins where those before it have fewer votes, and those after it no more. So a number wins where it does so
    by value and no text has as many votes, or by text, less those times that no text has as many.
    """
    numeric = number > 0
    by_number = _earliest_of_tied(votes, number, numeric, size, drawn)
    if (numeric | (votes == 0)).all():
        return by_number
    by_text = _earliest_of_tied(votes, text, np.ones_like(numeric), size, drawn)
    return by_text + np.where(numeric, by_number - _earliest_of_tied(votes, text, numeric, size, drawn), 0.0)


def _earliest_of_tied(
    votes: np.ndarray, rank: np.ndarray, ties: np.ndarray, size: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Probability (E, A) that each answer has more votes than answers of lower `rank` (E, A), and at least as many as
    the others; more than those, too, that may not tie (`ties` (E, A) false).
    """
    order = np.argsort(np.where(votes > 0, rank, np.iinfo(np.int64).max), axis=1, kind="stable")
    counts, marks = np.take_along_axis(votes, order, axis=1), np.take_along_axis(ties, order, axis=1)
    keys, inverse = np.unique(np.column_stack([size, drawn, counts, marks]), axis=0, return_inverse=True)
    wins, answers = np.zeros((len(keys), votes.shape[1])), votes.shape[1]
    for part in _groups_of_equal_draws(keys, answers):
        counts, marks, reach = (
            keys[part, 2 : 2 + answers], keys[part, 2 + answers :] > 0, _draw_probabilities(*keys[part[0], :2]),
        )  # fmt: skip
        for m in range(1, min(reach.drawn, int(counts.max(initial=0))) + 1):
            draws = _VoteGeneratingFunctions.functions_of_rows(m, reach, counts.sum(axis=1))
            below, tied = draws.factors_below(counts), draws.factors_tied(counts)
            rest = (
                _prefix_products(below)[:, :-1]
                * _prefix_products(np.where(marks[..., None], below + tied, below)[:, ::-1])[:, -2::-1]
            )
            wins[part] += (
                reach.alone[counts, m] / reach.probability_of_total * (rest * draws.others[:, None]).real.sum(axis=2)
            )
    chance = np.zeros(votes.shape)
    np.put_along_axis(chance, order, np.where(wins > ROUNDING, wins, 0.0)[inverse.reshape(-1)], axis=1)
    return np.where(votes > 0, chance, 0.0)


def null_win_and_first_probability(votes: np.ndarray, size: np.ndarray, drawn: np.ndarray, even: bool) -> np.ndarray:
    """Probability (E, A + 2) that a null wins and the first trace drawn has each answer, a null, or no vote; times the
    number drawn.

    `votes` (E, A + 1): those of a null are the last. `even`: of what ties the earliest wins; else a null wins no tie.
    It is the probability of `most_votes_probability` with a factor Σ x / c · C(c, x) z^x in place of the answer's, for
    x of its c traces are drawn. A trace of an answer that ties with a null comes first only where the null loses.
    """
    keys, inverse = np.unique(np.column_stack([size, drawn, votes]), axis=0, return_inverse=True)
    joint = np.zeros((len(keys), votes.shape[1] + 1))
    for part in _groups_of_equal_draws(keys, votes.shape[1] * (8 if even else 1)):
        counts, null, reach = keys[part, 2:-1], keys[part, -1], _draw_probabilities(*keys[part[0], :2])
        free = reach.size - counts.sum(axis=1) - null
        for m in range(1, min(reach.drawn, int(null.max(initial=0))) + 1):
            draws, fewer = (
                _VoteGeneratingFunctions.functions_of_rows(m, reach, reach.size - others)
                for others in (free, np.maximum(free - 1, 0))
            )
            node, weight = np.polynomial.legendre.leggauss(_quadrature_nodes(reach.drawn, m, counts.shape[1] + 1))
            shares, weight = ((node + 1) / 2, weight / 2) if even else (np.zeros(1), np.ones(1))
            below, tied = draws.factors_below(counts), draws.factors_tied(counts)
            every = below[..., None] + tied[..., None] * shares  # (U, A, P, N)
            before, after = _prefix_products(every), _prefix_products(every[:, ::-1])[:, -2::-1]
            rest, whole = (before[:, :-1] * after) @ weight, (before[:, -1] @ weight)[:, None]
            first = np.prod(below + tied * even, axis=1)[:, None]  # a null that comes first wins every tie
            terms = [rest * draws.factors_below(counts, mean=True) * draws.others[:, None]]
            terms += [first * (m / np.maximum(null, 1) * draws.others.T).T[:, None]]
            terms += [whole * (reach.share_drawn * draws.z * fewer.others)[:, None]]
            joint[part] += (
                reach.alone[null, m][:, None]
                / reach.probability_of_total
                * np.concatenate(terms, axis=1).real.sum(axis=2)
            )
    return np.where(joint > ROUNDING, joint, 0.0)[inverse.reshape(-1)]


def _groups_of_equal_draws(keys: np.ndarray, numbers: int) -> Iterator[np.ndarray]:
    """Rows in groups that draw equally many of equally many traces (the first two columns), of at most `CELLS` numbers
    each.
    """
    pairs, pair_of = np.unique(keys[:, :2], axis=0, return_inverse=True)
    for number, (size, drawn) in enumerate(pairs.tolist()):
        rows = np.flatnonzero(pair_of.reshape(-1) == number)
        if drawn:
            most = max(1, CELLS // (numbers * (_draw_probabilities(size, drawn).places // 2 + 1)))
            yield from (rows[start : start + most] for start in range(0, len(rows), most))


def _prefix_products(factors: np.ndarray) -> np.ndarray:
    """The products of the first 0 to R factors (U, R, …): (U, R + 1, …)."""
    ones = np.ones((len(factors), 1, *factors.shape[2:]), dtype=factors.dtype)
    return np.cumprod(np.concatenate([ones, factors], axis=1), axis=1)
