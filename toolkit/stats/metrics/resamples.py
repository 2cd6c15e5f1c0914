"""The resamples that all policies and metrics of a run share, and the settings of their intervals.

The one set of counts is the pairing: whatever is summed with it was seen on the same drawn examples.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ConflictError, InvalidError, argument, quote
from toolkit.settings import check, setting
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.spill import Ints

METHODS = ("percentile", "bca")

MOST_RESAMPLES = 1_000_000

COUNT_ROWS = 256
"""Resamples drawn by one generator. Part of the definition of the resamples: do not vary it."""

COUNTED_AT_ONCE = 2**15
"""Counts in one call, for as many resamples as they make: no more than 16 bits number. Only speed depends on it."""

KEEP_COUNTS = 12 * 2**20
"""The most bytes of counts that stay in memory, two counts a byte. Where all take more they are drawn again, which
takes little time.
"""

PACKED = 16
"""Counts below this one take half a byte."""

THREADS = min(8, os.cpu_count() or 1)

Counts = NDArray[np.uint8]
"""The type of a count of draws of a unit. The probability of more than 255 is below 10^-500."""


@dataclass(frozen=True)
class Settings:
    """The settings by which intervals and euros are computed.

    `kw` kilowatts per device and `eur_per_kwh` turn device seconds into euros.
    """

    resamples: int = setting(10_000, low=1, high=MOST_RESAMPLES, what=f"an integer from 1 to {MOST_RESAMPLES:,}")
    level: float = setting(0.95, above=0, below=1)
    method: str = setting("percentile", choices=METHODS)
    seed: int = setting(0, low=0)
    kw: float = setting(0.25, low=0, high=1e9, what="a number, at least 0")
    eur_per_kwh: float = setting(0.25, low=0, high=1e9, what="a number, at least 0")

    def __post_init__(self) -> None:
        check(self)


def settings_of(settings: Settings | None, **named: Any) -> Settings:
    """The settings of a call that takes them whole, or by keyword. A keyword of None stands for the default.

    ThinkbackError where they are given in both ways.
    """
    given = {name: value for name, value in named.items() if value is not None}
    if settings is None:
        return Settings(**given)
    for name in given:
        raise ConflictError(f"`settings` holds {argument(name)} too; give one of the two")
    return settings


def check_level(level: float) -> None:
    """Raises ThinkbackError unless the level of an interval lies between 0 and 1."""
    if not (isinstance(level, (int, float, np.number)) and 0 < level < 1):
        raise InvalidError(f"{argument('level')} is {quote(level)}; it takes a number between 0 and 1")


ROUNDING = 1e-12
"""The largest distance from the margin at which a limit counts as on it."""


def check_margin(margin: float) -> None:
    """Raises ThinkbackError for a margin that is not a difference in accuracy, such as one given in points."""
    if not 0 <= margin < 1:
        raise InvalidError(
            f"{argument('margin')} is a difference in accuracy between 0 and 1 (0.01: one point), not {margin:g}"
        )


UNSEEN = 0.01
"""The probability that no example shows a loss as frequent as the margin, at which such losses count as ruled out."""


def fewest_examples(margin: float) -> int | None:
    """The number of examples below which a policy no better than another isn't shown to lose no more than a margin.

    From −ln(.01)/margin on, 461 for one point: a sample can't show what it has not met, and a share of total losses as
    large as the margin is missed by fewer than 1 % of such samples. None for a margin of 0.
    """
    return math.ceil(-math.log(UNSEEN) / margin) if margin > 0 else None


def rules_out_loss(low: float, margin: float, units: int) -> bool:
    """Whether a gain's interval rules out a loss of `margin`. Its lower limit must be above −margin. Unless it shows a
    gain, there must be enough `units` (examples, or clusters) to have met rare total losses.
    """
    fewest = fewest_examples(margin)
    return low > -margin + ROUNDING and (low > 0 or fewest is None or units >= fewest)


class Resamples:
    """B bootstrap resamples of n units. They say how often each unit is drawn, a chunk of units at a time.

    Counts are exact multinomials: n draws are split over fixed chunks of units, then drawn within each chunk, by
    generators keyed by (seed, chunk, row of resamples). With a `stratum` (n,) of each unit, numbered from 0, each is
    drawn as often as it has units, the same way, by generators that are keyed by its number, too.
    """

    def __init__(self, units: int, resamples: int, seed: int, stratum: Ints | None = None) -> None:
        self.units = units
        self.resamples = resamples
        self.seed = seed
        self.sizes = [min(CHUNK, units - start) for start in range(0, units, CHUNK)]
        self._places = _chunk_places_without_strata(self.sizes) if stratum is None else _stratum_places(stratum)
        self._split = {key: self._chunk_draws(key) for key in {key for places in self._places for _, key in places}}
        self.draws: Ints = sum(self._split.values(), np.zeros((resamples, len(self.sizes)), np.int64))  # (B, chunks)
        self._held: dict[int, Counts] = {}
        self._last: tuple[int, Counts] | None = None

    def _chunk_draws(self, key: tuple[int, ...]) -> Ints:
        """How many draws of a stratum fall into each chunk of units, (B, chunks)."""
        sizes = np.array([sum(_place_length(place, size) for place, one in places if one == key)
                          for places, size in zip(self._places, self.sizes, strict=True)])  # fmt: skip
        if len(sizes) == 1:
            return np.full((self.resamples, 1), sizes[0], np.int64)
        split = np.random.default_rng([self.seed, 0, *key])
        return split.multinomial(sizes.sum(), sizes / sizes.sum(), size=self.resamples)

    def counts_of_chunk(self, chunk: int) -> Counts:
        """How often each unit of a chunk is drawn in each resample, (B, units of the chunk)."""
        if self._last is None or self._last[0] != chunk:
            held = self._held.get(chunk)
            self._last = chunk, self._chunk_counts(chunk) if held is None else _unpack_counts(held, self.sizes[chunk])
        return self._last[1]

    def _chunk_counts(self, chunk: int) -> Counts:
        """The counts of a chunk, which stay in memory where there is room."""
        out = np.empty((self.resamples, self.sizes[chunk]), np.uint8)
        rows = range(0, self.resamples, COUNT_ROWS)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda i: self._draw_counts(chunk, i, out[rows[i] : rows[i] + COUNT_ROWS]), range(len(rows))))
        if self.resamples * self.units / 2 <= KEEP_COUNTS and out.max() < PACKED:
            self._held[chunk] = _pack_counts(out)
        return out

    def blocks_of_counts(self) -> Iterator[Counts]:
        """Yields how often each unit is drawn, (up to 256 resamples, units), a block of resamples at a time."""
        for row, start in enumerate(range(0, self.resamples, COUNT_ROWS)):
            out = np.empty((min(COUNT_ROWS, self.resamples - start), self.units), np.uint8)
            for chunk, size in enumerate(self.sizes):
                self._draw_counts(chunk, row, out[:, chunk * CHUNK : chunk * CHUNK + size])
            yield out

    def _draw_counts(self, chunk: int, row: int, out: Counts) -> None:
        """Draws how often each unit of one chunk occurs, for one row of resamples, and writes it into `out`."""
        for place, key in self._places[chunk]:
            draws = self._split[key][row * COUNT_ROWS : row * COUNT_ROWS + len(out), chunk]
            ends = np.cumsum(draws)
            size = _place_length(place, self.sizes[chunk])
            generator = np.random.default_rng([self.seed, chunk + 1, row, *key])
            drawn = generator.integers(0, size, size=int(ends[-1]), dtype=np.uint16)
            rows = max(1, COUNTED_AT_ONCE // size)
            for first in range(0, len(draws), rows):
                some = draws[first : first + rows]
                keys = drawn[ends[first] - some[0] : ends[first + len(some) - 1]]
                if len(some) > 1:
                    keys = keys + np.repeat((np.arange(len(some)) * size).astype(np.uint16), some)
                counted = np.bincount(keys, minlength=len(some) * size).reshape(-1, size)
                out[first : first + len(some), place] = counted


def _pack_counts(counts: Counts) -> Counts:
    """Counts (B, units) below `PACKED`, each in a byte with another one."""
    half = -(-counts.shape[1] // 2)
    packed = counts[:, :half].copy()
    packed[:, : counts.shape[1] - half] |= counts[:, half:] << 4
    return packed


def _unpack_counts(packed: Counts, size: int) -> Counts:
    """The counts (B, size) that were packed."""
    out, half = np.empty((len(packed), size), np.uint8), packed.shape[1]
    np.bitwise_and(packed, PACKED - 1, out=out[:, :half])
    np.right_shift(packed[:, : size - half], 4, out=out[:, half:])
    return out


_Places = tuple[Any, tuple[int, ...]]
"""Places in a chunk, and what keys their generators: nothing, or the stratum."""


def _chunk_places_without_strata(sizes: list[int]) -> list[list[_Places]]:
    return [[(np.s_[:], ())] for _ in sizes]


def _stratum_places(stratum: Ints) -> list[list[_Places]]:
    chunks = (stratum[start : start + CHUNK] for start in range(0, len(stratum), CHUNK))
    return [[(np.flatnonzero(chunk == one), (one + 1,)) for one in np.unique(chunk).tolist()] for chunk in chunks]


def _place_length(place: Any, size: int) -> int:
    return size if isinstance(place, slice) else len(place)
