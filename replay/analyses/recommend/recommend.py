"""Think again, or think longer? A decision from paired intervals, with the numbers behind it.

*Tune the budget* when some longer pool is worse by more than a margin neither than the best intervention nor than the
base attempt, and costs fewer tokens than the intervention. *Intervene* when a selective policy beats the best budget in
accuracy, or halves its flips at no loss. *Vote* when self-consistency beats the best intervention and the best budget,
for no more tokens than the intervention; an intervention that such a vote beats is none. *Change* when none of these is
shown, but some longer pool, vote, gated policy or action is more accurate than the base attempt: which one to serve is
then the cheapest that is shown to be within the margin of the best; beside it stand those that are not shown to be less
accurate, which promises nothing, and those that beat the base for less. *Disable* when an action's flips exceed its
fixes. *Undecided* otherwise. *Change* and *undecided* say about how many examples would decide. The initial budget
comes first, then votes. Longer pools, and what is within the margin, are shown in a fixed sequence from the dearest to
the cheapest (`replay.runs.saved.promise`). Else, where several policies could decide for a verdict, the limits are
those that hold for all of them at once, so that looking at more policies finds no more by chance. Outcomes that are
counted in examples, or in clusters of them, also need McNemar's exact p-value to vote, to intervene, to change or to
disable: the limits of a handful of fixes and flips claim a little too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from replay.analyses.recommend.rivals import affordable_vote
from replay.policies.toml import GivenPolicies, load_policies
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.runs.saved.promise import ERROR, affordable_dearest_first, policies_before_failure
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, RequiredError, UnknownError, UnsuitableError, argument, suggest
from toolkit.log import AnyLog, open_log
from toolkit.rounding import rounded_text
from toolkit.show import IntervalCell, NumberWithInterval, remark
from toolkit.show.tables.html import bullet_list, simulated_mark
from toolkit.stats import (
    PairedInterval,
    Settings,
    check_margin,
    paired_interval,
    rules_out_loss,
    simultaneous_level,
    unit_numbers,
)
from toolkit.stats.limits.discordant import FEW_PAIRS, exact_p_value
from toolkit.stats.limits.planning import (
    POWER,
    DifferenceVariance,
    NeededQuestions,
    difference_variance,
    questions_in_clusters,
)
from toolkit.stats.metrics.resamples import fewest_examples
from toolkit.stats.metrics.strata import Strata

Outcomes = Mapping[str, np.ndarray]
"""Columns of one policy's outcomes (N,): correct, fix, flip, total_tokens; on the same examples for all policies."""

TUNE, VOTE, INTERVENE, DISABLE = "tune the budget", "vote", "intervene", "disable"
CHANGE, UNDECIDED = "change", "undecided"
DEARER_VOTE = "dearer_vote"
"""Code of the sentence on a vote that costs more than what it is compared with."""
EQUAL_VOTES = (
    "Each intervention is compared with the largest vote for no more tokens, chosen before its accuracy is seen. "
    "One sample is a vote of 1."
)
_CHANGED = "Change what is served: other policies are shown to be more accurate than the base attempt."
_NO_REASON = (
    "Undecided: nothing is shown to be more accurate than the base attempt, nor an action to flip more than it fixes. "
    "So these examples are no reason to change what is served."
)
NAMELESS = (CHANGE, UNDECIDED)
"""Verdicts that name no policy."""
UNSHOWN = "flips are not shown to exceed its fixes"
HALVED = 1 / 3
"""The share of the examples that only one of two policies flips at which one counts as flipping half as often."""


@dataclass(frozen=True)
class _Difference(PairedInterval):
    """A difference with its variance, and the level of its limits."""

    variance: DifferenceVariance = field(kw_only=True)
    level: float = field(kw_only=True)
    joint: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class _ComparisonEvidence:
    """The evidence of one comparison: its sentence, and whether it is enough for its verdict."""

    verdict: str
    policy: str
    sentence: str
    holds: bool
    needed: NeededQuestions | None  # at which the observed difference would decide; None: it points the other way


