"""Which examples a run compares its policies on, and which policies it drops first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from replay.data.block import Action, Block, slice_name
from replay.engine.outcome import EXHAUSTED, SERVED, Outcome
from replay.policies.base import Policy, Sample, nested
from replay.policies.interventions import When
from replay.runs.store import OutcomeStore
from replay.sampling.learned import NullRows
from replay.sampling.stops import Margin
from toolkit.errors import ThinkbackError, listed

ENOUGH = (9, 10)
"""A policy stays when it can serve at least this share of the examples that some policy can serve."""
SHOWN = 5
"""Answers outside the label space that are named."""
LEFT_OUT = "left out: "
FREE = "verifications without logged tokens or seconds count as free: "
"""How the notes begin that say how many examples are left out, and why; and which verifiers count as free."""
REASONS = 3
"""Reasons that are named at most why a policy is dropped."""
ROUNDING = 1e-6
"""A score counts as outside 0 to 1 when it is farther out than this."""
MANY = 0.01
"""A run that leaves out more than this share of its examples says so above its table."""


@dataclass
class Served:
    """Counts, chunk by chunk, which examples each policy can serve.

    `excluded` maps the id of each example that is partial for some policy to the first reason.
    """

    policies: tuple[Policy, ...]
    store: OutcomeStore
    by_some: int = 0
    counts: np.ndarray = field(init=False)
    why: list[Counter[str]] = field(init=False)
    excluded: dict[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    free: dict[str, frozenset[str]] = field(default_factory=dict)
    valid: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    actions: dict[str, Action] = field(default_factory=dict)
    negative: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    raw_margin: set[str] = field(default_factory=set)
    behind_gaps: int = 0
    exhausted: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    judged: int = 0
    replayed: int = 0
    surrogate_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.policies), dtype=np.int64)
        self.why = [Counter() for _ in self.policies]

    def add(self, block: Block, outcomes: Sequence[Outcome]) -> np.ndarray:
        """Count one chunk; returns which of its examples (E,) every policy serves."""
        served = np.stack([o.reason == SERVED for o in outcomes])
        self.counts += served.sum(axis=1)
        self.replayed += len(block.examples)
        for policy, outcome in zip(self.policies, outcomes, strict=True):
            if isinstance(policy, Sample) and policy.order == "surrogate":
                self.surrogate_s[policy.name] = self.surrogate_s.get(policy.name, 0.0) + outcome.surrogate_s
        self.by_some += int(served.any(axis=0).sum())
        keep: np.ndarray = np.all(served, axis=0)
        self.kept += int(keep.sum())
        self.judged += int(np.isfinite(outcomes[0].correct[keep]).sum())
        for verifier, lacking in _free(block, self.policies, keep):
            self.free[verifier] = self.free.get(verifier, frozenset()) | lacking
        self._count_answers(block)
        self.negative |= _negative_weights(block, self.policies)
        outside = _beyond_zero_to_one(block, self.policies)
        self.cut |= {part.verifier for part in outside if part.verifier and part.order == "surrogate"}
        self.raw_margin |= {part.verifier for part in outside if part.verifier and _margin_of_scores(part)}
        for policy, outcome in zip(self.policies, outcomes, strict=True):
            self.exhausted[policy.name] += int((outcome.ending[keep] == EXHAUSTED).sum())
        self.behind_gaps += sum(int(pool.behind_gap.sum()) for pool in block.pools.values())
        ids = block.examples["example_id"]
        for p, outcome in enumerate(outcomes):
            for code, count in zip(*np.unique(outcome.reason, return_counts=True), strict=True):
                if code != SERVED:
                    self.why[p][outcome.reasons[code]] += int(count)
        first = (~served).argmax(axis=0)
        for e in np.flatnonzero(~keep):
            outcome = outcomes[first[e]]
            reason = f"{self.policies[first[e]].name}: {outcome.reasons[outcome.reason[e]]}"
            self.excluded[str(ids[int(e)])] = reason
        return keep

    def _count_answers(self, block: Block) -> None:
        """Valid answers of each pool that has traces, and the answers outside the label space, once a trace."""
        self.actions |= block.actions
        for name, pool in block.pools.items():
            if pool.size.any():
                self.valid[name] += int((pool.code >= 0).sum())
        for word, count in zip(*np.unique(block.outside[:, 1], return_counts=True), strict=True):
            self.outside[block.vocabulary[int(word)]] += int(count)

    def _without_answers(self) -> Iterator[str]:
        """The pools, and the revisions, that have traces and no valid answer; revisions by their widest name."""
        empty = {name for name, count in self.valid.items() if not count}
        for name in sorted(empty):
            if name not in self.actions:
                yield f"trace of `{name}`"
                continue
            action, base, pool = self.actions[name]
            if pool is None:
                yield f"revision of `{base}` by `{action}`"
            elif slice_name(action, base) not in empty:
                yield f"revision of `{base}` by `{action}` in pool `{pool}`"

    @property
    def surrogate_s_per_example(self) -> dict[str, float]:
        """Seconds that replay spent on each policy's surrogate, walked to its end, per example and random order."""
        rows = {p.name: (p.orders or 1) for p in self.policies if isinstance(p, Sample)}
        return {name: total / max(self.replayed * rows[name], 1) for name, total in self.surrogate_s.items()}

    def with_dropped(self, dropped: Mapping[str, str]) -> Served:
        """The same with the policies that an earlier pass dropped."""
        self.dropped = dropped
        return self

    def checked(self, address: str) -> Served:
        """Itself, or an error when no example, or none with a judgement, is left."""
        if not self.kept:
            reasons = Counter(self.excluded.values()).most_common(1)
            why = f"; for most of them, {reasons[0][0]}" if reasons else ""
            raise ThinkbackError(
                f"no example of {address} can be served by all {len(self.policies)} policies{why}; "
                'replay fewer policies, or set `on_missing = "use_available"`'
            )
        if not self.judged:
            raise ThinkbackError(
                f"{address}: no example is judged (`correct` of traces is null on all that are compared), so nothing "
                "can be ranked; import the log with gold answers, or name another column with `measure`"
            )
        return self

    def notes(self, examples: int) -> Iterator[str]:
        """Sentences on what was left out, the warning about bias first."""
        if self.excluded and len(self.excluded) > MANY * examples:
            share, verb = len(self.excluded) / examples, "is" if len(self.excluded) == 1 else "are"
            yield (
                f"WARNING: {len(self.excluded):,} of {examples:,} examples ({share:.1%}) {verb} left out because "
                "the log lacks calls or values that some policy needs; if the logged run stopped or "
                "accepted by a rule of its own, this biases every number below"
            )
        for what in self._without_answers():
            yield (
                f"WARNING: no {what} has a valid answer, so every prediction made of them is null and counts as wrong"
            )
        if self.outside:
            most_first = sorted(self.outside, key=lambda answer: (-self.outside[answer], answer))
            yield (
                f"{self.outside.total():,} traces give labels outside the label space ({listed(most_first, SHOWN)}), "
                "which are no valid answers"
            )
        for reason, count in Counter(self.excluded.values()).most_common(3):
            yield f"{LEFT_OUT}{_examples(count)} ({reason})"
        for name, why in self.dropped.items():
            yield f"policy `{name}` is dropped: {why}"
        yield from _lost_to_nulls(self.policies)
        if self.negative:
            named = listed(sorted(self.negative))
            yield f"WARNING: negative scores count against an answer in a weighted vote: {named}"
        if self.cut:
            yield (
                f"WARNING: scores of {listed(sorted(self.cut))} lie outside 0 to 1, to which the surrogate cuts what "
                "it foretells: where all of it is cut, its order is that of generation (with `bonus`: of uncertainty)"
            )
        if self.raw_margin:
            yield (
                f"scores of {listed(sorted(self.raw_margin))} lie outside 0 to 1, and the stop `margin` is in units "
                "of these raw scores"
            )
        free = sorted(name for name, lacking in self.free.items() if lacking & {"verification_tokens", "latency_s"})
        if free:
            yield f"{FREE}{listed(free)}"
        for name, count in self.exhausted.items():
            if count:
                yield f"`{name}` ran out of log on {_examples(count)} (`exhausted`), so it looks cheaper than it is"
        if self.behind_gaps:
            yield f"traces behind a gap in their sample indices, which are not replayed: {self.behind_gaps:,}"


