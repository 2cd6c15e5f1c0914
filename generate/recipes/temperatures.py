"""Temperatures of the samples of one example, and the seed of each.

A seed is the first four bytes, without the sign bit, of SHA-256 over `recipe seed`, `example`, `pool` and `index`
(decimal, joined by the byte 0): a whole number below 2**31, which every server takes. It depends on nothing else, so
a run that was split, interrupted or given more examples draws the same samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from generate.recipes.settings import check_bounds
from toolkit.errors import ThinkbackError, suggest

HOTTEST = 5.0


def seed_of(recipe_seed: int, example_id: str, pool: str, index: int) -> int:
    """The seed of one sample, 0 … 2**31 - 1."""
    return _digest(str(recipe_seed), example_id, pool, str(index)) & 0x7FFFFFFF


class Schedule(Protocol):
    """Which temperature each sample of an example gets; the first k do not depend on how many there are."""

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        ...


@dataclass(frozen=True)
class Constant:
    """Every sample at one temperature; 0 is greedy."""

    value: float

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        return self.value


@dataclass(frozen=True)
class Mixture:
    """The temperatures listed, in turn: sample i has the (i mod m)-th."""

    mixture: tuple[float, ...]

    def temperature(self, recipe_seed: int, example_id: str, pool: str, index: int) -> float:
        """The temperature of one sample."""
        return self.mixture[index % len(self.mixture)]


@dataclass(frozen=True)
class Balanced:
    """A grid from low to high, used in rounds: each round takes every temperature once, in an order of its own.

    The order is drawn per example and round from the recipe's seed, so that no temperature is tied to a place in the
    pool: a rule that stops early sees cold and hot samples alike. At any length two temperatures' counts differ by at
    most one.
    """

    low: float
    high: float
    step: float

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


def read_schedule(given: Any, place: str) -> Schedule:
    """A number, `{ mixture = [0, 0.5, 1] }`, or `{ low = 0.3, high = 0.7, step = 0.05 }`."""
    if not isinstance(given, Mapping):
        return Constant(_temperature(given, place))
    known = ("mixture", "low", "high", "step")
    for key in given:
        if key not in known:
            raise ThinkbackError(f"unknown key `{key}` in `{place}`; {suggest(key, known)}")
    if set(given) == {"mixture"}:
        listed = given["mixture"]
        if not isinstance(listed, list) or not listed:
            raise ThinkbackError(f"`{place}.mixture` must be a list of temperatures")
        return Mixture(tuple(_temperature(value, f"{place}.mixture") for value in listed))
    if set(given) != {"low", "high", "step"}:
        raise ThinkbackError(f"`{place}` must be a number, `{{ mixture = […] }}`, or `{{ low, high, step }}`")
    low, high = (_temperature(given[key], f"{place}.{key}") for key in ("low", "high"))
    step = _temperature(given["step"], f"{place}.step")
    whole = step > 0 and high >= low and abs((high - low) / step - round((high - low) / step)) < 1e-6
    if not whole:
        raise ThinkbackError(f"`{place}`: the grid from {low} to {high} can't be cut into steps of {step}")
    return Balanced(low, high, step)


def _temperature(given: Any, place: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ThinkbackError(f"`{place}` must be a number, not {given!r}")
    check_bounds(given, place, 0, HOTTEST)
    return float(given)


def _digest(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")
