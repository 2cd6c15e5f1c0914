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
