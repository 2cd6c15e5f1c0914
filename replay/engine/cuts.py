"""Where a policy ends a walk over traces: its last step, why an example is partial, and what it paid by then."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from replay.engine import outcome as ends
from replay.engine.calls import (
    GENERATION,
    AbandonedTraces,
    CallMask,
    CallSegment,
    RevealedSteps,
    VerifierOfOrder,
    certain_calls,
)  # fmt: skip
from replay.engine.costs import COSTS, CallKey, ScoreCalls, TraceCalls
from replay.engine.outcome import Outcome, Stops
from replay.engine.trajectory import NEVER_MISSING, Trajectory
from replay.sampling.abandon import Abandon, Abandonment
from replay.sampling.orders import GenerationOrder
from toolkit.errors import counted
from toolkit.stopping.stops import StopRule
from toolkit.stopping.ties import EARLIEST
from toolkit.stopping.unscored import PARTIAL

EMPTY_POOL, SHORT_POOL, WHOLE_POOL, UNSCORED, UNSEEN, CONTESTED = range(1, 7)
OPAQUE, UNCOUNTED, UNCHECKED, NULL, UNNAMED, UNREAD = range(7, 13)
"""Numbers of the reasons for partial examples, as in `partial_reasons`; from UNREAD on one for each feature."""


@dataclass(frozen=True)
class StopConditions:
    """What ends a walk: the stopping rule, the cap, and what happens with a pool that is too short.

    `all_scores`: whether the policy needs the score of every trace, wherever it stops. `whole`: whether the pool is
    replayed whole or not at all. `shrinks`: whether the cap shrinks to what the pool holds. `compares`: whether the
    policy compares answers with each other. `over_orders`: whether any trace of the pool may be among the first.
    `uncapped`: whether the cap is the whole pool, however many it holds.
    """

    stop: StopRule
    cap: int
    all_scores: bool
    whole: bool
    shrinks: bool
    compares: bool
    over_orders: bool = False
    uncapped: bool = False

    def count_affordable_traces(self, generated: np.ndarray) -> np.ndarray:
        """How many (E,) of a walk's `generated` (E,) traces the policy may pay."""
        return generated if self.over_orders else np.minimum(generated, self.cap)


def find_stops(trajectory: Trajectory, how: StopConditions) -> Stops:
    """Find the step at which a policy stops on each example of a walk."""
    step, ending = _stopping_steps(trajectory, how)
    called = makes_listwise_call(trajectory, how) if trajectory.listwise.any() else None
    return Stops(step, ending, partial_reason_numbers(trajectory, how, step, called), called)


def partial_reasons(
    pool: str | None, verifier: str | None, cap: int, features: tuple[str, ...], abandon: Abandon | None,
    nulls: tuple[str, str],
) -> tuple[str, ...]:  # fmt: skip
    """Why an example is partial, by the numbers of `Outcome.reason`; `nulls` names what stop and votes find null."""
    return (
        "served",
        f"no trace in pool `{pool}`",
        f"pool `{pool}` has fewer than {counted(cap, 'trace')}",
        f"pool `{pool}` is replayed whole, and has more than {counted(cap, 'trace')} or a gap",
        f"verifier `{verifier}` did not score a trace that the policy verifies",
        f"listwise verifier `{verifier}` did not see exactly the traces that the policy generates",
        f"pool `{pool}` has contested verdicts (equal answers judged differently), which a vote cannot settle; "
        f"the condition `{uncontested_condition(pool)}` reports the others",
        f"pool `{pool}` has verdicts without answers (opaque), which cannot vote",
        f"pool `{pool}` has no `completion_tokens` of a trace that may be abandoned",
        f"verifier `{None if abandon is None else abandon.verifier}` did not score a trace that may be abandoned",
        *nulls,
        *(f"feature `{name}` is null for a trace that the surrogate reads" for name in features),
    )


def uncontested_condition(pool: str | None) -> str:
    """The SQL condition of the examples on which no verdict of a pool is contested."""
    quoted = str(pool).replace("'", "''")
    return f"example_id NOT IN (SELECT example_id FROM traces WHERE contested AND pool = '{quoted}')"


