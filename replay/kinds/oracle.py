"""Kind `oracle`: diagnostics that see the gold answer, each by a rule of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock, LoggedPool
from replay.data.contents import Contents
from replay.data.needs import Needs, revision_needs, slice_name
from replay.engine import outcome as ends
from replay.engine.calls import (
    CallSegment,
    ChosenTraces,
    PolicyPath,
    RandomDraw,
    Realization,
    certain_calls,
    cost_not_yet_paid,
    random_calls,
    single_trace_calls,
)
from replay.engine.costs import COSTS, TraceCalls, mean_surplus_over_orders
from replay.engine.expectation import outcome_of_random_choice
from replay.engine.mixing import Columns, choose_path, correctness_gain, mix_paths, partial_on_either
from replay.engine.outcome import Outcome
from replay.engine.revisions import mean_outcome, revision_calls
from replay.kinds.sample import Sample, order_mean_text
from replay.kinds.stages import COST_COLUMNS, TRACE_SCHEMA, cost_row, none_for_nan, sample_indices, trace_stage_rows
from replay.policies.base import Evaluator, ExampleRanking, ExplanationStage, Policy, policy_errors
from replay.sampling.over_orders import highest_value_probability
from toolkit.errors import AmbiguousError, RequiredError, UnsuitableError, counted, require_known, suggest
from toolkit.settings import setting
from toolkit.stopping.declared import HeaderVariables

LACKS = "has no trace, fewer than a revision read, or a gap"


class _OracleRule(HeaderVariables):
    """A rule of an oracle: it chooses among logged traces or, if it is `matched`, mixes two policies at a rate."""

    sees_gold: ClassVar[bool] = True
    single: ClassVar[bool] = False
    """Whether the rule chooses one trace."""
    needs_base: ClassVar[bool] = False
    matched: ClassVar[bool] = False
    """Whether the rule mixes two policies."""
    sees_all: ClassVar[bool] = False
    """Whether the rule ranks all examples of a run."""
    says: ClassVar[str] = ""
    """The rule in words."""
    rows_are: ClassVar[str] = "rows"
    """What its outcome is a mean over, if it is one."""

    def match_rate(
        self, rate: float, base: PolicyPath, then: PolicyPath, on: np.ndarray, columns: Columns
    ) -> PolicyPath:
        """The path of the mixture; `on` (E,): where it intervenes; `columns`: further columns of the two policies."""
        raise NotImplementedError

    def choose_path(self, block: LogBlock, base: str | None, of: Sequence[str]) -> PolicyPath:
        """The path of the trace that the rule chooses among the pools and actions in `of`."""
        raise NotImplementedError

    def explanation_stages(
        self, name: str, block: LogBlock, base: str | None, of: Sequence[str]
    ) -> Iterator[ExplanationStage]:
        """Every trace that the oracle looks at on the one example of a block, and which one it chooses."""
        chosen = self.choose_path(block, base, of).chosen
        names = [*([str(base)] if self.needs_base else []), *_slice_names(block, base, of)]
        traces_seen = [trace for each in dict.fromkeys(names) for trace in sample_indices(block, each)]
        unseen = [trace for trace in self.traces_paid_unseen(block, base, of) if trace not in traces_seen]
        traces = (*traces_seen, *unseen)
        rows = [row for each, sample in traces for row in trace_stage_rows(block, each, [sample], True)]
        columns = {"of": pl.String, "sample": pl.Int64, "answer": pl.String, "correct": pl.Float64}
        schema = {**columns, **TRACE_SCHEMA}
        frame = pl.DataFrame(rows, schema=schema)
        if chosen is not None:
            chosen_trace = (chosen.slices[int(chosen.slice[0])], int(chosen.sample[0]))
            frame = frame.with_columns(
                pl.Series("chosen", [trace == chosen_trace for trace in traces], dtype=pl.Boolean)
            )
        unread = ", ".join(f"`{each}` {sample}" for each, sample in unseen)
        yield ExplanationStage(f"`{name}`", frame, f"paid for, not read: {unread}" if unseen else "", traces=traces)

    def traces_paid_unseen(self, block: LogBlock, base: str | None, of: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """The traces that the oracle pays for without looking at them, on the one example of a block."""
        return ()


def _slice_names(block: LogBlock, base: str | None, of: Sequence[str]) -> tuple[str, ...]:
    """The block's slices for the entries of `of`: a pool's own name, or an action's with its base."""
    return tuple(name if name in block.pools else slice_name(name, str(base)) for name in of)


