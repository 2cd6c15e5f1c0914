"""The costs of calls, which are the last axis of the engine's arrays, and the kinds of calls, each with its costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from replay.data.block import LogBlock, LoggedPool
from replay.data.replies import SharedCosts

COSTS = (
    "traces", "valid_traces", "finalizers", "truncated", "prompt_tokens", "completion_tokens",
    "generation_s", "latency_s", "device_s", "verifications", "verification_tokens", "verification_s", "price",
)  # fmt: skip
AT = {name: i for i, name in enumerate(COSTS)}

CHARGED = {
    "verification_tokens": ("verification_tokens",),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
    "price": ("price",),
}
"""Cost of a verification -> the cost columns that it is added to."""
GENERATED = {"latency_s": "generation_s"}
"""Cost of a trace -> the logged column that holds it, where that has another name."""


def verification_costs(costs: Mapping[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Costs of verifications (E, T), each with the number of a cost column that it is added to."""
    yield from ((AT[column], costs[name]) for name, columns in CHARGED.items() if name in costs for column in columns)


def costs_by_name(costs: np.ndarray) -> dict[str, np.ndarray]:
    """Costs (..., C) by name, with the totals `operations`, `calls` and `total_tokens`."""
    values = {name: costs[..., at] for name, at in AT.items()}
    return values | {
        "operations": values["traces"] + values["verifications"],
        "calls": values["traces"] + values["finalizers"],
        "total_tokens": values["prompt_tokens"] + values["completion_tokens"] + values["verification_tokens"],
    }


def elapsed_seconds(seconds: np.ndarray, ends: np.ndarray | None) -> np.ndarray:
    """Seconds (E, S) from the start until each trace is done, from the seconds (E, S) that each trace takes; NaN: not
    known.

    `ends`: after which a block of traces ends that run side by side, as long as its slowest: bool (S,) or (E, S); None:
    one after the other.
    """
    if ends is None:
        return np.cumsum(seconds, axis=1)
    done = np.empty_like(seconds)
    before, slowest = np.zeros(len(seconds)), np.zeros(len(seconds))
    for step, end in enumerate(np.broadcast_to(ends, seconds.shape).T):
        slowest = np.maximum(slowest, seconds[:, step])
        done[:, step] = before + slowest
        before, slowest = np.where(end, done[:, step], before), np.where(end, 0.0, slowest)
    return done


def mean_surplus_over_orders(pool: LoggedPool, drawn: np.ndarray) -> np.ndarray | float:
    """Costs (E, C) of drawing so many (E,) traces of a pool in any order, beyond their share of the whole pool's; 0
    where no two traces share a reply.
    """
    if pool.shared is None:
        return 0.0
    costs = np.zeros((len(pool.size), len(COSTS)))
    for name, more in pool.shared.surplus_costs(pool.has_trace, drawn).items():
        for column in {GENERATED.get(name, name), name}:
            costs[:, AT[column]] += more
    return costs


def weigh_by_probability(probability: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values times the probability that they are paid; one that is not logged counts only if it can be paid."""
    return np.where(probability > 0, probability * values, 0.0)


@dataclass(frozen=True)
class CallKey(ABC):
    """Calls of one kind. Equal keys are the same calls, wherever they are paid. Arrays (E, T): by example and place.

    `slice`: of the traces that they write or verify; empty where they are of none. `verifier`: whose verifications they
    are; None where they are none.
    """

    slice: str = ""
    verifier: str | None = None

    @property
    def writes_traces(self) -> bool:
        """Whether these calls write traces."""
        return bool(self.slice) and self.verifier is None

    @abstractmethod
    def expected_costs(self, block: LogBlock, paid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The costs (E,) of calls that are paid with probability `paid` (E, T), each with its number in COSTS."""

    @abstractmethod
    def call_tokens(self, block: LogBlock) -> np.ndarray:
        """Tokens of each call (E, T), NaN where they are not logged."""

    def shared_reply_costs(self, block: LogBlock) -> SharedCosts | None:
        """What calls of one reply pay once; None where each pays for itself."""
        return None

    def side_by_side_seconds(self, block: LogBlock) -> np.ndarray | None:
        """Seconds of each call (E, T), where calls may run side by side; None where `expected_costs` counts them."""
        return None


@dataclass(frozen=True)
class TraceCalls(CallKey):
    """The calls that write the traces of a slice."""

    def expected_costs(self, block: LogBlock, paid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        pool = block.pools[self.slice]
        yield AT["traces"], paid.sum(axis=1)
        yield AT["valid_traces"], (paid * (pool.code >= 0)).sum(axis=1)
        for cost, values in pool.costs.items():
            yield AT[GENERATED.get(cost, cost)], weigh_by_probability(paid, values).sum(axis=1)

    def call_tokens(self, block: LogBlock) -> np.ndarray:
        costs = block.pools[self.slice].costs
        return costs["prompt_tokens"] + costs["completion_tokens"]

    def shared_reply_costs(self, block: LogBlock) -> SharedCosts | None:
        return block.pools[self.slice].shared

    def side_by_side_seconds(self, block: LogBlock) -> np.ndarray:
        return block.pools[self.slice].costs["latency_s"]


@dataclass(frozen=True)
class ScoreCalls(CallKey):
    """The verifications of a slice by a verifier. A listwise call counts on all its rows."""

    def expected_costs(self, block: LogBlock, paid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        scores = block.pools[self.slice].scores[str(self.verifier)]
        yield AT["verifications"], np.where(scores.listwise_mask, (paid > 0).any(axis=1), paid.sum(axis=1))
        for column, values in verification_costs(scores.costs):
            yield column, weigh_by_probability(paid, values).sum(axis=1)

    def call_tokens(self, block: LogBlock) -> np.ndarray:
        return block.pools[self.slice].scores[str(self.verifier)].costs["verification_tokens"]


ROW_COSTS = {
    "prompt_tokens": ("prompt_tokens",), "completion_tokens": ("completion_tokens",),
    "latency_s": ("generation_s", "latency_s"), "device_s": ("device_s",),
}  # fmt: skip
"""Cost of a row -> the cost columns that it is added to."""


@dataclass(frozen=True)
class RowCalls(CallKey):
    """The calls behind the rows of a pool in a further table, such as the rounds of a retrieval. They have no price."""

    table: str = ""
    pool: str = ""

    def logged_column(self, block: LogBlock, column: str) -> np.ndarray:
        """A column of the rows (E, T); NaN where it is not logged."""
        return block.tables[self.table, self.pool].logged_by_place(column)

    def costs_of_rows(self, block: LogBlock, paid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The costs (E,) of rows that are paid with probability `paid` (R,), each with its number in COSTS."""
        rows = block.tables[self.table, self.pool]
        for cost, columns in ROW_COSTS.items():
            total = rows.sum_by_example(np.where(paid > 0, paid * rows.numbers(cost), 0.0))
            yield from ((AT[column], total) for column in columns)
        yield AT["price"], np.where(rows.sum_by_example(paid) > 0, np.nan, 0.0)

    def expected_costs(self, block: LogBlock, paid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        rows = block.tables[self.table, self.pool]
        return self.costs_of_rows(block, paid[rows.example, rows.place])

    def call_tokens(self, block: LogBlock) -> np.ndarray:
        return self.logged_column(block, "prompt_tokens") + self.logged_column(block, "completion_tokens")
