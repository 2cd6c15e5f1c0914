"""Coverage: the examples on which a run compares its policies, the policies that it drops first, and notes on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replay.data.needs import Action, Needs, slice_name
from replay.engine.outcome import COVERED, EXHAUSTED
from replay.policies.base import Policy, policy_and_parts
from replay.policies.remarks import RemarkKind
from replay.runs.passes.pass_result import ENDING, REASON, PassResult
from replay.runs.passes.versions import ReportedPolicies
from toolkit.columns import OutcomeColumn
from toolkit.errors import EmptyError, counted, listed
from toolkit.notes import Note, note, warning
from toolkit.show.ranking.ranking import UNLIKE_CALLS, UNLIKE_TOKENS
from toolkit.stopping.unscored import UnscoredTreatment

MIN_COVERED = (9, 10)
"""The share of the examples covered by any policy that a policy must cover to stay."""
REASONS = 3
"""The most reasons that are named for why a policy is dropped."""


@dataclass
class _BaselineTally:
    """How the baseline's number changes because other policies leave out examples.

    `lost`: by policy the examples that the baseline covers and it does not. `on_covered`, `on_shared`: judged examples
    that the baseline covers, and that all cover, with the sum of its correctness on them.
    """

    name: str
    judged: bool
    lost: Counter[str] = field(default_factory=Counter)
    covered: int = 0
    on_covered: tuple[int, float] = (0, 0.0)
    on_shared: tuple[int, float] = (0, 0.0)

    def add_block(self, names: Sequence[str], complete: np.ndarray, correct: np.ndarray) -> None:
        """Add a block: which policies cover which examples (P, E), and the baseline's correctness (E,)."""
        covered, keep = complete[names.index(self.name)], complete.all(axis=0)
        for name, count in zip(names, (covered & ~complete).sum(axis=1), strict=True):
            if count:
                self.lost[name] += int(count)
        self.covered += int(covered.sum())
        self.on_covered, self.on_shared = (
            (n + int((on & ~np.isnan(correct)).sum()), total + float(np.nansum(correct[on])))
            for (n, total), on in ((self.on_covered, covered), (self.on_shared, keep))
        )

    def accuracies(self) -> tuple[float, float] | None:
        """The baseline's accuracy on the examples that it covers, and on those that all cover; None: unknown."""
        (n, total), (shared_n, shared_total) = self.on_covered, self.on_shared
        return (total / n, shared_total / shared_n) if self.judged and n and shared_n else None


@dataclass(frozen=True, eq=False)
class Coverage:
    """The examples that all of some policies cover, what is left out, and the remarks on them.

    `keep` (N,): the examples that all cover; `excluded` maps the id of each other one to the first reason. `counts`,
    `why`: how many examples each policy serves, and why not the others. `by_some`: examples that some policy serves.
    `valid`, `outside`, `actions`, `behind_gaps`: of the traces that these policies read. `free`: by verifier the costs
    that some verification lacks which a policy may pay. `exhausted`: examples on which the log ended before the cap.
    `remarks`: what policies remarked on, by kind and subject. `unscored`: by slice, verifier and what becomes of them,
    of each policy the valid traces without a score that it may verify. `dropped`: policies left out before, with the
    reason. `baseline`: what the examples left out do to its number.
    """

    policies: tuple[Policy, ...]
    keep: np.ndarray
    by_some: int
    counts: Mapping[str, int]
    why: Mapping[str, Counter[str]]
    excluded: Mapping[str, str]
    exhausted: Mapping[str, int]
    valid: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    actions: Mapping[str, Action] = field(default_factory=dict)
    behind_gaps: int = 0
    free: Mapping[str, frozenset[str]] = field(default_factory=dict)
    remarks: Mapping[RemarkKind, Counter[str]] = field(default_factory=dict)
    order_s: Mapping[str, float] = field(default_factory=dict)
    unscored: Mapping[tuple[str, str, UnscoredTreatment], Mapping[str, int]] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    baseline: _BaselineTally | None = None

    @property
    def count_covered(self) -> int:
        return int(self.keep.sum())

    @property
    def count_replayed(self) -> int:
        return len(self.keep)

    @property
    def order_s_per_example(self) -> dict[str, float]:
        """Seconds that each policy's surrogate took, walked to its end, for each example and random order."""
        return {name: total / max(self.count_replayed, 1) for name, total in self.order_s.items()}

    def require_examples(self, address: str) -> Coverage:
        """The coverage itself. Raises where no example is left."""
        if not self.count_covered:
            reasons = Counter(self.excluded.values()).most_common(1)
            why = f"; for most of them, {reasons[0][0]}" if reasons else ""
            raise EmptyError(
                f"the log covers no example of {address} for all {len(self.policies)} policies{why}; "
                'replay fewer policies, or set `on_missing = "use_available"`'
            )
        return self

    def notes(self, examples: int) -> Iterator[Note]:
        """Notes on what was left out, the warning about bias first; then the remarks of policies."""
        yield from _note_left_out(self.excluded, examples)
        yield from _note_without_answers(self.valid, self.actions)
        yield from _note_outside_labels(self.outside)
        yield from _note_undercovered(self.excluded, self.dropped)
        if self.baseline is not None:
            one = self.baseline
            yield from _note_baseline(one.name, self.count_covered, one.covered, one.lost, one.accuracies())
        yield from _note_unscored(self.unscored)
        remarks = dict(self.remarks)
        for policy in self.policies:
            for part in policy_and_parts(policy):
                for kind in part.final_remarks():
                    remarks.setdefault(kind, Counter())[policy.sweep] += 1
        for kind, counts in remarks.items():
            yield from kind.notes(counts)
        yield from _note_underestimated(self.free, self.exhausted, self.behind_gaps)


