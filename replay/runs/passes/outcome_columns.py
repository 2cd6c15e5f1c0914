"""The numeric columns of outcomes, from the engine's arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.engine.costs import by_name
from replay.engine.outcome import Outcome
from replay.policies.base import Policy, columns_of
from toolkit.columns import COLUMNS, with_columns


def number_columns(policies: Sequence[Policy], priced: bool) -> tuple[str, ...]:
    """Numeric columns of the outcomes of some policies: those of every run, and those that a policy adds."""
    extra = columns_of(policies)
    added, table = {column.name for column in extra} | ({"price"} if priced else set()), with_columns(extra)
    return tuple(c.name for c in table if not (c.computed or c.family) and (c.always or c.name in added))


def outcome_values(outcome: Outcome, keep: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    """Numeric columns of one policy on some examples, by default on all; NaN for null."""
    values = by_name(outcome.costs[keep]) | {name: column[keep] for name, column in outcome.measured.items()}
    values["intervened"] = np.zeros(len(outcome.correct[keep]))
    against = outcome.against
    values |= {c.name: getattr(against, c.name)[keep] for c in COLUMNS if hasattr(against, c.name)}
    return values | {"correct": outcome.correct[keep], "credit": outcome.credit[keep]}
