"""Strata: sets of examples with fixed sizes, such as data sets, and the weight of an example in each.

Resamples draw as many units of each stratum as it has, and variances are those within strata (W. G. Cochran, Sampling
Techniques, 3rd edition, 1977, chapter 5). Means may weigh strata other than by their sizes: then each example counts
w = share of its stratum · N / examples of its stratum, so that the weights add up to the N examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolkit.stats.metrics.spill import Floats, Ints

FEWEST_UNITS = 20
"""A stratum with fewer resampling units is drawn together with others: alone it would show too little variance."""

FEWEST_WEIGHED = 2
"""The least number of units of a stratum that is drawn alone, where strata have weights: joined strata of different
weights would vary by the weights.
"""


@dataclass(frozen=True, eq=False)
class Strata:
    """The strata of N examples, two or more.

    `column`: what they are named by; `number` (N,): the stratum that each example is drawn in; `sizes`: examples by
    name; `joined`: names of those that are drawn together, for they are small; `shares`: how much of a mean each is, by
    name, None where that follows from their sizes; `weight` (N,): what each example counts, 1 on average, None where
    all count alike.
    """

    column: str
    number: Ints
    sizes: Mapping[str, int]
    joined: tuple[str, ...] = ()
    shares: Mapping[str, float] | None = None
    weight: Floats | None = None

    @property
    def count(self) -> int:
        """The number of strata that are resampled separately."""
        return int(self.number.max(initial=-1)) + 1

    @classmethod
    def of(
        cls, column: str, name: Ints, names: tuple[str, ...], unit: Ints, weights: Mapping[str, float] | None
    ) -> Strata | None:
        """The strata of N examples; None where there is but one. `name` (N,) is each example's place in `names`, `unit`
        (N,) its resampling unit. `weights`: those of the strata by name, relative to each other. A unit lies in one
        stratum.
        """
        there, number, examples = np.unique(name, return_inverse=True, return_counts=True)
        if len(there) < 2:
            return None
        called = [names[place] for place in there.tolist()]
        shares: dict[str, float] | None = None
        weight: Floats | None = None
        if weights is not None:
            given = np.array([weights[one] for one in called])
            share = given / given.sum()
            shares, counts = dict(zip(called, share.tolist(), strict=True)), share * len(name) / examples
            weight = None if np.allclose(counts, 1.0, rtol=0, atol=1e-12) else counts[number]
        units = np.array([len(np.unique(unit[number == place])) for place in range(len(there))])
        drawn = _group_small_strata(units, FEWEST_UNITS if weight is None else FEWEST_WEIGHED)
        places, counts = np.unique(drawn, return_counts=True)
        alone = np.isin(drawn, places[counts == 1])
        joined = tuple(one for one, by_itself in zip(called, alone.tolist(), strict=True) if not by_itself)
        sizes = dict(zip(called, examples.tolist(), strict=True))
        return cls(column, drawn[number], sizes, joined, shares, weight)


def _group_small_strata(units: Ints, fewest: int) -> Ints:
    """Groups D strata, given their numbers of units, into those that are drawn together: a number from 0 for each,
    (D,). Small strata, the smallest first, share one group until it has the `fewest` units.
    """
    order = np.argsort(units, kind="stable")
    small = int((units < fewest).sum())
    most = small
    while small and most < len(units) and units[order[:most]].sum() < fewest:
        most += 1
    drawn = np.arange(len(units))
    drawn[order[:most]] = drawn[order[0]] if most else 0
    return np.unique(drawn, return_inverse=True)[1]


def effective_units(sizes: Floats, squares: Floats) -> Floats:
    """The number of units of equal size, in one stratum, that carry as much information as these. It takes the sums (D,
    …) of the units' sizes, and of their squares, in each of D strata.

    In one stratum (Σn)²/Σn² (Kish). In several the degrees of freedom are F. E. Satterthwaite's (Biometrics Bulletin 2
    (1946) 110) for units of equal variance, (Σ Q)²/Σ(Q²/(K − 1)), with Q = Σn² of a stratum and K what its units are
    worth; one more than these are returned. Two strata of 50 examples are worth 99.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        kish = sizes**2 / squares
        if len(sizes) == 1:
            return np.asarray(kish[0])
        parts = np.where(squares > 0, squares**2 / np.maximum(kish - 1, 0.5), 0.0)
        return np.asarray(1 + squares.sum(axis=0) ** 2 / parts.sum(axis=0))