def _examples(count: int) -> str:
    return f"{count:,} example{'' if count == 1 else 's'}"


def _lost_to_nulls(policies: Sequence[Policy]) -> Iterator[str]:
    """What the fits of priors leave out for a null feature, once for all families of which the same is true."""
    found: dict[NullRows, dict[str, None]] = {}
    for policy in policies:
        for part in nested(policy):
            prior = part.prior if isinstance(part, Sample) else None
            if prior is not None and prior.left_out is not None and prior.left_out.traces:
                found.setdefault(prior.left_out, {})[policy.family] = None
    for lost, families in found.items():
        traces, verb = ("trace", "is") if lost.traces == 1 else ("traces", "are")
        features = "feature" if len(lost.features) == 1 else "one of the features"
        yield (
            f"prior of {listed(list(families), SHOWN)}: {lost.traces:,} {traces} of {lost.examples:,} of the "
            f"{lost.of:,} examples of `on` {verb} left out of the fit ({features} {listed(lost.features)} is null)"
        )


def _free(block: Block, policies: Sequence[Policy], keep: np.ndarray) -> Iterator[tuple[str, frozenset[str]]]:
    """Each verifier with the costs that a call lacks which a policy may pay on the examples that are kept (E,)."""
    reach: dict[tuple[str | None, str | None], float] = {}
    parts = [part for policy in policies for part in nested(policy)]
    for part in parts:
        if isinstance(part, Sample) and part.verifies:
            most = part.max_traces if part.orders is None else inf  # orders are of the whole pool
            reach[part.pool, part.verifier] = max(reach.get((part.pool, part.verifier), 0), most)
    gated = any(isinstance(part, When) for part in parts)  # a gate reads the score of whatever its base chooses
    for name, pool in block.pools.items():
        for verifier, scores in pool.scores.items():
            bound = inf if gated else reach.get((name, verifier), inf)
            paid = (np.arange(pool.code.shape[1]) < bound) & ((pool.code >= 0) | gated)
            paid = (paid | scores.listwise[:, None]) & keep[:, None]
            yield verifier, frozenset(cost for cost, lacks in scores.lacking.items() if (lacks & paid).any())