def coverage_of_pass(
    pass_result: PassResult, reported: ReportedPolicies, needs: Needs, baseline: str | None = None
) -> Coverage:
    """The coverage of some policies in the result of a pass; `needs` is what they read of a log."""
    policies, everyone = reported.policies, np.arange(len(reported.policies))
    masks, excluded = list[np.ndarray](), dict[str, str]()
    names = [policy.name for policy in policies]
    base = names.index(baseline) if baseline in names else None
    # Where a policy that ranks all examples acts is not decided yet.
    baseline_set = None if base is None else _BaselineTally(names[base], policies[base].example_ranking is None)
    by_some = first = 0
    counts, exhausted = np.zeros((2, len(policies)), dtype=np.int64)
    why: dict[str, Counter[str]] = {}
    for block in pass_result.blocks:
        reason = reported.values(block.tables, REASON, everyone, first, 0, len(block)).astype(np.int64)
        complete = reason == COVERED
        keep = complete.all(axis=0)
        by_some += int(complete.any(axis=0).sum())
        if baseline_set is not None:
            correct = reported.values(block.tables, "correct", np.array([base]), first, 0, len(block))[0]
            baseline_set.add_block(names, complete, correct)
        counts += complete.sum(axis=1)
        for p in np.flatnonzero(~complete.all(axis=1)):
            tally = np.bincount(reason[p], minlength=len(block.reasons))
            tally[COVERED] = 0
            reasons = why.setdefault(policies[p].name, Counter())
            reasons.update({block.reasons[code]: int(tally[code]) for code in np.flatnonzero(tally)})
        for e in np.flatnonzero(~keep):
            by = int((~complete[:, e]).argmax())
            excluded[str(block.ids[int(e)])] = f"{policies[by].name}: {block.reasons[reason[by, e]]}"
        ending = reported.values(block.tables, ENDING, everyone, first, 0, len(block))
        exhausted += (ending[:, keep] == EXHAUSTED).sum(axis=1)
        masks.append(keep)
        first += len(block)
    slices = needs.pools | set(needs.slices.values())
    numbers = pass_result.versions.numbers_of_sources(policies)
    return Coverage(
        policies=policies,
        keep=np.concatenate(masks),
        by_some=by_some,
        counts={policy.name: int(count) for policy, count in zip(policies, counts, strict=True)},
        why=why,
        excluded=excluded,
        exhausted={policy.name: int(count) for policy, count in zip(policies, exhausted, strict=True)},
        baseline=baseline_set,
        **_joined_tallies(pass_result, slices, numbers, masks),
    )


def _joined_tallies(
    pass_result: PassResult, slices_read: Set[str], numbers: Mapping[int, str], masks: Sequence[np.ndarray]
) -> dict[str, Any]:
    """The counts of all blocks beside outcomes, for the slices in `slices_read` and for some policies."""
    valid, outside, actions = Counter[str](), Counter[str](), dict[str, Action]()
    remarks, order_s = dict[RemarkKind, Counter[str]](), dict[str, float]()
    behind_gaps, free = 0, dict[str, frozenset[str]]()
    unscored = dict[tuple[str, str, UnscoredTreatment], Counter[str]]()
    for block, keep in zip(pass_result.blocks, masks, strict=True):
        tally = block.tally
        for name in tally.valid.keys() & slices_read:
            valid[name] += tally.valid[name]
        behind_gaps += sum(tally.behind_gaps[name] for name in tally.behind_gaps.keys() & slices_read)
        actions |= {name: action for name, action in tally.actions.items() if name in slices_read}
        for (slices, answer), count in tally.outside.items():
            if not slices_read.isdisjoint(slices):
                outside[answer] += count
        for number, counts in tally.remarks.items():
            if number in numbers:
                for (kind, subject), count in counts.items():
                    remarks.setdefault(kind, Counter())[subject] += count
        for (number, slice_, verifier, way), without in tally.unscored.items():
            if number in numbers and (count := int(without[keep].sum())):
                unscored.setdefault((slice_, verifier, way), Counter())[numbers[number]] += count
        bits = np.packbits(keep)
        for (number, verifier, cost), lacks in tally.lacking.items():
            if number in numbers:
                known = free.get(verifier, frozenset())
                paid = cost not in known and (np.frombuffer(lacks, np.uint8) & bits).any()
                free[verifier] = known | {cost} if paid else known
        for number, seconds in tally.order_s.items():
            if number in numbers:
                order_s[numbers[number]] = order_s.get(numbers[number], 0.0) + seconds
    return {
        "valid": valid, "outside": outside, "actions": actions, "behind_gaps": behind_gaps, "remarks": remarks,
        "free": free, "order_s": order_s, "unscored": unscored,
    }  # fmt: skip