def partial_reason_numbers(
    trajectory: Trajectory, how: StopConditions, step: np.ndarray, called: np.ndarray | None
) -> np.ndarray:
    """Number (E,) of the reason why each example is partial; 0 where it is covered.

    Without a valid trace nothing is verified.
    """
    size = trajectory.pool.size
    reason = np.zeros(len(size), dtype=np.int16)
    unscored = trajectory.missing <= (NEVER_MISSING - 1 if how.all_scores else step)
    if unscored.any():
        reason[unscored & ~trajectory.listwise] = UNSCORED
    unread = trajectory.steps.unread
    if unread is not None and (blind := unread <= step).any():
        reason[blind] = UNREAD + trajectory.unread_features.argmax(axis=0)[blind]
    if (nulls := how.stop.undecidable_steps(trajectory.stop_prefix)) is not None:
        reason[(nulls & (np.arange(nulls.shape[1]) < step[:, None])).any(axis=1)] = NULL
    if trajectory.abandonment is not None:
        generated = trajectory.n_paid(step)
        for lacking, why in (
            (trajectory.abandonment.unchecked, UNCHECKED),
            (trajectory.abandonment.uncounted, UNCOUNTED),
        ):
            reason[trajectory.generated_among(lacking, generated).any(axis=1)] = why
    if called is not None:
        generated = how.count_affordable_traces(trajectory.n_generated)
        valid = trajectory.generation[np.arange(len(size)), np.maximum(generated, 1) - 1, COSTS.index("valid_traces")]
        reason[trajectory.listwise & ~called & (valid > 0)] = UNSEEN
    for marked, why in ((trajectory.pool.opaque, OPAQUE), (trajectory.pool.contested, CONTESTED)):
        if how.compares and marked is not None:
            reason[marked.any(axis=1)] = why
    if (column := trajectory.walk.answers_as) is not None:
        unnamed = (trajectory.pool.code >= 0) & (trajectory.pool.code_as[column] < 0)
        reason[unnamed.any(axis=1)] = UNNAMED
    if how.whole:
        reason[(size > how.cap) | (trajectory.pool.behind_gap > 0)] = WHOLE_POOL
    if not how.shrinks and not how.uncapped:
        reason[size < how.cap] = SHORT_POOL
    reason[size == 0] = EMPTY_POOL
    return reason


def _stopping_steps(trajectory: Trajectory, how: StopConditions) -> tuple[np.ndarray, np.ndarray]:
    """Step at which the policy stops on each example (E,), and its ending (E,)."""
    generated = np.minimum(trajectory.n_generated, how.cap)
    later = trajectory.walk.order.verifies_later
    step, ruled = how.stop.stopping_step(
        trajectory.stop_prefix, trajectory.steps.limit if later else generated, trajectory.evaluated_steps
    )
    capped = np.where((generated < how.cap) & (not how.uncapped), ends.EXHAUSTED, ends.CAP)
    capped = np.where(trajectory.has_nothing_to_verify, ends.EMPTY, capped)
    return step, np.where(ruled, ends.RULE, capped).astype(np.int8)


def makes_listwise_call(trajectory: Trajectory, how: StopConditions) -> np.ndarray:
    """Whether (E,) the policy makes the logged call of a listwise verifier."""
    if trajectory.scores is None or trajectory.walk.order.verifies_later or how.stop.cuts:
        return np.zeros(len(trajectory.listwise), dtype=bool)
    generated = trajectory.is_among_first(trajectory.place, how.count_affordable_traces(trajectory.n_generated))
    if trajectory.abandonment is not None:
        generated &= ~trajectory.abandonment.abandoned
    exactly = trajectory.scores.listwise_call_saw(generated, trajectory.pool.code >= 0)
    return trajectory.listwise & exactly & (how.count_affordable_traces(trajectory.pool.size) <= how.cap)