@dataclass(frozen=True)
class _PairedEvidence:
    """Compares policies in pairs, and words what each comparison shows."""

    margin: float
    cluster: np.ndarray | None
    settings: Settings
    strata: Strata | None = None

    def weighted_mean(self, values: np.ndarray) -> float:
        """The weighted mean of correctness, tokens, fixes or flips (N,), without NaN."""
        known = ~np.isnan(values)
        weight = None if self.strata is None or self.strata.weight is None else self.strata.weight[known]
        return float(np.average(values[known], weights=weight)) if known.any() else math.nan

    def paired_differences(
        self, pairs: Sequence[tuple[np.ndarray, np.ndarray]], alone: bool, family: Sequence[np.ndarray] = ()
    ) -> list[_Difference]:
        """First minus second of each pair, with limits that hold for all pairs at once, or for one `alone`.

        They hold for all differences of a `family`, columns (N,), where the pairs were chosen among these.
        """
        columns = [*family] or [first - second for first, second in pairs]
        known = [column for column in columns if np.isfinite(column).any()]
        level = self.settings.level
        if known and not alone:
            level = simultaneous_level(known, cluster=self.cluster, settings=self.settings, strata=self.strata)
        settings, cluster, strata = replace(self.settings, level=level), self.cluster, self.strata
        units = None if self.cluster is None else unit_numbers(self.cluster)
        return [
            _Difference(
                **vars(paired_interval(first, second, cluster=cluster, settings=settings, strata=strata)),
                variance=difference_variance(first - second, cluster=units, strata=strata), level=level,
                joint=not alone and len(columns) > 1,
            )
            for first, second in pairs
        ]  # fmt: skip

    def questions_to_clear_bound(self, interval: _Difference, bound: float, above: bool) -> NeededQuestions | None:
        """How many examples would show, with POWER, that such a difference clears a bound; None if it points away."""
        if interval.difference is None:
            return None
        if above and bound < 0:  # a loss is ruled out
            units = self.count_units(interval.n)
            fewest = questions_in_clusters(fewest_examples(-bound) or 0, interval.n, units)
            return interval.variance.questions_to_rule_out_loss(interval.difference, -bound, fewest, interval.level)
        distance = interval.difference - bound if above else bound - interval.difference
        return interval.variance.questions_to_show(distance, level=interval.level, error=interval.variance.mean_error)

    def count_units(self, examples: int) -> int:
        """How many clusters there are; without clusters, how many examples."""
        return examples if self.cluster is None else len(np.unique(self.cluster))

    def too_few_examples_notes(self, examples: int) -> tuple[str, ...]:
        """A sentence if there are so few examples that even policies that always agree differ within no margin."""
        clusters = self.count_units(examples)
        fewest = fewest_examples(self.margin)
        if fewest is None or clusters >= fewest:
            return ()
        what = ("cluster" if clusters < examples else "example") + "s" * (clusters > 1)
        return (
            f"{clusters:,} {what} cannot rule out a loss of {self._margin_text()}, even of policies that agree "
            f"on all: that takes {fewest:,}.",
        )

    def agrees_with_exact_test(self, interval: PairedInterval) -> bool:
        """Whether the exact p-value, where few pairs give one, agrees that the difference is not 0."""
        return not _rests_on_few_pairs(interval) or (interval.exact_p or 0.0) < 1 - self.settings.level

    def questions_to_claim(self, interval: _Difference, above: bool, share: float = 0.5) -> NeededQuestions | None:
        """How many examples would make the interval exclude 0, and the exact p-value small."""
        needed = self.questions_to_clear_bound(interval, 0.0, above)
        if needed is None or interval.gained is None or interval.lost is None or self.agrees_with_exact_test(interval):
            return needed
        pairs = interval.gained + interval.lost
        many = np.arange(pairs, FEW_PAIRS + 1)
        gained = np.rint(interval.gained * many / pairs)
        small = (exact_p_value(gained, many - gained, share) < 1 - self.settings.level) | (many == FEW_PAIRS)
        return needed.raised_to(math.ceil(interval.n * many[np.argmax(small)] / pairs))

    def compare_longer_budgets(
        self, budgets: Mapping[str, Outcomes], base: tuple[str, Outcomes], best: str, rival: Outcomes
    ) -> Iterator[_ComparisonEvidence]:
        """Each longer pool against the best intervention and the base attempt: from the dearest that costs fewer tokens
        than the intervention to the cheapest, until one fails.
        """
        spent = {name: self.weighted_mean(pool["total_tokens"]) for name, pool in budgets.items()}
        budgets = {name: budgets[name] for name in sorted(budgets, key=lambda name: -spent[name])}
        tested, failed = self.weighted_mean(rival["total_tokens"]), ""
        pairs = [
            pair
            for pool in budgets.values()
            for pair in (
                (pool["correct"], rival["correct"]), (pool["total_tokens"], rival["total_tokens"]),
                (pool["correct"], base[1]["correct"]),
            )
        ]  # fmt: skip
        intervals = iter(self.paired_differences(pairs, alone=True))  # of one pool, all three must hold
        for name in budgets:
            gained, saved, to_base = next(intervals), next(intervals), next(intervals)
            not_worse, no_loss = self._is_not_worse(gained), self._is_not_worse(to_base)
            cheaper = saved.high is not None and saved.high < 0
            cost = "costs fewer tokens" if cheaper else "is not shown to cost fewer tokens"
            sentence = (
                f"`{name}` against `{best}`: accuracy {_interval_in_points(gained)}, tokens "
                f"{_interval_text(saved, 1, 0)} per example; it {self._loss_sentence(gained)}, and {cost}"
            )
            if best != base[0]:
                sentence += (
                    f"; against `{base[0]}`: accuracy {_interval_in_points(to_base)}; it {self._loss_sentence(to_base)}"
                )
            needs = [
                self.questions_to_clear_bound(gained, -self.margin, above=True),
                self.questions_to_clear_bound(saved, 0.0, above=False),
                self.questions_to_clear_bound(to_base, -self.margin, above=True),
            ]  # fmt: skip
            holds = not_worse and cheaper and no_loss and not failed
            if failed:
                sentence += f". Budgets are tested from the dearest on until one fails, as `{failed}` does"
            yield _ComparisonEvidence(TUNE, name, f"{sentence}.", holds, _most_questions_needed(needs))
            if not holds and spent[name] < tested:
                failed = failed or name

    def compare_gated_policies(
        self, selective: Mapping[str, Outcomes], budget: tuple[str, Outcomes], longer: bool
    ) -> Iterator[_ComparisonEvidence]:
        """Comparisons of each gated policy with the best budget."""
        name_of, pool = budget
        rival, whose = ("the best budget", "the budget's") if longer else ("the base attempt", "its")
        flipping = bool(np.nansum(pool["flip"]) > 0)
        pairs = []
        for policy in selective.values():
            pairs.append((policy["correct"], pool["correct"]))
            pairs += [(policy["flip"], pool["flip"] / 2)] if flipping else []
        intervals = iter(self.paired_differences(pairs, alone=False))  # either of the two decides
        for name, policy in selective.items():
            gained = next(intervals)
            beats = self._is_positive(gained)
            sentence = f"`{name}` against {rival}, `{name_of}`: accuracy {_interval_in_points(gained, exact=True)}"
            needs, fewer, no_loss = [self.questions_to_claim(gained, above=True)], False, self._is_not_worse(gained)
            if flipping:
                flips = next(intervals)
                if flips.gained is not None and flips.lost is not None:
                    flips = replace(flips, exact_p=float(exact_p_value(flips.gained, flips.lost, HALVED)))
                fewer = flips.high is not None and flips.high < 0 and self.agrees_with_exact_test(flips)
                policy_flips, pool_flips = (100 * self.weighted_mean(one["flip"]) for one in (policy, pool))
                halved = f"{_interval_in_points(flips, exact=True)} from half of these"
                shares = [rounded_text(one, 2) for one in (policy_flips, pool_flips)]
                sentence += f"; it flips {shares[0]} % of questions, {whose} {shares[1]} %: {halved}"
                both = [
                    self.questions_to_claim(flips, above=False, share=HALVED),
                    self.questions_to_clear_bound(gained, -self.margin, above=True),
                ]
                needs.append(_most_questions_needed(both))
            finding = self._gated_policy_sentence(beats, fewer, no_loss, flipping)
            known = min((need for need in needs if need is not None), key=lambda one: one.number, default=None)
            sentence = f"{sentence}: {finding}{_joint_limits(len(pairs))}."
            yield _ComparisonEvidence(INTERVENE, name, sentence, beats or (fewer and no_loss), known)

    def _gated_policy_sentence(self, beats: bool, fewer: bool, no_loss: bool, flipping: bool) -> str:
        """Sentence on what a gated policy does; that it decides nothing where it halves flips and may lose accuracy."""
        if beats:
            return "it is more accurate"
        if fewer:
            loss = f"more than {self._margin_text()}"
            return f"it halves flips at no loss (of {loss})" if no_loss else f"it halves flips, but may lose {loss}"
        return (
            "neither more accuracy nor half the flips is shown" if flipping else "it is not shown to be more accurate"
        )

    def compare_votes(
        self, votes: Mapping[str, Outcomes], acting: Mapping[str, Outcomes], best: str, longest: tuple[str, Outcomes]
    ) -> tuple[list[_ComparisonEvidence], set[str]]:
        """Comparisons of votes with interventions that cost as much or more, and the interventions that votes beat.

        Only a vote that beats the `best` of them and the best budget decides.
        """
        tokens = {name: self.weighted_mean(vote["total_tokens"]) for name, vote in votes.items()}
        paid = {name: self.weighted_mean(policy["total_tokens"]) for name, policy in acting.items()}
        rivals = {name: vote for name, most in paid.items() if (vote := affordable_vote(tokens, most)) is not None}
        pairs = [(votes[rival]["correct"], acting[name]["correct"]) for name, rival in rivals.items()]
        pairs += [(votes[rivals[best]]["correct"], longest[1]["correct"])] if best in rivals else []
        intervals = self.paired_differences(pairs, alone=False)
        evidence, beaten = [], set()
        for (name, rival), gained in zip(rivals.items(), intervals, strict=False):
            beats = self._is_positive(gained)
            needed, finding = self.questions_to_claim(gained, above=True), "it is more accurate"
            sentence = (
                f"`{rival}` against `{name}`, at {tokens[rival]:,.0f} and {paid[name]:,.0f} tokens per example: "
                f"accuracy {_interval_in_points(gained, exact=True)}"
            )
            decides = name == best and beats and self._is_positive(intervals[-1])
            if name == best:
                sentence += f"; against `{longest[0]}` {_interval_in_points(intervals[-1], exact=True)}"
                finding += " than both" if decides else " than the first alone"
                needed = _most_questions_needed([needed, self.questions_to_claim(intervals[-1], above=True)])
            below = gained.high is not None and gained.high < 0 and self.agrees_with_exact_test(gained)
            finding = finding if beats else "it is less accurate" if below else "it is not shown to be more accurate"
            sentence += f": {finding}{_joint_limits(len(pairs))}."
            beaten |= {name} if beats else set()
            evidence.append(_ComparisonEvidence(VOTE, rival, sentence, decides, needed if name == best else None))
        return evidence, beaten

    def _is_positive(self, interval: PairedInterval) -> bool:
        return interval.low is not None and interval.low > 0 and self.agrees_with_exact_test(interval)

    def larger_vote_sentence(self, votes: Mapping[str, Outcomes], best: str, rival: Outcomes) -> tuple[str, ...]:
        """A sentence on what the largest vote gains over the best intervention, if it costs more."""
        tokens_by_vote = {name: self.weighted_mean(vote["total_tokens"]) for name, vote in votes.items()}
        known = [name for name, tokens in tokens_by_vote.items() if tokens > self.weighted_mean(rival["total_tokens"])]
        if not known:
            return ()
        name = max(known, key=lambda vote: tokens_by_vote[vote])
        pairs = [(votes[name][column], rival[column]) for column in ("correct", "total_tokens")]
        gained, dearer = self.paired_differences(pairs, alone=True)
        return (
            remark(
                DEARER_VOTE,
                f"`{name}` against `{best}`: accuracy {_interval_in_points(gained)}, "
                f"tokens {_interval_text(dearer, 1, 0)} per example: a vote that costs more decides nothing.",
            ),
        )

    def compare_with_base(
        self, base: tuple[str, Outcomes], others: Mapping[str, Outcomes]
    ) -> Iterator[_ComparisonEvidence]:
        """Comparisons of each other policy with the base attempt."""
        intervals = self.paired_differences(
            [(policy["correct"], base[1]["correct"]) for policy in others.values()], alone=False
        )
        for name, gained in zip(others, intervals, strict=True):
            beats = self._is_positive(gained)
            sentence = (
                f"`{name}` against `{base[0]}`: accuracy {_interval_in_points(gained, exact=True)}: it is "
                f"{'' if beats else 'not shown to be '}more accurate{_joint_limits(len(others))}."
            )
            yield _ComparisonEvidence(CHANGE, name, sentence, beats, self.questions_to_claim(gained, above=True))

    def cheapest_within_margin(
        self, families: Mapping[str, Mapping[str, Outcomes]], better: Sequence[str], best: str
    ) -> tuple[str | None, str]:
        """The cheapest of the `better` policies that is shown to be within the margin of the best of them, and a
        sentence: in a fixed sequence within each family, the parts that policies play, which share the error.
        """
        policies = {name: policy for members in families.values() for name, policy in members.items()}
        spent = {name: self.weighted_mean(policies[name]["total_tokens"]) for name in better}
        cost = {name: tokens for name, tokens in spent.items() if name == best or tokens < spent[best]}
        if len(cost) < 2:
            return None, ""
        tested, shares = affordable_dearest_first({role: [*members] for role, members in families.items()}, cost, best)
        settings = replace(self.settings, level=1 - 2 * ERROR / shares)
        right = {name: policies[name]["correct"] for name in cost}
        limits = {
            name: paired_interval(right[name], right[best], cluster=self.cluster, settings=settings, strata=self.strata)
            for name in cost
            if name != best
        }
        passed = policies_before_failure(
            tested, {best, *(name for name, limit in limits.items() if self._is_not_worse(limit))}
        )
        near = [name for members in passed.values() for name in members if name != best]
        likely = min((name for name, one in limits.items() if (one.difference or 0.0) >= -self.margin),
                     key=lambda name: cost[name], default=None)  # fmt: skip
        cheapest, text = min(near, key=lambda name: cost[name], default=None), ""
        if cheapest is not None:
            gain, low = (100 * (getattr(limits[cheapest], part) or 0.0) for part in ("difference", "low"))
            text = f"The cheapest of them that is shown to be within {self._margin_text()} of the best, `{best}`, is "
            text += f"`{cheapest}` ({cost[cheapest]:,.0f} tokens): {_signed_points(gain)} points, "
            text += f"at least {_signed_points(low)}."
        else:
            text = f"No cheaper one of them is shown to be within {self._margin_text()} of the best, `{best}`."
        if likely is not None and likely != cheapest:
            text += (
                f" By estimates alone the cheapest would be `{likely}` ({cost[likely]:,.0f} tokens); that is not shown."
            )
        return cheapest, text

    def not_worse_than_best(
        self, families: Mapping[str, Mapping[str, Outcomes]], better: Sequence[str]
    ) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
        """Those of the `better` policies not shown less accurate than the best, fewest tokens first; the cheapest that
        is shown to be within the margin of it; and sentences.

        The limits hold for all pairs at once, because the same examples show which policy is the best.
        """
        if not better:
            return (), None, ()
        policies = {name: policy for members in families.values() for name, policy in members.items()}
        right = {name: policy["correct"] for name, policy in policies.items()}
        best = max(better, key=lambda name: self.weighted_mean(right[name]))
        pairs = [one - other for one, other in combinations(right.values(), 2)]
        against = [(right[best], right[name]) for name in better]
        behind = self.paired_differences(against, alone=False, family=pairs)
        spent = {name: self.weighted_mean(policies[name]["total_tokens"]) for name in better}
        cheapest = sorted(better, key=lambda name: (math.isnan(spent[name]), spent[name], name))
        worse = {name for name, gap in zip(better, behind, strict=True) if name != best and self._is_positive(gap)}
        candidates = tuple(name for name in cheapest if name not in worse)
        cheaper = cheapest[: cheapest.index(candidates[0])]

        def with_tokens(names: Sequence[str]) -> str:
            tokens = ("unknown" if math.isnan(spent[name]) else f"{spent[name]:,.0f}" for name in names)
            return ", ".join(f"`{name}` ({one} tokens)" for name, one in zip(names, tokens, strict=True))

        count = f"{len(better)} of {len(policies)} policies are" if len(policies) > 1 else f"`{best}` is"
        within, text = self.cheapest_within_margin(families, better, best)
        sentences = [
            f"{count} shown to be more accurate than the base attempt. {text}{' ' * bool(text)}"
            f"Not shown to be less accurate than the best of them, `{best}`, cheapest first: "
            f"{with_tokens(candidates)}{_joint_limits(len(pairs))}."
        ]
        sentences += [
            f"More accurate than the base attempt for fewer tokens than these: {with_tokens(cheaper)}."
        ] * bool(cheaper)
        return candidates, within, tuple(sentences)

    def actions_to_disable(self, actions: Mapping[str, Outcomes]) -> Iterator[_ComparisonEvidence]:
        """Comparisons of each action's flips with its fixes, for actions to disable."""
        intervals = self.paired_differences(
            [(policy["flip"], policy["fix"]) for policy in actions.values()], alone=False
        )
        for (name, policy), worse in zip(actions.items(), intervals, strict=True):
            holds, helps = (
                self._is_positive(worse),
                worse.high is not None and worse.high < 0 and self.agrees_with_exact_test(worse),
            )
            finding = "flips exceed its fixes" if holds else "fixes exceed its flips" if helps else UNSHOWN
            fix, flip = (100 * self.weighted_mean(policy[key]) for key in ("fix", "flip"))
            sentence = (
                f"`{name}` flips {rounded_text(flip, 2)} % and fixes {rounded_text(fix, 2)} %, a difference of "
                f"{_interval_in_points(worse, exact=True)}: its {finding}{_joint_limits(len(actions))}."
            )
            yield _ComparisonEvidence(DISABLE, name, sentence, holds, self.questions_to_claim(worse, above=True))

    def _margin_text(self) -> str:
        points = f"{100 * self.margin:g}"
        return f"{points} point{'' if points == '1' else 's'}"

    def _loss_sentence(self, interval: PairedInterval) -> str:
        """A sentence on what an interval says of a loss beyond the margin."""
        worse = interval.high is not None and interval.high < -self.margin
        verb = "is not" if self._is_not_worse(interval) else "is" if worse else "may be"
        return f"{verb} worse by more than {self._margin_text()}"

    def _is_not_worse(self, interval: PairedInterval) -> bool:
        return interval.low is not None and rules_out_loss(interval.low, self.margin, self.count_units(interval.n))


