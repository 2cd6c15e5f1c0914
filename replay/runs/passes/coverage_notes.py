"""The sentences about what a run covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from replay.data.needs import Action, slice_name
from replay.sampling.unscored import Unscored
from toolkit.columns import OutcomeColumn
from toolkit.errors import counted, listed
from toolkit.notes import Note, note, warning
from toolkit.show.ranking.ranking import UNLIKE_CALLS

CALLS = {"calls", "operations", "traces"}
"""Units of costs that count calls, whatever each costs."""
MOST_MISSING = 2
"""Of what the suite leaves out, named with the reason."""
MAX_NAMED = 5
"""Answers outside the label space that are named."""
WARN_EXCLUDED = 0.01
"""A run that leaves out more than this share of its examples says so above its table."""
LEFT_OUT, FREE, DROPPED, CALLS_FAILED = "left_out", "free_verifications", "dropped", "calls_failed"
"""Codes of the notes that say how many examples are left out and why, which verifiers count as free, which policies
are dropped, and which calls failed when the log was made."""
SUITE = "suite"
"""Code of the notes that say what the standard suite leaves out and which examples it reports."""
UNSCORED, BASELINE_SET = "unscored", "baseline_set"
"""Codes of the notes that say which traces without a score policies skip or give the lowest one, and that others take
examples from the baseline."""


def examples(count: int) -> str:
    """A number of examples in words."""
    return f"{count:,} example{'' if count == 1 else 's'}"


def of_suite(missing: Sequence[str], where: str | None) -> Iterator[Note]:
    """What a standard suite leaves out, and the examples that are reported because it says so."""
    if missing:
        few, more = missing[:MOST_MISSING], len(missing) - MOST_MISSING
        told = f", and {more} more (the suite's own text names all)" if more > 0 else ""
        yield note(SUITE, f"the suite leaves out {'; '.join(few)}{told}")
    if where is not None:
        yield note(SUITE, f"of the suite only the examples with {where} are reported; the condition `true` reports all")


def left_out(excluded: Mapping[str, str], of: int) -> Iterator[Note]:
    """The warning that leaving out so many may bias every number."""
    if excluded and len(excluded) > WARN_EXCLUDED * of:
        share, verb = len(excluded) / of, "is" if len(excluded) == 1 else "are"
        yield warning(
            "many_left_out",
            f"{len(excluded):,} of {of:,} examples ({share:.1%}) {verb} left out because calls or values that some "
            "policy needs are missing in the log; if the logged run stopped or accepted by a rule of its own, this "
            "biases every number below",
        )


def calls_failed(calls: Counter[str]) -> Iterator[Note]:
    """The calls that failed for good when the log was made, by cause."""
    if calls:
        causes = sorted(calls.items(), key=lambda one: (-one[1], one[0]))
        told = ", ".join(f"{cause}: {count:,}" for cause, count in causes)
        yield note(
            CALLS_FAILED,
            f"calls that failed for good when the log was made: {calls.total():,} ({told}); their traces and scores "
            "are missing",
        )


def without_answers(valid: Mapping[str, int], actions: Mapping[str, Action]) -> Iterator[Note]:
    """Pools, and revisions, that have traces and no valid answer; revisions by their widest name."""
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
            f"no {what} has a valid answer, so every prediction made of them is null and counts as wrong",
        )


def outside_labels(outside: Counter[str]) -> Iterator[Note]:
    """Answers outside the label space."""
    if outside:
        most_first = sorted(outside, key=lambda answer: (-outside[answer], answer))
        yield note(
            "outside_labels",
            f"{outside.total():,} traces give answers outside the label space ({listed(most_first, MAX_NAMED)}), "
            "which are not valid",
        )


def unserved(excluded: Mapping[str, str], policies: Mapping[str, str]) -> Iterator[Note]:
    """The three most frequent reasons why examples are left out, and the policies that the log cannot serve."""
    for reason, count in Counter(excluded.values()).most_common(3):
        yield note(LEFT_OUT, f"left out: {examples(count)} ({reason})")
    for name, why in policies.items():
        yield note(DROPPED, f"policy `{name}` is dropped: {why}", [name])


def baseline_set(
    name: str, kept: int, covered: int, lost: Mapping[str, int], accuracies: tuple[float, float] | None
) -> Iterator[Note]:
    """That the baseline's number is over fewer examples than it covers, because of other policies."""
    if not lost:
        return
    most_first = sorted(lost, key=lambda policy: (-lost[policy], policy))
    who = ", ".join(f"`{policy}`: {lost[policy]:,}" for policy in most_first[:MAX_NAMED])
    more = ", …" if len(most_first) > MAX_NAMED else ""
    told = ""
    if accuracies is not None:
        own, here = (f"{value:.1%}" for value in accuracies)
        told = f"; it is right on {own} of the first and on {here} of the second"
    yield note(
        BASELINE_SET,
        f"the log covers {examples(covered)} for the baseline `{name}`, whose numbers are of {kept:,}: on the rest "
        f"others lack calls or values ({who}{more}){told}",
        [name, *most_first],
    )


def unlike_calls(pools: Collection[str], cost: OutcomeColumn) -> Iterator[Note]:
    """The warning that the cost counts calls of several pools as equal."""
    if len(pools) > 1 and cost.unit in CALLS:
        yield warning(
            UNLIKE_CALLS,
            f"the cost counts {cost.called}, and those of {listed(sorted(pools), MAX_NAMED)} need not cost the same: "
            "log tokens, or name another cost, to compare what policies cost",
        )


def unscored(found: Mapping[tuple[str, str, Unscored], Mapping[str, int]]) -> Iterator[Note]:
    """Valid traces without a score that policies take in another way than as a reason to leave examples out."""
    for (pool, verifier, way), policies in sorted(found.items(), key=lambda one: (*one[0][:2], one[0][2].name)):
        traces = counted(max(policies.values()), "valid trace")  # of several policies the caps are nested
        lowest = "" if way.fill is None else f" ({way.fill:g})"
        yield note(
            UNSCORED,
            f"verifier `{verifier}` did not score {traces} of pool `{pool}` that {listed(sorted(policies), MAX_NAMED)} "
            f"may verify: {way.says}{lowest}",
            sorted(policies),
        )


def underestimated(verifiers: Mapping[str, frozenset[str]], policies: Mapping[str, int], traces: int) -> Iterator[Note]:
    """Verifiers of which calls count as free, policies that looked cheaper than they are, traces that do not count."""
    named = sorted(name for name, lacking in verifiers.items() if lacking & {"verification_tokens", "latency_s"})
    if named:
        yield note(FREE, f"verifier calls without logged tokens or seconds count as free: {listed(named)}")
    for name, count in policies.items():
        if count:
            yield note(
                "exhausted",
                f"the log ended before the cap on {examples(count)} of `{name}`; its cost is underestimated",
                [name],
            )
    if traces:
        yield note("behind_gaps", f"{traces:,} traces after a gap in their sample indices are not replayed")