def _negative_weights(block: Block, policies: Sequence[Policy]) -> set[str]:
    """Verifiers with negative scores that some policy sums up."""
    parts = (part for policy in policies for part in nested(policy))
    weighted = {(p.pool, p.verifier) for p in parts if isinstance(p, Sample) and p.select == "weighted"}
    found = set()
    for pool, verifier in weighted:
        if pool is not None and verifier is not None and (block.pools[pool].scores[verifier].score < 0).any():
            found.add(verifier)
    return found


def _margin_of_scores(part: Sample) -> bool:
    """Whether the margin decides on scores as they are logged."""
    return isinstance(part.stop, Margin) and part.calibration is None


def _beyond_zero_to_one(block: Block, policies: Sequence[Policy]) -> list[Sample]:
    """The policies, or parts of them, with a surrogate or a margin of raw scores that reads scores outside 0 to 1."""
    reading = [
        part
        for policy in policies
        for part in nested(policy)
        if isinstance(part, Sample) and (part.order == "surrogate" or _margin_of_scores(part))
    ]
    outside = {}
    for pool, verifier in {(str(part.pool), str(part.verifier)) for part in reading}:
        score = block.pools[pool].scores[verifier].score
        outside[pool, verifier] = bool(((score < -ROUNDING) | (score > 1 + ROUNDING)).any())
    return [part for part in reading if outside[str(part.pool), str(part.verifier)]]


def _counted(why: Counter[str]) -> str:
    """The most frequent reasons, each with its number of examples."""
    ranked = sorted(why.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{_examples(count)}: {reason}" for reason, count in ranked[:REASONS]]
    return "; ".join([*told, "…"] if len(ranked) > REASONS else told)


def drop_unserved(served: Served) -> dict[str, str]:
    """Policies that serve less than nine tenths of the examples that some policy serves, with the reason."""
    share, of = ENOUGH
    dropped = {}
    for policy, count, why in zip(served.policies, served.counts, served.why, strict=True):
        if served.by_some == 0 or int(count) * of < share * served.by_some:
            main = _counted(why) if why else "no example"
            few = f"it can serve {int(count):,} of the {served.by_some:,} examples that some policy can serve"
            dropped[policy.name] = f"{few} ({main})" if served.by_some else f"it can serve no example ({main})"
    return dropped