def _signed_points(points: float) -> str:
    return NumberWithInterval(2, 1, signed=True).show(IntervalCell(points))


def _joint_limits(count: int) -> str:
    """A remark on limits that are widened because they hold for several comparisons."""
    return f" (limits that hold for all {count} comparisons at once)" if count > 1 else ""


def _most_questions_needed(needs: Sequence[NeededQuestions | None]) -> NeededQuestions | None:
    known = [need for need in needs if need is not None]
    return max(known, key=lambda one: one.number) if len(known) == len(needs) else None


def _rests_on_few_pairs(interval: PairedInterval) -> bool:
    """Whether so few pairs differ that limits alone claim nothing. The exact test counts pairs, however unlike:
    of many it would deny what limits show of means over orders.
    """
    return interval.exact_p is not None and (interval.gained or 0) + (interval.lost or 0) < FEW_PAIRS


def _interval_in_points(interval: _Difference, exact: bool = False) -> str:
    """A difference of shares in points, with its interval and p-value, and the exact one where a claim rests on few.

    A p-value is of this difference by itself, which is said where the limits hold for others, too.
    """
    p_value = "" if interval.p_value is None else f"p {interval.p_value:.4f}" + " by itself" * interval.joint
    if exact and p_value and _rests_on_few_pairs(interval):
        p_value += f", exact {interval.exact_p:.4f}"
    return _interval_text(interval, 100.0, 2) + " points" + (f" ({p_value})" if p_value else "")


