"""Claims about many policies at once: one critical value for all pairs, rank sets, adjusted p-values.

The critical value is the level-quantile of the largest studentised deviation of any pair (max-t), from sums of the
units' influences under standard normal multipliers (Chernozhukov, Chetverikov and Kato, Annals of Statistics 41, 2013).
Given the influences, such sums are normal with the influences' matrix of cross-products as covariance. So they are
drawn from that matrix, whatever the number of units. Multinomial resamples would be too lumpy for policies that differ
on a handful of examples.

Pairs that are told apart are left out and the critical value is taken again, until no further pair is (step-down:
Romano and Wolf, Econometrica 73, 2005). Sets of ranks follow from the pairs (Mogstad, Romano, Shaikh and Wilhelm,
Review of Economic Studies 91, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap import product_threads
from toolkit.stats.kept import Floats, Ints
from toolkit.stats.resamples import Settings

MOST_PAIRED = 1_000
"""Policies of which all pairs are compared; of more, only those that can be the best."""

SCREENING = 0.1
"""Share of the error rate that is spent on finding those."""

DRAWN_AT_ONCE = 256
"""Draws made by one generator. Part of the definition of the draws: do not vary it."""

STREAM = 16
"""Keeps the generators of the draws apart from those of the resamples."""

NO_VARIANCE = 1e-13
"""Relative to the variances of two policies, that of their difference is 0 up to here: float addition leaves this."""

MOST_STEPS = 20


@dataclass(frozen=True, eq=False)
class JointEstimates:
    """Estimates of K policies on the same units. Of each, more is better.

    `value` (K,); `covariance` (K, K): cross-products of the influences of the units; `units`: how many there are.
    """

    value: Floats
    covariance: Floats
    units: int

    @classmethod
    def of(cls, value: Floats, influence: Floats) -> JointEstimates:
        """From the influences (K, units): by how much a unit's weight of 1 moves each estimate; they add up to 0.

        Of a mean of n values x it is (x − mean)/n. Where units are clusters it is the sum over the cluster.
        """
        return cls(value, covariance_of([influence]), influence.shape[1])

    def some(self, which: Ints) -> JointEstimates:
        """Some of the policies."""
        return JointEstimates(self.value[which], self.covariance[np.ix_(which, which)], self.units)

    def errors(self, first: Ints, second: Ints) -> Floats:
        """Standard errors of the differences of pairs (pairs,), with the divisor units − 1; 0 where they are one.

        A difference that is the same on every unit has the error of a single draw of that size.
        """
        own = np.diag(self.covariance)
        both = own[first] + own[second]
        variance = both - 2 * self.covariance[first, second]
        differs = np.abs(self.value[first] - self.value[second])
        constant = variance <= NO_VARIANCE * both
        variance = np.where(constant, 0.0, variance * (self.units / max(self.units - 1, 1)))
        return np.sqrt(np.where(constant & (differs > NO_VARIANCE**0.5), differs**2 / self.units, variance))


def covariance_of(influences: Iterable[Floats]) -> Floats:
    """Cross-products (K, K) of influences, from blocks of units (K, units); the blocks are added in their order."""
    total: Floats | None = None
    with product_threads():
        for block in influences:
            product = block @ block.T
            total = product if total is None else total + product
    return np.zeros((0, 0)) if total is None else total


@dataclass(frozen=True, eq=False)
class PairClaims:
    """What is claimed about pairs of policies, all of it true in `level` of all runs.

    `first`, `second` (pairs,): places of the policies; `difference`: first minus second; `error`; `critical`: of an
    interval difference ± critical · error; the intervals of all pairs hold at once; `differs` (pairs,) bool: they are
    told apart; `p_value`: adjusted for all pairs, below 1 − level where they are. An interval that leaves out 0 tells
    apart, but the steps may do so where the interval does not.
    """

    first: Ints
    second: Ints
    difference: Floats
    error: Floats
    critical: float
    differs: NDArray[np.bool_]
    p_value: Floats

    @property
    def low(self) -> Floats:
        """Lower limits (pairs,) that hold for all pairs at once."""
        return self.difference - self.critical * self.error

    @property
    def high(self) -> Floats:
        """Upper limits (pairs,)."""
        return self.difference + self.critical * self.error

    @cached_property
    def better(self) -> NDArray[np.bool_]:
        """Whether one policy is told to be better than another (K, K), of all pairs."""
        size = int(max(self.first.max(initial=-1), self.second.max(initial=-1))) + 1
        found = np.zeros((size, size), bool)
        up, down = self.differs & (self.difference > 0), self.differs & (self.difference < 0)
        found[self.first[up], self.second[up]] = True
        found[self.second[down], self.first[down]] = True
        return found

    def of(self, policy: int) -> Ints:
        """The pairs that a policy is in."""
        return np.flatnonzero((self.first == policy) | (self.second == policy))


def all_pairs(estimates: JointEstimates, settings: Settings) -> PairClaims:
    """All pairs of policies."""
    first, second = np.triu_indices(len(estimates.value), 1)
    return claims(estimates, first, second, settings)


def to_one(estimates: JointEstimates, reference: int, settings: Settings) -> PairClaims:
    """Every other policy against one that was named before the data were seen (many-to-one)."""
    others = np.delete(np.arange(len(estimates.value)), reference)
    return claims(estimates, others, np.full(len(others), reference), settings)


def rank_sets(found: PairClaims, policies: int) -> tuple[Ints, Ints]:
    """The ranks (K,), (K,) from and to which each policy may have, 1 the best; all sets hold at once.

    From 1 + how many are told to be better, to K − how many are told to be worse.
    """
    better = np.zeros((policies, policies), bool)
    better[: len(found.better), : len(found.better)] = found.better
    return 1 + better.sum(axis=0), policies - better.sum(axis=1)


def claims(estimates: JointEstimates, first: Ints, second: Ints, settings: Settings) -> PairClaims:
    """Claims about the pairs of `first` and `second`. Identical pairs, whose error is 0, are never told apart.

    A few units say little about their own variance, so deviations are taken as Student's with units − 1 degrees of
    freedom, and put on the scale of the normal distribution.
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    freedom = max(estimates.units - 1, 1)
    difference = estimates.value[first] - estimates.value[second]
    error = estimates.errors(first, second)
    left = error > 0
    size = np.zeros(len(first))
    np.divide(np.abs(difference), error, out=size, where=left)
    size = np.abs(ndtri(stdtr(freedom, -size)))
    differs, p_value = np.zeros(len(first), bool), np.ones(len(first))
    alone = widest = float(ndtri((1 + settings.level) / 2))
    roots = _roots(estimates.covariance)
    for step in range(MOST_STEPS):
        if not left.any() or (step and size[left].max() < alone):
            break
        largest = np.sort(_largest(roots, first[left], second[left], error[left], estimates.units, settings))
        # The draw above which a pair has an adjusted p-value of at most 1 − level.
        place = max(1, math.floor((1 - settings.level) * (len(largest) + 1) + 1e-9))
        critical = max(float(largest[-place]), alone)
        widest = widest if step else critical
        exceeding = len(largest) - np.searchsorted(largest, size[left])
        adjusted = np.maximum((1 + exceeding) / (len(largest) + 1), 2 * ndtr(-size[left]))
        p_value[left] = np.maximum(adjusted, p_value[differs].max(initial=0.0))
        found = np.flatnonzero(left)[size[left] > critical]
        differs[found], left[found] = True, False
        if not len(found):
            break
    student = -float(stdtrit(freedom, ndtr(-widest)))
    return PairClaims(first, second, difference, error, student, differs, p_value)