def paid_segment(trajectory: Trajectory, step: np.ndarray, outcome: Outcome) -> CallSegment:
    """The calls that a policy had paid when its walk ended at `step` (E,)."""
    walk, generated = trajectory.walk, trajectory.n_paid(step)
    traces = trajectory.is_among_first(trajectory.place, generated)
    calls: dict[CallKey, CallMask] = {TraceCalls(walk.pool): certain_calls(traces.astype(float))}
    if walk.verifier is not None and trajectory.scores is not None:
        calls[ScoreCalls(walk.pool, walk.verifier)] = _paid_verifications(trajectory, step, outcome)
    if walk.abandon is not None and walk.abandoned_slice is not None and trajectory.abandonment is not None:
        abandoned = abandoned_traces(
            walk.pool, walk.abandoned_slice, walk.abandon.verifier, trajectory.abandonment, traces
        )
        calls |= {call: certain_calls(among.astype(float)) for call, among in abandoned.items()}
    reveals = None if outcome.random_subset else _revealed_steps(trajectory, step)
    return CallSegment(calls, trajectory.blocks, trajectory.place, generated, reveals)


def _revealed_steps(trajectory: Trajectory, step: np.ndarray) -> RevealedSteps:
    """The traces that the order revealed by `step` (E,); the last step of a lazy walk may reveal nothing."""
    walk, steps, later = trajectory.walk, trajectory.steps, trajectory.walk.order.verifies_later
    cut, verifying = None, None
    if walk.abandon is not None and walk.abandoned_slice is not None and trajectory.abandonment is not None:
        abandonment = trajectory.abandonment
        cut = AbandonedTraces(walk.abandoned_slice, abandonment.abandoned, abandonment.checked, walk.abandon.verifier)
    plain = replace(
        walk, order=GenerationOrder(), cap=0, width=1, verifier=None, calibration=None, unscored=PARTIAL,
        seed=walk.seed if walk.permuted else 0, tie=EARLIEST, nulls=False, answers_as=None, needs=None,
    )  # fmt: skip
    generation: Hashable = plain if walk.permuted or cut is not None else GENERATION
    order = walk if later else generation
    if walk.verifier is not None:
        key = order if later else (order, walk.verifier, walk.unscored.skips)
        verifying = VerifierOfOrder(key, walk.verifier, trajectory.listwise, walk.unscored.fill)
    return RevealedSteps(
        slice=walk.pool, order=order, generation=generation, rule=walk.order.name, samples=trajectory.sample_index,
        steps=np.minimum(step, steps.count), empty=step > steps.count, generated=steps.generated,
        verifying=verifying, cut=cut,
    )  # fmt: skip


def abandoned_traces(
    pool: str, cut: str, verifier: str, abandonment: Abandonment, traces: np.ndarray
) -> dict[CallKey, np.ndarray]:
    """The calls of the generated `traces` (E, T) when some are abandoned: to write each trace, and to verify it early;
    bool (E, T) by kind of call.
    """
    return {
        TraceCalls(pool): traces & ~abandonment.abandoned,
        TraceCalls(cut): traces & abandonment.abandoned,
        ScoreCalls(pool, verifier): traces & abandonment.checked,
    }


def _paid_verifications(trajectory: Trajectory, step: np.ndarray, outcome: Outcome) -> CallMask:
    """The verifications that a policy had paid when its walk ended at `step` (E,)."""
    first = trajectory.is_among_first(trajectory.sample_index, step)
    verified = first.astype(float) * trajectory.is_verifiable
    scores, verifications = trajectory.scores, outcome.cost("verifications")
    if trajectory.abandonment is not None:
        checked = trajectory.generated_among(trajectory.abandonment.checked, trajectory.n_paid(step))
        verifications = verifications - checked.sum(axis=1)
    if scores is not None and trajectory.listwise.any():
        called = trajectory.listwise & (verifications > 0)
        verified = np.where(trajectory.listwise[:, None], ~np.isnan(scores.score) * called[:, None], verified)
    if outcome.random_subset:
        return CallMask(verified, verifications)
    return certain_calls(verified)