def _interval_text(interval: PairedInterval, scale: float, decimals: int) -> str:
    if interval.difference is None:
        return "unknown"
    return NumberWithInterval(decimals, scale, signed=True).show(
        IntervalCell(interval.difference, interval.low, interval.high)
    )


COLUMNS = ("correct", "fix", "flip", "total_tokens")
NAMED = "names of policies, or one"
NO_BUDGET = "No pool with a higher token limit is compared, so no budget is judged."


@dataclass(frozen=True)
class Recommendation:
    """The verdict, the sentences behind it, the actions to disable, and about how many examples would decide.

    `candidates` are the policies shown to be more accurate than the base attempt and not shown to be less accurate than
    the best of these, those of fewest tokens first; `within`: the cheapest that is shown to be within the margin of the
    best. `examples_needed` is of `undecided` and `change`, and `examples_range` the ends of that number's range; no
    high end where no number may do.
    """

    verdict: str
    sentences: tuple[str, ...]
    disable: tuple[str, ...]
    examples_needed: int | None
    examples_range: tuple[int, int | None] | None
    evidence: tuple[_ComparisonEvidence, ...]
    candidates: tuple[str, ...] = ()
    within: str | None = None
    simulated: bool = field(default=False, compare=False)

    @property
    def meaning(self) -> str:
        """What a verdict that names no policy means to those who serve; empty where it names one."""
        if self.verdict == UNDECIDED:
            return _NO_REASON
        if self.verdict != CHANGE:
            return ""
        if len(self.candidates) > 1:
            return f"{_CHANGED} Which of them to serve is undecided."
        return f"{_CHANGED} `{self.candidates[0]}` is shown to be the most accurate of them."

    def _repr_html_(self) -> str:
        return simulated_mark(self.simulated) + bullet_list(self.verdict, self.sentences)