def possible_best(value: Floats, leader: int, error: Floats, units: int, settings: Settings) -> Ints:
    """Of more policies than can be paired, those that a part of the error rate cannot tell from the best estimate.

    `error` (K,): of their differences to the leader. Bonferroni's bound for all ordered pairs (K policies, any of which
    could have led), at `SCREENING` of the error rate.
    """
    from scipy.special import stdtrit

    tail = SCREENING * (1 - settings.level) / (len(value) * (len(value) - 1))
    critical = -float(stdtrit(max(units - 1, 1), tail))
    return np.flatnonzero(value[leader] - value <= critical * error)


def draws(covariance: Floats, settings: Settings) -> Iterator[Floats]:
    """Normal deviations of K estimates from their means, in blocks (K, draws) that make up `settings.resamples`."""
    roots = _roots(covariance)
    for number in range(-(-settings.resamples // DRAWN_AT_ONCE)):
        with product_threads():
            block = _block(roots, number, settings)
        yield block


def _roots(covariance: Floats) -> Floats:
    """The symmetric square root, which no choice among equal eigenvectors changes."""
    with product_threads():
        values, vectors = np.linalg.eigh(covariance)
        kept = np.where(values > 1e-12 * max(values.max(initial=0.0), 0.0), values, 0.0)
        return np.asarray((vectors * np.sqrt(kept)) @ vectors.T)


def _block(roots: Floats, number: int, settings: Settings) -> Floats:
    """Deviations (K, draws) of one block of draws."""
    size = min(DRAWN_AT_ONCE, settings.resamples - number * DRAWN_AT_ONCE)
    generator = np.random.default_rng([settings.seed, STREAM, number])
    return roots @ generator.standard_normal((DRAWN_AT_ONCE, len(roots)))[:size].T


def _largest(
    roots: Floats, first: Ints, second: Ints, error: Floats, units: int, settings: Settings
) -> NDArray[np.float32]:
    """The largest studentised deviation of any of the pairs in each draw, (B,)."""
    shrink = np.sqrt(units / max(units - 1, 1))  # the draws have the divisor `units`
    scale = (shrink / error).astype(np.float32)
    order = np.argsort(first, kind="stable")
    others, scale = second[order], scale[order][:, None]
    cuts = np.searchsorted(first[order], np.arange(len(roots) + 1))

    def work(number: int) -> NDArray[np.float32]:
        drawn = _block(roots, number, settings).astype(np.float32)
        best = np.zeros(drawn.shape[1], np.float32)
        for policy in range(len(roots)):
            here = slice(cuts[policy], cuts[policy + 1])
            if here.start == here.stop:
                continue
            deviation = drawn[others[here]]
            deviation -= drawn[policy]
            np.abs(deviation, out=deviation)
            deviation *= scale[here]
            np.maximum(best, deviation.max(axis=0), out=best)
        return best

    blocks = range(-(-settings.resamples // DRAWN_AT_ONCE))
    with product_threads() as pool:
        return np.concatenate(list(pool.map(work, blocks)))
