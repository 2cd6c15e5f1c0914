"""Kind `when`: a base policy, and another one that answers in its place where a gate fires on its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents, longest_suffix
from replay.data.needs import Needs
from replay.engine.calls import Calls, CallSegment, PolicyPath, Realization, beyond, expected_tokens, extra_cost, union
from replay.engine.mixing import either, paid, pick, predicted
from replay.engine.outcome import Against, Outcome
from replay.engine.signals import SIGNALS
from replay.kinds.stages import cost_row
from replay.policies.base import Evaluator, Policy, Stage, SweptGate, errors_of, nested
from replay.policies.gate_file import GateFile
from replay.policies.gates import Gate, Signals, Threshold, gate_from
from replay.policies.remarks import Payable
from toolkit.errors import MismatchError, listed
from toolkit.log import Log
from toolkit.settings import setting


@dataclass(frozen=True)
class _GatedParts:
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
    gate: Gate = setting(read=gate_from)
    then: Policy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_parts()
        with errors_of(self.name):
            object.__setattr__(self, "gate", gate_from(self.gate))
        if not self.base.single:
            ways = [part.single_by for part in nested(self.base) if part.single_by and not part.single]
            raise self.refuse(
                f"its `base` (kind `{self.base.kind}`) has no single chosen trace for the gate to read"
                + "".join(f": {way}" for way in ways[:1])
            )
        for one in self.gate.thresholds():
            signal = None if one.signal is None else SIGNALS[one.signal]
            if signal is not None and signal.last_step and not self.base.last_step:
                raise self.refuse(
                    f"signal `{one.signal}` is of a `sample` base's last step, not of a `{self.base.kind}`"
                )
            if signal is not None and signal.verified and not self.base.verifies:
                raise self.refuse(f"signal `{one.signal}` reads verifier scores, and its `base` verifies nothing")

    @property
    def flips_against(self) -> str:
        return self.against or self.base.first_attempt or self.base.name

    @property
    def gate_files(self) -> tuple[tuple[GateFile, bool], ...]:
        return tuple((one.file, one.reuse) for one in self.gate.thresholds() if one.file is not None)

    @property
    def swept_gate(self) -> SweptGate | None:
        """The policy itself if its gate has several thresholds. Raises where the gate is combined with others."""
        if not any(one.several for one in self.gate.thresholds()):
            return None
        if not isinstance(self.gate, Threshold):
            raise self.refuse(ALL_ALONE)
        return self.one_gate

    @property
    def one_gate(self) -> SweptGate:
        """The policy itself, to be replayed at every threshold of its gate. Raises where the gate is a combined one."""
        if not isinstance(self.gate, Threshold):
            raise self.refuse("it has a combined gate, and so no one threshold")
        one, key = self.gate, self.gate.unset()
        return SweptGate(
            self,
            one.falling,
            at=lambda value: self.filled(gate=one.at(value)),
            signal=lambda on: self.gated(on).signals[key].value,
            shares=one.shares,
        )

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        policy = super().resolve(contents)
        slices = policy.base.slices(contents)
        with errors_of(self.name):
            for one in policy.gate.thresholds():
                one.require(contents, slices)
                if one.file is not None:
                    policy._check_file(one.file, contents)
        return policy

    def _check_file(self, gate: GateFile, contents: Contents) -> None:
        """Raise unless a gate file was fitted for the first traces of the base's pool, and for the action of `then`."""
        base = self.base.first_attempt
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
        revised = [revision for part in nested(self.then) if (revision := part.revises) is not None]
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
        gate.require(contents, gate.base)

    def check_log(self, log: Log, contents: Contents) -> None:
        """Raise where its gate sums more log-probabilities than any trace of its base's pool has."""
        counts = [one.tokens for one in self.gate.thresholds() if one.tokens is not None]
        pools = sorted(self.base.slices(contents) & contents.pools)
        if not counts or not pools:
            return
        most = longest_suffix(log, pools)
        if max(counts) > most:
            raise self.refuse(
                f"signal `suffix_logprob` asks for the last {max(counts):,} log-probabilities; the longest list in "
                f"{listed(pools)} has {most:,}"
            )

    def needs(self, contents: Contents) -> Needs:
        return self.gate.needs(self.base.slices(contents))

    # ---- a block ----

    def gated(self, on: Evaluator) -> _GatedParts:
        """The parts that it shares with policies that differ in thresholds alone."""
        key = ("gated", self.base.cache_key, self.gate.shape(), self.then.cache_key)
        return on.once(key, lambda: self._gated(on))

    def _gated(self, on: Evaluator) -> _GatedParts:
        block, base, then = on.block, on.path(self.base), on.path(self.then)
        signals = self.gate.read(block, base)
        before = paid(base)
        gate = beyond(union(signal.calls for signal in signals.values()), before)
        known = [before, gate]
        unfired = base.outcome.costs + extra_cost(block, [CallSegment(gate)], [])
        fired, tokens = np.zeros_like(unfired), expected_tokens(block, then.realizations, union(known))
        calls = {key for realization in then.realizations for segment in realization.segments for key in segment.calls}
        apart = not set(union(known)) & calls
        for one in () if apart else then.realizations:
            cost = extra_cost(block, one.segments, known)
            fired += np.where((one.weight > 0)[:, None], one.weight[:, None] * cost, 0.0)
        return _GatedParts(
            base, then, signals, gate, unfired, unfired + (then.outcome.costs if apart else fired), tokens
        )

    def _outcome_and_mask(self, parts: _GatedParts) -> tuple[Outcome, np.ndarray]:
        """The outcome, and the mask (E,) of the examples on which the gate fires."""
        base, then = parts.base.outcome, parts.then.outcome
        fires, unread = self.gate.fires(parts.signals, predicted(base) < 0)
        what = ", ".join(one.describe() for one in self.gate.thresholds())
        compares = any(each.compares for one in self.gate.thresholds() for each in one.inputs)
        lacks = "not logged" + " or compares answers that are opaque or contested" * compares
        reasons = (*base.reasons, f"the gate reads {what}, which is {lacks}", *then.reasons[1:])
        offset = len(base.reasons)
        reason = np.where(unread, offset, np.where(fires & (then.reason > 0), then.reason + offset, 0))
        outcome = pick(fires, then, base, self.columns, second_paid=True)
        tokens = np.where(fires, parts.action_tokens, 0.0)
        return replace(
            outcome,
            reason=np.where(base.reason > 0, base.reason, reason).astype(np.int16),
            reasons=reasons,
            costs=np.where(fires[:, None], parts.fired, parts.unfired),
            against=Against(base.correct, outcome.correct, fires.astype(float), tokens),
        ), fires

    def fires(self, on: Evaluator) -> np.ndarray:
        return self._outcome_and_mask(self.gated(on))[1]

    def outcome(self, on: Evaluator) -> Outcome:
        return self._outcome_and_mask(self.gated(on))[0]

    def path(self, on: Evaluator) -> PolicyPath:
        """The path with the calls of the base and of the gate, and those of `then` where the gate fires."""
        parts = self.gated(on)
        outcome, fires = self._outcome_and_mask(parts)
        base, then, gate = parts.base, parts.then, CallSegment(parts.gate)
        realizations = [
            Realization(realization.weight, (*realization.segments, gate)).where(~fires)
            for realization in base.realizations
        ]
        for first in base.realizations:
            for one in then.realizations:
                weight = first.weight * one.weight * fires
                segments = (*first.segments, gate, *one.segments)
                realizations.append(Realization(weight, tuple(s.where(weight > 0) for s in segments)))
        chosen = either(fires, then.chosen, base.chosen)
        weighted = tuple(realization for realization in realizations if realization.weight.any())
        return PolicyPath(outcome, weighted, chosen, union([base.gate, parts.gate]))

    def explain(self, on: Evaluator, repetition: int) -> Iterator[Stage]:
        parts = self.gated(on)
        outcome, fires = self._outcome_and_mask(parts)
        yield from self.base.explain(on, repetition)
        null = predicted(parts.base.outcome) < 0
        rows = []
        for one in self.gate.thresholds():
            value = float(parts.signals[one.unset()].value[0])
            alone, _ = one.fires(parts.signals, null)
            rows.append(
                {
                    "reads": one.describe(),
                    "value": None if np.isnan(value) else value,
                    "fires": "below" if one.falling else "at least",
                    "threshold": one.number,
                    "holds": bool(alone[0]),
                }
            )
        text = "it fires: the answer is that of `then`" if fires[0] else "it does not fire: the base's answer is kept"
        if len(rows) > 1:
            text += f" (fires where {self.gate.says})"
        if null[0] and any(row["value"] is None for row in rows):
            text += "; the base has no answer, so what is not logged counts as firing"
        yield Stage("the gate", pl.DataFrame(rows, schema_overrides={"value": pl.Float64}), text)
        for one in self.gate.thresholds():
            if one.file is not None:
                yield Stage(f"what {one.describe()} reads", self._inputs(on, one))
        if fires[0]:
            yield from self.then.explain(on, repetition)
        added = {"the gate": parts.unfired - parts.base.outcome.costs}
        if fires[0]:
            added["`then`, beyond what was paid"] = parts.fired - parts.unfired
        costs = {"the base": parts.base.outcome.costs, **added, "in all": outcome.costs}
        yield Stage(f"what `{self.name}` paid", pl.DataFrame([cost_row(part, cost[0]) for part, cost in costs.items()]))

    def _inputs(self, on: Evaluator, one: Threshold) -> pl.DataFrame:
        """The inputs of a gate file on the base's chosen trace, on the one example of a block."""
        path = on.path(self.base)
        values = [float(each.read(on.block, path).value[0]) for each in one.inputs]
        return pl.DataFrame({"reads": [str(each) for each in one.inputs], "value": values}, nan_to_null=True)

    def _answering_policy(self, on: Evaluator) -> Policy:
        """The policy, base or `then`, that answers the one example of a block."""
        return self.then if self._outcome_and_mask(self.gated(on))[1][0] else self.base

    def why(self, on: Evaluator, ending: str) -> str:
        part = self._answering_policy(on)
        fired = "the gate fires, and `then` answers" if part is self.then else "the gate does not fire"
        return f"{fired}; {part.why(on, ending)}"

    def rows_of(self, on: Evaluator, rows: int) -> str:
        return self._answering_policy(on).rows_of(on, rows)

    def may_pay(self, block: LogBlock) -> Iterator[Payable]:
        for name, verifier in sorted(self.gate.needs(block.pools).scores):
            if verifier in block.pools[name].scores:
                yield Payable(name, verifier, np.ones(block.pools[name].code.shape, dtype=bool))
