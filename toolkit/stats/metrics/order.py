"""The one order of policies, which the leader and the ranked table share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from toolkit.columns import OutcomeColumn, cost_named, ranking_costs


def cost_column(
    known: Callable[[str], bool],
    anywhere: Callable[[str], bool],
    columns: Sequence[OutcomeColumn],
    cost: str | None = None,
) -> OutcomeColumn:
    """The cost that ranks: the one asked for, else the first of the ranking costs that is known; the last if none is.

    `known`: whether every policy but diagnostics has a value; `anywhere`: whether any policy has one. A column that
    stands for another ranks only where that one is known nowhere.
    """
    if cost is not None:
        return cost_named(cost, columns)
    costs = ranking_costs(columns) or ranking_costs()
    found = (one for one in costs if known(one.name) and not (one.stands_for and anywhere(one.stands_for)))
    return next(found, costs[-1])


def rank_key(quality: float | None, cost: float | None, place: int) -> tuple[float, float, int]:
    """Sorts the best first, then the cheaper, then as given; None (unknown) last.

    Rounded (costs to 12 digits, however small they are), so that what float addition leaves over decides nothing.
    """
    paid = math.inf if cost is None else float(f"{cost:.12g}")
    return (math.inf if quality is None else -round(quality, 12), paid, place)
