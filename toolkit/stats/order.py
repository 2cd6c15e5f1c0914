"""The one order of policies, which the leader and the ranked table share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from toolkit.columns import OutcomeColumn, ranking_costs


def cost_column(known: Callable[[str], bool], columns: Sequence[OutcomeColumn]) -> OutcomeColumn:
    """The first of the ranking costs that is `known` for every policy but diagnostics; the last if none is."""
    costs = ranking_costs(columns) or ranking_costs()
    return next((column for column in costs if known(column.name)), costs[-1])


def rank_key(quality: float | None, cost: float | None, place: int) -> tuple[float, float, int]:
    """Sorts the best first, then the cheaper, then as given; None (unknown) last.

    Rounded, so that what float addition leaves over decides nothing.
    """
    return (math.inf if quality is None else -round(quality, 12), math.inf if cost is None else round(cost, 9), place)