def undercovered_reasons(coverage: Coverage) -> dict[str, str]:
    """The policies that cover less than nine tenths of the examples covered by any, each with the reason."""
    share, of = MIN_COVERED
    dropped = {}
    for policy in coverage.policies:
        count, why = coverage.counts[policy.name], coverage.why.get(policy.name, Counter())
        if coverage.by_some == 0 or count * of < share * coverage.by_some:
            main = _reasons_text(why) if why else "no example"
            few = f"the log covers {count:,} of the {coverage.by_some:,} examples covered for at least one policy"
            dropped[policy.name] = f"{few} ({main})" if coverage.by_some else f"the log covers no example ({main})"
    return dropped


def _reasons_text(why: Counter[str]) -> str:
    """The most frequent reasons, each with its number of examples, in words."""
    ranked = sorted(why.items(), key=lambda item: (-item[1], item[0]))
    reasons = [f"{counted(count, 'example')}: {reason}" for reason, count in ranked[:REASONS]]
    return "; ".join([*reasons, "…"] if len(ranked) > REASONS else reasons)


CALLS = {"calls", "operations", "traces"}
"""Units of costs that count calls, however much each call costs."""
MOST_MISSING = 2
"""How many policies left out of the suite a note names with the reason."""
MAX_NAMED = 5
"""How many answers outside the label space a note names."""
WARN_EXCLUDED = 0.01
"""The share of left-out examples above which a warning stands above the table."""
LEFT_OUT, FREE, DROPPED, CALLS_FAILED = "left_out", "free_verifications", "dropped", "calls_failed"
"""Codes of the notes that say how many examples are left out and why, which verifiers count as free, which policies
are dropped, and which calls failed when the log was made."""
SUITE = "suite"
"""Code of the notes that say what the standard suite leaves out and which examples it reports."""
UNSCORED, BASELINE_SET = "unscored", "baseline_set"
"""Codes of the notes that say which traces without a score policies skip or give the lowest one, and that others take
examples from the baseline."""


def notes_on_suite(missing: Sequence[str], where: str | None) -> Iterator[Note]:
    """Notes on what a standard suite leaves out, and on the examples that it reports."""
    if missing:
        few, more = missing[:MOST_MISSING], len(missing) - MOST_MISSING
        rest = f", and {more} more (the suite's own text names all)" if more > 0 else ""
        yield note(SUITE, f"the suite leaves out {'; '.join(few)}{rest}")
    if where is not None:
        yield note(SUITE, f"the suite reports only the examples with {where}; the condition `true` reports all")


def _note_left_out(excluded: Mapping[str, str], of: int) -> Iterator[Note]:
    """The warning that every number may be biased, because so many examples are left out."""
    if excluded and len(excluded) > WARN_EXCLUDED * of:
        share, verb = len(excluded) / of, "is" if len(excluded) == 1 else "are"
        yield warning(
            "many_left_out",
            f"{len(excluded):,} of {of:,} examples ({share:.1%}) {verb} left out because calls or values that some "
            "policy needs are missing in the log; if the logged run stopped or accepted by a rule of its own, this "
            "biases every number below",
        )


def notes_on_failed_calls(calls: Counter[str]) -> Iterator[Note]:
    """A note on the calls that failed for good when the log was made, by cause."""
    if calls:
        causes = sorted(calls.items(), key=lambda one: (-one[1], one[0]))
        text = ", ".join(f"{cause}: {count:,}" for cause, count in causes)
        yield note(
            CALLS_FAILED,
            f"calls that failed for good when the log was made: {calls.total():,} ({text}); their traces and scores "
            "are missing",
        )


