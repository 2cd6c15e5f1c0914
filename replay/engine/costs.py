"""The costs that calls add up to, as the last axis of the engine's arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

COSTS = (
    "traces",
    "valid_traces",
    "finalizers",
    "truncated",
    "prompt_tokens",
    "completion_tokens",
    "generation_s",
    "latency_s",
    "device_s",
    "verifications",
    "verification_tokens",
    "verification_s",
    "price",
)
AT = {name: i for i, name in enumerate(COSTS)}

CHARGED = {
    "verification_tokens": ("verification_tokens",),
    "latency_s": ("verification_s", "latency_s"),
    "device_s": ("device_s",),
    "price": ("price",),
}
"""The columns that each cost of a verification is added to."""


def derived(costs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns that follow from others: operations, calls, total_tokens."""
    return {
        "operations": costs["traces"] + costs["verifications"],
        "calls": costs["traces"] + costs["finalizers"],
        "total_tokens": costs["prompt_tokens"] + costs["completion_tokens"] + costs["verification_tokens"],
    }