class _AnyRight(_OracleRule, single=True):
    """Choose the first right trace of `of`, in its order, then by sample index; else the first of all.

    With a graded measure in place of correctness, the first trace with the highest value. Pays every trace of `of`, the
    base's sample 0 and those that a revision read, each once.
    """

    says = "the first right trace of `of` is the answer, or the first of all; every one is paid"

    def choose_path(self, block: LogBlock, base: str | None, of: Sequence[str]) -> PolicyPath:
        examples, names = len(block.examples), _slice_names(block, base, of)
        reason, costs = np.zeros(examples, dtype=np.int16), np.zeros((examples, len(COSTS)))
        paid = {}
        bill = _traces_needed(block, base, of, names)
        for number, (name, needed) in enumerate(bill.items()):
            pool = block.pools[name]
            lacks = (pool.size < needed) | (pool.whole & (pool.behind_gap > 0))
            reason = np.where(lacks & (reason == 0), number + 1, reason).astype(np.int16)
            count = np.where(name in names, pool.size, needed)
            paid[name] = np.arange(pool.code.shape[1]) < count[:, None]
            costs += _costs_of_first_traces(pool, paid[name], count)
        pools = [block.pools[name] for name in names]
        slice_number = np.repeat(np.arange(len(pools)), [pool.code.shape[1] for pool in pools])
        sample = np.concatenate([np.arange(pool.code.shape[1]) for pool in pools])
        judged, credit, word, there = (
            np.concatenate([getattr(pool, name) for pool in pools], axis=1)
            for name in ("credit_or_correct", "credit", "word", "has_trace")
        )
        best = np.where(there & ~np.isnan(judged), judged, -1.0).argmax(axis=1)
        at = np.arange(examples), best
        outcome = Outcome(
            reason=reason,
            reasons=("served", *(f"`{name}` {LACKS}" for name in bill)),
            costs=costs,
            correct=judged[at],
            credit=credit[at],
            words=word[at][None, :],
            shares=None,
            rows=np.ones(examples, dtype=np.int64),
            ending=np.full(examples, ends.CAP, dtype=np.int8),
        )
        calls = CallSegment({TraceCalls(name): certain_calls(on.astype(float)) for name, on in paid.items()})
        realization = Realization(np.ones(examples), (calls,))
        return PolicyPath(outcome, (realization,), ChosenTraces(names, slice_number[best], sample[best]), {})

    def traces_paid_unseen(self, block: LogBlock, base: str | None, of: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """What the revisions read of the base, and its first trace in any case."""
        if base is None:
            return ()
        needed = int(_traces_needed(block, base, of, _slice_names(block, base, of))[base][0])
        return tuple((base, sample) for sample in range(min(needed, int(block.pools[base].size[0]))))


@dataclass(frozen=True)
class _TraceCandidate:
    """Traces that an oracle may choose together, each with equal weight, and their mean correctness and cost."""

    name: str  # of its pool or action
    traces: list[tuple[str, int]]  # (slice, sample)
    realizations: list[Realization]
    value: np.ndarray  # (E,) mean correctness, -1 where there is none
    tokens: np.ndarray  # (E,) mean total tokens, infinite where not logged


class _BestAction(_OracleRule, single=True, needs_base=True, rows_are="traces"):
    """Choose the highest correctness among the base and every logged trace of `of`, and pay for that alone.

    Ties: base, then fewer total tokens, then name, then sample index.
    """

    together: ClassVar[bool] = False
    """Whether a pool or action is one candidate, by its mean, instead of each of its traces."""
    says = "the best outcome of the base and of `of` is the answer, and it alone is paid"

    def choose_path(self, block: LogBlock, base: str | None, of: Sequence[str]) -> PolicyPath:
        first = str(base)
        names = dict(zip(of, _slice_names(block, base, of), strict=True))
        reason, reasons = np.zeros(len(block.examples), dtype=np.int16), ["served"]
        for entry in (first, *of):
            name = names.get(entry, entry)
            pool = block.pools[name]
            short = block.pools[first].size < pool.reads.max(axis=1, initial=0) if name != entry else False
            lacks = (pool.size == 0) | short | (pool.whole & (pool.behind_gap > 0))
            reasons.append(f"`{name}` {LACKS}")
            reason = np.where(lacks & (reason == 0), len(reasons) - 1, reason).astype(np.int16)
        candidates = self.trace_candidates(block, first, names)
        best = _best_candidate(candidates)
        traces: list[tuple[str, int]] = []
        realizations: list[Realization] = []
        for number in np.unique(best):
            traces += candidates[number].traces
            realizations += [realization.restrict_to(best == number) for realization in candidates[number].realizations]
        outcome = mean_outcome(block, traces, realizations, reason, tuple(reasons))
        chosen = None
        if self.single:
            slices = tuple(dict.fromkeys(name for name, _ in traces))
            where, which = np.zeros(len(best), dtype=np.int64), np.zeros(len(best), dtype=np.int64)
            for (name, index), one in zip(traces, realizations, strict=True):
                where[one.weight > 0], which[one.weight > 0] = slices.index(name), index
            chosen = ChosenTraces(slices, where, which)
        return PolicyPath(outcome, tuple(realizations), chosen, {})

    def trace_candidates(self, block: LogBlock, base: str, names: Mapping[str, str]) -> list[_TraceCandidate]:
        """The base attempt, then the candidates of each entry of `of`; `names` maps entries to slices."""
        options = [_trace_candidate(block, base, base, [0], True)]
        for entry in sorted(names):
            samples = list(range(block.pools[names[entry]].code.shape[1]))
            for group in [samples] if self.together else [[sample] for sample in samples]:
                options.append(_trace_candidate(block, base, names[entry], group, names[entry] == entry))
        return options


class _BestExpectedAction(_BestAction, single=False, together=True):
    """Choose the pool or action with the highest mean correctness."""

    says = "the base or the entry of `of` that is right most often answers, and it alone is paid"

    def explanation_stages(
        self, name: str, block: LogBlock, base: str | None, of: Sequence[str]
    ) -> Iterator[ExplanationStage]:
        yield from super().explanation_stages(name, block, base, of)
        candidates = self.trace_candidates(block, str(base), dict(zip(of, _slice_names(block, base, of), strict=True)))
        best = int(_best_candidate(candidates)[0])
        rows = [
            {
                "of": one.name if number else f"the base, sample 0 of {one.name}",
                "correct": None if one.value[0] < 0 else float(one.value[0]),
                "tokens": None if np.isinf(one.tokens[0]) else float(one.tokens[0]),
                "chosen": number == best,
            }
            for number, one in enumerate(candidates)
        ]
        schema = {"of": pl.String, "correct": pl.Float64, "tokens": pl.Float64, "chosen": pl.Boolean}
        yield ExplanationStage("means", pl.DataFrame(rows, schema=schema))


class _MatchedRate(
    _OracleRule, matched=True, sees_all=True, says="whether the policy intervenes depends on all examples of a run"
):
    """`then` on the examples that gain most from it; every example must be covered by both policies."""

    def match_rate(
        self, rate: float, base: PolicyPath, then: PolicyPath, on: np.ndarray, columns: Columns
    ) -> PolicyPath:
        path = choose_path(on, then, base, columns)
        reason, reasons = partial_on_either(base.outcome, then.outcome)
        return replace(path, outcome=replace(path.outcome, reason=reason, reasons=reasons))


class _MatchedRandom(_OracleRule, matched=True, sees_gold=False, rows_are="outcomes of its two policies"):
    """A coin: the mean of both policies, weighted by the rate."""

    says = "the mean of both policies, weighed by the rate"

    def match_rate(
        self, rate: float, base: PolicyPath, then: PolicyPath, on: np.ndarray, columns: Columns
    ) -> PolicyPath:
        return mix_paths(rate, base, then, columns)


RULES: Mapping[str, _OracleRule] = {
    "any": _AnyRight(),
    "action": _BestAction(),
    "expected_action": _BestExpectedAction(),
    "matched_rate": _MatchedRate(),
    "matched_random": _MatchedRandom(),
}


def _trace_candidate(
    block: LogBlock, base: str, name: str, samples: list[int], first_attempts: bool
) -> _TraceCandidate:
    pool, realizations = block.pools[name], []
    value, tokens = np.zeros(len(block.examples)), np.zeros(len(block.examples))
    count = np.sum([pool.size > sample for sample in samples], axis=0)
    for sample in samples:
        on = pool.size > sample
        if first_attempts:
            segment = CallSegment({TraceCalls(name): single_trace_calls(pool, sample)})
        else:
            segment = revision_calls(block, base, name, sample)
        realizations.append(Realization(on / np.maximum(count, 1), (segment,)))
        costs = cost_not_yet_paid(block, [segment], [])
        paid = costs[:, COSTS.index("prompt_tokens")] + costs[:, COSTS.index("completion_tokens")]
        tokens += np.where(on, paid, 0.0)
        value += np.where(on, np.nan_to_num(pool.credit_or_correct[:, sample], nan=-1.0), 0.0)
    known = count > 0
    mean = np.where(known, value / np.maximum(count, 1), -1.0)
    cost = np.where(known, tokens / np.maximum(count, 1), np.inf)
    return _TraceCandidate(
        name, [(name, sample) for sample in samples], realizations, mean, np.nan_to_num(cost, nan=np.inf)
    )


def _best_candidate(candidates: Sequence[_TraceCandidate]) -> np.ndarray:
    """The number (E,) of the best candidate; of equals the first, so that the base wins ties."""
    tokens = np.stack([np.full(len(candidates[0].value), -np.inf), *(candidate.tokens for candidate in candidates[1:])])
    return np.asarray(np.lexsort((tokens, -np.stack([candidate.value for candidate in candidates])), axis=0)[0])


def _traces_needed(
    block: LogBlock, base: str | None, of: Sequence[str], names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Slice -> how many traces (E,) it must have: one of each of `of`, and of the base what revisions read."""
    needed = {name: np.ones(len(block.examples), dtype=np.int32) for name in names}
    if base is not None:
        reads = [block.pools[name].reads.max(axis=1, initial=0) for name in names if name not in of]
        needed[base] = np.maximum.reduce([np.ones(len(block.examples), dtype=np.int32), *reads])
    return needed


def _costs_of_first_traces(pool: LoggedPool, on: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Costs (E, C) of each example's first `count` traces of a pool, which are `on` (E, T), one after the other."""
    total = {name: np.where(on, column, 0.0).sum(axis=1) for name, column in pool.costs.items()}
    if pool.shared is not None:
        repeats = pool.shared.probability_of_repeated_reply(on.astype(float)) > 0
        for name, part in pool.shared.costs.items():
            total[name] = total[name] - np.where(repeats, part, 0.0).sum(axis=1)
    total |= {"traces": count, "valid_traces": (on & (pool.code >= 0)).sum(axis=1)}
    total["generation_s"] = total["latency_s"]
    return np.stack([np.broadcast_to(total.get(name, 0.0), count.shape) for name in COSTS], axis=1)


@dataclass(frozen=True, kw_only=True)
class Oracle(Policy, kind="oracle", inner=("base", "then"), lists=Policy.lists | {"of"}):
    """A diagnostic that sees gold; only `matched_random` does not.

    `any`: right when some trace of `of` is (pass@n, the ideal verifier); it pays all of `of`, and the sample 0 of
    the pool `base` if there is one. `action`: the best logged outcome among `base` and `of`, every rollout a
    candidate. `expected_action`: the one with the highest mean correctness. `of` names pools and actions (an
    action: its logged revisions of the base's sample 0). `matched_rate`: `then` on the share `rate` of the examples
    with the largest gain over `base`; `matched_random`: the mean of both, `rate` the weight of `then`. For these
    two `base` is a policy, or the name of a pool, whose sample 0 is meant. `max_traces` with `expected` is `any` of so
    many traces of one pool, as the mean over all orders (pass@k: Chen et al. 2021, equation 1).
    """

    of: tuple[str, ...] = setting((), what="a list of names of pools and actions")
    rule: str = setting("any", choices=RULES)
    base: str | Policy | None = None
    then: Policy | None = None
    rate: float | None = setting(None, what="a share from 0 to 1", low=0, high=1)
    max_traces: int | None = setting(None, low=1)
    expected: bool = setting(False)

    def __post_init__(self) -> None:
        given: Any = self.of
        object.__setattr__(self, "of", (given,) if isinstance(given, str) else given)
        super().__post_init__()
        if self.oracle_rule.matched:
            self._check_matched()
        else:
            self._check_choice()

    def _check_choice(self) -> None:
        if not self.of:
            raise self.refusal("`of` takes a list of names of pools and actions")
        if self.expected != (self.max_traces is not None):
            missing = "expected = true" if self.max_traces is not None else "max_traces"
            raise self.refusal(f"`max_traces` and `expected` go together: add `{missing}`")
        if self.expected and not (self.rule == "any" and len(self.of) == 1 and self.base is None):
            raise self.refusal("`expected` takes rule `any`, one pool in `of`, and no `base`")
        if len(set(self.of)) != len(self.of):
            raise self.refusal("`of` names the same pool or action twice")
        for key in (key for key in ("then", "rate") if getattr(self, key) is not None):
            raise self.refusal(
                f"`{key}` belongs to the rules `matched_rate` and `matched_random`, not to `{self.rule}`"
            )
        if self.base is None and self.oracle_rule.needs_base:
            raise self.refusal(f"rule `{self.rule}` needs `base`, the pool whose sample 0 is the base attempt")
        if self.base is not None and not isinstance(self.base, str):
            raise self.refusal(f"for rule `{self.rule}` `base` takes the name of a pool")

    def _check_matched(self) -> None:
        for key in (key for key in ("of", "max_traces", "expected") if getattr(self, key)):
            raise self.refusal(f"`{key}` does not go with rule `{self.rule}`; it takes `base`, `then` and `rate`")
        if isinstance(self.base, str):
            base = Sample(name=f"{self.name}: base", pool=self.base, max_traces=1, select="first")
            object.__setattr__(self, "base", base)
        self.require_parts()
        if self.rate is None:
            raise self.refusal("`rate` is missing; it takes a share from 0 to 1")

    @property
    def oracle_rule(self) -> _OracleRule:
        return RULES[self.rule]

    @property
    def diagnostic(self) -> str:
        return "sees gold" if self.oracle_rule.sees_gold else ""

    @property
    def answers_with_one_trace(self) -> bool:
        return self.oracle_rule.single and not self.expected

    @property
    def mean_over_text(self) -> str:
        return "all orders" if self.expected else super().mean_over_text

    @property
    def pool_drawn_from(self) -> str:
        return self.of[0] if self.expected else ""

    @property
    def example_ranking(self) -> ExampleRanking | None:
        return ExampleRanking(float(self.rate or 0.0), self._gain_over_base) if self.oracle_rule.sees_all else None

    @property
    def top_level_text(self) -> str:
        ranks = f"an oracle of rule `{self.rule}`, which chooses among all examples of a run"
        return super().top_level_text or (ranks if self.oracle_rule.sees_all else "")

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        """Copy with resolved parts; the log must have what `of` and `base` name."""
        if self.policy_parts:
            return super().resolve(contents)
        with policy_errors(self.name):
            for name in self.of:
                known = contents.pools | contents.actions
                require_known(name, known, f"the log has no pool or action `{name}`")
                if self.expected and name in contents.positioned:
                    contents.require_permutable_traces(name, "leave out `expected` and `max_traces`")
                if name in contents.pools and name in contents.actions:
                    raise AmbiguousError(f"`{name}` is both a pool and an action of the log")
                if self.expected and name not in contents.pools:
                    raise UnsuitableError(f"`expected` takes a pool in `of`; `{name}` is an action")
                if name not in contents.pools and self.base is None:
                    raise RequiredError(
                        f"`{name}` is an action, so it needs `base`, the pool whose sample 0 it revises; "
                        f"{suggest('', contents.pools)}"
                    )
            if self.base is not None:
                contents.require_pool(str(self.base))
        return self

    def needs(self, contents: Contents) -> Needs:
        if self.policy_parts:
            return Needs()
        requirements = Needs(pools=frozenset(name for name in (*self.of, self.base) if name in contents.pools))
        for name in self.of:
            if name not in contents.pools and self.base is not None:
                requirements |= revision_needs(name, str(self.base), None)
        return requirements

    def slices(self, contents: Contents) -> frozenset[str]:
        if self.policy_parts:
            return super().slices(contents)
        pools = frozenset([self.base] if isinstance(self.base, str) else [])
        return pools | {n if n in contents.pools else slice_name(n, str(self.base)) for n in self.of}

    # ---- a block ----

    def path(self, on: Evaluator) -> PolicyPath:
        if self.policy_parts:
            base, then = (on.path(part) for part in self.policy_parts)
            return self.oracle_rule.match_rate(
                float(self.rate or 0.0), base, then, on.examples_ranking_acts_on(self), self.columns
            )
        if self.max_traces is not None:
            return _path_of_best_drawn_trace(on.block.pools[self.of[0]], self.max_traces)
        return self.oracle_rule.choose_path(on.block, None if self.base is None else str(self.base), self.of)

    def _gain_over_base(self, on: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        base, then = (on.path(part) for part in self.policy_parts)
        return correctness_gain(on.block, base, then)

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        """Every trace that the oracle looks at; or both policies that it mixes, and what the second gains."""
        if self.max_traces is not None:
            yield _stage_of_drawn_traces(on.block, self.name, on.block.pools[self.of[0]], self.max_traces)
            return
        if not self.policy_parts:
            base = None if self.base is None else str(self.base)
            yield from self.oracle_rule.explanation_stages(self.name, on.block, base, self.of)
            return
        yield from super().explain(on, repetition)
        value, tokens = (float(one[0]) for one in self._gain_over_base(on))
        rows = [
            {"correct": none_for_nan(outcome.correct[0]), **cost_row(part, outcome.costs[0])}
            for part, outcome in zip(("base", "then"), (on.outcome(part) for part in self.policy_parts), strict=True)
        ]
        frame = pl.DataFrame(rows, schema_overrides={"correct": pl.Float64}).select("part", "correct", *COST_COLUMNS)
        gained = "not known: the example is unjudged" if np.isnan(value) else f"{value:+g}"
        tokens_text = "not logged" if np.isnan(tokens) else f"{tokens:,.0f}"
        rate = f"rate {self.rate:g}; " if self.rate is not None else ""
        yield ExplanationStage(
            "both policies", frame, f"{rate}gain of `then` over `base`: {gained}, action tokens: {tokens_text}"
        )

    def ending_text(self, ending: str) -> str:
        if self.expected:
            return f"whether {self.max_traces} traces of the pool hold a right one, over all orders; all are paid"
        return self.oracle_rule.says

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        return order_mean_text(rows) if self.expected else f"{rows} {self.oracle_rule.rows_are}"


def _chances_to_be_best(pool: LoggedPool, drawn: int) -> np.ndarray:
    """Probability (E, T) that each trace is the best of `drawn` traces drawn at random; equals share evenly."""
    value = np.where(np.isnan(pool.credit_or_correct), -1.0, pool.credit_or_correct)
    return highest_value_probability(value, pool.has_trace, pool.size, np.minimum(pool.size, drawn))


def _path_of_best_drawn_trace(pool: LoggedPool, drawn: int) -> PolicyPath:
    """The best of `drawn` traces of a pool, over all orders: 1 - C(N - r, k) / C(N, k) where r are right."""
    chosen, count, size = _chances_to_be_best(pool, drawn), np.minimum(pool.size, drawn), np.maximum(pool.size, 1)
    costs = _costs_of_first_traces(pool, pool.has_trace, pool.size) * count[:, None] / size[:, None]
    costs += mean_surplus_over_orders(pool, count)
    whole = pool.whole & ((pool.behind_gap > 0) | (pool.size > drawn))
    reason = np.where(whole, 2, np.where(pool.size < drawn, 1, 0)).astype(np.int16)
    reasons = ("served", f"`{pool.name}` has fewer than {counted(drawn, 'trace')}", f"`{pool.name}` is replayed whole")
    outcome = outcome_of_random_choice(
        pool, np.where(pool.code >= 0, chosen, 0.0), np.where(pool.code >= 0, 0.0, chosen), costs, reason, reasons
    )
    segment = CallSegment({TraceCalls(pool.name): random_calls(pool.has_trace, RandomDraw(pool.has_trace, count))})
    return PolicyPath(outcome, (Realization(np.ones(len(count)), (segment,)),), None, {})


def _stage_of_drawn_traces(block: LogBlock, name: str, pool: LoggedPool, drawn: int) -> ExplanationStage:
    """A stage with every trace of the pool, whether it is right, and how often it is chosen."""
    traces = sample_indices(block, pool.name)
    rows = [row for _, sample in traces for row in trace_stage_rows(block, pool.name, [sample], True)]
    schema = {"of": pl.String, "sample": pl.Int64, "answer": pl.String, "correct": pl.Float64, **TRACE_SCHEMA}
    chance = pl.Series("probability", _chances_to_be_best(pool, drawn)[0, : len(traces)])
    frame = pl.DataFrame(rows, schema=schema).with_columns(chance)
    return ExplanationStage(
        f"`{name}`, {drawn} of {counted(len(traces), 'trace')} over all orders", frame, traces=traces
    )
