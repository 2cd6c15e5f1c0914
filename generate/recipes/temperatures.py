"""Temperatures of the samples of one example, and the seed of each.

A seed is the first four bytes, without the sign bit, of SHA-256 over `recipe seed`, `example`, `pool` and `index`
(decimal, joined by the byte 0): an integer below 2**31, which every server takes. It depends on nothing else, so
a run that was split, interrupted or given more examples draws the same samples.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from toolkit.errors import ThinkbackError, shown, suggest
from toolkit.settings import Checked, check, from_table, setting

HOTTEST = 5.0
KEYS = ("mixture", "low", "high", "step")


def seed_of(recipe_seed: int, example_id: str, pool: str, index: int) -> int:
    """The seed of one sample, 0 … 2**31 - 1."""
    return _digest(str(recipe_seed), example_id, pool, str(index)) & 0x7FFFFFFF


class TemperatureSchedule(ABC):
    """Which temperature each sample of an example gets; the first k do not depend on how many there are."""

    @abstractmethod
    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""


@dataclass(frozen=True)
class Constant(Checked, TemperatureSchedule):
    """Every sample at one temperature; 0 is greedy."""

    value: float = setting(low=0, high=HOTTEST)

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        return self.value


@dataclass(frozen=True)
class Mixture(TemperatureSchedule):
    """The temperatures listed, in turn: sample i has the (i mod m)-th."""

    mixture: tuple[float, ...] = setting(low=0, high=HOTTEST)

    def __post_init__(self) -> None:
        check(self)
        if not self.mixture:
            raise ThinkbackError("`mixture` is empty; it takes a list of temperatures")

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        return self.mixture[index % len(self.mixture)]


@dataclass(frozen=True)
class Balanced(TemperatureSchedule):
    """A grid from low to high, used in rounds: each round takes every temperature once, in an order of its own.

    The order is drawn per example and round from the recipe's seed, so that no temperature is tied to a place in the
    pool: a rule that stops early sees cold and hot samples alike. At any length two temperatures' counts differ by at
    most one.
    """

    low: float = setting(low=0, high=HOTTEST)
    high: float = setting(low=0, high=HOTTEST)
    step: float = setting(above=0, high=HOTTEST)

    def __post_init__(self) -> None:
        check(self)
        steps = (self.high - self.low) / self.step
        if steps < 0 or abs(steps - round(steps)) >= 1e-6:
            raise ThinkbackError(f"the grid from {self.low} to {self.high} can't be cut into steps of {self.step}")

    def grid(self) -> tuple[float, ...]:
        """The temperatures, ascending, rounded to six decimals."""
        count = round((self.high - self.low) / self.step) + 1
        return tuple(round(self.low + i * self.step, 6) for i in range(count))

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        grid = self.grid()
        turn, place = divmod(index, len(grid))

        def drawn(value: float) -> int:
            return _digest(str(recipe_seed), example_id, pool, "temperature", str(turn), repr(value))

        return sorted(grid, key=drawn)[place]


def read_schedule(given: Any, place: str) -> TemperatureSchedule:
    """A number, `{ mixture = [0, 0.5, 1] }`, `{ low = 0.3, high = 0.7, step = 0.05 }`, or what was read of one."""
    if isinstance(given, TemperatureSchedule):
        return given
    if isinstance(given, Mapping):
        for key in given:
            if key not in KEYS:
                raise ThinkbackError(f"unknown key `{key}` in `{place}`; {suggest(key, KEYS)}")
        return from_table(Mixture if "mixture" in given else Balanced, given, place)
    if isinstance(given, Real) and not isinstance(given, bool) and 0 <= float(given) <= HOTTEST:
        return Constant(float(given))
    raise ThinkbackError(
        f"`{place}` is {shown(given)}; it takes a number from 0 to {HOTTEST:g}, `{{ mixture = […] }}` or"
        " `{ low, high, step }`"
    )


def _digest(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")