@checks_arguments(
    base="a policy's name", margin="a difference in accuracy, such as 0.01",
    **dict.fromkeys(("budgets", "selective", "actions", "votes"), NAMED),
)  # fmt: skip
def recommend(
    log: AnyLog,
    policies: GivenPolicies,
    *,
    base: str,
    budgets: str | Sequence[str] = (),
    selective: str | Sequence[str] = (),
    actions: str | Sequence[str] = (),
    votes: str | Sequence[str] = (),
    margin: float = 0.01,
    rules: GivenRules = None,
    **options: Any,
) -> Recommendation:
    """Replay policies and decide between longer pools (`budgets`), `votes`, gated ones (`selective`), always acting.

    `base` names the short attempt; the others name policies, or sweeps, by the part that they play. `margin` is the
    loss of accuracy that is tolerated. Other `options` (where, strata, weigh, settings …) go to `replay.run`. Raises
    ThinkbackError for a name that no policy has, and for one that the log cannot serve.
    """
    roles = {"budgets": budgets, "selective": selective, "actions": actions, "votes": votes}
    parts = {role: (names,) if isinstance(names, str) else tuple(names) for role, names in roles.items()}
    if not any(parts.values()):
        raise RequiredError(
            f"there is nothing to decide between: name policies with {argument('budgets')}, `selective` or `actions`"
        )
    log, file = open_log(log), load_policies(policies, rules)
    compared = tuple(
        replace(policy, against=base)
        if {policy.name, policy.sweep} & set(parts["budgets"]) and not policy.flip_baseline_name and policy.name != base
        else policy
        for policy in file.policies
    )
    result = run(log, replace(file, policies=compared), baseline=base, **options)
    outcomes = {role: _outcomes_by_policy(result, role, names) for role, names in parts.items()}
    of_base = _outcomes_by_policy(result, "base", (base,))[base]
    examples = result.examples.sort("example_id")
    recommendation = decide_from_outcomes(
        (base, of_base), **outcomes, margin=margin, cluster=resampling_units(examples).to_numpy(),
        strata=result.summariser.outcomes.examples.resampling_units(examples)[1], settings=result.summariser.settings,
    )  # fmt: skip
    return replace(recommendation, simulated=result.simulated)


