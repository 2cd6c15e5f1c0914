"""What a ranked table says, in one sentence of plain words."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import counted
from toolkit.show.ranking.ranking import Ranked, RankedInput, rank
from toolkit.show.tables.table_content import NumberWithInterval, ShownInterval


def takeaway(results: RankedInput) -> str | None:
    """Who is best, who ties with it, the cheapest of these, and how far the best is from the baseline.

    Nothing is said of costs that count unlike calls. None where nothing ranks, or one policy alone.
    """
    ranked = [row for row in rank(results) if not row.policy.diagnostic and row.quality is not None]
    leader = next((row for row in ranked if row.leads), None)
    if leader is None or leader.quality is None or len(ranked) < 2:
        return None
    called = results.called
    best = "lowest" if results.quality.cost else "best"
    said = f"`{called[leader.policy.name]}` has the {best} {results.quality.label}, {_quality(results, leader.quality)}"
    if leader.corrected is not None:
        said += f" ({_quality(results, ShownInterval(leader.corrected.estimate))} corrected for having been chosen)"
    if leader.baseline:
        said += "; it is the baseline"
    elif leader.difference is not None:
        baseline = called[str(results.baseline)]
        points = " points" if results.quality.share else ""
        said += f"; {_quality(results, leader.difference, signed=True)}{points} against `{baseline}`"
    return f"{said}. {_tied(results, leader, [row for row in ranked if row.ties and not row.leads])}"


def cheapest_tied(ranked: Sequence[Ranked]) -> Ranked | None:
    """The cheapest of the leader and the policies that tie with it, the better of equals."""
    real = [row for row in ranked if not row.policy.diagnostic and row.cost is not None and (row.leads or row.ties)]
    return min(real, key=lambda row: row.cost.estimate if row.cost else 0.0, default=None)


def _tied(results: RankedInput, leader: Ranked, tied: list[Ranked]) -> str:
    if not tied:
        return "No other policy ties with it."
    said = f"{counted(len(tied), 'other policy ties', 'other policies tie')} with it"
    cheapest = cheapest_tied([leader, *tied])
    if leader.cost is None or cheapest is None or cheapest.cost is None or not results.same_calls:
        return f"{said}."
    if cheapest is leader:
        return f"{said}, and none is cheaper."
    whose = "it takes" if len(tied) == 1 else f"the cheapest, `{results.called[cheapest.policy.name]}`, takes"
    now, before = (_cost(results, cost.estimate) for cost in (cheapest.cost, leader.cost))
    less = f"{now} {results.cost.called} instead of {before}"
    return f"{said}; {whose} {less}."


def _quality(results: RankedInput, value: ShownInterval, signed: bool = False) -> str:
    if results.quality.share and not signed:
        return percent(value)
    return NumberWithInterval.of(results.quality, signed).show(value)


def percent(share: ShownInterval) -> str:
    """A share with its interval: `74.8 % [72.9, 76.6]`."""
    number, bracket, rest = NumberWithInterval(1, 100.0).show(share).partition(" [")
    return f"{number} %{bracket}{rest}"


def _cost(results: RankedInput, value: float) -> str:
    return NumberWithInterval.of(results.cost).show(ShownInterval(value))
