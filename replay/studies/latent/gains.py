"""What strategies gain over others at equal samples: intervals hold for all settings of a strategy at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.analyses.strategies.frontier import Frontier
from replay.analyses.strategies.strategies import BEST, CONDITIONAL, MAJORITY, ORACLE, WEIGHTED, Strategies, Strategy
from replay.analyses.strategies.strategy_grids import VotesByScore
from toolkit.stats import PairedInterval, Settings, paired_interval, simultaneous_level

NOTHING = PairedInterval(None, None, None, None, 0, None)

LEAST_DOUBTED = 0.05
"""Share of probes that a setting of conditional voting doubts at least, and believes at least."""


@dataclass(frozen=True)
class Gain:
    """One setting of a strategy against another at as many samples in the mean: their accuracies and the difference.

    `name`: of the strategy; `below`: the score below which `n` further samples follow a probe. `pool`: of the rival,
    where that is another one.
    """

    name: str
    samples: float
    n: int
    accuracy: float
    against: float
    difference: PairedInterval
    below: float | None = None
    pool: str = ""


@dataclass(frozen=True)
class Gains:
    """Of the study's strategies; empty where the log cannot serve them. `oracle`: how far the best is behind it;
    `elsewhere`: those of conditional voting against plain voting in the pool that is best for it, where there are
    several.
    """

    weighted: tuple[Gain, ...] = ()
    best: tuple[Gain, ...] = ()
    conditional: tuple[Gain, ...] = ()
    coin: tuple[Gain, ...] = ()
    elsewhere: tuple[Gain, ...] = ()
    oracle: tuple[Gain, ...] = ()


@dataclass(frozen=True, eq=False)
class _Pair:
    """Correctness of two strategies on the same examples (E,) each, and the setting that they are of."""

    made: Gain
    first: np.ndarray
    second: np.ndarray


def together(pairs: Sequence[_Pair], unit: np.ndarray, settings: Settings) -> tuple[Gain, ...]:
    """The gains with intervals that hold for all of them at once."""
    if not pairs:
        return ()
    level = simultaneous_level([one.first - one.second for one in pairs], cluster=unit, settings=settings)
    raised = replace(settings, level=level)
    return tuple(
        replace(one.made, difference=paired_interval(one.first, one.second, cluster=unit, settings=raised))
        for one in pairs
    )


def _pair(
    first: np.ndarray, second: np.ndarray, name: str, samples: float, n: int, below: float | None = None, pool: str = ""
) -> _Pair:
    made = Gain(name, samples, n, float(first.mean()), float(second.mean()), NOTHING, below, pool)
    return _Pair(made, first, second)


def conditional_gains(
    made: Strategies, front: Frontier, chosen: np.ndarray, settings: Settings, others: Mapping[str, Strategies]
) -> tuple[tuple[Gain, ...], tuple[Gain, ...], tuple[Gain, ...]]:
    """Of conditional voting, on the half that its settings were not chosen on: against plain voting at as many samples,
    against the same numbers of samples for probes that a coin doubts, and against plain voting in that of all pools
    which is best at as many samples on the other half. Settings that doubt hardly any probe, or nearly all of them, are
    left out, and so are those that act as another one does on every probe.
    """
    on = made.among(~chosen)
    pools = {made.source.pool: made, **others}
    known = set[bytes]()
    plain, by_coin, elsewhere = list[_Pair](), list[_Pair](), list[_Pair]()
    for row in front.front.filter(strategy=CONDITIONAL).sort("chosen_samples").iter_rows(named=True):
        rungs = VotesByScore(tuple(row["below"]), tuple(row["votes"]))
        of = on.conditional(row["verifier"])
        if not rungs.below or not LEAST_DOUBTED <= of.fires(rungs.below[0]).mean() <= 1 - LEAST_DOUBTED:
            continue
        acts = rungs.columns(of.score, of.n).tobytes()
        if acts in known:
            continue
        known.add(acts)
        right, paid = rungs.outcomes(of)
        samples, setting = float(paid.mean()), (rungs.votes[0], rungs.below[0])
        voted = on.voted(samples)
        plain.append(_pair(right, voted, CONDITIONAL, samples, *setting))
        by_coin.append(_pair(right, rungs.by_coin(of), CONDITIONAL, samples, *setting))
        if others:
            best = max(pools, key=lambda pool, at=samples: float(pools[pool].voted(at)[chosen].mean()))  # type: ignore[misc]
            rival = pools[best].voted(samples)[~chosen]
            elsewhere.append(_pair(right, rival, CONDITIONAL, samples, *setting, best))
    return (
        together(plain, on.unit, settings),
        together(by_coin, on.unit, settings),
        together(elsewhere, on.unit, settings),
    )


def selecting_gains(made: Strategies, name: str, settings: Settings) -> tuple[Gain, ...]:
    """Of weighted voting or of best-of-n against plain voting at every n from 2 on. Nothing is chosen, so on all
    examples.
    """
    own = next((one for one in made.plain if one.name == name and one.verifier is not None), None)
    if own is None:
        return ()
    right, voted = made.plain[own], made.plain[Strategy(MAJORITY)]
    pairs = [_pair(right[:, at], voted[:, at], name, float(n), int(n)) for at, n in enumerate(made.n.tolist()) if n > 1]
    return together(pairs, made.unit, settings)


def oracle_gaps(made: Strategies, chosen: np.ndarray, settings: Settings) -> tuple[Gain, ...]:
    """At every n from 2 on, how far the best strategy of n samples is behind the oracle. The best is that of the half
    for choosing; gaps are of the other one.
    """
    on, of = made.among(~chosen), made.among(chosen)
    known = [one for one in made.plain if not one.sees_gold]
    pairs = []
    for at, n in enumerate(made.n.tolist()):
        if n > 1:
            best = max(known, key=lambda one, at=at: float(of.plain[one][:, at].mean()))  # type: ignore[misc]
            pairs.append(_pair(on.plain[best][:, at], on.plain[Strategy(ORACLE)][:, at], str(best), float(n), int(n)))
    return together(pairs, on.unit, settings)


def gains_of(
    made: Strategies, front: Frontier, chosen: np.ndarray, settings: Settings, scored: Strategies | None = None,
    others: Mapping[str, Strategies] | None = None,
) -> Gains:  # fmt: skip
    """All of them; `chosen` (E,): where settings were chosen; `scored`: of the samples that have scores, if not all;
    `others`: of further pools on the same examples.
    """
    own = made if scored is None else scored
    conditional, coin, elsewhere = conditional_gains(made, front, chosen, settings, others or {})
    return Gains(
        selecting_gains(own, WEIGHTED, settings), selecting_gains(own, BEST, settings), conditional, coin,
        elsewhere, oracle_gaps(made, chosen, settings),
    )  # fmt: skip
