"""The costs that calls add up to, as the last axis of the engine's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

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
"""The columns that each cost of a verification is added to."""
GENERATED = {"latency_s": "generation_s"}
"""The column that a cost of a trace is added to, where it has another name."""


def charged(costs: Mapping[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Costs of verifications (E, T), each with the number of every column that it is added to."""
    yield from ((AT[column], costs[name]) for name, columns in CHARGED.items() if name in costs for column in columns)


def by_name(costs: np.ndarray) -> dict[str, np.ndarray]:
    """Costs (..., C) by name, with those that follow from others: operations, calls, total_tokens."""
    values = {name: costs[..., at] for name, at in AT.items()}
    return values | {
        "operations": values["traces"] + values["verifications"],
        "calls": values["traces"] + values["finalizers"],
        "total_tokens": values["prompt_tokens"] + values["completion_tokens"] + values["verification_tokens"],
    }


def elapsed(seconds: np.ndarray, ends: np.ndarray | None) -> np.ndarray:
    """Seconds (E, S) until each trace is done, from those that it takes (E, S), NaN for not known.

    `ends`: after which a block of traces ends that run side by side, as long as its slowest: bool (S,) or (E, S);
    None: one after the other.
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