def _outcomes_by_policy(result: Result, role: str, names: Sequence[str]) -> dict[str, Outcomes]:
    """The outcomes of the policies (or of the sweeps' settings) named for a role, in example_id order."""
    outcomes: dict[str, Outcomes] = {}
    for name in names:
        members = [policy.name for policy in result.policies if name in (policy.name, policy.sweep)]
        if not members and name in result.dropped:
            raise UnsuitableError(f"{argument(role)} names `{name}`, which is dropped: {result.dropped[name]}")
        if not members:
            known = [policy.name for policy in result.policies]
            raise UnknownError(f"{argument(role)} names no policy: `{name}`; {suggest(name, known)}")
        for member in members:
            frame = result.outcomes.filter(policy=member).collect()
            outcomes[member] = {column: frame[column].fill_null(np.nan).to_numpy() for column in COLUMNS}
    return outcomes


def decide_from_outcomes(
    base: tuple[str, Outcomes],
    budgets: Mapping[str, Outcomes],
    selective: Mapping[str, Outcomes],
    actions: Mapping[str, Outcomes],
    *,
    votes: Mapping[str, Outcomes] | None = None,
    margin: float = 0.01,
    cluster: np.ndarray | None = None,
    strata: Strata | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> Recommendation:
    """Decide from the outcomes of longer pools (`budgets`), gated policies (`selective`) and always acting (`actions`).

    Everything is compared on the same examples; `base` is the short attempt with its name. Of the `votes`, the one
    with the most tokens that are not more than an intervention's is that intervention's rival. Raises ThinkbackError
    without examples.
    """
    check_margin(margin)
    if not len(base[1]["correct"]):
        raise EmptyError("there is no example to decide by")
    judge = _PairedEvidence(margin, cluster, settings, strata)
    rivals = {**selective, **actions} or dict([base])
    best = max(rivals, key=lambda name: judge.weighted_mean(rivals[name]["correct"]))
    evidence = list(judge.compare_longer_budgets(budgets, base, best, rivals[best]))
    longest = max({**budgets, base[0]: base[1]}.items(), key=lambda item: judge.weighted_mean(item[1]["correct"]))
    voted, beaten = judge.compare_votes(votes or {}, {**selective, **actions}, best, longest)
    evidence += voted
    evidence += [
        replace(e, holds=e.holds and e.policy not in beaten)
        for e in judge.compare_gated_policies(selective, longest, bool(budgets))
    ]
    others = {**budgets, **(votes or {}), **selective, **actions}
    evidence += [*judge.compare_with_base(base, others), *judge.actions_to_disable(actions)]
    order = (TUNE, VOTE, INTERVENE, CHANGE, DISABLE)
    by_verdict = {verdict: [e for e in evidence if e.verdict == verdict and e.holds] for verdict in order}
    disable = tuple(e.policy for e in by_verdict[DISABLE])
    roles = {"budgets": budgets, "votes": votes or {}, "selective": selective, "actions": actions}
    candidates, within, level_with = judge.not_worse_than_best(roles, [e.policy for e in by_verdict[CHANGE]])
    unjudged = (
        *((EQUAL_VOTES,) if voted else ()), *judge.larger_vote_sentence(votes or {}, best, rivals[best]),
        *(() if budgets else (NO_BUDGET,)),
    )  # fmt: skip
    verdict = next((one for one in order if by_verdict[one]), UNDECIDED)
    if verdict not in NAMELESS:
        reasons = [e.sentence for e in by_verdict[verdict]]
        reasons += [e.sentence for e in voted] if verdict in (TUNE, INTERVENE) else []
        reasons += [e.sentence for e in by_verdict[DISABLE]] if verdict != DISABLE else []
        sentences = [*reasons, *level_with, *unjudged]
        return Recommendation(verdict, tuple(sentences), disable, None, None, tuple(evidence), candidates, within)
    most = max(others, key=lambda name: judge.weighted_mean(others[name]["correct"]))
    before = order[: order.index(verdict)] if verdict in order else order
    open_ = [(e.needed, e.verdict) for e in evidence if e.needed is not None and e.verdict in before]
    needed, for_what = min(open_, key=lambda one: one[0].number, default=(None, ""))
    lines = [e.sentence for e in evidence if e.verdict != CHANGE or e.holds or (not candidates and e.policy == most)]
    sentences = [*level_with, *lines, *unjudged]
    sentences += judge.too_few_examples_notes(len(base[1]["correct"])) if budgets or selective else ()
    n = len(base[1]["correct"])
    do = ("example does" if n == 1 else "examples do") + " not decide" + " which" * (len(candidates) > 1)
    do += " whether fewer tokens do as well" * (len(candidates) == 1)
    if needed is not None:
        sentences.append(
            f"{n:,} {do}; if the differences stay as they are, {needed.number_text} would, with "
            f"{100 * POWER:g} % power ({for_what})."
        )
    else:
        sentences.append(f"{n:,} {do}, nor would more if the differences stay as they are.")
    number, ends = (None, None) if needed is None else (needed.number, (needed.low, needed.high))
    return Recommendation(verdict, tuple(sentences), disable, number, ends, tuple(evidence), candidates, within)
