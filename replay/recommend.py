"""Think again, or think longer? A decision from paired intervals, with the numbers that it rests on.

*Tune the budget* when some longer pool is not worse than the best intervention by more than a margin, and costs fewer
tokens. *Intervene* when a selective policy beats the best budget in accuracy, or halves its flips at no loss. *Disable*
when an action's flips exceed its fixes. *Undecided* otherwise, with about how many examples would decide. They are
asked in this order, because the initial budget comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.stats import PairedInterval, Settings, paired_interval

Outcomes = Mapping[str, np.ndarray]
"""Columns of one policy's outcomes (N,), on the same examples for all: correct, fix, flip, total_tokens."""

TUNE, INTERVENE, DISABLE, UNDECIDED = "tune the budget", "intervene", "disable", "undecided"
MOST_EXAMPLES = 10_000_000


@dataclass(frozen=True)
class Evidence:
    """One comparison that was looked at: what it says, and whether it decides for its verdict."""

    verdict: str
    policy: str
    sentence: str
    holds: bool
    needed: int | None  # examples at which the observed difference would decide; None where it points the other way


@dataclass(frozen=True)
class Recommendation:
    """The verdict, the sentences behind it, the actions to disable, and for `undecided` about how many examples."""

    verdict: str
    sentences: tuple[str, ...]
    disable: tuple[str, ...]
    examples_needed: int | None
    evidence: tuple[Evidence, ...]