def _note_without_answers(valid: Mapping[str, int], actions: Mapping[str, Action]) -> Iterator[Note]:
    """A note on pools, and on revisions, that have traces but no valid answer."""
    empty = {name for name, count in valid.items() if not count}
    for name in sorted(empty):
        what = f"trace of `{name}`"
        if name in actions:
            action, base, pool = actions[name]
            if pool is not None and slice_name(action, base) in empty:
                continue
            what = f"revision of `{base}` by `{action}`" + ("" if pool is None else f" in pool `{pool}`")
        yield warning(
            "no_valid_answer",
            f"no {what} has a valid answer, so every prediction from them is null and counts as wrong",
        )


def _note_outside_labels(outside: Counter[str]) -> Iterator[Note]:
    if outside:
        most_first = sorted(outside, key=lambda answer: (-outside[answer], answer))
        yield note(
            "outside_labels",
            f"{outside.total():,} traces give answers outside the label space ({listed(most_first, MAX_NAMED)}), "
            "which are not valid",
        )


def _note_undercovered(excluded: Mapping[str, str], policies: Mapping[str, str]) -> Iterator[Note]:
    """Notes on the most frequent reasons why examples are left out, and on policies that the log cannot cover."""
    for reason, count in Counter(excluded.values()).most_common(3):
        yield note(LEFT_OUT, f"left out: {counted(count, 'example')} ({reason})")
    for name, why in policies.items():
        yield note(DROPPED, f"policy `{name}` is dropped: {why}", [name])


def _note_baseline(
    name: str, shared_n: int, covered: int, lost: Mapping[str, int], accuracies: tuple[float, float] | None
) -> Iterator[Note]:
    """A note that the baseline's number is over fewer examples than it covers, because of other policies."""
    if not lost:
        return
    most_first = sorted(lost, key=lambda policy: (-lost[policy], policy))
    who = ", ".join(f"`{policy}`: {lost[policy]:,}" for policy in most_first[:MAX_NAMED])
    more = ", …" if len(most_first) > MAX_NAMED else ""
    text = ""
    if accuracies is not None:
        first, here = (f"{value:.1%}" for value in accuracies)
        text = f"; `{name}` is right on {first} of the former and on {here} of the latter"
    yield note(
        BASELINE_SET,
        f"the log covers {counted(covered, 'example')} for the baseline `{name}`, and its numbers are of {shared_n:,}: "
        f"on the rest other policies lack calls or values ({who}{more}){text}",
        [name, *most_first],
    )


def notes_on_unlike_calls(pools: Collection[str], cost: OutcomeColumn) -> Iterator[Note]:
    """The warning that the cost counts calls of several pools as equal."""
    if len(pools) > 1 and cost.unit in CALLS:
        yield warning(
            UNLIKE_CALLS,
            f"the cost counts {cost.cost_name}, and those of {listed(sorted(pools), MAX_NAMED)} need not cost the same:"
            " log tokens, or name another cost, to compare what policies cost",
        )


def notes_on_unlike_tokens(models: Collection[str], cost: OutcomeColumn, priced: bool = False) -> Iterator[Note]:
    """The warning that the cost counts tokens of several models as equal. `priced`: whether there are prices."""
    if len(models) > 1:
        cure = ": give `--prices`, or `[prices]` in the policy file, to compare what policies cost"
        yield warning(
            UNLIKE_TOKENS,
            f"the cost counts {cost.cost_name} of {listed(sorted(models), MAX_NAMED)}, and tokens of unlike models "
            f"need not cost the same{'' if priced else cure}",
        )


def _note_unscored(unscored: Mapping[tuple[str, str, UnscoredTreatment], Mapping[str, int]]) -> Iterator[Note]:
    """Notes on valid traces without a score, where policies do not leave out the example for them."""
    for (pool, verifier, way), policies in sorted(unscored.items(), key=lambda one: (*one[0][:2], one[0][2].name)):
        traces = counted(max(policies.values()), "valid trace")  # of several policies the caps are nested
        lowest = "" if way.fill is None else f" ({way.fill:g})"
        yield note(
            UNSCORED,
            f"verifier `{verifier}` did not score {traces} of pool `{pool}` that {listed(sorted(policies), MAX_NAMED)} "
            f"may verify: {way.says}{lowest}",
            sorted(policies),
        )


def _note_underestimated(
    verifiers: Mapping[str, frozenset[str]], policies: Mapping[str, int], traces: int
) -> Iterator[Note]:
    """Notes on verifiers whose calls count as free, on policies that so look too cheap, and on traces left out."""
    verifier_names = sorted(
        name for name, lacking in verifiers.items() if lacking & {"verification_tokens", "latency_s"}
    )
    if verifier_names:
        yield note(FREE, f"verifier calls without logged tokens or seconds count as free: {listed(verifier_names)}")
    for name, count in policies.items():
        if count:
            yield note(
                "exhausted",
                f"the log ended before the cap on {counted(count, 'example')} of `{name}`; its cost is underestimated",
                [name],
            )
    if traces:
        yield note("behind_gaps", f"{traces:,} traces after a gap in their sample indices are not replayed")
