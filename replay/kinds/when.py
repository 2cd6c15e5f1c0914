"""Kind `when`: a base policy, and another one that answers in its place where a gate fires on its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents, most_token_logprobs
from replay.data.needs import Needs
from replay.engine.calls import (
    Calls,
    CallSegment,
    PolicyPath,
    Realization,
    calls_not_yet_paid,
    cost_not_yet_paid,
    expected_tokens,
    union_of_calls,
)  # fmt: skip
from replay.engine.mixing import all_paid_calls, choose_outcome, combine_chosen_traces, most_probable_answer
from replay.engine.outcome import BaseComparison, Outcome
from replay.engine.signals import SIGNALS
from replay.kinds.stages import cost_row
from replay.policies.base import Evaluator, ExplanationStage, Policy, SweptGate, policy_and_parts, policy_errors
from replay.policies.gate_file import GateFile
from replay.policies.gates import Gate, Signals, Threshold, read_gate
from replay.policies.remarks import PayableVerifications
from toolkit.errors import MismatchError, listed
from toolkit.log import Log
from toolkit.settings import setting


@dataclass(frozen=True)
class _GatedPolicyParts:
    """The parts of a `when` on a block that do not depend on its thresholds."""

    base: PolicyPath
    then: PolicyPath
    signals: Signals
    gate: Calls  # made by the gate, beyond those of the base
    unfired: np.ndarray  # (E, C) costs where the gate does not fire
    fired: np.ndarray  # (E, C) costs where it does
    action_tokens: np.ndarray  # (E,)


ALL_ALONE = 'a threshold of "all" or of quantiles needs a gate of one signal, in the policy itself and not in a part'


@dataclass(frozen=True, kw_only=True)
class When(Policy, kind="when", inner=("base", "then")):
    """The policy `base`; where the gate fires on its outcome, the policy `then` answers in its place."""

    base: Policy
    gate: Gate = setting(read=read_gate)
    then: Policy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_parts()
        with policy_errors(self.name):
            object.__setattr__(self, "gate", read_gate(self.gate))
        if not self.base.answers_with_one_trace:
            ways = [
                part.single_by
                for part in policy_and_parts(self.base)
                if part.single_by and not part.answers_with_one_trace
            ]
            raise self.refusal(
                f"its `base` (kind `{self.base.kind}`) has no single chosen trace for the gate to read"
                + "".join(f": {way}" for way in ways[:1])
            )
        for threshold in self.gate.all_thresholds():
            signal = None if threshold.signal is None else SIGNALS[threshold.signal]
            if signal is not None and signal.last_step and not self.base.last_step:
                raise self.refusal(
                    f"signal `{threshold.signal}` reads the last step of a `sample` base; it is a `{self.base.kind}`"
                )
            if signal is not None and signal.verified and not self.base.makes_verifications:
                raise self.refusal(
                    f"signal `{threshold.signal}` reads verifier scores, and its `base` verifies nothing"
                )

    @property
    def flip_baseline_name(self) -> str:
        return self.against or self.base.first_attempt_pool or self.base.name

    @property
    def gate_files_with_reuse(self) -> tuple[tuple[GateFile, bool], ...]:
        return tuple(
            (threshold.file, threshold.reuse) for threshold in self.gate.all_thresholds() if threshold.file is not None
        )

    @property
    def swept_gate(self) -> SweptGate | None:
        """The policy itself if its gate has several thresholds. Raises where the gate is combined with others."""
        if not any(threshold.has_several_values for threshold in self.gate.all_thresholds()):
            return None
        if not isinstance(self.gate, Threshold):
            raise self.refusal(ALL_ALONE)
        return self.required_swept_gate

    @property
    def required_swept_gate(self) -> SweptGate:
        """The policy itself, to be replayed at every threshold of its gate. Raises where the gate is a combined one."""
        if not isinstance(self.gate, Threshold):
            raise self.refusal("its gate combines several, so it has no one threshold: name a gate of one")
        one, key = self.gate, self.gate.without_value()
        return SweptGate(
            self,
            one.fires_below,
            at=lambda value: self.filled(gate=one.with_value(value)),
            signal=lambda on: self.gated_parts(on).signals[key].value,
            shares=one.n_equal_shares,
        )

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        policy = super().resolve(contents)
        slices = policy.base.slices(contents)
        with policy_errors(self.name):
            for threshold in policy.gate.all_thresholds():
                threshold.require_in_log(contents, slices)
                if threshold.file is not None:
                    policy._check_file(threshold.file, contents)
        return policy

    def _check_file(self, gate: GateFile, contents: Contents) -> None:
        """Raise unless a gate file was fitted for the first traces of the base's pool, and for the action of `then`."""
        base = self.base.first_attempt_pool
        if base is None:
            raise MismatchError(
                f"gate file `{gate.path}` was fitted on first attempts; its base takes "
                '`max_traces = 1` and `select = "first"`'
            )
        if base != gate.base:
            raise MismatchError(
                f"gate file `{gate.path}` was fitted on base attempts of pool `{gate.base}`, not of `{base}`; "
                "fit one for it"
            )
        revised = [
            revision for part in policy_and_parts(self.then) if (revision := part.revision_action_and_pool) is not None
        ]
        if {action for action, _ in revised} != {gate.action}:
            has = listed(sorted({action for action, _ in revised})) or "none"
            raise MismatchError(
                f"gate file `{gate.path}` predicts repairs by action `{gate.action}`; `then` has {has}; fit one for it"
            )
        others = sorted({pool for _, pool in revised if pool is not None} - {gate.pool})
        if gate.pool is not None and others:
            raise MismatchError(
                f"gate file `{gate.path}` was fitted on revisions of pool `{gate.pool}`; `then` has {listed(others)}; "
                "fit one for it"
            )
        gate.require_inputs(contents, gate.base)

    def check_log(self, log: Log, contents: Contents) -> None:
        """Raise where its gate sums more log-probabilities than any trace of its base's pool has."""
        counts = [threshold.tokens for threshold in self.gate.all_thresholds() if threshold.tokens is not None]
        pools = sorted(self.base.slices(contents) & contents.pools)
        if not counts or not pools:
            return
        most = most_token_logprobs(log, pools)
        if max(counts) > most:
            raise self.refusal(
                f"signal `suffix_logprob` asks for the last {max(counts):,} log-probabilities; the longest list in "
                f"{listed(pools)} has {most:,}"
            )

    def needs(self, contents: Contents) -> Needs:
        return self.gate.needs(self.base.slices(contents))

    # ---- a block ----

    def gated_parts(self, on: Evaluator) -> _GatedPolicyParts:
        """The parts that the policy shares with those that differ in thresholds alone."""
        key = ("gated", self.base.cache_key, self.gate.key_without_thresholds(), self.then.cache_key)
        return on.compute_once(key, lambda: self._evaluate_parts(on))

    def _evaluate_parts(self, on: Evaluator) -> _GatedPolicyParts:
        block, base, then = on.block, on.path(self.base), on.path(self.then)
        signals = self.gate.read_signals(block, base)
        before = all_paid_calls(base)
        gate = calls_not_yet_paid(union_of_calls(signal.calls for signal in signals.values()), before)
        known = [before, gate]
        unfired = base.outcome.costs + cost_not_yet_paid(block, [CallSegment(gate)], [])
        fired, tokens = np.zeros_like(unfired), expected_tokens(block, then.realizations, union_of_calls(known))
        calls = {key for realization in then.realizations for segment in realization.segments for key in segment.calls}
        apart = not set(union_of_calls(known)) & calls
        for one in () if apart else then.realizations:
            cost = cost_not_yet_paid(block, one.segments, known)
            fired += np.where((one.weight > 0)[:, None], one.weight[:, None] * cost, 0.0)
        return _GatedPolicyParts(
            base, then, signals, gate, unfired, unfired + (then.outcome.costs if apart else fired), tokens
        )

    def _outcome_and_mask(self, parts: _GatedPolicyParts) -> tuple[Outcome, np.ndarray]:
        """The outcome, and the mask (E,) of the examples on which the gate fires."""
        base, then = parts.base.outcome, parts.then.outcome
        fires, unread = self.gate.masks_of_firing(parts.signals, most_probable_answer(base) < 0)
        what = ", ".join(threshold.describe() for threshold in self.gate.all_thresholds())
        compares = any(each.compares_answers for threshold in self.gate.all_thresholds() for each in threshold.inputs)
        lacks = "not logged" + " or compares answers that are opaque or contested" * compares
        reasons = (*base.reasons, f"the gate reads {what}, which is {lacks}", *then.reasons[1:])
        offset = len(base.reasons)
        reason = np.where(unread, offset, np.where(fires & (then.reason > 0), then.reason + offset, 0))
        outcome = choose_outcome(fires, then, base, self.columns, second_paid=True)
        tokens = np.where(fires, parts.action_tokens, 0.0)
        return replace(
            outcome,
            reason=np.where(base.reason > 0, base.reason, reason).astype(np.int16),
            reasons=reasons,
            costs=np.where(fires[:, None], parts.fired, parts.unfired),
            against=BaseComparison(base.correct, outcome.correct, fires.astype(float), tokens),
        ), fires

    def gate_fires(self, on: Evaluator) -> np.ndarray:
        return self._outcome_and_mask(self.gated_parts(on))[1]

    def outcome(self, on: Evaluator) -> Outcome:
        return self._outcome_and_mask(self.gated_parts(on))[0]

    def path(self, on: Evaluator) -> PolicyPath:
        """The path with the calls of the base and of the gate, and those of `then` where the gate fires."""
        parts = self.gated_parts(on)
        outcome, fires = self._outcome_and_mask(parts)
        base, then, gate = parts.base, parts.then, CallSegment(parts.gate)
        realizations = [
            Realization(realization.weight, (*realization.segments, gate)).restrict_to(~fires)
            for realization in base.realizations
        ]
        for first in base.realizations:
            for one in then.realizations:
                weight = first.weight * one.weight * fires
                segments = (*first.segments, gate, *one.segments)
                realizations.append(Realization(weight, tuple(s.restrict_to(weight > 0) for s in segments)))
        chosen = combine_chosen_traces(fires, then.chosen, base.chosen)
        weighted = tuple(realization for realization in realizations if realization.weight.any())
        return PolicyPath(outcome, weighted, chosen, union_of_calls([base.gate, parts.gate]))

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        parts = self.gated_parts(on)
        outcome, fires = self._outcome_and_mask(parts)
        yield from self.base.explain(on, repetition)
        null = most_probable_answer(parts.base.outcome) < 0
        rows = []
        for one in self.gate.all_thresholds():
            value = float(parts.signals[one.without_value()].value[0])
            alone, _ = one.masks_of_firing(parts.signals, null)
            rows.append(
                {
                    "reads": one.describe(),
                    "value": None if np.isnan(value) else value,
                    "fires": "below" if one.fires_below else "at least",
                    "threshold": one.number,
                    "holds": bool(alone[0]),
                }
            )
        text = "the gate fires: `then` answers" if fires[0] else "the gate does not fire: the base answers"
        if len(rows) > 1:
            text += f" (fires where {self.gate.says})"
        if null[0] and any(row["value"] is None for row in rows):
            text += "; the base has no answer, so the gate fires on what is not logged"
        yield ExplanationStage("the gate", pl.DataFrame(rows, schema_overrides={"value": pl.Float64}), text)
        for one in self.gate.all_thresholds():
            if one.file is not None:
                yield ExplanationStage(f"what {one.describe()} reads", self._gate_input_rows(on, one))
        if fires[0]:
            yield from self.then.explain(on, repetition)
        added = {"the gate": parts.unfired - parts.base.outcome.costs}
        if fires[0]:
            added["`then`, beyond what was paid"] = parts.fired - parts.unfired
        costs = {"the base": parts.base.outcome.costs, **added, "in all": outcome.costs}
        yield ExplanationStage(
            f"what `{self.name}` paid", pl.DataFrame([cost_row(part, cost[0]) for part, cost in costs.items()])
        )

    def _gate_input_rows(self, on: Evaluator, one: Threshold) -> pl.DataFrame:
        """The inputs of a gate file on the base's chosen trace, on the one example of a block."""
        path = on.path(self.base)
        values = [float(each.read(on.block, path).value[0]) for each in one.inputs]
        return pl.DataFrame({"reads": [str(each) for each in one.inputs], "value": values}, nan_to_null=True)

    def _answering_policy(self, on: Evaluator) -> Policy:
        """The policy, base or `then`, that answers the one example of a block."""
        return self.then if self._outcome_and_mask(self.gated_parts(on))[1][0] else self.base

    def ending_text_on_example(self, on: Evaluator, ending: str) -> str:
        part = self._answering_policy(on)
        fired = "the gate fires, and `then` answers" if part is self.then else "the gate does not fire"
        return f"{fired}; {part.ending_text_on_example(on, ending)}"

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        return self._answering_policy(on).averaged_rows_text(on, rows)

    def payable_verifications(self, block: LogBlock) -> Iterator[PayableVerifications]:
        for name, verifier in sorted(self.gate.needs(block.pools).scores):
            if verifier in block.pools[name].scores:
                yield PayableVerifications(name, verifier, np.ones(block.pools[name].code.shape, dtype=bool))
