"""Which examples a run compares its policies on, which policies it drops first, and what must be said about that."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.data.block import LogBlock
from replay.data.needs import Action
from replay.engine.outcome import EXHAUSTED, SERVED, Outcome
from replay.policies.base import Policy, nested
from replay.policies.remarks import RemarkKind
from replay.runs import coverage_notes
from replay.runs.store import OutcomeStore
from toolkit.errors import ThinkbackError
from toolkit.notes import Note

MIN_SERVED = (9, 10)
"""A policy stays when it can serve at least this share of the examples that some policy can serve."""
REASONS = 3
"""Reasons that are named at most why a policy is dropped."""


@dataclass
class Coverage:
    """Counts, chunk by chunk, which examples each policy can serve.

    `excluded` maps the id of each example that is partial for some policy to the first reason. `free`: by verifier the
    costs that some verification lacks which a policy may pay. `dropped`: policies that an earlier pass dropped, with
    the reason. `remarks`: what policies remarked on, by kind and
    subject.
    """

    policies: tuple[Policy, ...]
    store: OutcomeStore
    by_some: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    why: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    excluded: dict[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    free: dict[str, frozenset[str]] = field(default_factory=dict)
    valid: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    actions: dict[str, Action] = field(default_factory=dict)
    remarks: dict[RemarkKind, Counter[str]] = field(default_factory=dict)
    behind_gaps: int = 0
    exhausted: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    judged: int = 0
    replayed: int = 0
    order_s: dict[str, float] = field(default_factory=dict)

    def add(self, block: LogBlock, outcomes: Sequence[Outcome]) -> np.ndarray:
        """Count one chunk; returns which of its examples (E,) every policy serves."""
        served = np.stack([o.reason == SERVED for o in outcomes])
        self.replayed += len(block.examples)
        self.by_some += int(served.any(axis=0).sum())
        keep: np.ndarray = np.all(served, axis=0)
        self.kept += int(keep.sum())
        self.judged += int(np.isfinite(outcomes[0].correct[keep]).sum())
        self._count_answers(block)
        for policy, outcome in zip(self.policies, outcomes, strict=True):
            self.counts[policy.name] += int((outcome.reason == SERVED).sum())
            for code, count in zip(*np.unique(outcome.reason, return_counts=True), strict=True):
                if code != SERVED:
                    self.why[policy.name][outcome.reasons[code]] += int(count)
            self.exhausted[policy.name] += int((outcome.ending[keep] == EXHAUSTED).sum())
            if outcome.order_s is not None:
                self.order_s[policy.name] = self.order_s.get(policy.name, 0.0) + outcome.order_s
            for part in nested(policy):
                self._observe(part, block, keep)
        self.behind_gaps += sum(int(pool.behind_gap.sum()) for pool in block.pools.values())
        ids = block.examples["example_id"]
        first = (~served).argmax(axis=0)
        for e in np.flatnonzero(~keep):
            outcome = outcomes[first[e]]
            reason = f"{self.policies[first[e]].name}: {outcome.reasons[outcome.reason[e]]}"
            self.excluded[str(ids[int(e)])] = reason
        return keep

    def _observe(self, policy: Policy, block: LogBlock, keep: np.ndarray) -> None:
        """What a policy, or a part of one, remarks on, and which calls that it may pay count as free."""
        for remark in policy.remarks(block):
            self.remarks.setdefault(remark.kind, Counter())[remark.subject] += remark.count
        for name, verifier, may in policy.may_pay(block):
            scores = block.pools[name].scores[verifier]
            paid = (may | scores.listwise[:, None]) & keep[:, None]
            lacking = frozenset(cost for cost, lacks in scores.lacking.items() if (lacks & paid).any())
            self.free[verifier] = self.free.get(verifier, frozenset()) | lacking

    def _count_answers(self, block: LogBlock) -> None:
        """Valid answers of each pool that has traces, and the answers outside the label space, once a trace."""
        self.actions |= block.actions
        for name, pool in block.pools.items():
            if pool.size.any():
                self.valid[name] += int((pool.code >= 0).sum())
        for word, count in zip(*np.unique(block.outside[:, 1], return_counts=True), strict=True):
            self.outside[block.vocabulary[int(word)]] += int(count)

    @property
    def order_s_per_example(self) -> dict[str, float]:
        """Seconds that replay spent on each policy's surrogate, walked to its end, per example and random order."""
        return {name: total / max(self.replayed, 1) for name, total in self.order_s.items()}

    def check_served(self, address: str) -> Coverage:
        """Itself, or an error when no example is left."""
        if not self.kept:
            reasons = Counter(self.excluded.values()).most_common(1)
            why = f"; for most of them, {reasons[0][0]}" if reasons else ""
            raise ThinkbackError(
                f"the log covers no example of {address} for all {len(self.policies)} policies{why}; "
                'replay fewer policies, or set `on_missing = "use_available"`'
            )
        return self

    def notes(self, examples: int) -> Iterator[Note]:
        """What was left out, the warning about bias first, and what policies remarked on."""
        yield from coverage_notes.left_out(self.excluded, examples)
        yield from coverage_notes.without_answers(self.valid, self.actions)
        yield from coverage_notes.outside_labels(self.outside)
        yield from coverage_notes.unserved(self.excluded, self.dropped)
        found = dict(self.remarks)
        for policy in self.policies:
            for part in nested(policy):
                for kind in part.final_remarks():
                    found.setdefault(kind, Counter())[policy.sweep] += 1
        for kind, counts in found.items():
            yield from kind.notes(counts)
        yield from coverage_notes.underestimated(self.free, self.exhausted, self.behind_gaps)


def unserved(coverage: Coverage) -> dict[str, str]:
    """Policies that serve less than nine tenths of the examples that some policy serves, with the reason."""
    share, of = MIN_SERVED
    dropped = {}
    for policy in coverage.policies:
        count, why = coverage.counts[policy.name], coverage.why[policy.name]
        if coverage.by_some == 0 or count * of < share * coverage.by_some:
            main = _counted(why) if why else "no example"
            few = f"the log covers {count:,} of the {coverage.by_some:,} examples covered for at least one policy"
            dropped[policy.name] = f"{few} ({main})" if coverage.by_some else f"the log covers no example ({main})"
    return dropped


def _counted(why: Counter[str]) -> str:
    """The most frequent reasons, each with its number of examples."""
    ranked = sorted(why.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{coverage_notes.examples(count)}: {reason}" for reason, count in ranked[:REASONS]]
    return "; ".join([*told, "…"] if len(ranked) > REASONS else told)