def recommend(
    base: tuple[str, Outcomes],
    budgets: Mapping[str, Outcomes],
    selective: Mapping[str, Outcomes],
    actions: Mapping[str, Outcomes],
    *,
    margin: float = 0.01,
    cluster: np.ndarray | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> Recommendation:
    """Decide between longer pools (`budgets`), gated policies (`selective`) and always acting (`actions`).

    Everything is compared on the same examples; `base` is the short attempt with its name. Raises ThinkbackError
    without examples.
    """
    if not len(base[1]["correct"]):
        raise ThinkbackError("there is no example to decide by")
    judge = _Judge(margin, cluster, settings)
    rivals = {**selective, **actions} or dict([base])
    best = max(rivals, key=lambda name: float(np.nanmean(rivals[name]["correct"])))
    evidence = list(judge.tuning(budgets, best, rivals[best]))
    longest = max({**budgets, base[0]: base[1]}.items(), key=lambda item: float(np.nanmean(item[1]["correct"])))
    evidence += judge.intervening(selective, longest)
    evidence += judge.disabling(actions)
    found = {
        verdict: [e for e in evidence if e.verdict == verdict and e.holds] for verdict in (TUNE, INTERVENE, DISABLE)
    }
    disable = tuple(e.policy for e in found[DISABLE])
    for verdict in (TUNE, INTERVENE, DISABLE):
        if found[verdict]:
            told = [e.sentence for e in found[verdict]]
            told += [e.sentence for e in found[DISABLE]] if verdict != DISABLE else []
            return Recommendation(verdict, tuple(told), disable, None, tuple(evidence))
    open_ = sorted((e for e in evidence if e.needed is not None), key=lambda e: e.needed or 0)
    sentences = [e.sentence for e in evidence]
    needed = open_[0].needed if open_ else None
    n = len(base[1]["correct"])
    if needed is not None:
        sentences.append(
            f"{n:,} examples do not decide; if the differences stay as they are, about {needed:,} would "
            f"({open_[0].verdict})."
        )
    else:
        sentences.append(f"{n:,} examples do not decide, and no difference points to a decision that more would make.")
    return Recommendation(UNDECIDED, tuple(sentences), (), needed, tuple(evidence))


@dataclass(frozen=True)
class _Judge:
    margin: float
    cluster: np.ndarray | None
    settings: Settings

    def difference(self, first: np.ndarray, second: np.ndarray) -> PairedInterval:
        return paired_interval(first, second, cluster=self.cluster, settings=self.settings)

    def tuning(self, budgets: Mapping[str, Outcomes], best: str, rival: Outcomes) -> Iterator[Evidence]:
        for name, pool in budgets.items():
            gained = self.difference(pool["correct"], rival["correct"])
            saved = self.difference(pool["total_tokens"], rival["total_tokens"])
            not_worse = gained.low is not None and gained.low > -self.margin
            cheaper = saved.high is not None and saved.high < 0
            told = "not worse" if not_worse else "not shown to be no worse"
            cost = "costs fewer tokens" if cheaper else "is not shown to cost fewer tokens"
            sentence = (
                f"`{name}` against `{best}`: accuracy {_points(gained)}, tokens {_number(saved)} per example; it is "
                f"{told} by more than {100 * self.margin:g} points, and {cost}."
            )
            needs = [_needed(gained, -self.margin, above=True), _needed(saved, 0.0, above=False)]
            needed = None if None in needs else max(n for n in needs if n is not None)
            yield Evidence(TUNE, name, sentence, not_worse and cheaper, needed)

    def intervening(self, selective: Mapping[str, Outcomes], budget: tuple[str, Outcomes]) -> Iterator[Evidence]:
        name_of, pool = budget
        for name, policy in selective.items():
            gained = self.difference(policy["correct"], pool["correct"])
            beats = gained.low is not None and gained.low > 0
            sentence = f"`{name}` against the best budget, `{name_of}`: accuracy {_points(gained)}"
            needs = [_needed(gained, 0.0, above=True)]
            halves = False
            if np.isfinite(pool["flip"]).all() and pool["flip"].any():
                flips = self.difference(policy["flip"], pool["flip"] / 2)
                no_loss = gained.low is not None and gained.low > -self.margin
                halves = flips.high is not None and flips.high < 0 and no_loss
                half = 100 * float(pool["flip"].mean()) / 2
                sentence += f"; flips {100 * float(policy['flip'].mean()):.2f} %, half of the budget's {half:.2f} %"
                both = [_needed(flips, 0.0, above=False), _needed(gained, -self.margin, above=True)]
                needs.append(None if None in both else max(n for n in both if n is not None))
            told = "it is more accurate" if beats else "it halves flips at no loss" if halves else "neither is shown"
            known = [n for n in needs if n is not None]
            yield Evidence(INTERVENE, name, f"{sentence}: {told}.", beats or halves, min(known) if known else None)

    def disabling(self, actions: Mapping[str, Outcomes]) -> Iterator[Evidence]:
        for name, policy in actions.items():
            worse = self.difference(policy["flip"], policy["fix"])
            holds = worse.low is not None and worse.low > 0
            fix, flip = (100 * float(np.nanmean(policy[key])) for key in ("fix", "flip"))
            sentence = (
                f"`{name}` flips {flip:.2f} % and fixes {fix:.2f} %, a difference of {_points(worse)}: its flips "
                f"{'exceed' if holds else 'are not shown to exceed'} its fixes."
            )
            yield Evidence(DISABLE, name, sentence, holds, _needed(worse, 0.0, above=True))


def _needed(found: PairedInterval, bound: float, above: bool) -> int | None:
    """Examples at which an interval as wide for its number would clear the bound; None: it points the other way."""
    if found.difference is None or found.low is None or found.high is None:
        return None
    distance = found.difference - bound if above else bound - found.difference
    half = found.difference - found.low if above else found.high - found.difference
    if distance <= 0:
        return None
    needed = math.ceil(found.n * (max(half, 0.0) / distance) ** 2)
    return max(needed, 1) if needed <= MOST_EXAMPLES else None


def _points(found: PairedInterval) -> str:
    """A difference of shares in points, with its interval and p-value."""
    return _shown(found, 100.0, 2) + " points" + (f" (p {found.p_value:.4f})" if found.p_value is not None else "")


def _number(found: PairedInterval) -> str:
    return _shown(found, 1.0, 0)


def _shown(found: PairedInterval, scale: float, decimals: int) -> str:
    if found.difference is None:
        return "unknown"
    value = f"{scale * found.difference:+,.{decimals}f}"
    if found.low is None or found.high is None:
        return value
    return f"{value} [{scale * found.low:+,.{decimals}f}, {scale * found.high:+,.{decimals}f}]"
